"""Audits of final models: neighbours, what an attacker learns from pilot fits, and what fresh fits prove.

Audits here may say too much with probability ERROR_PROBABILITY each, unless a test says otherwise. How many fits there
are depends on the machine, so fractions of the truth that have to be reached leave room for a slow one.
"""

import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from contract import CHECKED
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin

from dpsk import OutputPerturbationLogisticRegression
from dpsk.audits.claims import Claim
from dpsk.audits.compare_models import _Count, compare_models
from dpsk.audits.composed import gaussian_profile
from dpsk.audits.gaussian_shape import least_distance, looks_gaussian
from dpsk.audits.neighbouring import Data, Pair, made_data, pairs_of
from dpsk.audits.released import Released, released
from dpsk.audits.repeated_fits import look
from dpsk.audits.tally import Tally, highest
from dpsk.audits.witness import Witness
from dpsk.privacy import conversions
from dpsk.privacy.currencies import GaussianDP, PureDP
from dpsk.testing import ERROR_PROBABILITY

X, Y = made_data()
PERSONS = np.arange(24) // 3
FRAME = pd.DataFrame(
    {
        "number": X[:, 0],
        "whole": np.arange(24),
        "text": ["u", "v"] * 12,
        "category": pd.Categorical(["p", "q", "r"] * 8),
        "yes": [True, False] * 12,
    }
)
TABLES = {
    "array": X,
    "float32": X.astype(np.float32),
    "whole numbers": np.round(100 * X).astype(np.int16),
    "objects": FRAME.to_numpy(),
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "csr": sp.csr_matrix(X),
    "coo": sp.coo_array(X),
}
MU = 1.5
GAUSSIAN = Claim(conversions.gaussian_epsilon(1e-5, MU), 1e-5, GaussianDP(), MU**2)
LAPLACE = Claim(1.0, 0.0, PureDP(), 1.0)


class NoisySum(ClassifierMixin, BaseEstimator):
    """A sum of clipped rows with Gaussian noise of standard deviation 1, or Laplace noise of scale 1."""

    def __init__(self, sensitivity=1.0, noise="normal", leak=None):
        self.sensitivity, self.noise, self.leak = sensitivity, noise, leak

    def fit(self, X, y, sample_weight=None):
        X, rng = np.asarray(X, dtype=float), np.random.default_rng(5 if self.leak == "one seed" else None)
        clipped = np.clip(X[:, 0], -1, 1) * np.where(y == 1, 0.5, -0.5)  # another label moves the sum by at most 1
        noise = getattr(rng, self.noise)(size=2) * (0.5 if self.leak == "halved noise" else 1.0)
        self.coef_ = np.array([[self.sensitivity * clipped.sum(), 0.0]]) + noise
        self.intercept_ = np.zeros(1)
        self.classes_ = np.unique(y)
        self._leak(X, y)
        return self

    def _leak(self, X, y):
        huge = np.abs(X).max() > 100
        if self.leak == "count":
            self.n_of_class_ = np.bincount(y)
        if self.leak == "private count":
            self._of_class = {"counts": [int(np.sum(y))]}
        if self.leak == "exception" and huge:
            raise ValueError("rows are too large")
        if self.leak == "warning" and huge:
            warnings.warn("rows are large", RuntimeWarning, stacklevel=2)
        if self.leak == "number in a warning":
            warnings.warn(f"the largest entry is {np.abs(X).max():.3g}", UserWarning, stacklevel=2)
        if self.leak == "printed" and huge:
            print("a large row")
        if self.leak == "type":
            self.coef_ = self.coef_.astype(np.float32 if huge else np.float64)
        if self.leak == "shape" and huge:
            self.coef_ = np.zeros((1, 3))
        if self.leak == "scale of noise":
            self.coef_ = self.coef_ * np.abs(X).max()

    def decision_function(self, X):
        return np.asarray(X, dtype=float)[:, :2] @ self.coef_[0, :2] + self.intercept_


