"""Minima of hinges: what the duality gap proves, and that it is always reached."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from test_descent import GARBAGE
from test_minimizers import data, example

from dpsk.data import ArrayRows, RowMap
from dpsk.losses import Hinge, OneVsRest
from dpsk.mechanisms import SeededBits
from dpsk.minimizers import Minimizer, hinge
from dpsk.minimizers.descent import METHODS
from dpsk.minimizers.hinge import _ascend, _Dual, _rounding
from dpsk.minimizers.regularized import RegularizedSum, two_parts

LOSSES = [Hinge(), OneVsRest(Hinge(), 3)]
KINDS = ["badly scaled", "two rows", "rank one", "separable", "all alike", "zero"]
N = 20


class Problem:
    """Rows, and the sum of hinges of them as it is defined: s max(0, 1 - margin) with s = min(1, clip/norm)."""

    def __init__(self, loss, X, y, **options):
        defaults = {"clip": 0.4, "longest": 1.5, "penalty": 2.0}
        self.rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes, fit_intercept=options.pop("fit_intercept", True)))
        self.options = defaults | options
        self.what = RegularizedSum(loss, len(y), self.rows.n_parameters, **self.options)
        (chunk,) = self.rows._chunks()
        exact = np.vectorize(mpf, otypes=[object])
        room, scale, length = 1 - mpf(2) ** -30, exact(chunk.scale), exact(chunk.norm) * exact(chunk.scale)
        short = np.minimum(mpf(1), self.what.longest * room / length)
        self.x = exact(chunk.dense(slice(None))) * (scale * short)[:, None]
        self.s = np.minimum(mpf(1), self.what.clip * room / (length * short))
        one, y = loss.n_classes is None, chunk.y.astype(int)
        self.labels = [y if one else np.where(y == k, 1, -1) for k in range(self.what.shape[1])]

    def margins(self, w, k):
        return self.labels[k] * (self.x @ w)

    def value(self, w, k):
        return self.s @ np.maximum(1 - self.margins(w, k), 0) + mpf(self.what.penalty) / 2 * (w @ w)

    def dual(self, a, k):
        v = self.x.T @ (a * self.labels[k])
        return a.sum() - v @ v / (2 * mpf(self.what.penalty))

    def optimum(self, k, gap):
        """Return a point with an objective within ``gap``, and the dual's that proves it: by ascent in coordinates."""
        x, s = (self.labels[k][:, None] * self.x).astype(float), self.s.astype(float)
        squares, a, v = (x * x).sum(axis=1), np.zeros(len(x)), np.zeros(x.shape[1])
        for sweep in range(4000):
            for i in np.flatnonzero(squares):
                new = min(max(a[i] + (self.what.penalty - x[i] @ v) / squares[i], 0), s[i])
                v += (new - a[i]) * x[i]
                a[i] = new
            if sweep % 20 == 0:
                exact = np.vectorize(mpf, otypes=[object])(a)
                exact[squares == 0] = self.s[squares == 0]
                w = self.x.T @ (exact * self.labels[k]) / mpf(self.what.penalty)
                lower = self.dual(np.minimum(exact, self.s), k)
                if self.value(w, k) - lower <= gap:
                    return w, lower
        raise AssertionError("the optimum was not found")


def check(problem, method="newton"):
    """Fit, and compare with the minimum: the objective is within the gap and the point within ``near``."""
    sizes = len(problem.x), problem.what.shape[0]
    what = Minimizer(problem.what.loss, *sizes, method=method, **problem.options)
    with np.errstate(all="ignore"):
        w = hinge.hinge_minima(what.objective, problem.rows, what._gap, method, SeededBits(0))
        steps = what.over(problem.rows, SeededBits(0)).reshape(w.shape)
    first, second = two_parts(w)
    assert np.abs(steps * what.unit - (first + second)).max() <= what.unit / 2
    for k in range(w.shape[1]):
        with mpmath.workdps(40):
            best, lower = problem.optimum(k, mpf(what._gap) / 10**4)
            at = (first + second)[:, k] * mpf(1)
            assert problem.value(at, k) - lower <= mpf(what._gap) * (1 + mpf(10) ** -3)
            assert mpmath.norm(list(at - best)) <= mpf(what.near) * mpf(1.01)
    return what, w


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_points_are_near_the_minimum(loss, kind):
    X, y = data(kind, loss)
    for options in ({}, {"clip": 9.0}, {"clip": 1e-9}, {"penalty": 1e4}, {"penalty": 0.2, "clip": 1.0}):
        check(Problem(loss, X[:N], y[:N], **options))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_followed_to_the_end(method):
    check(Problem(LOSSES[1], *example(LOSSES[1], N)), method)


