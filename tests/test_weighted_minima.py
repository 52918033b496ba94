"""Minima of weighted sums: persons with many rows, rare classes, rows that count less."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from unittest import mock

import dask
import dask.array as da
import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from mpmath import mpf
from row_changes import fractions
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from test_minimizers import CENTRED, Solved, example, longest_column, normals, prepare
from test_minimizers import exact_gradient as of_all_alike

from dpsk.data import ArrayRows, Chunk, Facts, PrivateData, RowMap
from dpsk.data.dask import DaskTable
from dpsk.data.persons import Persons
from dpsk.data.stored import StoredRows
from dpsk.data.weights import ONE, Weights
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, SquaredHinge
from dpsk.mechanisms import SeededBits
from dpsk.minimizers import AttackedSum, Minimizer, RegularizedSum, SampledWeights, TiltedSum
from dpsk.minimizers import sampled_weights as sampled
from dpsk.minimizers.descent import METHODS
from dpsk.minimizers.hinge import _Dual
from dpsk.minimizers.regularized import SumOverRows, as_floats, two_parts
from dpsk.minimizers.sampled_weights import _Draw
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import Budget, GaussianDP, Ledger, ObjectiveDP, PureDP
from dpsk.solvers.exponential import ExponentialSampling
from dpsk.solvers.objective_perturbation import ObjectivePerturbation
from dpsk.solvers.output_perturbation import OutputPerturbation

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")

ATTACKED = partial(AttackedSum, radius=0.05, norm=2, constant=False)
ATTACKED_INF = partial(AttackedSum, radius=0.05, norm=math.inf, constant=False)
KINDS = {
    "logistic": (Logistic(), RegularizedSum),
    "squared hinge": (SquaredHinge(), RegularizedSum),
    "hinge": (Hinge(), RegularizedSum),
    "one-vs-rest": (OneVsRest(HuberHinge(), 3), RegularizedSum),
    "hinge one-vs-rest": (OneVsRest(Hinge(), 3), RegularizedSum),
    "attacked": (Logistic(), ATTACKED),
    "attacked in l_inf": (OneVsRest(HuberHinge(0.2), 3), ATTACKED_INF),
}


def persons_of(counts):
    """Return persons with so many rows each, whose rows are not side by side."""
    codes = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    return Persons(np.random.default_rng(len(codes)).permutation(codes), len(counts))


def of_persons(X, y, persons, how=None, **options):
    return ArrayRows(X, y, how, Weights(persons.weights, persons), **options)


def some(X, y, steps, n_units, how=None):
    """Return rows with these weights, of so many units, some of which may have left."""
    rows = ArrayRows(X, y, how, Weights(np.asarray(steps, dtype=np.int32)))
    rows.public = replace(rows.public, n_rows=n_units)
    return rows


def found(what, rows, seed=0):
    """Return the statistic, in grid units."""
    with np.errstate(all="ignore"):  # as PrivateData.measure does
        return what.over(rows, SeededBits(seed))


def labels(loss, rng, n):
    return rng.choice([-1.0, 1.0], n) if loss.n_classes is None else rng.integers(0, loss.n_classes, n)


# ------------------------------------------------------------------------------------- how far a person moves it


def reached(what, X, y, persons, other_x, other_y, steps=None):
    """Return the fractions of the promised norms that leaving and replacing the first person reach."""
    how = RowMap(n_classes=what.objective.n_classes, fit_intercept=False)
    steps, own = persons.weights if steps is None else steps, persons.codes == 0
    whole = found(what, some(X, y, steps, persons.n, how))
    left = found(what, some(X[~own], y[~own], steps[~own], persons.n, how))
    moved_x, moved_y = X.copy(), y.copy()
    moved_x[own], moved_y[own] = other_x, other_y
    replaced = found(what, some(moved_x, moved_y, steps, persons.n, how))
    return fractions(what, "zero-out", whole - left) | fractions(what, "replace", whole - replaced)


def hard(kind, count, steps=None):
    """All rows are 0 but those of one person, which are e_1 in one data set and -e_1 in the other.

    An attack on rows that are 0 holds the minimum at 0, so that there they are all -e_1.
    """
    loss, make = KINDS[kind]
    persons = persons_of([count, 1, 2, 3, 1, 1])
    X = np.zeros((len(persons.codes), 3))
    X[:, 0] = np.where(persons.codes == 0, 1.0, -1.0 if "attacked" in kind else 0.0)
    y = np.ones(len(X)) if loss.n_classes is None else np.zeros(len(X), int)
    what = Minimizer(loss, persons.n, 3, clip=0.02, longest=1.0, penalty=2.0, kind=make)
    weights = None if steps is None else np.full(len(X), steps)
    return reached(what, X, y, persons, -np.eye(3)[0], y[0], weights)


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_reaches_what_a_row_reaches_and_no_more(kind):
    """Within 1 % of what one row that counts fully reaches, however many rows the person has."""
    alone = hard(kind, 1)
    assert alone["replace", "l2"] > (0.6 if "attacked" in kind else 0.85)
    for count in (2, 7, 1000):
        several = hard(kind, count)
        assert all(several[key] > 0.99 * alone[key] for key in alone)


@pytest.mark.parametrize("kind", KINDS)
def test_persons_with_rows_of_any_size_and_mixed_signs_stay_within_the_sensitivity(kind):
    loss, make = KINDS[kind]
    rng = np.random.default_rng(0)
    for count in (1, 2, 30, 1000):
        persons = persons_of([count, 3, 1, 5])
        n, d = len(persons.codes), 3
        X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-3, 0, 0, 3], (n, 1))
        y, clip = labels(loss, rng, n), 10.0 ** rng.uniform(-2, 1)
        what = Minimizer(loss, 4, d, clip=clip, longest=1.5, penalty=10.0 ** rng.uniform(-0.5, 1.5), kind=make)
        own = np.flatnonzero(persons.codes == 0)
        others = rng.normal(size=(len(own), d)) * rng.choice([-1, 1, 100], (len(own), 1))
        reached(what, X, y, persons, others, labels(loss, rng, len(own)))


@pytest.mark.parametrize("kind", ["logistic", "hinge", "attacked"])
def test_weights_that_are_not_a_persons_parts_of_one_are_noticed(kind):
    with pytest.raises(AssertionError, match="one row moved minimum"):
        hard(kind, 7, steps=ONE)


@pytest.mark.parametrize("kind", ["logistic", "hinge", "attacked"])
def test_weights_forgotten_in_the_gradient_are_noticed(kind):
    def forgotten(self, residuals):
        return np.stack([sums := self.total(residuals), np.zeros_like(sums)])

    with mock.patch.object(Chunk, "weighed", forgotten), pytest.raises(AssertionError, match="one row moved minimum"):
        hard(kind, 7)


def test_residuals_that_are_weighted_before_they_are_clipped_are_noticed():
    """A long person then has as many clips as rows."""
    original, weighed = SumOverRows.scales, Chunk.weighed

    def scales(self, chunk):
        size, factor, limit = original(self, chunk)
        return size, factor * chunk.weights / ONE, limit

    def alike(self, residuals):
        chunk = replace(self, weights=np.full(len(self), float(ONE)))
        return weighed(chunk, residuals)

    one, other = mock.patch.object(SumOverRows, "scales", scales), mock.patch.object(Chunk, "weighed", alike)
    with one, other, pytest.raises(AssertionError, match="one row moved minimum"):
        hard("logistic", 7)


@pytest.mark.parametrize("kind", ["logistic", "one-vs-rest", "attacked in l_inf"])
def test_weights_forgotten_in_the_curvature_move_no_point_away_from_the_minimum(kind):
    """They cost time. The gradient tells when a point is near, and counts with weights."""
    loss, make = KINDS[kind]
    persons, rng = persons_of([40, 1, 2, 9, 100]), np.random.default_rng(3)
    X = rng.normal(size=(len(persons.codes), 3))
    rows = of_persons(X, labels(loss, rng, len(X)), persons, RowMap(loss.n_classes, fit_intercept=False))
    what = Minimizer(loss, 5, 3, clip=0.4, longest=1.5, penalty=0.5, kind=make)
    good = found(what, rows)

    def unweighted(self, w, damping, which=None):
        n_problems = w.shape[1] if which is None else len(which)
        return 5.0 * len(X) * np.stack([np.eye(len(w))] * n_problems)

    with mock.patch.object(SumOverRows, "hessians", unweighted):
        other = found(what, rows)
    assert np.linalg.norm((good - other) * what.unit, axis=0).max() <= 2 * what.near + 2 * what.unit


# --------------------------------------------------------------------------------------------------- exact sums


def test_sums_in_two_parts_become_the_nearest_floats():
    rng = np.random.default_rng(0)
    for bits in (3, 30, 52, 54, 61):
        high = rng.integers(-(2**bits), 2**bits, 300)
        high[:3] = [2**bits - 1, 1 - 2**bits, 0]
        low = rng.integers(0, 2**40, 300)
        rows = mock.Mock(public=mock.Mock(weighted=True))
        computed = as_floats(np.stack([high, low]), rows)
        exact = [Fraction(int(h)) + Fraction(int(part), ONE) for h, part in zip(high, low, strict=True)]
        assert computed.tolist() == [float(value) for value in exact]


def exact_gradient(what, rows, w, b):
    """Return the gradient with weights at the floats w, in 60 digits."""
    total = np.vectorize(mpf, otypes=[object])(w) * mpf(what.penalty) + np.vectorize(mpf, otypes=[object])(b)
    none, zero = np.zeros_like(w), replace_penalty(what)
    for chunk in rows._chunks():
        for i, steps in enumerate(chunk.weights):
            one = chunk.take(np.array([i]))
            alone = mock.Mock(_chunks=lambda one=one: [replace(one, weights=None)])
            total = total + of_all_alike(zero, alone, w, none) * (mpf(steps) / ONE)
    return total


def replace_penalty(what):
    return mock.Mock(longest=what.longest, clip=what.clip, penalty=0.0, objective=what.objective)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.2), OneVsRest(Logistic(), 3)], ids=repr)
def test_gradients_are_computed_to_within_the_error_of_so_many_units(loss):
    """Though there are many more rows: errors of rows count as much as the rows, and no weight is rounded."""
    rng = np.random.default_rng(1)
    persons = persons_of([150, 1, 40])
    n = len(persons.codes)
    X, y = rng.normal(size=(n, 4)) * 10.0 ** rng.uniform(-8, 8, (n, 1)), labels(loss, rng, n)
    rows = of_persons(X, y, persons, RowMap(n_classes=loss.n_classes))
    what = prepare(loss, replace_persons(rows), penalty=1e-3, clip=1.5)
    bound = what._error - math.sqrt(what.objective.shape[0]) * what._unit / 2
    for size in (1e-9, 1.0, 50.0):
        w, b = size * rng.normal(size=what.objective.shape), rng.normal(size=what.objective.shape)
        with mpmath.workdps(60), np.errstate(all="ignore"):
            computed = SumOverRows(what.objective, rows, b).gradient(w)
            assert longest_column(exact_gradient(what, rows, sum(two_parts(w)), b) - computed) < bound


def replace_persons(rows):
    """Return the rows as if each were a unit of its own."""
    rows.persons = None
    return rows


def test_no_bit_of_a_sum_is_lost_where_a_person_has_many_rows():
    """Residuals are split into limbs before weights multiply them: 2^14 rows that count 2^-14 are as good as one."""
    x, largest = np.array([0.3, -0.7, 0.55]), {}
    for count in (1, 2**14):
        X, y = np.tile(x, (3 * count, 1)), np.ones(3 * count)
        rows = some(X, y, np.full(3 * count, ONE // count), 3, RowMap(fit_intercept=False))
        what = RegularizedSum(Logistic(), 3, 3, clip=1.0, longest=0.9, penalty=1e-3)
        w = np.array([[0.2], [1.0], [-0.4]])
        largest[count] = what.over(rows).gradient(w)
    assert np.array_equal(largest[1], largest[2**14])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_count_fully_have_the_bits_of_rows_without_weights(kind):
    loss, make = KINDS[kind]
    X, y = example(loss, 50)
    how = RowMap(loss.n_classes)
    plain, weighted = ArrayRows(X, y, how), ArrayRows(X, y, how, Weights(np.full(50, ONE, np.int32)))
    for method in METHODS:
        what = Minimizer(loss, 50, 5, clip=0.4, longest=1.5, penalty=9.0, kind=make, method=method)
        assert found(what, plain).tobytes() == found(what, weighted).tobytes()
    if math.isfinite(loss.smoothness):
        w, damping = np.random.default_rng(0).normal(size=what.objective.shape), np.full(what.objective.shape[1], 0.1)
        one, other = what.objective.over(plain), what.objective.over(weighted)
        assert one.hessians(w, damping).tobytes() == other.hessians(w, damping).tobytes()
        assert one.products(w, damping)(w).tobytes() == other.products(w, damping)(w).tobytes()


def test_releases_with_noise_inside_have_the_bits_of_rows_without_weights():
    X, y = example(Logistic(), 50)
    plain, weighted = ArrayRows(X, y), ArrayRows(X, y, None, Weights(np.full(50, ONE, np.int32)))
    draw = SampledWeights(Logistic(), 50, 5, longest=1.0, penalty=9.0, eta=2.0, radius=3.0, inside=2.0)
    for what in (prepare(Logistic(), plain), draw):
        with np.errstate(all="ignore"):
            assert what(plain, SeededBits(5)).tobytes() == what(weighted, SeededBits(5)).tobytes()


# ---------------------------------------------------------------------------------------------- which minimum it is


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "attacked" not in kind and "hinge" not in kind])
def test_every_method_ends_where_the_gradient_is_certified(kind, method):
    loss, make = KINDS[kind]
    rng, persons = np.random.default_rng(2), persons_of([20, 1, 1, 3, 7, 2])
    X = rng.normal(size=(len(persons.codes), 3))
    rows = of_persons(X, labels(loss, rng, len(X)), persons, RowMap(loss.n_classes))
    what = Minimizer(loss, 6, 4, clip=0.4, longest=1.5, penalty=0.5, kind=make, method=method)
    w = (found(what, rows) * what.unit).reshape(what.objective.shape)
    objective = mock.Mock(
        longest=1.5, clip=what.objective.clip, penalty=what.objective.penalty, objective=what.objective
    )
    with mpmath.workdps(60):
        length = longest_column(exact_gradient(objective, rows, w, np.zeros_like(w)))
    # the point is rounded to the grid after the certificate
    assert length <= what._tolerance + what.objective.smoothness * what.unit * math.sqrt(4)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "CSR"])
def test_the_minimum_is_that_of_scikit_learn(store):
    rng, persons = np.random.default_rng(4), persons_of(rng_counts := [1, 8, 30, 2, 2, 4, 1, 1, 60, 12])
    n = sum(rng_counts)
    X = rng.normal(size=(n, 3))
    X /= 2 * np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    how = RowMap(fit_intercept=False, class_shares=(1.0, 0.25))
    steps = np.floor(persons.weights * np.where(y > 0, 0.25, 1.0)).astype(np.int32)
    rows = ArrayRows(store(X), y, how, Weights(steps, persons))
    what = Minimizer(Logistic(), persons.n, 3, clip=10.0, longest=1.0, penalty=0.05)
    model = LogisticRegression(C=1 / 0.05, fit_intercept=False, tol=1e-12, max_iter=10_000)
    model.fit(X, y, sample_weight=steps / ONE)
    assert np.linalg.norm(found(what, rows) * what.unit - model.coef_[0]) <= what.near + 1e-5


@pytest.mark.parametrize("loss", [Hinge(), OneVsRest(Hinge(), 3)], ids=repr)
def test_the_duality_gap_of_weighted_hinges_is_what_it_says(loss):
    """Ascent of the dual in coordinates, each up to the weight of its row, proves how near the point is."""
    rng, persons = np.random.default_rng(5), persons_of([15, 1, 1, 4, 2, 1, 9])
    X = rng.normal(size=(len(persons.codes), 3))
    y = labels(loss, rng, len(X))
    rows = of_persons(X, y, persons, RowMap(loss.n_classes, fit_intercept=False))
    what = Minimizer(loss, persons.n, 3, clip=0.4, longest=1.5, penalty=0.5)
    w = (found(what, rows) * what.unit).reshape(what.objective.shape)
    length = np.linalg.norm(X, axis=1)
    short = X * np.minimum(1, 1.5 / length)[:, None]
    s = np.minimum(1, what.objective.clip / np.minimum(length, 1.5)) * persons.weights / ONE
    for k in range(w.shape[1]):
        signed = short * (y if loss.n_classes is None else np.where(y == k, 1.0, -1.0))[:, None]
        a, v, squares = np.zeros(len(X)), np.zeros(3), (signed**2).sum(axis=1)
        for _ in range(3000):
            for i in range(len(X)):
                new = min(max(a[i] + (0.5 - signed[i] @ v) / squares[i], 0), s[i])
                v, a[i] = v + (new - a[i]) * signed[i], new
        lower = a.sum() - v @ v / (2 * 0.5)
        value = s @ np.maximum(1 - signed @ w[:, k], 0) + 0.25 * w[:, k] @ w[:, k]
        assert lower - 1e-6 <= value <= lower + what._gap * (1 + 1e-3) + 1e-6
        assert np.linalg.norm(v / 0.5 - w[:, k]) <= what.near + 1e-3 * what.moved


def test_a_gap_is_found_where_it_is_and_not_below():
    """At any point and any numbers a: the gaps of rows count as much as they do, and so does what they pull."""
    rng, persons = np.random.default_rng(13), persons_of([30, 1, 6, 12, 1])
    X, y = rng.normal(size=(50, 3)), rng.choice([-1.0, 1.0], 50)
    rows = of_persons(X, y, persons, RowMap(fit_intercept=False))
    what = RegularizedSum(Hinge(), 5, 3, clip=0.4, longest=1.5, penalty=2.0)
    share = persons.weights[:, None] / ONE
    for size in (0.1, 1.0):
        w = two_parts(size * rng.normal(size=(3, 1)))[0]
        dual = _Dual(what, rows, 1.0)
        a = dual.steepest * rng.random((50, 1))
        signed = X * (np.minimum(1, 1.5 / np.linalg.norm(X, axis=1)) * y)[:, None]
        m, v = signed @ w, signed.T @ (share * a)
        each = (dual.steepest - a) * np.maximum(0, 1 - m) + a * np.maximum(0, m - 1)
        gap = float((share * each).sum() + np.linalg.norm(2.0 * w - v) ** 2 / 4)
        assert not _Dual(what, rows, gap * (1 - 1e-6)).reached(w, a)
        assert _Dual(what, rows, gap * (1 + 1e-6)).reached(w, a)


def test_numbers_of_a_hinge_belong_to_rows_and_not_to_units():
    """A method that comes near nothing leaves all to ascent of the dual, which takes the steps it says."""
    persons, rng = persons_of([15, 1, 4]), np.random.default_rng(6)
    rows = of_persons(rng.normal(size=(20, 2)), rng.choice([-1.0, 1.0], 20), persons)
    what = Minimizer(Hinge(), 3, 3, clip=0.4, longest=1.5, penalty=0.5)
    good = found(what, rows)
    with mock.patch("dpsk.minimizers.hinge.near", lambda objectives, w, tolerance, method: w):
        other = found(what, rows)
    assert np.linalg.norm((good - other) * what.unit) <= 2 * what.near + 2 * what.unit


@pytest.mark.parametrize("kind", ["logistic", "one-vs-rest", "attacked", "attacked in l_inf"])
@pytest.mark.parametrize("centred", [False, True])
def test_hessians_are_nearly_the_derivatives_of_weighted_gradients(kind, centred):
    loss, make = KINDS[kind]
    persons, rng = persons_of([300, 1, 1, 50, 7] * 4), np.random.default_rng(7)
    X = rng.normal(size=(len(persons.codes), 3))
    columns = None
    if centred:
        columns, X = CENTRED, np.hstack([X, X[:, :1] ** 2])
    rows = of_persons(X, labels(loss, rng, len(X)), persons, RowMap(loss.n_classes, columns=columns))
    p = rows.n_parameters
    what = make(loss, persons.n, p, clip=1.0, longest=1.5, penalty=2.0)
    sums, w, none = what.over(rows), 0.3 * rng.normal(size=what.shape), np.zeros(what.shape[1])
    hessians = sums.hessians(w, none) + what.penalty * np.eye(p)
    for j, unit in enumerate(np.eye(p)[:, :, None]):
        step = unit * np.ones(what.shape[1])
        slope = (sums.gradient(w + 1e-6 * step) - sums.gradient(w - 1e-6 * step)) / 2e-6
        for by in (hessians[:, :, j].T, sums.products(w, none)(step)):
            assert np.linalg.norm(by - slope) <= 0.02 * np.linalg.norm(slope)


def test_weights_far_below_the_bits_of_a_hessian_lead_to_the_minimum_all_the_same():
    X, y = example(Logistic(), 60)
    rows = some(X, y, np.full(60, 2), 60)
    what = Minimizer(Logistic(), 60, 5, clip=0.4, longest=1.5, penalty=1e-4)
    lengths, gradient = [], SumOverRows.gradient

    def counted(self, w):
        lengths.append(1)
        return gradient(self, w)

    with mock.patch.object(SumOverRows, "gradient", counted):
        found(what, rows)
    assert len(lengths) < 300


# ------------------------------------------------------------------------------------------------ the same bits


@pytest.mark.parametrize("kind", KINDS)
def test_every_storage_chunking_and_order_gives_the_same_bits(kind, tmp_path):
    loss, make = KINDS[kind]
    X, y = example(loss, 90)
    persons, how = persons_of([30, 1, 9, 20, 30]), RowMap(loss.n_classes, class_shares=(1.0, 0.3, 0.7))
    shares = np.array(how.class_shares)[y if loss.n_classes else (y > 0).astype(int)]
    weights = Weights(np.floor(persons.weights * shares).astype(np.int32), persons)
    np.save(tmp_path / "X.npy", X)
    order = np.random.default_rng(0).permutation(90)
    variants = [
        ArrayRows(X, y, how, weights),
        ArrayRows(np.asfortranarray(X), y, how, weights, chunk_rows=7),
        ArrayRows(sp.csr_matrix(X), y, how, weights, chunk_rows=17),
        ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), y, how, weights),
        StoredRows([X[:33], X[33:]], y, how, weights, on_disk=True),
        ArrayRows(X[order], y[order], how, Weights(weights.steps[order], Persons(persons.codes[order], 5))),
    ]
    if kind != "hinge" and kind != "hinge one-vs-rest":  # which need all rows in one process
        chunks = da.from_array(X, chunks=(40, -1)), da.from_array(y, chunks=40)
        with dask.config.set(scheduler="sync"):
            table = DaskTable(*chunks, lambda X, y: (X, y), np.unique(y))
            table.persons, table.facts = persons, replace(table.facts, n_rows=5)
            variants.append(table.rows(how))
    what = Minimizer(loss, 5, 5, clip=0.4, longest=1.5, penalty=2.0, kind=make)
    with dask.config.set(scheduler="sync"):
        assert len({found(what, rows).tobytes() for rows in variants}) == 1


def test_parts_hold_all_rows_of_some_persons():
    persons, rng = persons_of([3] * 40), np.random.default_rng(8)
    rows = of_persons(rng.normal(size=(120, 3)), rng.choice([-1.0, 1.0], 120), persons)
    what = RegularizedSum(Logistic(), 40, 4, clip=0.4, longest=1.5, penalty=2.0)
    sums, w = what.over(rows, SeededBits(0)), rng.normal(size=(4, 1))
    asked, subset = [], ArrayRows.subset

    def watched(self, units):
        asked.append(units)
        return subset(self, units)

    with mock.patch.object(ArrayRows, "subset", watched):
        parts = sums.parts()
    assert [len(units) for units in asked] == [2] * 20
    assert sorted(np.concatenate(asked)) == list(range(40))
    assert np.allclose(np.mean([part(w) for part in parts], axis=0), sums.gradient(w), rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------- noise in the objective


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_the_density_of_the_minimum_keeps_the_cost_for_rows_that_count_less(adjacency, weight):
    """One weight: the density of b where the gradient is that of the library, times its own derivative."""
    X, y = np.array([[1.5], [1.5], [-1.0]]), np.ones(3)
    how, largest = RowMap(fit_intercept=False), 0.0
    steps = np.array([ONE, ONE // 5, int(weight * ONE)])
    if adjacency == "zero-out":
        neighbour = some(X[:2], y[:2], steps[:2], 3, how)
    else:
        neighbour = some(X, np.array([1.0, 1.0, -1.0]), [ONE, ONE // 5, ONE], 3, how)
    rows = some(X, y, steps, 3, how)
    for strength in (0.3, 1.0, 3.0):
        what = prepare(Logistic(), rows, strength=strength, shift=1e-5, clip=1.2, penalty=1.0, adjacency=adjacency)
        sigma = what._sigma * what._unit
        w, densities = np.linspace(-9 * sigma - 6, 9 * sigma + 6, 801), []
        for data in (rows, neighbour):
            sums = SumOverRows(what.objective, data, np.zeros((1, 1)))
            g = np.array([sums.gradient(np.full((1, 1), x))[0, 0] for x in w])
            densities.append(norm.pdf(-(g[1:] + g[:-1]) / 2, scale=sigma) * np.diff(g))
        assert sum(densities[0]) == pytest.approx(1, abs=1e-2)
        for epsilon in what.cost.log_determinant + np.array([0.0, 0.3, 1.0, 3.0]):
            for p, q in (densities, densities[::-1]):
                true = np.maximum(p - np.exp(epsilon) * q, 0).sum()
                assert true <= what.cost.delta(epsilon) + 1e-4
                largest = max(largest, true / what.cost.delta(epsilon))
    assert largest > {("zero-out", 1.0): 0.5, ("zero-out", 0.4): 0.1}.get((adjacency, weight), 0.02), largest


def test_rows_of_a_person_change_a_determinant_by_more_than_a_row_may():
    """Two rows at right angles that count 1/2 each: that is why persons are refused."""
    persons = Persons(np.zeros(2, np.int32), 1)
    rows = of_persons(np.eye(2), np.ones(2), persons, RowMap(fit_intercept=False))
    what = RegularizedSum(Logistic(), 1, 2, clip=0.5, longest=1.0, penalty=0.1)
    hessian = what.over(rows).hessians(np.zeros((2, 1)), np.zeros(1))[0]
    change = math.log(np.linalg.det(np.eye(2) + hessian / 0.1))
    assert change > 1.2 * math.log1p(what.beta / 0.1)


def door(rows, currency, delta, weight=None):
    ledger = Ledger(Budget.of(2.0, delta, currency=currency))
    return PrivateData(rows, ledger, SeededBits(0), weight=weight), ledger


def test_objective_perturbation_refuses_persons_and_takes_rows_with_weights():
    X, y = example(Logistic(), 60)
    persons, currency = persons_of([30, 20, 10]), ObjectiveDP.plan(2.0, 1e-6, 1.0, 1, replaced=False)
    with pytest.raises(ValueError, match="not a patient with all rows"):
        ObjectivePerturbation().require(Logistic(), Facts(3, 4, 2, unit="patient"), currency)
    ObjectivePerturbation().require(Logistic(), Facts(60, 4, 2, weighted=True), currency)
    private, ledger = door(of_persons(X, y, persons), currency, 1e-6)
    with pytest.raises(ValueError, match="not a person"):
        private.draw(prepare(Logistic(), mock.Mock(n_rows=3, n_parameters=5)))
    assert ledger.charged == 0
    steps = np.random.default_rng(0).integers(0, ONE + 1, 60)
    private, ledger = door(some(X, y, steps, 60), currency, 1e-6, weight=31.5)
    (w,) = ObjectivePerturbation().iterates(private, LinearObjective(Logistic(), L2(1e-3), (5,)))
    assert w.shape == (5,)
    assert ledger.charged > 0


def test_the_perturbed_minimum_of_weighted_rows_is_the_one_that_is_defined():
    rng = np.random.default_rng(9)
    X, y = example(Logistic(), 60)
    rows = some(X, y, rng.integers(0, ONE + 1, 60), 60)
    what = prepare(Logistic(), rows, shift=1e-6)
    solved = Solved(what, rows, normals(what))
    lost = math.sqrt(what.objective.shape[0]) * what._unit / 2
    with mpmath.workdps(60):
        assert longest_column(exact_gradient(what, rows, solved.w, solved.b)) + lost <= what.tolerance


# --------------------------------------------------------------------------------------- the exponential mechanism


def test_integers_times_weights_add_up_exactly():
    persons, rng = persons_of([50, 1, 13]), np.random.default_rng(10)
    X, y = rng.normal(size=(64, 2)) * 0.5, rng.choice([-1.0, 1.0], 64)
    rows = of_persons(X, y, persons, RowMap(fit_intercept=False))
    what = SampledWeights(Logistic(), 3, 2, longest=1.0, penalty=1.0, eta=2.0, radius=2.0, inside=1.0)
    with np.errstate(all="ignore"):
        draw = _Draw(what, rows)
    (chunk,) = rows._chunks()
    one, lowest = what.objective.one, what.objective.one.phi(np.array([2.0]))[0]
    for at in ([0.3, -0.2], [1.0, 0.5], [-1.1, 0.9]):
        k = np.rint(np.array(at) / what.grid).astype(np.int64)
        w = (k * what.grid)[:, None]
        values = (one.phi(chunk.y * draw._sums.scores(chunk, w)[:, 0]) - lowest) / what.unit
        whole = [min(max(math.floor(value), 0), what.top) for value in values.tolist()]
        of_rows = sum(z * int(steps) for z, steps in zip(whole, chunk.weights, strict=True))
        expected = Fraction(of_rows, ONE) * Fraction(what.eta) / what.top
        squares = sum(int(entry) ** 2 for entry in k)
        expected += Fraction(what.strength) * Fraction(what.penalty) / 2 * Fraction(what.grid) ** 2 * squares
        assert draw.exponent(k) + draw._exponent_at_c == expected


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("count", [1, 6, 400])
def test_probabilities_of_neighbours_keep_the_cost_for_a_person(adjacency, count, monkeypatch):
    """All probabilities on a coarse grid: their log-ratios lie in an interval of length eta, and reach a part of it."""
    monkeypatch.setattr(sampled, "_FINE", 0.3)
    persons, how = persons_of([count, 2, 1, 1]), RowMap(fit_intercept=False)
    own, steps, largest = persons.codes == 0, persons.weights, 0.0
    for first, other in ((1.0, -1.0), (1.0, 0.0)):
        X = np.full((len(own), 1), 0.3)
        X[own], y = first, np.ones(len(own))
        replaced, logs = np.where(own[:, None], other, X), []
        left = some(X[~own], y[~own], steps[~own], 4, how)
        for rows in (some(X, y, steps, 4, how), left if adjacency == "zero-out" else some(replaced, y, steps, 4, how)):
            what = SampledWeights(Logistic(), 4, 1, 1.0, 1.0, 1.5, 3.0, 2.0, adjacency)
            draw, reach = _Draw(what, rows), math.floor(what.radius / what.grid)
            exponents = np.array([float(draw.exponent(np.array([k]))) for k in range(-reach, reach + 1)])
            logs.append(-exponents - np.logaddexp.reduce(-exponents))
        ratio = logs[0] - logs[1]
        assert np.ptp(ratio) <= 1.5 * (1 + 1e-12)
        largest = max(largest, np.ptp(ratio))
    assert largest > 0.95 * 1.5


def test_no_exponent_of_weighted_rows_is_ever_negative():
    """Nor where a person has many rows, each of which is rounded down."""
    persons, rng = persons_of([3000, 1, 2, 60]), np.random.default_rng(11)
    X = rng.normal(size=(len(persons.codes), 2))
    rows = of_persons(X, np.where(X[:, 0] > 0.4, 1.0, -1.0), persons)
    for options in ({}, {"localized": True, "centre": (0.5, 0.0, 1.0), "radius": 0.5}):
        defaults = {"longest": 1.5, "penalty": 0.5, "eta": 20.0, "radius": 4.0, "inside": 1.0}
        what, bits = SampledWeights(Logistic(), 4, 3, **defaults | options), SeededBits(0)
        with np.errstate(all="ignore"):
            draw, closest = _Draw(what, rows), math.inf
            proposals = itertools.chain.from_iterable(draw.proposals(bits) for _ in range(20))
            for k, passed, laplace in itertools.islice(proposals, 200):
                exponent = draw.exponent(k) - laplace - passed
                assert exponent >= 0
                closest = min(closest, float(exponent))
        assert closest < 3


# ------------------------------------------------------------------------------------------------- whole solvers


@pytest.mark.parametrize("currency", [PureDP(), GaussianDP()], ids=repr)
@pytest.mark.parametrize("weight", [None, 2.5])
def test_solvers_spend_what_they_say_on_persons(currency, weight):
    """What all rows weigh may be an estimate; bounds are of the number of persons."""
    persons, rng = persons_of([20, 1, 5, 9, 3]), np.random.default_rng(12)
    X = rng.normal(size=(38, 2)) / 3
    rows = of_persons(X, np.where(X[:, 0] > 0, 1.0, -1.0), persons, RowMap(data_norm=1.0))
    solvers = [OutputPerturbation(longest=1.5), OutputPerturbation(longest=1.5, objective=ATTACKED)]
    solvers += [ExponentialSampling(longest=1.5, radius=2.0)] if isinstance(currency, PureDP) else []
    for solver in solvers:
        private, ledger = door(rows, currency, 0.0 if isinstance(currency, PureDP) else 1e-6, weight)
        solver.require(Logistic(), Facts(5, 2, 2, unit="patient"), currency)
        *_, w = solver.iterates(private, LinearObjective(Logistic(), L2(1.0), (3,)))
        assert np.isfinite(w).all()
        assert ledger.charged == pytest.approx(ledger.budget.limit, rel=1e-6)
        assert ledger.charged <= ledger.budget.limit


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (Facts(5, 2, 2, unit="patient"), "the protection of a patient with all rows cannot be combined"),
        (Facts(5, 2, 2, weighted=True), "sample_weight cannot be combined with objective='tilted'"),
    ],
)
def test_tilted_losses_refuse_weights_before_anything_is_paid(facts, message):
    solver = OutputPerturbation(objective=partial(TiltedSum, tilt=1.0))
    with pytest.raises(ValueError, match=message):
        solver.require(Logistic(), facts, GaussianDP())
    solver.require(Logistic(), Facts(5, 2, 2), GaussianDP())
    X, y = example(Logistic(), 10)
    private, ledger = door(some(X, y, np.full(10, ONE), 10), GaussianDP(), 1e-6)
    kind = partial(TiltedSum, tilt=1.0)
    with pytest.raises(ValueError, match="not for rows with weights"):
        private.measure(Minimizer(Logistic(), 10, 5, clip=0.4, longest=1.5, penalty=6.0, kind=kind))
    assert ledger.charged == 0


def test_a_minimum_is_prepared_for_a_number_of_units():
    X, y = example(Logistic(), 10)
    private, _ = door(of_persons(X, y, persons_of([7, 2, 1])), GaussianDP(), 1e-6)
    with pytest.raises(ValueError, match=r"over 10 units, .* was prepared, but there are 3, 5 and None"):
        private.measure(Minimizer(Logistic(), 10, 5, clip=0.4, longest=1.5, penalty=6.0))