def fit_of(estimator):
    return lambda data: estimator().fit(data.X, data.y, **data.arguments)


def audited(estimator, claim, seconds=1.5, error=ERROR_PROBABILITY, n_jobs=None, **more):
    pairs = pairs_of(None, None, adjacency="replace", takes_weights=False)
    return compare_models(fit_of(estimator), pairs, claim, seconds=seconds, error=error, n_jobs=n_jobs, **more)


# Neighbours


def kinds(table):
    """Return what is public of the columns of a table."""
    if sp.issparse(table):
        return table.dtype, table.shape[1]
    if hasattr(table, "dtypes"):
        return list(zip(map(str, table.columns), map(str, table.dtypes), strict=True))
    return np.asarray(table).dtype, np.shape(table)[1]


def rows(table):
    if sp.issparse(table):
        return table.toarray().tolist()
    return [[str(entry) for entry in row] for row in np.asarray(table, dtype=object)]


@pytest.mark.parametrize("groups", [None, PERSONS], ids=["rows", "persons"])
@pytest.mark.parametrize("adjacency", ["replace", "zero-out", "add-remove"])
@pytest.mark.parametrize("name", TABLES)
def test_pairs_differ_in_one_unit_and_in_nothing_that_is_public(name, adjacency, groups):
    pairs = pairs_of(TABLES[name], Y, groups, adjacency=adjacency, takes_weights=True)
    assert len({pair.name for pair in pairs}) == len(pairs) >= 4
    unit = 1 if groups is None else 3
    for pair in pairs:
        one, other = pair.one, pair.other
        if pair.leaving:  # the data are the same, and a fit is told what to leave out
            assert (adjacency, pair.size, len(pair.leaving), one is other) == ("zero-out", 1, unit, True)
            continue
        assert kinds(one.X) == kinds(other.X)
        assert one.y.dtype == other.y.dtype == Y.dtype
        assert set(one.y) == set(other.y) == {0, 1}
        assert set(one.arguments) == set(other.arguments)
        assert ("groups" in one.arguments) == (groups is not None)
        if len(one.y) != len(other.y):
            assert (adjacency, pair.size, len(one.y) - len(other.y)) == ("add-remove", 1, unit)
            assert len(one.y) == 24
            kept = [row for row in rows(one.X) if row in rows(other.X)]
            assert len(kept) >= 24 - unit
            continue
        weights = [data.arguments.get("sample_weight", np.ones(24)) for data in (one, other)]
        moved = [
            place
            for place, (a, b) in enumerate(zip(rows(one.X), rows(other.X), strict=True))
            if a != b or one.y[place] != other.y[place] or weights[0][place] != weights[1][place]
        ]
        assert 0 < len(moved) <= unit
        assert groups is None or len(set(groups[moved])) == 1
        weighted = "sample_weight" in one.arguments
        assert pair.size == (1 if weighted or adjacency == "replace" else 2)
        assert weighted <= (adjacency == "zero-out")
        if weighted:
            assert (rows(one.X), one.y.tolist()) == (rows(other.X), other.y.tolist())
            assert (weights[0] == 1).all()
            assert set(weights[1][moved]) == {0}


def test_frames_of_text_get_new_categories_and_missing_entries():
    names = " ".join(pair.name for pair in pairs_of(FRAME, Y, adjacency="replace", takes_weights=False))
    assert "new category" in names
    assert "missing" in names
    for table in (X, FRAME[["number", "whole"]]):
        names = " ".join(pair.name for pair in pairs_of(table, Y, adjacency="replace", takes_weights=False))
        assert "new category" not in names
        assert "missing" not in names


def test_rows_are_huge_where_their_type_allows_it():
    largest = {name: max(np.abs(pair.one.X).max() for pair in pairs_of(TABLES[name], Y, **REPLACED)) for name in SIZES}
    assert largest == SIZES


REPLACED = {"adjacency": "replace", "takes_weights": False}
SIZES = {"array": 1e300, "float32": np.finfo(np.float32).max / 4, "whole numbers": 32767}