@pytest.mark.parametrize("kink", ["exactly", "beside it"])
def test_all_rows_at_the_kink(kink):
    """Where all rows are alike the minimum lies at the kink for every penalty in a range: no row decides its number."""
    X, y = np.full((N, 4), 0.5), np.ones(N)
    for penalty in (0.5, 4.0, 0.4 * N * (1 + (kink != "exactly") * 1e-6)):
        problem = Problem(Hinge(), X, y, longest=1.0, penalty=penalty, fit_intercept=False)
        what, w = check(problem)
        assert abs(np.linalg.norm(w) - 1) <= what.near * 1.01
        assert what.near < 0.1 * what.moved


@pytest.mark.slow
@pytest.mark.parametrize("which", ["katyusha", "both"])
@pytest.mark.parametrize("garbage", GARBAGE)
def test_whatever_a_method_returns_the_point_is_near_the_minimum(garbage, which, monkeypatch):
    """Where Newton's method fails as well, ascent of the dual is all there is."""
    for name in ("katyusha", "newton") if which == "both" else ("katyusha",):
        monkeypatch.setitem(METHODS, name, GARBAGE[garbage])
    for loss in LOSSES if garbage == "nothing" else LOSSES[:1]:
        check(Problem(loss, *example(loss, 10), clip=1.0, penalty=3.0), "katyusha")


@pytest.mark.parametrize("corners", [1, 3])
def test_ascent_goes_on_from_any_corner(corners, monkeypatch):
    monkeypatch.setattr(hinge, "_CORNERS", hinge._CORNERS[:corners])
    monkeypatch.setattr(hinge, "_CORRECTED", ())
    for loss in LOSSES:
        check(Problem(loss, *example(loss, 12), clip=1.0, penalty=3.0))


def test_moved_corners_find_what_narrow_ones_do_not(monkeypatch):
    """One wide corner, then moved ones only: also for equal rows, which all end at the kink."""
    monkeypatch.setattr(hinge, "_CORNERS", hinge._CORNERS[:1])
    monkeypatch.setattr(hinge, "_ascend", lambda *_: pytest.fail("ascent was needed"))
    for loss in LOSSES:
        check(Problem(loss, *example(loss, 12), clip=1.0, penalty=3.0))
    X = np.eye(4)[np.arange(300) % 4]
    check(Problem(Hinge(), X, np.where(np.arange(300) % 3 > 0, 1.0, -1.0), clip=1.0, penalty=3.0))


def test_moved_corners_find_the_minimum_of_many_rows_near_the_kink(monkeypatch):
    """Few rows of one label and a strong penalty, as a small epsilon asks for: corners of one width hardly get on."""
    monkeypatch.setattr(hinge, "_ascend", lambda *_: pytest.fail("ascent was needed"))
    for rate in (0.02, 0.1):
        rng = np.random.default_rng(0)
        X, y = 0.3 * rng.normal(size=(3000, 5)), np.where(rng.random(3000) < rate, 1.0, -1.0)
        rows = ArrayRows(X, y, RowMap(data_norm=1.0))
        what = Minimizer(Hinge(), 3000, 6, clip=0.85, longest=math.sqrt(2), penalty=0.3 * 3000)
        with np.errstate(all="ignore"):
            what.over(rows, SeededBits(0))


def test_ascent_takes_no_more_steps_than_it_says():
    """2 L n/(t + 1)^2 is the gap after t steps, from any start."""
    problem = Problem(Hinge(), *example(Hinge(), 12), clip=1.0, penalty=3.0)
    what, looks = problem.what, []
    for gap in (1e-1, 1e-2, 1e-3):
        for begin in (0.0, 1.0):
            dual = _Dual(what, problem.rows, gap)
            original = dual.reached
            dual.reached = lambda w, a, original=original: looks.append(1) or original(w, a)
            looks.clear()
            with np.errstate(all="ignore"):
                _ascend(dual, begin * dual.steepest)
            n = what.n_rows
            most = math.sqrt(2 * n * what.longest**2 / what.penalty * n / (0.9 * gap))
            assert len(looks) <= most / hinge._PATIENCE + 2


# ----------------------------------------------------------------------------------------------- what is proved


def some_points(problem, seed):
    """Yield weights and numbers a, from those of the optimum to random ones."""
    rng, what = np.random.default_rng(seed), problem.what
    steepest = np.tile(problem.s.astype(float)[:, None], what.shape[1])
    for away in (1e-3, 1e-1, 1.0):
        a = np.clip(rng.random(steepest.shape) * steepest, 0, steepest * (1 - 2.0**-40))
        v = np.stack([problem.x.T @ (a[:, k] * problem.labels[k]) for k in range(what.shape[1])], axis=1)
        w = v.astype(float) / what.penalty + away * rng.normal(size=what.shape)
        yield w, a


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_gap_is_that_of_primal_and_dual_and_nothing_is_hidden(loss, kind):
    """It is never taken to be reached where it is not, and is where it is by a hundredth and what rounding may hide."""
    X, y = data(kind, loss)
    for clip in (0.4, 1e-6):
        problem = Problem(loss, X[:N], y[:N], clip=clip)
        hidden = N * (1 + problem.what.longest * problem.what.farthest) * 2.0**-44
        for w, a in some_points(problem, 0):
            at = sum(two_parts(w))
            with mpmath.workdps(40):
                exact = np.vectorize(mpf, otypes=[object])
                columns = [(exact(at[:, k]), exact(a[:, k]), k) for k in range(at.shape[1])]
                gap = float(max(problem.value(w_k, k) - problem.dual(a_k, k) for w_k, a_k, k in columns))
            assert gap > 0
            with np.errstate(all="ignore"):
                assert not _Dual(problem.what, problem.rows, gap * (1 - 1e-9)).reached(w, a)
                assert _Dual(problem.what, problem.rows, gap * 1.01 + hidden).reached(w, a)


