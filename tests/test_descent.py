"""First-order methods come near a minimum; what ends every method is sure to, wherever it begins."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from test_minimizer import ALL_SMOOTH, SLOPES, SMOOTH, found, minimizer, weights
from test_minimizers import data, example, longest_column
from test_newton import TOLERANCE, K, Noisy, P, Sum, lengths

from dpsk.data import ArrayRows, RowMap
from dpsk.losses import HuberHinge, Logistic, OneVsRest, SquaredHinge
from dpsk.mechanisms import SeededBits
from dpsk.minimizers import descent
from dpsk.minimizers import minimum as minimizers
from dpsk.minimizers import newton as newton_module
from dpsk.minimizers.descent import METHODS, descend, katyusha, minima, stay, stochastic_subgradient, subgradient
from dpsk.minimizers.regularized import RegularizedSum, SumOverRows, two_parts

PARTS = 4
FIRST_ORDER = ["agd", "katyusha", "subgradient", "stochastic-subgradient"]


class Parted(Sum):
    """A sum whose rows come in parts, each worth as many as all."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.farthest = 1e3
        self.random, self.chosen = np.random.default_rng(3), []

    def parts(self):
        def part(i):
            def gradient(w):
                self.chosen.append(i)
                rows = self.rows[i::PARTS]
                slopes = PARTS * self.slope(rows @ w * self.sizes) * self.sizes
                return rows.T @ slopes + self.convexity * w + self.line

            return gradient

        return [part(i) for i in range(PARTS)]

    def shuffled(self, n):
        return self.random.permutation(n)


def start():
    return np.zeros((P, K))


def distance(objectives, w):
    exact = descend(objectives, start(), 1e-10)
    return np.linalg.norm(w - exact, axis=0) / np.linalg.norm(exact, axis=0)