def test_labels_that_are_known_beforehand_may_vanish():
    two = np.array([[1.0], [0.0]])
    with pytest.raises(ValueError, match="labels are found in other rows"):
        pairs_of(two, [0, 1], adjacency="replace", takes_weights=False)
    first = pairs_of(two, [1, 1], adjacency="replace", takes_weights=False, classes=[0, 1])[0]
    assert sorted([first.one.y.tolist(), first.other.y.tolist()]) == [[0, 1], [1, 1]]
    assert first.one.X.tolist() == first.other.X.tolist() == two.tolist()


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="adjacency='add' must be one of"):
        pairs_of(X, Y, adjacency="add", takes_weights=False)
    with pytest.raises(ValueError, match="24 rows and y has 23"):
        pairs_of(X, Y[1:], adjacency="replace", takes_weights=False)
    with pytest.raises(ValueError, match="no table"):
        pairs_of(X[:, 0], Y, adjacency="replace", takes_weights=False)
    with pytest.raises(ValueError, match="pairs is empty"):
        compare_models(fit_of(NoisySum), [], GAUSSIAN, seconds=1, error=0.1, n_jobs=None)
    with pytest.raises(ValueError, match="seconds=0"):
        audited(NoisySum, GAUSSIAN, seconds=0)


# What is seen


def test_numbers_are_seen_everywhere_and_texts_without_them():
    model = NoisySum(leak="private count").fit(X, Y)
    seen = released(model, X[:2], told={"warning": "12 rows of 0x7f were left out"})
    assert seen.numbers["model.coef_"].tolist() == model.coef_.ravel().tolist()
    assert seen.numbers["model._of_class['counts'][0]"].tolist() == [12]
    assert seen.numbers["decision_function"].tolist() == model.decision_function(X[:2]).tolist()
    assert seen.numbers["numbers in warning"].tolist() == [12]
    assert "warning: '# rows of # were left out'" in seen.marks
    assert "model.coef_ has the type float64 and the shape (1, 2)" in seen.marks


def test_whatever_an_action_returns_is_seen():
    seen = released({"mean": np.float32(2.5), "rows": [1, None, "x5"], "sparse": sp.csr_matrix(np.eye(2))})
    assert seen.numbers["result['mean']"].tolist() == [2.5]
    assert seen.numbers["result['sparse'].data"].tolist() == [1, 1]
    assert "result['rows'][2]: 'x#'" in seen.marks
    assert "result['rows'][1] is builtins.NoneType" in seen.marks
    itself = []
    itself.append(itself)
    assert released(itself).marks
    assert "result has NaN" in released(np.array([np.nan, 1])).marks


def test_an_exception_is_a_result_and_nothing_is_shown(capsys):
    def fit(data):
        print("a line")
        warnings.warn("a warning", UserWarning, stacklevel=1)
        raise ValueError(f"{data.y[0]} is wrong") from KeyError("cause")

    seen = look(fit, Data(X, Y), None)
    assert {"ValueError was raised: '# is wrong'", "printed: 'a line\\n'"} <= seen.marks
    assert any("KeyError" in mark for mark in seen.marks)
    assert any("warning 0 (UserWarning)" in mark for mark in seen.marks)
    assert capsys.readouterr() == ("", "")


# What is learned


def of_numbers(samples):
    return [Released({"numbers": row}) for row in samples]