def test_the_gap_leaves_room_for_what_rounding_hides(monkeypatch):
    """Of margins where w is v/penalty, and of v where it is farther: no gap is reached within that room.

    Gaps of rows are rounded up so finely here that this does not stand in for it.
    """
    monkeypatch.setattr(hinge, "_GAP_BITS", 55)
    problem = Problem(Hinge(), *example(Hinge(), N), clip=1.0)
    what, rng = problem.what, np.random.default_rng(2)
    dual = _Dual(what, problem.rows, 1.0)
    a = rng.random(dual.steepest.shape) * dual.steepest
    direction = rng.normal(size=what.shape)
    for away in (0.0, 3.0):
        w = dual.pulled(a) / what.penalty + away * direction / np.linalg.norm(direction)
        at, exact = sum(two_parts(w))[:, 0], np.vectorize(mpf, otypes=[object])
        with mpmath.workdps(40):
            v = problem.x.T @ (exact(a[:, 0]) * problem.labels[0])
            off = mpmath.norm(list(mpf(what.penalty) * exact(at) - v))
            gap = problem.value(exact(at), 0) - problem.dual(exact(a[:, 0]), 0)
            longer = off * (1 + mpf(what.n_parameters + 16) * mpf(2) ** -53) + _rounding(
                what
            )  # the norm is rounded as well
            of_v = float((longer**2 - off**2) / (2 * mpf(what.penalty)))
            hidden = float(problem.s @ (1 + abs(problem.margins(exact(at), 0)))) * 2.0**-48
            assert 0.3 * hidden < of_v if away else of_v < hidden / 100  # neither is enough without the other
            within, beyond = (float(gap + part * (hidden + of_v)) for part in (0.9, 1.1))
        assert not _Dual(what, problem.rows, within).reached(w, a)
        assert _Dual(what, problem.rows, beyond).reached(w, a)


def test_what_is_not_a_number_reaches_nothing():
    problem = Problem(Hinge(), *example(Hinge(), N))
    dual, good = _Dual(problem.what, problem.rows, 1e6), np.zeros(problem.what.shape)
    a = dual.steepest / 2
    with np.errstate(all="ignore"):
        assert dual.reached(good, a)
        for bad in (np.nan, np.inf):
            assert not dual.reached(good, a * bad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_margins_and_sums_are_computed_to_within_what_is_added_for_rounding(loss, kind):
    X, y = data(kind, loss)
    for clip in (9.0, 0.4, 1e-9):
        problem = Problem(loss, X[:N], y[:N], clip=clip, penalty=1e-3)
        what, dual = problem.what, _Dual(problem.what, problem.rows, 1.0)
        for w, a in some_points(problem, 1):
            a, at = np.minimum(a, dual.steepest), sum(two_parts(w))
            with mpmath.workdps(40), np.errstate(all="ignore"):
                margins, v = dual.margins(w), dual.pulled(a)
                for k in range(what.shape[1]):
                    exact = np.vectorize(mpf, otypes=[object])
                    off = problem.margins(exact(at[:, k]), k) - margins[:, k]
                    scale = 1 + what.longest * np.linalg.norm(at[:, k])
                    assert float(np.abs(off).max()) <= scale * 2.0**-50
                    assert float(np.abs(problem.s - dual.steepest[:, k]).max()) <= 2.0**-50
                    error = v[:, k] - problem.x.T @ (exact(a[:, k]) * problem.labels[k])
                    assert mpmath.norm(list(error)) <= _rounding(what)


def test_the_smallest_gap_can_be_reached_where_rounding_decides():
    """The clip is so small that a part of what one row moves is less than rounding hides."""
    for options in ({"clip": 1e-12, "penalty": 1e-2}, {"clip": 2.0**-100}, {"penalty": 1e12}, {"longest": 1e-9}):
        what, _ = check(Problem(Hinge(), *example(Hinge(), N), **options))
        assert what._gap >= hinge.smallest_gap(what.objective)
        assert what.near**2 * what.objective.penalty / 2 >= what._gap
