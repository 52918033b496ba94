import math
from dataclasses import FrozenInstanceError, replace
from functools import partial
from unittest import mock

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from mpmath import mpf
from scipy.optimize import minimize
from scipy.stats import chi2, norm

from dpsk.data import ArrayRows, Columns, PrivateData, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax
from dpsk.mechanisms import Gaussian, SeededBits
from dpsk.minimizers import Minimizer, PerturbedMinima
from dpsk.minimizers import minimum as minimizers
from dpsk.minimizers.adversarial import AttackedSum
from dpsk.minimizers.regularized import RegularizedSum, SumOverRows, largest_curvature, two_parts
from dpsk.minimizers.tilted import TiltedSum
from dpsk.privacy import Budget, BudgetExhausted, Ledger, ObjectiveDP, RenyiDP, Sampling

LOSSES = [Logistic(), HuberHinge(0.2), OneVsRest(Logistic(), 3), OneVsRest(HuberHinge(), 3)]
LOW, HIGH = np.full(4, -2.0), np.full(4, 4.0)
CENTRED = Columns(LOW, HIGH, np.array([1.0, 0.5, 2.0, 4.0]), np.array([0.25, -0.5, 0.0, 0.125]))
COLUMNS = {"none": None, "standardised": CENTRED.standardised(CENTRED.factor, None), "centred": CENTRED}


