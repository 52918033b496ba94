"""What is computed from any released counts, however much noise there is: consistent, finite, in its own intervals."""

import numpy as np
import pytest
from scipy.special import expit

from dpsk.evaluation import BinaryEvaluation, MulticlassEvaluation
from dpsk.evaluation.counts import consistent, on_simplex
from dpsk.evaluation.opinions import ABOVE_ZERO, Asked
from dpsk.evaluation.release import LIKELIHOODS, Level, Released, _edges, _range, _range_of_octaves
from dpsk.privacy.report import PrivacySpent

SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(6, 40))]


def spent(unit):
    return PrivacySpent.nothing_promised(1e-6, "zero-out", unit)


def released(seed, kind="two"):
    """Return counts of a random number of units: from a few to many, from no noise to nothing but noise.

    Most units are in few cells. The counts of right predictions are those of the table and of the confusion matrix.
    """
    rng = np.random.default_rng(seed)
    n, scale = int(rng.choice([1, 2, 10, 300, 20_000])), float(rng.choice([1e-6, 1.0, 30.0, 1e4]))
    part = rng.random()

    def level(counts, times):
        return Level(counts + rng.laplace(scale=times * scale, size=counts.shape), times * scale)

    def cells(*shape, n=n):
        return rng.multinomial(n, rng.dirichlet(np.full(int(np.prod(shape)), rng.choice([0.05, 1.0])))).reshape(shape)

    probability, n_classes = kind != "scores", 3 if kind == "three" else 2
    method, positive = "predict_proba" if probability else "decision_function", int(rng.integers(2))
    asked = Asked(np.arange(n_classes), None if kind == "three" else positive, method, kind == "joined")
    grid = _range(level(cells(64), 4), n) if probability else _range_of_octaves(level(cells(33), 4), n)
    spread = level(cells(len(grid) - 1), 4)
    edges, several = _edges(spread, grid, n, asked), {}
    if kind == "three":
        right = int(rng.binomial(n, part))
        table = np.stack([cells(len(edges) + 1, n=n - right), cells(len(edges) + 1, n=right)])
        matrix = np.zeros((3, 3), int)
        matrix[np.eye(3, dtype=bool)], matrix[~np.eye(3, dtype=bool)] = cells(3, n=right), cells(6, n=n - right)
        several = {"confusion": level(matrix, 2), "likelihood": level(cells(len(LIKELIHOODS) + 1), 2)}
    else:
        table = cells(2, 1 if kind == "joined" else 2, len(edges) + 1)
        cut = np.searchsorted(edges, ABOVE_ZERO, side="right")
        sides = [table[..., :cut].sum(axis=(1, 2)), table[..., cut:].sum(axis=(1, 2))]
        by_side = np.stack(sides, axis=1) if kind == "joined" else table.sum(axis=2)
        right = int(np.trace(by_side))
    n_rows = n if rng.random() < 0.5 else n + int(rng.integers(1, 100))
    accuracy = level(np.array([n - right, right]), 1)
    return Released(asked, n_rows, n, accuracy, edges, level(table, 2), grid, spread, **several)


def evaluation(seed, kind):
    found = released(seed, kind)
    unit = "row" if found.n_rows == found.n_units else "person"
    return (MulticlassEvaluation if kind == "three" else BinaryEvaluation)(found, 0.9, spent(unit))


def require_good(estimate, low=0.0, high=1.0):
    for first, last in (estimate.interval, estimate.interval_on_rows):
        assert low - 1e-9 <= first <= estimate.value <= last <= high + 1e-9


def require_band(values, band):
    assert np.isfinite(values).all()
    assert (band[:, 0] <= values + 1e-9).all()
    assert (values <= band[:, 1] + 1e-9).all()
    assert ((band >= -1e-9) & (band <= 1 + 1e-9)).all()