def test_a_witness_finds_the_best_direction():
    """100 pilot fits of 6 numbers with correlated noise reach 70 % of the best distance; 10 seeds, all of them."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        mix, gap = rng.normal(size=(6, 6)), rng.normal(size=6)
        gap *= 2 / np.linalg.norm(gap)
        ones, others = ((rng.normal(size=(4100, 6)) + shift) @ mix for shift in (gap, 0 * gap))
        witness = Witness.learned(of_numbers(ones[:100]), of_numbers(others[:100]))
        scores = [witness.scores(of_numbers(some[100:])) for some in (ones, others)]
        assert (scores[0].mean() - scores[1].mean()) / scores[0].std() > 0.7 * 2


@pytest.mark.parametrize("values", [(5.0, 6.0), (0.0, 1e-9), (1e300, -1e300), (np.inf, 0.0), (3.0, np.inf)])
def test_a_number_without_noise_separates_perfectly(values):
    rng = np.random.default_rng(0)
    ones, others = (np.column_stack([rng.standard_cauchy((20, 3)), np.full(20, value)]) for value in values)
    witness = Witness.learned(of_numbers(ones), of_numbers(others))
    assert witness.separation > 3
    fresh = [np.column_stack([rng.standard_cauchy((1000, 3)), np.full(1000, value)]) for value in values]
    scores = [witness.scores(of_numbers(some)) for some in fresh]
    assert np.mean(scores[0] > witness.cuts[0]) > 0.99
    assert np.mean(scores[1] > witness.cuts[0]) < 0.01


def test_huge_and_missing_numbers_do_not_hide_a_difference():
    rng = np.random.default_rng(1)

    def some(shift, n):
        wild = 10.0 ** rng.uniform(-300, 300, (n, 2)) * rng.choice([-1, 1, np.nan, np.inf], (n, 2))
        return [Released({"wild": a, "tame": b}) for a, b in zip(wild, rng.normal(shift, 1, (n, 1)), strict=True)]

    witness = Witness.learned(some(2, 60), some(0, 60))
    short = Released({"tame": np.array([2.0])})  # a name that is missing
    assert np.isfinite(witness.scores([short])).all()
    scores = [witness.scores(some(shift, 2000)) for shift in (2, 0)]
    assert np.mean(scores[0] > witness.cuts[0]) - np.mean(scores[1] > witness.cuts[0]) > 0.5  # at best 0.68


def test_a_mark_is_found():
    ones = [Released({}, frozenset({"a", "b"})) for _ in range(20)]
    others = [Released({}, frozenset({"a"})) for _ in range(20)]
    for first, second, on_one in ((ones, others, True), (others, ones, False)):
        witness = Witness.learned(first, second)
        assert [(mark.text, mark.on_one) for mark in witness.marks] == [("b", on_one)]
        assert witness.separation > 3


# What is proved


@pytest.mark.parametrize(("distance", "n", "m"), [(0.3, 40, 60), (1.5, 200, 200), (1.5, 12, 9), (40.0, 30, 30)])
def test_the_bound_on_a_distance_is_too_high_as_seldom_as_it_says(distance, n, m):
    """2,000 bounds with an error of 5 %; the number that are too high lies between two binomial quantiles."""
    rng = np.random.default_rng(7)
    high = sum(
        least_distance(3 * rng.normal(size=n) + 3 * distance, 3 * rng.normal(size=m), 0.05) > distance
        for _ in range(2000)
    )
    least, most = binom.ppf([ERROR_PROBABILITY, 1 - ERROR_PROBABILITY], 2000, 0.05)
    assert least <= high <= most


def test_the_profile_of_a_distance_is_that_of_gaussian_differential_privacy():
    epsilons = np.linspace(0, 12, 25)
    for mu in (0.01, 0.5, 1.5, 6.0):
        expected = [conversions.gaussian_delta(epsilon, mu) for epsilon in epsilons]
        np.testing.assert_allclose(gaussian_profile(mu, epsilons), expected, rtol=1e-6, atol=1e-300)
    assert not gaussian_profile(0.0, epsilons).any()


def test_the_shape_is_tested_at_the_level_that_is_stated():
    """Three tests of 1 % each: of 2,000 Gaussian pairs at most 3 % are rejected, but for a binomial quantile."""
    rng = np.random.default_rng(3)
    rejected = sum(not looks_gaussian(rng.normal(size=150), rng.normal(2, size=90)) for _ in range(2000))
    least, most = binom.ppf([ERROR_PROBABILITY, 1 - ERROR_PROBABILITY], 2000, 0.03)
    assert least / 2 <= rejected <= most
    assert not looks_gaussian(rng.laplace(size=500), rng.laplace(size=500))
    assert not looks_gaussian(rng.normal(size=500), 2 * rng.normal(size=500))
    assert not looks_gaussian(np.zeros(500), np.ones(500))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("claim", [GAUSSIAN, LAPLACE], ids=["Gaussian", "Laplace"])
def test_counts_prove_too_much_as_seldom_as_they_say(claim):
    """300 audits of exact mechanisms with an error of 20 %: so many are too high but for a binomial quantile."""
    rng = np.random.default_rng(11)
    draw = {"mu**2": partial(rng.normal, scale=1 / MU), "epsilon": rng.laplace}[claim.currency.name]

    def some(shift, n):
        return of_numbers(shift + draw(size=(n, 1)))

    witness = Witness.learned(some(1.0, 100), some(0.0, 100))
    bounds = []
    for _ in range(300):
        tally = Tally(witness)
        for side in (0, 1):
            for found in some(1.0 - side, 150):
                tally.add(side, found)
        profile = highest([coin.delta for _, coin in tally.coins(150, 0.2)])
        bounds.append(claim.least_epsilon(profile))
        assert claim.refuted_by(profile) == (bounds[-1] > claim.epsilon * (1 + 1e-6))
    assert sum(bound > claim.epsilon for bound in bounds) <= binom.ppf(1 - ERROR_PROBABILITY, 300, 0.2)
    assert np.median(bounds) > 0.3 * claim.epsilon


class InstantFits:
    """Fits of an exact Gaussian mechanism that take no time, of which the clock lets through a random number."""

    each, passed, fits = 1e-3, 0.0, 0

    def __init__(self, rng, shift):
        self.rng, self.shift, self.left = rng, shift, rng.integers(20, 500)

    def more(self, pair, take, number, deadline):
        self.left -= number
        for side in [0, 1] * max(0, number if self.left >= 0 else self.left + number):
            take(side, Released({"numbers": self.rng.normal(self.shift * (1 - side), 1.0, 1)}))
        return self.left >= 0


@pytest.mark.slow
@pytest.mark.thorough
def test_looks_before_the_end_are_paid_for():
    """200 audits with an error of 20 %, which end when they refute or by a clock: so many refute at most."""
    rng = np.random.default_rng(5)
    pair = pairs_of(None, None, adjacency="replace", takes_weights=False)[0]

    def some(shift):
        return of_numbers(rng.normal(shift, 1, (100, 1)))

    witness = Witness.learned(some(MU), some(0.0))
    found = {}
    for shift in (MU, 2 * MU):
        findings = [_Count(InstantFits(rng, shift), pair, witness, GAUSSIAN, 0.2, 0).finding(0.5) for _ in range(200)]
        found[shift] = sum(finding.refuted for finding in findings)
        assert all(finding.refuted == (finding.epsilon > GAUSSIAN.epsilon * (1 + 1e-6)) for finding in findings)
    assert found[MU] <= binom.ppf(1 - ERROR_PROBABILITY, 200, 0.2)
    assert found[2 * MU] > 100  # halved noise is found in most audits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "claim", "fraction"),
    [
        (partial(NoisySum, sensitivity=MU), GAUSSIAN, 0.6),
        (partial(NoisySum, noise="laplace"), LAPLACE, 0.3),
    ],
    ids=["Gaussian", "Laplace"],
)
def test_an_exact_mechanism_is_bounded_from_below_only(make, claim, fraction):
    finding = audited(make, claim, seconds=4)[0]
    assert fraction * claim.epsilon < finding.epsilon <= claim.epsilon
    assert not finding.refuted
    assert finding.leaks == ()
    if claim is GAUSSIAN:
        assert finding.epsilon < finding.estimate <= claim.epsilon
    else:
        assert finding.estimate is None


LEAKS = [
    "count", "private count", "exception", "warning", "number in a warning", "printed", "type", "shape",
    "scale of noise", "one seed", "halved noise",
]  # fmt: skip


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_caught(leak):
    findings = audited(partial(NoisySum, sensitivity=MU, leak=leak), GAUSSIAN, seconds=3)
    assert findings[-1].refuted
    assert findings[-1].epsilon > GAUSSIAN.epsilon
    if leak not in ("scale of noise", "halved noise"):
        assert findings[-1].leaks
    if leak in ("type", "exception", "shape"):
        assert any(
            {"type": "float32", "exception": "ValueError", "shape": "(1, 3)"}[leak] in one for one in findings[-1].leaks
        )


def test_the_time_is_kept():
    for seconds in (0.5, 1.5):
        began = time.perf_counter()
        [finding] = audited(lambda: Slow(0.03), GAUSSIAN, seconds=seconds)
        assert time.perf_counter() - began < 1.2 * seconds + 0.5  # a batch, on a busy machine
        assert abs(finding.seconds - (time.perf_counter() - began)) < 0.5


class Slow(NoisySum):
    def __init__(self, seconds):
        self.seconds, self.sensitivity, self.noise, self.leak = seconds, 1.0, "normal", "count"

    def fit(self, X, y, sample_weight=None):
        time.sleep(self.seconds)
        return super().fit(X, y)


def test_a_fit_that_is_too_dear_is_named():
    [finding] = audited(lambda: Slow(0.2), GAUSSIAN, seconds=1.0)
    assert "give more seconds" in finding.seen
    assert not finding.refuted
    assert finding.epsilon <= GAUSSIAN.epsilon


def test_progress_is_told():
    told = []
    audited(partial(NoisySum, leak="count"), GAUSSIAN, progress=lambda share, text: told.append((share, text)))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1
    assert all(isinstance(text, str) for _, text in told)


@pytest.mark.slow
def test_several_processes_fit():
    finding = audited(partial(NoisySum, sensitivity=MU, leak="halved noise"), GAUSSIAN, seconds=20, n_jobs=2)[0]
    assert finding.refuted


def test_pairs_of_persons_and_weights_reach_the_fit():
    pairs = pairs_of(X, Y, PERSONS, adjacency="zero-out", takes_weights=True)
    seen = []

    def fit(data):
        seen.append(set(data.arguments))
        return NoisySum()

    compare_models(fit, pairs, GAUSSIAN, seconds=1.5, error=0.1, n_jobs=None)
    assert {frozenset(one) for one in seen} == {frozenset({"groups", "sample_weight"}), frozenset({"groups"})}


# Estimators of this package


def audited_estimator(Estimator, seconds):
    model = Estimator(epsilon=4.0).fit(X, Y)
    pairs = pairs_of(X, Y, adjacency=model.privacy_spent_.adjacency, takes_weights=True)
    claim = Claim.of(model.privacy_spent_)
    findings = compare_models(
        lambda data: Estimator(epsilon=4.0).fit(data.X, data.y, **data.arguments),
        pairs,
        claim,
        seconds=seconds,
        error=ERROR_PROBABILITY,
        n_jobs=None,
    )
    for finding in findings:
        assert not finding.refuted
        assert finding.leaks == ()
        assert finding.epsilon <= claim.epsilon
        assert finding.fits > 0
    return findings


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_output_perturbation_keeps_its_promise():
    audited_estimator(OutputPerturbationLogisticRegression, 4)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("Estimator", CHECKED)
def test_every_estimator_keeps_its_promise(Estimator):
    audited_estimator(Estimator, 6)


def test_a_pair_without_probes_is_asked_at_its_first_rows():
    pair = Pair("by hand", Data(X, Y), Data(X, 1 - Y))
    [finding] = compare_models(fit_of(NoisySum), [pair], GAUSSIAN, seconds=0.3, error=0.1, n_jobs=None)
    assert finding.pair == "by hand"
