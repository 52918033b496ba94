"""private_evaluation: each row in one cell of every level, noise of the scale that was paid for, and all of epsilon.

Cells are computed once more from what a model says of the rows, and the noise is drawn once more from the same bits.
"""

import copy
import json
import math
import pickle

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import logit
from scipy.stats import chisquare, dlaplace
from sklearn import metrics
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from dpsk import Chunks, DPLogisticRegression, private_evaluation
from dpsk.data import RawRows
from dpsk.evaluation.release import CELLS, LIKELIHOODS, Level, _edges, _range, _range_of_octaves
from dpsk.mechanisms.randomness import SeededBits
from dpsk.mechanisms.samplers import discrete_laplace
from dpsk.queries import CellCounts
from dpsk.testing import check_query, check_weights

ONE = 2**20
SHARES = {
    "right predictions": 0.6,
    "range of scores": 0.025,
    "spread of scores": 0.025,
    "confusion matrix": 0.16,
    "likelihood of labels": 0.09,
}

OCTAVES = 2.0 ** np.append(np.arange(-16, 9), np.arange(12, 45, 4))


def table(n=400, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + 0.7 * rng.normal(size=n)
    return X, np.searchsorted(np.linspace(-2, 2, n_classes + 1)[1:-1], score)


def fitted(n_classes=2, **options):
    return DPLogisticRegression(epsilon=50.0, bounds=(-4, 4), random_state=0, **options).fit(*table(3000, n_classes, 1))


@pytest.fixture(scope="module")
def two():
    """A model of two classes, held-out rows, and labels."""
    return fitted(), *table()


@pytest.fixture(scope="module")
def three():
    return fitted(3), *table(n_classes=3)


class Strict(SVC):
    """A model whose threshold is not 0."""

    def predict(self, X):
        return (self.decision_function(X) > 0.7).astype(int)


def levels(released):
    """Return the counts and scales of all levels, in the order of their release."""
    several = [] if released.asked.positive is not None else [released.confusion, released.likelihood]
    return [released.accuracy, released.spread, *several, released.table]


def counted(cells, n_cells):
    return np.bincount(cells, minlength=n_cells)[:n_cells]


def between(edges, score):
    """Return in which of the cells between edges scores lie; the first and the last one take what lies beyond."""
    return np.array([sum(value >= edge for edge in edges[1:-1]) for value in score], dtype=int)


def score_of(model, X, released):
    """Return what bins are of: log-odds of the positive class or of the likeliest one, or scores."""
    asked = released.asked
    if not asked.is_probability:
        return model.decision_function(X)
    score = np.clip(logit(np.clip(model.predict_proba(X), 0, 1)), -36, 36)
    return score.max(axis=1) if asked.positive is None else score[:, asked.positive]


def expected_cells(model, X, y, released):
    """Return the cell of each row in each level but the range of scores, from scikit-learn's view of the model.

    The levels are those of ``levels``. Only rows that the model accepts, with labels that it knows.
    """
    classes, asked, predicted = model.classes_, released.asked, model.predict(X)
    right = (predicted == y).astype(int)
    score, n_bins = score_of(model, X, released), len(released.edges) + 1
    bins = np.searchsorted(released.edges, score, "right")
    if asked.positive is None:
        code = np.searchsorted(classes, y)
        of_true = np.clip(logit(model.predict_proba(X)[np.arange(len(y)), code]), -36, 36)
        return [
            right,
            between(released.grid, score),
            code * len(classes) + np.searchsorted(classes, predicted),
            np.searchsorted(LIKELIHOODS, of_true, "right"),
            right * n_bins + bins,
        ]
    positive = classes[asked.positive]
    labels, flagged = (y == positive).astype(int), (predicted == positive).astype(int)
    sides = released.table.counts.shape[1]
    place = flagged if sides == 2 else 0
    return [(labels == flagged).astype(int), between(released.grid, score), (labels * sides + place) * n_bins + bins]


# -------------------------------------------------------------------------------------------------- the mechanism


@pytest.mark.parametrize("n_classes", [None, 2, 5])
def test_one_row_moves_counts_of_cells_by_at_most_the_sensitivity(n_classes):
    def make_rows(X, y, weights=None):
        cells = 1.0 + np.abs(np.rint(np.clip(np.asarray(X.todense() if sp.issparse(X) else X)[:, :1], -9, 9)))
        return RawRows(sp.csr_matrix(cells) if sp.issparse(X) else cells, weights=weights)

    query = CellCounts(10, "cells")
    assert check_query(query, n_features=3, n_classes=n_classes, make_rows=make_rows) == pytest.approx(1)
    assert check_weights(query, n_features=3, n_classes=n_classes, make_rows=make_rows) > 0.99


def test_counts_of_cells_are_counts():
    rng = np.random.default_rng(0)
    cells = rng.integers(7, size=500)
    found = RawRows(cells[:, None] + 1.0).total(CellCounts(9, "cells"))
    assert (found == ONE * np.bincount(cells, minlength=9)).all()
    beyond = RawRows(np.array([[-5.0], [1.0], [9.0], [1e6]])).total(CellCounts(9, "cells"))
    assert beyond.tolist() == [2 * ONE, 0, 0, 0, 0, 0, 0, 0, 2 * ONE]
    with pytest.raises(ValueError, match="one column"):
        RawRows(np.ones((3, 2))).total(CellCounts(9, "cells"))


@pytest.mark.parametrize("given", ["two", "three", "one of three", "another threshold", "scores"])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_each_level_is_the_count_of_cells_with_discrete_laplace_noise_from_the_next_bits(given, adjacency, two, three):
    """Bit for bit: counts are those of an independent computation, the noise is drawn again, nothing else is drawn."""
    model, X, y = three if "three" in given else two
    if given == "another threshold":  # which may predict otherwise than its probability says
        model = LogisticRegression(class_weight={0: 1, 1: 3}).fit(X, y)
    if given == "scores":
        model = SVC(kernel="linear").fit(X, y)
    options = {"positive": 1} if given == "one of three" else {}
    seed, epsilon = 7, 1.0
    seen = private_evaluation(model, X, y, epsilon=epsilon, adjacency=adjacency, random_state=seed, **options)
    released, bits = seen.released, SeededBits(seed)
    cells = dict(zip(map(id, levels(released)), expected_cells(model, X, y, released), strict=True))
    spent = {release.label: release.cost for release in seen.privacy_spent.releases}
    for level, price in zip([released.accuracy, None, *levels(released)[1:]], spent.values(), strict=True):
        scale = math.ceil((1 if adjacency == "zero-out" else 2) * ONE / price)
        size = CELLS if level is None else level.counts.size
        if level is None and not released.asked.is_probability:
            size = len(OCTAVES) - 1
        noise = discrete_laplace(scale, size, bits)
        if level is None:  # the look at the range of scores, of which the grid is shown only
            score, public, found = score_of(model, X, released), np.linspace(-8, 8, CELLS + 1), _range
            if not released.asked.is_probability:
                score, public, found = np.abs(score), OCTAVES, _range_of_octaves
            true = counted(between(public, score), size)
            found = found(Level(true + noise / ONE, scale / ONE), len(y))
            np.testing.assert_array_equal(released.grid, found)
            continue
        assert abs(level.scale * ONE / scale - 1) < 1e-6
        true = counted(cells[id(level)], size)
        assert true.sum() == len(y), "every row is in one cell"
        np.testing.assert_array_equal(np.rint(level.counts.ravel() * ONE).astype(int), true * ONE + noise)
    again = _edges(released.spread, released.grid, len(y), released.asked)
    np.testing.assert_array_equal(released.edges, again, "bins follow from what was released")


@pytest.mark.parametrize(("share", "epsilon"), [(0.6, 1.0), (0.6, 0.05), (0.1, 3.0), (0.95, 1.0)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_prices_add_up_to_epsilon_and_not_to_more(share, epsilon, n_classes, two, three):
    seen = private_evaluation(*(two if n_classes == 2 else three), epsilon=epsilon, accuracy_share=share)
    spent = seen.privacy_spent
    assert (spent.epsilon, spent.delta, spent.private) == (epsilon, 0.0, True)
    prices = {release.label: release.cost for release in spent.releases}
    assert len(prices) == (4 if n_classes == 2 else 6)
    assert all(release.count == 1 for release in spent.releases)
    assert epsilon * (1 - 1e-9) < sum(prices.values()) <= epsilon * (1 + 1e-15)
    rest = (1 - share) / 0.4
    for label, price in prices.items():
        if label in SHARES:
            part = share if label == "right predictions" else rest * SHARES[label]
            assert price == pytest.approx(part * epsilon, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_transcript_is_likelier_by_more_than_e_to_epsilon_without_a_row(adjacency, n_classes, two, three):
    """From the law of the noise, for transcripts as they are drawn: the levels that depend on earlier ones included.

    The range of scores is left out of the sum, and so is its price.
    """
    (model, X, y), epsilon, losses = (two if n_classes == 2 else three), 1.0, []
    rng = np.random.default_rng(0)
    for seed in range(15):
        seen = private_evaluation(model, X, y, epsilon=epsilon, adjacency=adjacency, random_state=seed)
        released = seen.released
        cells = expected_cells(model, X, y, released)
        for row in rng.integers(len(y), size=20):
            other = expected_cells(model, 3 * rng.normal(size=(1, 3)), rng.integers(n_classes, size=1), released)
            loss = 0.0
            for level, mine, its in zip(levels(released), cells, other, strict=True):
                noisy, true = np.rint(level.counts.ravel() * ONE), counted(mine, level.counts.size)
                law = dlaplace(1 / round(level.scale * ONE))
                less = true - counted(mine[[row]], len(true))
                less += counted(its, len(true)) if adjacency == "replace" else 0
                loss += (law.logpmf(noisy - ONE * true) - law.logpmf(noisy - ONE * less)).sum()
            losses.append(loss)
    limit = epsilon - seen.privacy_spent.releases[1].cost
    assert np.abs(losses).max() <= limit * (1 + 1e-6)
    assert np.abs(losses).max() > 0.6 * limit, "the noise is not larger than it has to be"


@pytest.mark.thorough
@pytest.mark.slow
def test_the_noise_of_levels_has_the_scale_of_their_price(two):
    """Chi-square at error probability 1e-6 each, for system bits; two thirds and three halves of the scale fail."""
    model, X, y = two
    right = counted((model.predict(X) == y).astype(int), 2)
    released = [private_evaluation(model, X, y, epsilon=1.0).released for _ in range(1500)]
    of_accuracy = np.concatenate([one.accuracy.counts - right for one in released])
    of_table = np.array([one.table.counts.sum() - len(y) for one in released])  # noise of all cells
    edges = np.linspace(0, 1, 13)[1:-1]

    def p_value(factor):
        law = dlaplace(1 / (factor * math.ceil(ONE / 0.6)))
        parts = np.bincount(np.searchsorted(edges, law.cdf(np.rint(of_accuracy * ONE))), minlength=12)
        return chisquare(parts).pvalue

    assert p_value(1) > 1e-6
    assert p_value(2 / 3) < 1e-6
    assert p_value(3 / 2) < 1e-6
    deviations = [math.sqrt(2 * one.table.counts.size) * one.table.scale for one in released]
    assert 0.9 < (of_table / deviations).std() < 1.1  # 5.5 standard deviations of a standard deviation


# ------------------------------------------------------------------------------- metrics, where there is hardly noise

EXACT = {"epsilon": 1e6, "confidence": 0.99, "random_state": 0}


def holds(estimate, value, *, within):
    assert float(estimate) == pytest.approx(value, abs=within)
    low, high = estimate.interval_on_rows
    assert low - 1e-4 <= value <= high + 1e-4
    assert estimate.interval[0] <= low
    assert high <= estimate.interval[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probabilities", "scores", "another threshold", "the first class", "one of three"])
def test_without_noise_they_are_those_of_scikit_learn(kind, two, three):
    model, X, y = three if kind == "one of three" else two
    if kind == "scores":
        model = SVC(kernel="linear").fit(*table(300, seed=3))
    if kind == "another threshold":
        model = Strict(kernel="linear").fit(*table(300, seed=3))
    positive = {"the first class": 0, "one of three": 1}.get(kind)
    seen = private_evaluation(model, X, y, positive=positive, **EXACT)
    label = 1 if positive is None else positive
    true, predicted = y == label, model.predict(X) == label
    assert seen.positive == label
    holds(seen.accuracy, metrics.accuracy_score(true, predicted), within=1e-4)
    holds(seen.balanced_accuracy, metrics.balanced_accuracy_score(true, predicted), within=1e-4)
    holds(seen.precision(), metrics.precision_score(true, predicted), within=1e-4)
    holds(seen.recall(), metrics.recall_score(true, predicted), within=1e-4)
    holds(seen.specificity(), metrics.recall_score(~true, ~predicted), within=1e-4)
    holds(seen.f1(), metrics.f1_score(true, predicted), within=1e-4)
    holds(seen.base_rate, true.mean(), within=1e-4)
    matrix = seen.confusion_matrix()
    np.testing.assert_allclose(matrix.counts, metrics.confusion_matrix(true, predicted), atol=0.01)
    by_score = kind in ("scores", "another threshold")
    score = model.decision_function(X) if by_score else model.predict_proba(X)[:, label]
    holds(seen.auc, metrics.roc_auc_score(true, score), within=0.01)
    assert float(seen.average_precision) == pytest.approx(metrics.average_precision_score(true, score), abs=0.03)
    if by_score:
        with pytest.raises(AttributeError, match="no predict_proba"):
            seen.log_loss  # noqa: B018
        return
    holds(seen.log_loss, metrics.log_loss(true, score), within=0.02)
    holds(seen.brier, metrics.brier_score_loss(true, score), within=0.01)


def test_predictions_that_no_probability_tells_apart_are_counted_as_they_are(two):
    """A score of 1e-20 is a probability of 1/2, and a prediction of the second class."""
    model, X, y = copy.deepcopy(two[0]), *two[1:]
    model.coef_, model.intercept_ = 1e-20 * model.coef_, 0 * model.intercept_
    assert (model.predict_proba(X) == 0.5).all()
    predicted, seen = model.predict(X), private_evaluation(model, X, y, **EXACT)
    assert 0 < predicted.mean() < 1
    np.testing.assert_allclose(seen.confusion_matrix().counts, metrics.confusion_matrix(y, predicted), atol=0.01)
    holds(seen.accuracy, metrics.accuracy_score(y, predicted), within=1e-4)


@pytest.mark.slow
def test_at_the_edges_rates_are_those_of_scikit_learn(two):
    """Thresholds between edges have intervals that hold for all rows in between."""
    model, X, y = two
    seen, score = private_evaluation(model, X, y, **EXACT), model.predict_proba(X)[:, 1]
    curve = seen.roc_curve()
    for threshold, fpr, tpr in zip(curve.thresholds[1:-1], curve.fpr[1:-1], curve.tpr[1:-1], strict=True):
        flagged = score >= threshold if threshold != 0.5 else score > threshold
        assert tpr == pytest.approx(metrics.recall_score(y, flagged), abs=1e-3)
        assert fpr == pytest.approx(1 - metrics.recall_score(1 - y, ~flagged), abs=1e-3)
    for threshold in (0.13, 0.37, 0.5, 0.71, 0.999):
        flagged = score > threshold
        for estimate, value in (
            (seen.recall(threshold), metrics.recall_score(y, flagged)),
            (seen.precision(threshold), metrics.precision_score(y, flagged, zero_division=0)),
            (seen.f1(threshold), metrics.f1_score(y, flagged)),
            (seen.accuracy_at(threshold), (flagged == y).mean()),
        ):
            low, high = estimate.interval_on_rows
            assert low - 1e-3 <= value <= high + 1e-3
    matrix = seen.confusion_matrix(0.37)
    inside, ends = metrics.confusion_matrix(y, score > 0.37), matrix.interval_on_rows
    assert ((ends[..., 0] - 0.01 <= inside) & (inside <= ends[..., 1] + 0.01)).all()


def test_without_noise_those_of_several_classes_are_those_of_scikit_learn(three):
    model, X, y = three
    seen, predicted = private_evaluation(model, X, y, **EXACT), model.predict(X)
    holds(seen.accuracy, metrics.accuracy_score(y, predicted), within=1e-4)
    holds(seen.balanced_accuracy, metrics.balanced_accuracy_score(y, predicted), within=1e-4)
    np.testing.assert_allclose(seen.confusion_matrix().counts, metrics.confusion_matrix(y, predicted), atol=0.01)
    for k in range(3):
        holds(seen.recall(k), metrics.recall_score(y, predicted, labels=[k], average="macro"), within=1e-4)
        holds(seen.precision(k), metrics.precision_score(y, predicted, labels=[k], average="macro"), within=1e-4)
        holds(seen.f1(k), metrics.f1_score(y, predicted, labels=[k], average="macro"), within=1e-4)
    holds(seen.log_loss, metrics.log_loss(y, model.predict_proba(X)), within=0.05)


@pytest.mark.slow
def test_the_best_threshold_costs_what_it_says(two):
    model, X, y = two
    best = private_evaluation(model, X, y, **EXACT).best_threshold(false_positive=1.0, false_negative=5.0)
    flagged = model.predict_proba(X)[:, 1] >= best.threshold
    cost = (1.0 * (flagged & (y == 0)) + 5.0 * (~flagged & (y == 1))).mean()
    assert float(best.cost) == pytest.approx(cost, abs=1e-3)
    assert best.threshold < 0.4


class Backwards:
    """A model that names its classes in another order; it is none of scikit-learn's."""

    def __init__(self, model):
        self.model, self.classes_, self.predict = model, model.classes_[::-1], model.predict

    def predict_proba(self, X):
        return self.model.predict_proba(X)[:, ::-1]


def test_classes_may_be_in_any_order(two):
    _, X, y = two
    model = Backwards(LogisticRegression().fit(X, y))
    assert model.classes_.tolist() == [1, 0]
    seen = private_evaluation(model, X, y, positive=1, **EXACT)
    holds(seen.recall(), metrics.recall_score(y, model.predict(X)), within=1e-4)
    holds(seen.auc, metrics.roc_auc_score(y, model.predict_proba(X)[:, 0]), within=0.01)
    assert seen.auc.value > 0.8
    assert private_evaluation(model, X, y, **EXACT).positive == 0, "the second of two"
    matrix = seen.confusion_matrix()
    assert matrix.labels.tolist() == [0, 1]
    np.testing.assert_allclose(matrix.counts, metrics.confusion_matrix(y, model.predict(X)), atol=0.01)


# -------------------------------------------------------------------------------------------------- storage, persons


def same(one, other):
    return pickle.dumps(one.released) == pickle.dumps(other.released)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("bad", [False, True])
def test_the_storage_of_rows_changes_no_bit(n_classes, bad, two, three, tmp_path):
    model, X, y = two if n_classes == 2 else three
    X = X.copy()
    if bad:
        X[7], X[8, 1], X[300, 0] = np.nan, np.inf, 1e300
    np.save(tmp_path / "rows.npy", X)
    frame = pd.DataFrame(X)
    seen = [
        private_evaluation(model, stored, labels, epsilon=1.0, random_state=3)
        for stored, labels in (
            (X, y),
            (np.asfortranarray(X), y),
            (X[:, ::-1][:, ::-1], list(y)),
            (sp.csr_matrix(X), y),
            (sp.csc_matrix(X), pd.Series(y)),
            (np.load(tmp_path / "rows.npy", mmap_mode="r"), y),
            (Chunks(lambda: np.array_split(X, 7)), y),
            (Chunks(lambda: map(sp.csr_matrix, np.array_split(X, 7))), y),
            (dask.array.from_array(X, (90, 3)), dask.array.from_array(y, 60)),
            (frame, y),
            (dask.dataframe.from_pandas(frame, npartitions=4), y),
            (X.tolist(), y),
        )
    ]
    assert all(same(seen[0], other) for other in seen[1:])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_persons_count_once_wherever_their_rows_and_ids_are(n_classes):
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(80), rng.integers(1, 9, 80)))
    X, y = table(len(ids), n_classes)
    model = fitted(n_classes)
    frame = pd.DataFrame(X).rename(columns=str).assign(id=ids)
    model.feature_names_in_ = np.array(["0", "1", "2"], dtype=object)

    def chunks():
        yield from (frame[k : k + 50] for k in range(0, len(frame), 50))

    given = {"epsilon": 1e6, "random_state": 1}
    seen = [
        private_evaluation(model, frame, y, group_column="id", **given),
        private_evaluation(model, frame[["0", "1", "2"]], y, groups=ids, **given),
        private_evaluation(model, Chunks(chunks), y, group_column="id", **given),
        private_evaluation(model, dask.dataframe.from_pandas(frame, npartitions=4), y, group_column="id", **given),
    ]
    assert all(same(seen[0], other) for other in seen[1:])
    one = seen[0]
    assert (one.unit, one.n_units, one.n_rows) == ("id", 80, len(ids))
    assert seen[1].unit != "row"
    right = pd.Series(model.predict(frame[["0", "1", "2"]]) == y).groupby(ids).mean().to_numpy()
    np.testing.assert_allclose(one.released.accuracy.counts, [80 - right.sum(), right.sum()], atol=1e-2)
    assert float(one.accuracy) == pytest.approx(right.mean(), abs=1e-3)
    for level in levels(one.released):
        assert level.counts.sum() == pytest.approx(80, abs=0.01)
    assert "each id counting once" in one.statement() or "NOT PRIVATE" in one.statement()


def test_one_person_of_a_thousand_rows_moves_each_level_by_one_at_most():
    """The same noise on both: what differs are the counts."""
    ids = np.r_[np.zeros(1000, int), np.arange(1, 400)]
    X, y = table(len(ids))
    other, turned = X.copy(), y.copy()
    other[:1000], turned[:1000] = 1e3, 0
    X[:1000], y[:1000] = [-1, 0, 0], 0
    model, given = fitted(), {"epsilon": 1.0, "random_state": 2, "groups": ids}
    one, two = (private_evaluation(model, *rows, **given).released for rows in ((X, y), (other, turned)))
    moved = two.accuracy.counts - one.accuracy.counts
    assert np.abs(moved).max() <= 1
    assert moved == pytest.approx([1, -1], abs=1e-3)


# ------------------------------------------------------------------------------------------------ what it looks like


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_results_can_be_stored_and_printed(n_classes, two, three):
    seen = private_evaluation(*(two if n_classes == 2 else three), epsilon=1.0)
    told = json.loads(json.dumps(seen.to_dict()))
    assert told["accuracy"]["value"] == float(seen.accuracy)
    assert tuple(told["log_loss"]["interval"]) == seen.log_loss.interval
    assert (told["n_rows"], told["n_units"], told["confidence"]) == (400, 400, 0.95)
    again = pickle.loads(pickle.dumps(seen))
    assert again.to_dict() == seen.to_dict()
    assert repr(again) == repr(seen)
    about = ", positive class 1" if n_classes == 2 else ""
    assert repr(seen).startswith(f"{type(seen).__name__}(epsilon=1, 400 rows{about})\n  accuracy ")
    statement = seen.statement()
    for part in ("400 held-out rows", "(1, 0)-differential privacy", "accuracy 0.", "0.95 confidence", "add to it"):
        assert part in statement
    seeded = private_evaluation(*(two if n_classes == 2 else three), epsilon=1.0, random_state=0)
    assert seeded.statement().startswith("NOT PRIVATE")


@pytest.mark.slow
def test_all_numbers_follow_from_what_was_released(two):
    """So nothing else of the rows is in the result."""
    seen = private_evaluation(*two, epsilon=1.0)
    fresh = type(seen)(pickle.loads(pickle.dumps(seen.released)), seen.confidence, seen.privacy_spent)
    assert fresh.to_dict() == seen.to_dict()
    assert set(vars(type(seen)(seen.released, 0.95, seen.privacy_spent))) == {"released", "confidence", "privacy_spent"}