@pytest.mark.parametrize("seed", range(30))
def test_consistent_counts_are_not_negative_and_add_up(seed):
    rng = np.random.default_rng(seed)
    shape, n = tuple(rng.integers(1, 6, size=3)), float(rng.choice([1, 50, 1e6]))
    cells, right = rng.normal(scale=rng.choice([1, 100, 1e7]), size=shape), rng.random(shape) < 0.5
    right.ravel()[0], right.ravel()[-1] = True, False
    if cells.size == 1:
        return
    of_right = n * rng.choice([0, 0.3, 1])
    found = consistent(cells, right, of_right, n)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(n)
    assert found[right].sum() == pytest.approx(of_right, abs=1e-6 * n)
    assert on_simplex(found, n) == pytest.approx(found, abs=1e-6 * n)
    other = np.abs(rng.normal(size=shape))
    other[right] *= of_right / other[right].sum()
    other[~right] *= (n - of_right) / other[~right].sum()
    assert ((cells - found) ** 2).sum() <= ((cells - other) ** 2).sum() * (1 + 1e-12), "no others are nearer"


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("kind", ["two", "joined", "scores", "three"])
def test_edges_rise_and_keep_the_threshold_of_the_model(seed, kind):
    found = released(seed, kind)
    assert (np.diff(found.edges) > 0).all()
    assert (np.diff(found.grid) > 0).all()
    assert 1 <= len(found.edges) < len(found.grid)
    if kind == "joined":
        assert ABOVE_ZERO in found.edges
        assert 0.0 not in found.edges
    if kind == "two":
        assert 0.0 in found.edges


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["two", "joined", "scores"])
def test_any_table_of_two_classes_has_a_whole_evaluation(seed, kind):
    seen = evaluation(seed, kind)
    shown = expit if kind != "scores" else (lambda score: score)
    for name, estimate in seen._numbers():
        require_good(estimate, high=9.0 if name == "log_loss" else 1.0)
    for threshold in (None, *shown(np.array([-9.0, -0.3, 0.0, 0.7, 20.0]))):
        for estimate in (seen.recall(threshold), seen.specificity(threshold), seen.precision(threshold)):
            require_good(estimate)
        require_good(seen.f1(threshold))
        matrix = seen.confusion_matrix(threshold)
        assert (matrix.counts >= 0).all()
        assert matrix.counts.sum() == pytest.approx(seen.n_units)
        assert (matrix.interval_on_rows[..., 0] <= matrix.counts).all()
        assert (matrix.counts <= matrix.interval_on_rows[..., 1]).all()
        if threshold is not None:
            require_good(seen.accuracy_at(threshold))
    roc, precision_recall = seen.roc_curve(), seen.precision_recall_curve()
    for rates, band in ((roc.fpr, roc.fpr_band), (roc.tpr, roc.tpr_band)):
        require_band(rates, band)
        assert (np.diff(rates) >= 0).all()
        assert (np.diff(band, axis=0) >= 0).all()
        assert (rates[0], rates[-1]) == (0, 1)
    assert (np.diff(roc.thresholds) < 0).all()
    require_band(precision_recall.precision, precision_recall.precision_band)
    require_band(precision_recall.recall, precision_recall.recall_band)
    best = seen.best_threshold(false_positive=2.0, false_negative=7.0)
    require_good(best.cost, high=7.0)
    if kind != "scores":
        curve = seen.calibration_curve()
        require_band(curve.observed, curve.band)
        assert (curve.counts >= 0).all()
        assert curve.counts.sum() == pytest.approx(seen.n_units)
        assert (np.diff(curve.predicted) >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_any_table_of_several_classes_has_a_whole_evaluation(seed):
    seen = evaluation(seed, "three")
    for name, estimate in seen._numbers():
        require_good(estimate, high=9.0 if name == "log_loss" else 1.0)
    for k in range(3):
        for estimate in (seen.recall(k), seen.precision(k), seen.f1(k)):
            require_good(estimate)
    matrix = seen.confusion_matrix()
    assert matrix.counts.sum() == pytest.approx(seen.n_units)
    assert (matrix.interval_on_rows[..., 0] <= matrix.counts).all()
    assert (matrix.counts <= matrix.interval_on_rows[..., 1]).all()
    require_band(seen.calibration_curve().observed, seen.calibration_curve().band)
    with pytest.raises(ValueError, match=r"label=7 must be one of \[0, 1, 2\]"):
        seen.recall(7)


@pytest.mark.parametrize("kind", ["joined", "scores"])
def test_thresholds_that_all_rows_or_none_reach(kind):
    """The best threshold may be one of them."""
    seen = evaluation(2, kind)
    everybody, nobody = seen._rates.thresholds[[0, -1]]
    assert (float(seen.recall(everybody)), float(seen.recall(nobody))) == (1, 0)
    assert (float(seen.specificity(everybody)), float(seen.specificity(nobody))) == (0, 1)
    for threshold in (everybody, nobody):
        for estimate in (seen.precision(threshold), seen.f1(threshold), seen.accuracy_at(threshold)):
            require_good(estimate)
        assert seen.confusion_matrix(threshold).counts.sum() == pytest.approx(seen.n_units)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda seen: seen.recall(1.0), r"threshold=1\.0"),
        (lambda seen: seen.precision(-0.1), r"threshold=-0\.1"),
        (lambda seen: seen.f1("half"), "threshold='half'"),
        (lambda seen: seen.confusion_matrix(float("nan")), "threshold=nan"),
        (lambda seen: seen.best_threshold(false_positive=0.0), r"false_positive=0\.0"),
        (lambda seen: seen.best_threshold(false_negative=-1.0), r"false_negative=-1\.0"),
    ],
)
def test_questions_about_no_threshold_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(evaluation(4, "joined"))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate", "scale"), [(300, 0.2, 5.0), (2000, 0.05, 2.0), (500, 0.5, 20.0)])
def test_intervals_of_parts_hold_as_often_as_they_say(n, rate, scale):
    """By simulation at 90 %: of 400 samples more than 71 miss with probability 1e-6, and fewer than 15 do."""
    rng, misses = np.random.default_rng(0), {"rows": 0, "population": 0}
    edges = np.array([-1.0, ABOVE_ZERO, 1.0])
    chances = np.array([(1 - rate) * np.array([0.5, 0.3, 0.15, 0.05]), rate * np.array([0.1, 0.2, 0.3, 0.4])])
    asked = Asked(np.arange(2), 1, "predict_proba", joined=True)
    for _ in range(400):
        true = rng.multinomial(n, chances.ravel()).reshape(2, 1, 4)
        table = Level(true + rng.laplace(scale=scale, size=true.shape), scale)
        right = true[0, 0, :2].sum() + true[1, 0, 2:].sum()
        accuracy = Level(np.array([n - right, right]) + rng.laplace(scale=1.0, size=2), 1.0)
        spread = Level(np.zeros(64), 1.0)
        seen = BinaryEvaluation(
            Released(asked, n, n, accuracy, edges, table, np.linspace(-8, 8, 65), spread), 0.9, spent("row")
        )
        found = seen.recall()
        here = true[1, 0, 2:].sum() / true[1].sum()
        misses["rows"] += not found.interval_on_rows[0] <= here <= found.interval_on_rows[1]
        misses["population"] += not found.interval[0] <= 0.7 <= found.interval[1]
    assert 15 <= misses["rows"] <= 71
    assert misses["population"] <= 71