@pytest.mark.parametrize("shape", ["quadratic", "logistic", "flattened"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_within_the_tolerance(method, shape):
    objectives = Parted(shape, convexity=5.0)
    w = minima(objectives, (P, K), TOLERANCE, method)
    assert (lengths(objectives, w) <= TOLERANCE).all()


@pytest.mark.parametrize("method", [subgradient, stochastic_subgradient, katyusha])
@pytest.mark.parametrize("shape", ["logistic", "flattened"])
def test_the_methods_alone_come_near_the_minimum(method, shape):
    """And within as many looks at the rows as they are given."""
    objectives = Parted(shape, convexity=8.0)
    w = method(objectives, start(), 1e-6)
    assert distance(objectives, w).max() < {subgradient: 1e-3, stochastic_subgradient: 0.05, katyusha: 1e-4}[method]
    assert objectives.gradients + len(objectives.chosen) / PARTS <= 330 + 2000


def test_subgradient_steps_stop_where_they_must_not_leave():
    objectives = Parted("logistic", convexity=8.0)
    minimum = np.linalg.norm(descend(objectives, start(), 1e-9), axis=0)
    objectives.farthest = minimum.max() / 2
    for method in (subgradient, stochastic_subgradient):
        w = method(objectives, start(), 1e-6)
        assert np.linalg.norm(w, axis=0).max() <= objectives.farthest * (1 + 1e-9)


def test_katyusha_reaches_the_tolerance_and_stops_there():
    objectives = Parted("logistic", convexity=8.0)
    w = katyusha(objectives, start(), 1e-3)
    assert (lengths(objectives, w) <= 1e-3).all()
    spent = objectives.gradients
    assert spent < descent._EPOCHS  # one whole gradient an epoch
    w = katyusha(objectives, w, 1e-3)
    assert objectives.gradients == spent + 1  # a look


def test_stochastic_steps_visit_every_part_equally_often():
    objectives = Parted("logistic", convexity=8.0)
    stochastic_subgradient(objectives, start(), 1e-6)
    assert np.bincount(objectives.chosen).tolist() == [descent._EPOCHS] * PARTS
    assert objectives.gradients == 0
    order = np.reshape(objectives.chosen, (-1, PARTS))
    assert len({tuple(some) for some in order}) > 5


def test_nesterovs_method_has_nothing_to_do_first():
    w = np.ones((P, K))
    assert stay(Parted(), w, TOLERANCE) is w


STARTS = {
    "0": lambda w: w,
    "far": lambda w: w + 1e8,
    "very far": lambda w: w - 1e100,
    "one column is far": lambda w: np.where(np.arange(K) == 1, 1e12, w),
    "not a number": lambda w: np.full_like(w, np.nan),
    "one is not a number": lambda w: np.where(np.arange(P)[:, None] == 2, np.nan, w),
    "infinite": lambda w: np.full_like(w, -np.inf),
}


def refuse_nan(gradient):
    """As sums over rows do."""

    def checked(w):
        if not (np.abs(w) < 2.0**400).all():
            raise ValueError("weights must be finite")
        return gradient(w)

    return checked


@pytest.mark.parametrize("noisy", [Sum, Noisy])
@pytest.mark.parametrize("begin", STARTS)
def test_wherever_a_method_ends_the_fallback_reaches_the_tolerance(begin, noisy, monkeypatch):
    monkeypatch.setitem(METHODS, "agd", lambda objectives, w, tolerance: STARTS[begin](w))
    for shape in ("quadratic", "logistic", "flattened"):
        objectives = noisy(shape, convexity=2.0)
        objectives.gradient = refuse_nan(objectives.gradient)
        with np.errstate(all="ignore"):
            w = minima(objectives, (P, K), TOLERANCE, "agd")
        assert (np.linalg.norm(objectives.gradient(w), axis=0) <= TOLERANCE).all()
        assert (lengths(objectives, w) <= TOLERANCE * 9 / 8).all()


def test_halvings_cost_as_many_steps_as_the_docstring_says(monkeypatch):
    """sqrt(c) log(8c) for each, whatever the start, if Newton's method is no help."""
    monkeypatch.setattr(newton_module, "_NEWTON_STEPS", 0)
    objectives = Sum("logistic", convexity=0.05)
    c = objectives.smoothness / objectives.convexity
    for factor in (1.0, 1e3, 1e6):
        objectives.gradients = 0
        w = factor * np.ones((P, K))
        far = lengths(objectives, w).max()
        descend(objectives, w, TOLERANCE)
        steps = math.ceil(math.log2(far / TOLERANCE)) * (math.ceil(math.sqrt(c) * math.log(8 * c)) + 3) + 2
        assert objectives.gradients <= steps


def test_gradients_that_are_not_numbers_are_not_within_a_tolerance():
    """The comparison must not take it for a small one: a gradient that is not a number is far from 0."""

    class Hopeless(Sum):
        def gradient(self, w):
            self.gradients += 1
            if self.gradients > 500:
                raise TimeoutError
            return np.full_like(w, np.nan)

    with pytest.raises((TimeoutError, ValueError)), np.errstate(all="ignore"):
        minima(Hopeless("quadratic", convexity=1e5), (P, K), TOLERANCE, "agd")


# --------------------------------------------------------------------------------------- random parts of the rows


@pytest.mark.parametrize("n", [3, 60])
@pytest.mark.parametrize("loss", [Logistic(), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_gradients_of_parts_have_the_gradient_as_their_mean(loss, n):
    """Each row is in one part; parts differ in size by a row at most, and count by their size."""
    X, y = example(loss, n)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
    what = RegularizedSum(loss, n, 5, clip=0.4, longest=1.5, penalty=2.0)
    objectives = SumOverRows(what, rows, bits=SeededBits(0))
    w = np.random.default_rng(0).normal(size=what.shape)
    parts = objectives.parts()
    assert len(parts) == min(n, 20)
    gradients = [part(w) for part in parts]
    np.testing.assert_allclose(np.mean(gradients, axis=0), objectives.gradient(w), rtol=1e-10, atol=1e-10)
    again = [part(w) for part in SumOverRows(what, rows, bits=SeededBits(1)).parts()]
    assert n == 3 or not np.allclose(np.sort(np.ravel(again)), np.sort(np.ravel(gradients)))
    assert sorted(objectives.shuffled(n).tolist()) == list(range(n))


def test_random_parts_need_random_bits():
    X, y = example(Logistic())
    what = RegularizedSum(Logistic(), 60, 5, clip=0.4, longest=1.5, penalty=2.0)
    with pytest.raises(ValueError, match="random bits"):
        SumOverRows(what, ArrayRows(X, y)).parts()


# ------------------------------------------------------------------------------------ which minimum, and how near


CURVATURES = {
    Logistic: lambda m: 1 / (2 + mpmath.exp(m) + mpmath.exp(-m)),
    HuberHinge: lambda m: mpf(abs(1 - m) < 0.5),
    SquaredHinge: lambda m: mpf(2 * (m < 1)),
}


class Exact:
    """The sum as it is defined, in 50 digits, and its minimum by Newton's method there."""

    def __init__(self, what, rows):
        self.what, exact = what, np.vectorize(mpf, otypes=[object])
        chunks = [(chunk.dense(slice(None)), chunk) for chunk in rows._chunks()]
        scale = np.concatenate([chunk.scale for _, chunk in chunks])
        x = exact(np.concatenate([units for units, _ in chunks])) * exact(scale)[:, None]
        length = exact(np.concatenate([chunk.norm for _, chunk in chunks])) * exact(scale)  # never rounded down
        assert all(mpmath.norm(list(row)) <= bound for row, bound in zip(x, length, strict=True))
        room = 1 - mpf(2) ** -30
        short = np.minimum(mpf(1), what.objective.longest * room / length)
        self.x, self.y = x * short[:, None], np.concatenate([chunk.y for _, chunk in chunks])
        self.steepest = what.objective.clip * room / (length * short)

    def _labels(self, k):
        return self.y if self.what.objective.n_classes is None else np.where(self.y == k, 1, -1)

    def gradient_and_curvatures(self, w, k):
        labels = self._labels(k).astype(int)
        margins, one = labels * (self.x @ w), type(self.what.objective.one)
        slopes = [max(SLOPES[one](m), -s) for m, s in zip(margins, self.steepest, strict=True)]
        curved = [CURVATURES[one](m) * (SLOPES[one](m) > -s) for m, s in zip(margins, self.steepest, strict=True)]
        penalty = mpf(self.what.objective.penalty)
        return self.x.T @ (labels * np.array(slopes)) + w * penalty, np.array(curved)

    def minimum(self, w, k):
        """Return the minimum near w, proved to 30 digits by its gradient."""
        w = np.vectorize(mpf, otypes=[object])(w)
        for _ in range(60):
            gradient, curved = self.gradient_and_curvatures(w, k)
            if mpmath.norm(list(gradient)) <= mpf(self.what.objective.penalty * self.what.near) * mpf(10) ** -25:
                return w
            some = np.flatnonzero(curved)
            hessian = (self.x[some].T * curved[some]) @ self.x[some]
            hessian = hessian + np.diag(np.full(len(w), mpf(self.what.objective.penalty)))
            step = np.array(list(mpmath.cholesky_solve(mpmath.matrix(hessian.tolist()), mpmath.matrix(list(gradient)))))
            before, length = mpmath.norm(list(gradient)), mpf(1)
            while length > mpf(2) ** -40:
                ahead = w - length * step
                if mpmath.norm(list(self.gradient_and_curvatures(ahead, k)[0])) <= before * (1 - length / 4):
                    break
                length /= 2
            w = ahead
        raise AssertionError("the minimum was not found")


def distances(what, rows):
    w, exact = weights(what, rows), Exact(what, rows)
    return [mpmath.norm(list(exact.minimum(w[:, k], k) - w[:, k])) for k in range(w.shape[1])]


def badly_scaled_columns(loss, n=40):
    X, y = example(loss, n)
    return X * 10.0 ** np.array([-12, -6, 6, 12]), y


KINDS = ["badly scaled", "two rows", "rank one", "separable", "all alike", "zero", "badly scaled columns"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ALL_SMOOTH, ids=repr)
def test_the_point_returned_is_near_the_minimum(loss, kind):
    """Rounding to the grid moves it by half a unit per weight besides."""
    X, y = badly_scaled_columns(loss) if kind == "badly scaled columns" else data(kind, loss)
    settings = [{}, {"clip": 1e-13}, {"penalty": 1e6, "clip": 9.0}, {"penalty": 1e-3}]
    for options in settings if loss.n_classes is None else settings[:2]:
        rows = ArrayRows(X[:20], y[:20], RowMap(n_classes=loss.n_classes))
        what = minimizer(loss, rows, **options)
        with mpmath.workdps(50):
            assert max(distances(what, rows)) <= what.near + what.unit / 2 * math.sqrt(rows.n_parameters)


def in_place(objectives, w, tolerance):
    """Ask for a gradient, and change both arrays afterwards: what was asked for must not be what is certified."""
    gradient = objectives.gradient(w)
    w += 1e3
    gradient *= 0
    return w


def in_place_at_the_minimum(objectives, w, tolerance):
    """Do the same where the gradient is small, which must not be remembered for another point."""
    w[:] = newton_module.newton(objectives, w, tolerance)
    objectives.gradient(w + 1)
    return in_place(objectives, w, tolerance)


GARBAGE = {
    "in place": in_place,
    "in place at the minimum": in_place_at_the_minimum,
    "nothing": lambda objectives, w, tolerance: w,
    "far away": lambda objectives, w, tolerance: w + 1e9,
    "not a number": lambda objectives, w, tolerance: np.full_like(w, np.nan),
    "one is not a number": lambda objectives, w, tolerance: np.where(np.arange(len(w))[:, None] == 1, np.nan, w),
    "infinite": lambda objectives, w, tolerance: np.full_like(w, np.inf),
    "overflowing": lambda objectives, w, tolerance: np.full_like(w, -1e300),
}


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("loss", [*SMOOTH, OneVsRest(Logistic(), 3)], ids=repr)
def test_whatever_a_method_returns_the_point_is_near_the_minimum(loss, garbage, monkeypatch):
    """In particular after no step at all. What goes on from there is the fallback."""
    monkeypatch.setitem(METHODS, "katyusha", GARBAGE[garbage])
    X, y = example(loss, 20)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
    for penalty in (0.3, 30.0):
        what = minimizer(loss, rows, method="katyusha", penalty=penalty)
        assert np.isfinite(w := weights(what, rows)).all()
        assert np.abs(w).max() > 10 * what.near  # 0 is not near it
        with mpmath.workdps(50):
            assert max(distances(what, rows)) <= what.near + what.unit / 2 * math.sqrt(rows.n_parameters)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", ALL_SMOOTH, ids=repr)
def test_every_method_ends_near_the_minimum(loss, method):
    rows = ArrayRows(*example(loss, 30), RowMap(n_classes=loss.n_classes))
    what = minimizer(loss, rows, method=method, penalty=3.0)
    with mpmath.workdps(50):
        assert max(distances(what, rows)) <= what.near + what.unit / 2 * math.sqrt(rows.n_parameters)


@pytest.mark.parametrize("loss", [HuberHinge(), SquaredHinge()], ids=repr)
def test_the_same_error_of_every_row_is_within_what_is_taken_off(loss):
    """Equal rows in the corner, where a margin's rounding moves the slope however small the slope and the clip are."""
    n, largest = 2000, 0.0
    x = np.rint(np.array([0.3, -0.7, 0.55]) * 2.0**18) * 2.0**-18  # as it is on the grid
    rows = ArrayRows(np.tile(x, (n, 1)), np.ones(n), RowMap(fit_intercept=False))
    what = minimizer(loss, rows, clip=1e-7, penalty=1e-3)
    exact, outer = Exact(what, rows.subset(np.arange(1))), 1 + 0.5 * isinstance(loss, HuberHinge)
    for seed in range(20):
        w = np.random.default_rng(seed).normal(size=3)
        w *= (outer - 1e-8) / np.dot(x, w)
        with mpmath.workdps(50), np.errstate(all="ignore"):
            computed, at = SumOverRows(what.objective, rows).gradient(w[:, None]), sum(two_parts(w[:, None]))[:, 0]
            penalty = mpf(what.objective.penalty) * np.vectorize(mpf, otypes=[object])(at)
            one = exact.gradient_and_curvatures(at * mpf(1), 0)[0] - penalty
            largest = max(largest, float(mpmath.norm(list(n * one + penalty - computed[:, 0]))))
    assert 10 / n < largest / what.objective.rounding() < 1  # the errors of rows do add up


@pytest.mark.parametrize("loss", ALL_SMOOTH, ids=repr)
def test_what_rounding_may_hide_is_taken_off_the_tolerance(loss, monkeypatch):
    """Also where it is a tenth of all that is tolerated, because the clip is tiny."""
    asked = []

    def keep(objectives, shape, tolerance, *rest):
        asked.append(tolerance)
        return np.zeros(shape)

    monkeypatch.setattr(minimizers, "minima", keep)
    rows = ArrayRows(*example(loss, 20), RowMap(n_classes=loss.n_classes))
    for clip in (0.4, 1e-13):
        what = minimizer(loss, rows, clip=clip)
        found(what, rows)
        rounding, most = what.objective.rounding(), what.near * what.objective.penalty
        assert 0.8 * most < asked.pop() <= (most - rounding) * (1 - 2.0**-30)
    assert rounding > 0.02 * most


@pytest.mark.parametrize("loss", ALL_SMOOTH, ids=repr)
def test_gradients_are_computed_to_within_the_rounding_that_is_taken_off(loss):
    """Of the tolerance: what is left is what the computed gradient has to keep."""
    rng = np.random.default_rng(3)
    for kind in KINDS[:4]:
        X, y = data(kind, loss)
        rows = ArrayRows(X[:20], y[:20], RowMap(n_classes=loss.n_classes))
        for options in ({"clip": 1.5}, {"clip": 1e-12}, {"clip": 40.0}):
            what = minimizer(loss, rows, penalty=1e-3, **options)
            bound, exact = what.objective.rounding(), None
            for size in (1e-9, 1.0):
                w = size * rng.normal(size=what.objective.shape)
                with mpmath.workdps(50), np.errstate(all="ignore"):
                    computed, at = SumOverRows(what.objective, rows).gradient(w), sum(two_parts(w))
                    exact = exact or Exact(what, rows)
                    columns = [exact.gradient_and_curvatures(at[:, k] * mpf(1), k)[0] for k in range(w.shape[1])]
                    assert longest_column(np.stack(columns, axis=1) - computed) < bound
            assert what._tolerance >= 8 * bound
            assert what.near * what.objective.penalty >= what._tolerance * (1 - 1e-15)