def example(loss, n=60, seed=0):
    """Data on the grids, some of them zero, and labels that one column tells something about."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-32, 65, (n, 4)) / 16 * (rng.random((n, 4)) < 0.7)
    margin = X[:, 0] + rng.normal(size=n)
    return X, np.where(margin > 0, 1.0, -1.0) if loss.n_classes is None else np.digitize(margin, [-0.5, 0.5])


def prepare(loss, rows, **options):
    defaults = {"clip": 0.4, "longest": 1.5, "penalty": 0.3, "strength": 1.0, "shift": 0.1, "adjacency": "zero-out"}
    return PerturbedMinima(loss, rows.n_rows, rows.n_parameters, **defaults | options)


class Solved:
    """A release with a given b (in standard deviations) and no noise: what was drawn, and the point found."""

    def __init__(self, what, rows, b):
        self.scales, original = [], minimizers.minima

        def draw(scale, n, bits):
            self.scales.append(scale)
            return np.rint(b.ravel() * scale if len(self.scales) == 1 else np.zeros(n)).astype(np.int64)

        def solve(objectives, shape, tolerance):
            self.objectives = objectives
            w = original(objectives, shape, tolerance)
            self.w = sum(two_parts(w))
            return w

        with mock.patch.multiple(minimizers, rounded_gaussian=draw, minima=solve), np.errstate(all="ignore"):
            self.released = what(rows, None)
        self.b = np.rint(b * self.scales[0]) * what._unit


def normals(what, seed=0):
    return np.random.default_rng(seed).normal(size=what.objective.shape)


# ------------------------------------------------------------------------------------------ which minimum it is


def explicit(what, X, labels, columns, b):
    """Return the minimiser of the objective as it is defined, for labels -1 and 1."""
    if columns is not None:
        centre = 0 if columns.centre is None else columns.centre
        X = columns.factor * (np.clip(X, LOW, HIGH) / 4 - centre)
    rows = np.hstack([X, np.ones((len(X), 1))])
    length = np.linalg.norm(rows, axis=1)
    rows *= np.minimum(1, what.longest / length)[:, None]
    steepest = what.clip / np.minimum(length, what.longest)
    corner = what.objective.one.corner(steepest)

    def value(w):
        losses = what.objective.one.flattened(labels * (rows @ w), steepest, corner)
        return losses.sum() + what.penalty / 2 * w @ w + b @ w

    def gradient(w):
        slope = np.maximum(what.objective.one.slope(labels * (rows @ w)), -steepest)
        return rows.T @ (labels * slope) + what.penalty * w + b

    found = minimize(value, np.zeros(len(b)), jac=gradient, method="BFGS", options={"gtol": 1e-12, "maxiter": 500})
    assert np.linalg.norm(gradient(found.x)) < 1e-6
    assert abs(found.fun - value(found.x + 1e-4) + 1e-4 * gradient(found.x + 5e-5).sum()) < 1e-8  # its own derivative
    return found.x


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "CSR"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_minimum_is_the_one_that_is_defined(loss, columns, store):
    X, y = example(loss)
    rows = ArrayRows(store(X), y, RowMap(n_classes=loss.n_classes, columns=COLUMNS[columns]))
    what = prepare(loss, rows, shift=1e-5)
    found = Solved(what, rows, normals(what))
    for k in range(what.objective.shape[1]):
        labels = y if loss.n_classes is None else np.where(y == k, 1.0, -1.0)
        expected = explicit(what, X, labels, COLUMNS[columns], found.b[:, k])
        released = found.released.reshape(what.objective.shape)[:, k]
        # 2^-30 of the clip and of lengths is left to rounding, and as much of a minimum is lost in values
        assert np.linalg.norm(released - expected) < (what.tolerance + 4e-6) / what.penalty
        assert np.linalg.norm(found.w[:, k] - released) < what.tolerance / what.penalty / 1000 + 1e-12


# --------------------------------------------------------------------------------------------- the sure bound


def exact_gradient(what, rows, w, b):
    """Return the gradient at the floats w, in 60 digits."""
    exact = np.vectorize(mpf, otypes=[object])
    total = exact(w) * mpf(what.penalty) + exact(b)
    for chunk in rows._chunks():
        x = chunk.dense(slice(None))
        sizes = np.minimum(1, what.longest * (1 - 2.0**-30) / chunk.norms) * chunk.scale
        for i, size in enumerate(sizes):
            assert size * np.linalg.norm(x[i]) <= what.longest
            units = exact(x[i])
            for k in range(what.objective.shape[1]):
                label = int(chunk.y[i]) if what.objective.n_classes is None else 1 if chunk.y[i] == k else -1
                margin = label * mpf(size) * (units @ exact(w[:, k]))
                if isinstance(what.objective.one, Logistic):
                    slope = 1 / (1 + mpmath.exp(margin))
                else:
                    slope = min(max((1 + mpf(what.objective.one.h) - margin) / (2 * mpf(what.objective.one.h)), 0), 1)
                slope = min(slope * mpf(size), mpf(what.clip) * (1 - mpf(2) ** -30) / mpf(chunk.norm[i]))
                total[:, k] -= label * slope * units
    return total


def longest_column(exact):
    return max(float(mpmath.norm(list(column))) for column in exact.T)


def badly_scaled(n, seed, loss):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)) * 10.0 ** rng.uniform(-8, 150, (n, 1)), example(loss, n)[1]


def data(kind, loss):
    X, y = example(loss, 40)
    return {
        "badly scaled": lambda: badly_scaled(40, 1, loss),
        "two rows": lambda: (X[:2] * 0.3, y[:2]),
        "rank one": lambda: (X[:, :1] * np.ones(4), y),
        "separable": lambda: (np.sign(y - 0.5)[:, None] * np.ones((1, 4)), y),
        "all alike": lambda: (np.full((40, 4), 1 / 3), np.zeros(40, int) if loss.n_classes else np.ones(40)),
        "zero": lambda: (np.zeros((40, 4)), y),
    }[kind]()


KINDS = ["badly scaled", "two rows", "rank one", "separable", "all alike", "zero"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_true_gradient_is_within_the_tolerance(loss, kind):
    """Of the exact b as well, which was rounded by half a unit per coordinate."""
    X, y = data(kind, loss)
    for options in ({}, {"penalty": 0.02}, {"clip": 1e-9}, {"fit_intercept": False, "shift": 1e-10}):
        intercept = options.pop("fit_intercept", True)
        rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes, fit_intercept=intercept))
        what = prepare(loss, rows, **options)
        found = Solved(what, rows, normals(what))
        lost = math.sqrt(what.objective.shape[0]) * what._unit / 2
        with mpmath.workdps(60):
            assert longest_column(exact_gradient(what, rows, found.w, found.b)) + lost <= what.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [*LOSSES, HuberHinge(1e-4)], ids=repr)
def test_gradients_are_computed_to_within_the_error(loss, kind):
    X, y = data(kind, loss)
    rng = np.random.default_rng(3)
    for columns in (None, CENTRED):
        rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes, columns=columns))
        what = prepare(loss, rows, penalty=1e-3, clip=1.5)
        bound = what._error - math.sqrt(what.objective.shape[0]) * what._unit / 2
        for size in (1e-9, 1.0, 50.0):
            w, b = size * rng.normal(size=what.objective.shape), rng.normal(size=what.objective.shape)
            objectives = SumOverRows(what.objective, rows, b)
            with mpmath.workdps(60), np.errstate(all="ignore"):
                error = exact_gradient(what, rows, sum(two_parts(w)), b) - objectives.gradient(w)
                assert longest_column(error) < bound


KINDS_OF_SUMS = {
    "plain": RegularizedSum,
    "tilted": partial(TiltedSum, tilt=1.0),
    "attacked": partial(AttackedSum, radius=0.5, norm=2, constant=True),
    "perturbed": None,
}


@pytest.mark.parametrize("kind", KINDS_OF_SUMS)
@pytest.mark.parametrize("clip", [0.4, 1e-12])  # the second leaves a tolerance that rounding decides
def test_a_solver_is_asked_for_as_much_less_than_the_tolerance_as_rounding_may_hide(kind, clip):
    asked, loss, rows = [], HuberHinge(0.2), ArrayRows(*example(HuberHinge(0.2)))

    def solve(objectives, shape, tolerance, *_):
        asked.append(tolerance)
        return np.zeros(shape)

    with mock.patch.multiple(minimizers, minima=solve):
        if kind == "perturbed":
            what = prepare(loss, rows, clip=clip, shift=1e-9)
            tolerance, hidden = what.tolerance, what._error
            what(rows, SeededBits(0))
        else:
            size = {"clip": clip, "longest": 1.5, "penalty": 0.3}
            what = Minimizer(loss, rows.n_rows, rows.n_parameters, **size, kind=KINDS_OF_SUMS[kind], method="agd")
            tolerance, hidden = what._tolerance, what.objective.rounding()
            what.over(rows, SeededBits(0))
    (enough,) = asked
    assert clip == 0.4 or 9 * hidden < tolerance < 1000 * hidden
    assert 0 < enough * (1 + 2.0**-21) <= tolerance - hidden  # norms of gradients are rounded as well


@pytest.mark.parametrize("p", [100, 5000])
def test_gradients_are_computed_to_within_the_error_at_the_weights_that_are_released(p):
    """Many weights of one size lie on a coarser grid: the penalty has to be that of the point on it."""
    rows = ArrayRows(np.eye(2, p) + 0.5, np.array([1.0, -1.0]), RowMap(fit_intercept=False))
    what = prepare(Logistic(), rows, clip=1e-3)
    bound = what._error - math.sqrt(p) * what._unit / 2
    b = what._sigma * what._unit * normals(what)
    w = -b / what.penalty  # nearly the minimiser
    computed = SumOverRows(what.objective, rows, b).gradient(w)
    with mpmath.workdps(60):
        assert longest_column(exact_gradient(what, rows, sum(two_parts(w)), b) - computed) < bound


# ------------------------------------------------------------------------------------------------- the same bits


def mapped(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


STORES = {
    "C": lambda X, path: np.ascontiguousarray(X),
    "F": lambda X, path: np.asfortranarray(X),
    "CSR": lambda X, path: sp.csr_matrix(X),
    "mapped": mapped,
}


@pytest.mark.slow
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", [Logistic(), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_every_storage_chunking_and_order_gives_the_same_bits(loss, columns, tmp_path):
    X, y = example(loss, 800)
    X = X + np.random.default_rng(1).normal(size=X.shape) * (X != 0)
    order = np.random.default_rng(2).permutation(len(y))
    how = RowMap(loss.n_classes, columns=COLUMNS[columns])
    by_row = replace(how, row_major=True)
    variants = [
        ArrayRows(store(X, tmp_path), y, kept, chunk_rows=chunk_rows)
        for store in STORES.values()
        for kept, chunk_rows in ((how, None), (how, 777), (how, 7), (by_row, None))
    ]
    variants.append(ArrayRows(X[order], y[order], how))
    what, results = prepare(loss, variants[0]), []
    w, damping = normals(what, 5), np.full(what.objective.shape[1], 0.1)
    for rows in variants:
        objectives = SumOverRows(what.objective, rows, w)
        arrays = objectives.gradient(w), objectives.hessians(w, damping), objectives.products(w, damping)(w)
        results.append([array.tobytes() for array in (*arrays, what(rows, SeededBits(3)))])
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), OneVsRest(Logistic(), 3)], ids=repr)
def test_hessians_are_nearly_the_derivatives_of_gradients(loss, columns):
    X, y = example(loss, 600)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes, columns=COLUMNS[columns]))
    what = prepare(loss, rows, clip=1.0)
    objectives, w = SumOverRows(what.objective, rows, np.zeros(what.objective.shape)), 0.3 * normals(what)
    none = np.zeros(what.objective.shape[1])
    hessians = objectives.hessians(w, none) + what.penalty * np.eye(what.objective.shape[0])
    for j, unit in enumerate(np.eye(what.objective.shape[0])[:, :, None]):
        step = unit * np.ones(what.objective.shape[1])
        slope = (objectives.gradient(w + 1e-6 * step) - objectives.gradient(w - 1e-6 * step)) / 2e-6
        for by in (hessians[:, :, j].T, objectives.products(w, none)(step)):
            assert np.linalg.norm(by - slope) <= 0.01 * np.linalg.norm(slope)
    assert np.linalg.norm(hessians[0], 2) <= what.objective.smoothness


# ------------------------------------------------------------------------------------ what one row and noise do


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_row_moves_minima_no_further_than_its_gradients_over_the_penalty(loss):
    X, y = example(loss, 30)
    other = -y[0] if loss.n_classes is None else (y[0] + 1) % 3
    reached = 0.0
    for penalty, clip, seed in ((0.3, 0.4, 0), (0.3, 5.0, 1), (300.0, 0.4, 2), (300.0, 1e-3, 3)):
        full = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
        what = prepare(loss, full, penalty=penalty, clip=clip, shift=1e-5)
        w = Solved(what, full, b := normals(what, seed)).w
        error = 2 * what.tolerance / penalty
        changes = {
            1: ArrayRows(X[1:], y[1:], RowMap(n_classes=loss.n_classes)),
            2: ArrayRows(X, np.append(other, y[1:]), RowMap(n_classes=loss.n_classes)),
        }
        for times, rows in changes.items():
            moved = np.linalg.norm(Solved(what, rows, b).w - w, axis=0).max()
            assert moved <= times * what.clip / penalty + error
            reached = max(reached, moved * penalty / what.clip / times)
    assert reached > 0.7


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.2)], ids=repr)
def test_the_density_of_the_minimum_keeps_the_cost(loss, adjacency):
    """One weight: the density of b where the gradient is that of the library, times its own derivative."""
    X, y = np.array([[1.5], [1.5], [-1.0]]), np.ones(3)
    fewer = (X[:2], y[:2]) if adjacency == "zero-out" else (X, np.array([1.0, 1.0, -1.0]))
    rows, neighbour = (ArrayRows(*xy, RowMap(fit_intercept=False)) for xy in ((X, y), fewer))
    largest = 0.0
    for strength in (0.3, 1.0, 3.0):
        what = prepare(loss, rows, strength=strength, shift=1e-5, clip=1.2, penalty=1.0, adjacency=adjacency)
        sigma = what._sigma * what._unit
        w = np.linspace(-9 * sigma - 6, 9 * sigma + 6, 2001)
        densities = []
        for data_ in (rows, neighbour):
            objectives = SumOverRows(what.objective, data_, np.zeros((1, 1)))
            g = np.array([objectives.gradient(np.full((1, 1), x))[0, 0] for x in w])
            densities.append(norm.pdf(-(g[1:] + g[:-1]) / 2, scale=sigma) * np.diff(g))
        assert sum(densities[0]) == pytest.approx(1, abs=1e-3)
        for epsilon in what.cost.log_determinant + np.array([0.0, 0.3, 1.0, 3.0]):
            for p, q in (densities, densities[::-1]):
                true = np.maximum(p - np.exp(epsilon) * q, 0).sum()
                assert true <= what.cost.delta(epsilon) + 1e-5
                largest = max(largest, true / what.cost.delta(epsilon))
    assert largest > (0.5 if adjacency == "zero-out" else 0.05), largest


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_scales_of_both_noises(loss, adjacency):
    X, y = example(loss)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
    for options in ({}, {"strength": 0.01, "shift": 1e-4}, {"clip": 1e-20}, {"penalty": 1e4}, {"clip": 90.0}):
        what = prepare(loss, rows, adjacency=adjacency, **options)
        (p, k), cost = what.objective.shape, what.cost
        for_b, for_release = Solved(what, rows, 0 * normals(what)).scales
        change = min(what.clip, 1.5) * (2 if adjacency == "replace" else 1)
        assert for_b * what._unit >= change / cost.strength * math.sqrt(k) * (1 - 1e-15)
        assert for_b * what._unit <= change / cost.strength * math.sqrt(k) * (1 + 2.0**-38)
        assert for_b >= 2**39
        apart = 2 * what.tolerance / what.penalty * math.sqrt(k)
        assert for_release * what._grid >= (apart + math.sqrt(p * k) * what._grid) / cost.shift
        assert for_release * what._grid <= 1.01 * apart / cost.shift
        assert what._error > math.sqrt(p) * what._unit / 2
        assert what.tolerance >= 8 * what._error
        beta = what.longest**2 * what.objective.one.curvature_below(what.clip / what.longest)
        assert cost.log_determinant >= k * math.log1p(beta / what.penalty)
        assert (cost.n_minima, cost.replaced) == (k, adjacency == "replace")


def test_a_coarse_b_costs_tolerance_and_noise(monkeypatch):
    rows = ArrayRows(*example(Logistic()))
    fine = prepare(Logistic(), rows)
    monkeypatch.setattr(minimizers, "_NOISE_BITS", 2)
    coarse = prepare(Logistic(), rows)
    rounding = math.sqrt(coarse.objective.shape[0]) * coarse._unit / 2
    assert coarse.tolerance >= 8 * rounding > 100 * fine.tolerance
    assert coarse._cover * coarse._grid >= 2 * coarse.tolerance / coarse.penalty / coarse.cost.shift
    found = Solved(coarse, rows, normals(coarse))
    with mpmath.workdps(60):
        assert longest_column(exact_gradient(coarse, rows, found.w, found.b)) + rounding <= coarse.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("loss", [Logistic(), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_released_values_spread_as_promised(loss, adjacency):
    """Where rows hardly count the minimum is -b/penalty. Fails with probability 1e-9 at most; 2/3 and 3/2 are seen."""
    rows = ArrayRows(
        np.ones((1, 39)), np.zeros(1, int) if loss.n_classes else np.ones(1), RowMap(n_classes=loss.n_classes)
    )
    for options, which in (({"strength": 1e-6}, "b"), ({"shift": 1e-7}, "cover")):
        what = prepare(loss, rows, clip=1e-6, adjacency=adjacency, **options)
        change = 1e-6 * (2 if adjacency == "replace" else 1)
        deviations = {
            "b": change / what.cost.strength * math.sqrt(what.objective.shape[1]) / what.penalty,
            "cover": 2 * what.tolerance / what.penalty * math.sqrt(what.objective.shape[1]) / what.cost.shift,
        }
        assert deviations[which] == max(deviations.values())
        bits = SeededBits(11)
        values = np.ravel([what(rows, bits) for _ in range(40)])
        ratio = np.square(values).sum() / sum(d * d for d in deviations.values())
        low, high = chi2.ppf([5e-10, 1 - 5e-10], len(values))
        assert low < ratio < high
        assert (2 / 3) ** 2 * high < low
    assert abs(np.mean(values)) < 6.2 * deviations["cover"] * 1.1 / math.sqrt(len(values))


# ------------------------------------------------------------------------------------------------ the one door


class Watched:
    """Bits that note how much was paid for when they were first taken."""

    private = False

    def __init__(self, ledger):
        self.ledger, self.turns, self.bits = ledger, [], SeededBits(0)

    def take(self, n_bytes):
        self.turns.append(self.ledger.turn)
        return self.bits.take(n_bytes)


def door(loss=LOSSES[0], share=0.9, adjacency="zero-out"):
    X, y = example(loss)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
    n_minima, replaced = loss.n_classes or 1, adjacency == "replace"
    currency = ObjectiveDP.plan(2.0, 1e-6, 1.0, n_minima, replaced=replaced)
    ledger = Ledger(Budget.of(2.0, 1e-6, currency=currency))
    bits = Watched(ledger)
    penalty = largest_curvature(loss, 0.4, 1.5) / math.expm1(0.99 / n_minima)
    strength, shift = (math.sqrt(part * ledger.remaining * share) for part in (0.99, 0.01))
    options = {"clip": 0.4, "longest": 1.5, "penalty": penalty, "strength": strength, "shift": shift}
    sizes = {"n_rows": rows.n_rows, "n_parameters": rows.n_parameters, "adjacency": adjacency}
    return PrivateData(rows, ledger, bits, adjacency=adjacency), ledger, bits, sizes | options


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_draw_is_paid_once_and_before(loss, adjacency):
    private, ledger, bits, options = door(loss, adjacency=adjacency)
    what = PerturbedMinima(loss, **options)
    w = private.draw(what)
    assert w.shape == ((5,) if loss.n_classes is None else (5, 3))
    assert set(bits.turns) == {1}
    assert [(r.label, r.count, r.cost) for r in ledger.releases] == [("minimum", 1, what.cost.mu_squared)]
    n_taken = len(bits.turns)
    with pytest.raises(BudgetExhausted):
        private.draw(what)
    assert (len(bits.turns), ledger.turn) == (n_taken, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"n_rows": 59}, "prepared"), ({"n_parameters": 4}, "prepared"), ({"adjacency": "replace"}, "adjacency")],
)
def test_what_was_prepared_for_other_data_is_refused_before_it_is_paid(wrong, message):
    private, ledger, bits, options = door()
    with pytest.raises(ValueError, match=message):
        private.draw(PerturbedMinima(Logistic(), **options | wrong))
    assert (ledger.turn, ledger.charged, bits.turns) == (0, 0, [])


def test_other_classes_than_the_rows_have_are_refused_before_they_are_paid():
    private, ledger, bits, options = door()
    with pytest.raises(ValueError, match="n_classes=3 was prepared, but there are 60, 5 and None"):
        private.draw(PerturbedMinima(OneVsRest(Logistic(), 3), **options))
    assert (ledger.turn, ledger.charged, bits.turns) == (0, 0, [])


def test_nothing_is_drawn_where_the_budget_does_not_suffice():
    private, ledger, bits, options = door(share=1.01)
    with pytest.raises(BudgetExhausted):
        private.draw(PerturbedMinima(Logistic(), **options))
    assert (ledger.turn, ledger.charged, bits.turns) == (0, 0, [])


@pytest.mark.parametrize("loss", [Softmax(3), Hinge(), Sigmoid()], ids=repr)
def test_losses_without_a_theorem_are_refused(loss):
    for one in (loss,) if loss.n_classes else (loss, OneVsRest(loss, 3)):
        with pytest.raises(ValueError, match="not for"):
            prepare(one, ArrayRows(*example(Logistic())))


def test_a_convex_loss_that_rises_again_is_refused():
    """Its gradients can have both signs, and then the larger of 0 and A does not bound the privacy loss."""

    class Smile(Logistic):
        def slope(self, margin):
            return np.tanh(margin)

    with pytest.raises(ValueError, match="losses that fall"):
        prepare(Smile(), ArrayRows(*example(Logistic())))


def test_a_batch_sells_no_minima():
    """They are proved for all rows; and what they check, the number of rows, is a secret of a batch."""
    rows = ArrayRows(*example(Logistic()))
    what = prepare(Logistic(), rows)
    data = PrivateData(rows, Ledger(Budget.of(8.0, 1e-3, currency=RenyiDP(8))), SeededBits(0))
    with pytest.raises(TypeError, match="subsample takes mechanisms"):
        data.subsample(Sampling(0.2), [what], "minimum")
    assert data.report().charged == 0
    batch = data.subsample(Sampling(0.2), [Gaussian(0.1)], "gradient")
    with pytest.raises(AttributeError, match="'Batch' object has no attribute 'draw'"):
        batch.draw(what)
    with pytest.raises(TypeError, match="measure of Batch takes a Query, not PerturbedMinima"):
        batch.measure(what)
    assert [release.label for release in data.report().releases] == ["gradient"]


def test_what_was_priced_cannot_change():
    what = prepare(Logistic(), ArrayRows(*example(Logistic())))
    for name in ("penalty", "clip", "longest", "loss", "tolerance"):
        with pytest.raises(FrozenInstanceError):
            setattr(what, name, 1.0)


class Enough(Exception):
    pass


@pytest.mark.parametrize(
    ("n", "loss", "penalty"),
    [(1000, HuberHinge(0.1), 0.093), (100_000, Logistic(), 1e-5), (100_000, HuberHinge(), 1e-5)],
    ids=["flattened", "loose", "loose Huber"],
)
def test_labels_that_tell_nothing_and_empty_columns_take_no_longer(n, loss, penalty):
    """The minimum lies among flattened rows, where the true curvature is a small part of what Newton assumes; where
    nothing but a small penalty holds weights they are large, and their own rounding is what limits the solver.
    """
    rng = np.random.default_rng(0)
    rows = ArrayRows(rng.normal(size=(n, 4)) * [1, 1, 0, 0], rng.choice([-1.0, 1.0], n))
    what = prepare(loss, rows, clip=0.3 if n == 1000 else 1.0, longest=1.0, penalty=penalty, strength=2.0)
    gradient, asked = SumOverRows.gradient, []

    def counted(self, w):
        asked.append(w)
        if len(asked) > 300:
            raise Enough
        return gradient(self, w)

    with mock.patch.object(SumOverRows, "gradient", counted):
        Solved(what, rows, normals(what))
