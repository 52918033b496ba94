"""Tilted objectives: which minimum it is, how far one row moves it, and what rounding may hide."""

import math
from dataclasses import replace
from functools import partial

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from mpmath import mpf
from row_changes import fractions
from scipy.optimize import minimize
from test_descent import GARBAGE
from test_minimizer import found, labels, other_label, reached, weights, without_first
from test_minimizers import COLUMNS, KINDS, STORES, data, example, longest_column

from dpsk.data import ArrayRows, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, SquaredHinge
from dpsk.mechanisms import SeededBits
from dpsk.minimizers import Minimizer, TiltedSum
from dpsk.minimizers.descent import METHODS
from dpsk.minimizers.regularized import two_parts
from dpsk.testing import check_query

SMOOTH = [Logistic(), HuberHinge(), SquaredHinge()]
LOSSES = [*SMOOTH, OneVsRest(Logistic(), 3), OneVsRest(HuberHinge(), 3)]
TILTS = [0.01, 0.3, 1.0, 5.0]


def tilted(loss, n, p, tilt, **options):
    defaults = {"clip": 0.4, "longest": 1.5, "penalty": 0.05 * n}
    return Minimizer(loss, n, p, **defaults | options, kind=partial(TiltedSum, tilt=tilt))


def of_rows(loss, rows, tilt, **options):
    return tilted(loss, rows.n_rows, rows.n_parameters, tilt, **options)


def explicit(what, X, y, w):
    """Return objective and gradient as they are defined, on rows with a constant, for labels -1 and 1."""
    rows = np.hstack([X, np.ones((len(X), 1))])
    length = np.linalg.norm(rows, axis=1)
    rows *= np.minimum(1, what.longest / length)[:, None]
    steepest = what.clip / np.minimum(length, what.longest)
    margins = y * (rows @ w)
    losses = what.one.flattened(margins, steepest, what.one.corner(steepest))
    top, n = losses.max(), len(y)
    raised = np.exp(what.tilt * (losses - top))
    slopes = y * np.maximum(what.one.slope(margins), -steepest)
    value = n / what.tilt * np.log(raised.mean()) + n * top + what.penalty / 2 * w @ w
    return value, n * rows.T @ (slopes * raised) / raised.sum() + what.penalty * w


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_minimum_is_the_one_that_is_defined(loss, tilt):
    X, y = example(loss)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
    what = of_rows(loss, rows, tilt)
    w = weights(what, rows)
    for k in range(w.shape[1]):
        signs = y if loss.n_classes is None else np.where(y == k, 1.0, -1.0)
        options = {"jac": True, "method": "BFGS", "options": {"gtol": 1e-9}}
        best = minimize(lambda v, s=signs: explicit(what.objective, X, s, v), w[:, k] + 0.01, **options).x
        assert np.linalg.norm(explicit(what.objective, X, signs, best)[1]) < 0.1 * what.near * what.objective.penalty
        assert np.linalg.norm(best - w[:, k]) <= what.near * 1.1 + what.unit * 3


def test_a_small_tilt_leaves_the_sum_as_it_is():
    rows = ArrayRows(*example(Logistic()))
    plain = Minimizer(Logistic(), 60, 5, clip=0.4, longest=1.5, penalty=3.0)
    what = tilted(Logistic(), 60, 5, 1e-9)
    for adjacency in ("zero-out", "replace"):
        assert what.objective.moved(adjacency) == pytest.approx(plain.objective.moved(adjacency), rel=1e-6)
    assert np.linalg.norm(weights(what, rows) - weights(plain, rows)) < 3 * plain.near


def test_a_large_tilt_is_the_largest_loss():
    X, y = example(Logistic(), 40)
    rows = ArrayRows(X, y)
    w = weights(of_rows(Logistic(), rows, 300.0, clip=9.0), rows)[:, 0]
    units = np.hstack([X, np.ones((40, 1))])
    units *= np.minimum(1, 1.5 / np.linalg.norm(units, axis=1))[:, None]

    def worst(v):
        return np.logaddexp(0, -y * (units @ v)).max() + 0.025 * v @ v

    steps = np.random.default_rng(0).normal(size=(2000, 5)) * 0.3
    assert worst(w) <= min(worst(w + step) for step in steps) + 0.02


# ------------------------------------------------------------------------------ how far one row moves the minimum


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("n", [5, 50, 1000, 10_000])
def test_the_bound_is_never_exceeded(n, tilt):
    """By rows that leave or are replaced, without noise, from harmless rows to the hardest that we know."""
    rng, largest = np.random.default_rng(n), {}
    for loss, penalty, clip in (
        (Logistic(), 0.01 * n, 9.0),
        (HuberHinge(), 0.1 * n, 0.4),
        (SquaredHinge(), 1.0 * n, 9.0),
        (Logistic(), 3.0 * n, 0.1),
    ):
        what = tilted(loss, n, 2, tilt, clip=clip, longest=1.0, penalty=penalty)
        for X in (np.tile([1.0, 0.0], (n, 1)), rng.normal(size=(n, 2))):
            changed = np.vstack([-X[0], X[1:]])
            for key, part in reached(what, changed, np.ones(n), X[0], 1.0).items():
                largest[key] = max(largest.get(key, 0.0), part)
    assert max(largest.values()) <= 1
    assert largest["replace", "l2"] > 0.1


@pytest.mark.parametrize("n", [5, 100, 10_000])
def test_the_bound_is_reached_to_within_a_factor_of_two(n):
    """One row against all others, at a penalty where its weight is nearly the largest it can have."""
    largest = {"zero-out": 0.0, "replace": 0.0}
    for tilt in (0.01, 1.0):
        for penalty in n * np.geomspace(0.1, 10, 3):
            what = tilted(HuberHinge(), n, 2, tilt, clip=0.3, longest=1.0, penalty=penalty)
            X = np.tile([1.0, 0.0], (n, 1))
            X[0] *= -1
            for (adjacency, norm), part in reached(what, X, np.ones(n), -X[0], 1.0).items():
                if norm == "l2":
                    largest[adjacency] = max(largest[adjacency], part)
    assert min(largest.values()) > 0.5


def test_the_bound_is_nearly_reached_by_a_row_that_leaves():
    """A row whose loss is large leaves others whose gradients are the opposite: here 1 - exp(-tilt A) counts."""
    what = tilted(HuberHinge(), 100, 1, 1.0, clip=1.0, longest=1.0, penalty=300.0)
    X = np.append(-1.0, np.ones(99))[:, None]
    assert reached(what, X, np.ones(100), X[0], 1.0)["zero-out", "l2"] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_random_rows_of_any_size_stay_within_the_sensitivity(loss):
    rng = np.random.default_rng(1)
    for trial in range(12):
        n, d = int(rng.integers(1, 12)), int(rng.integers(1, 5))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-3, 0, 0, 0, 3, 100], (n, 1))
        X[:, -1] = 1
        y, x = labels(loss, rng, n), rng.normal(size=d) * 10.0 ** rng.choice([-3, 0, 100])
        clip, longest, penalty, tilt = (10.0 ** rng.uniform(*e) for e in ((-3, 1.5), (-1, 0.5), (-1.5, 2), (-2, 1)))
        what = tilted(loss, n, d, tilt, clip=clip, longest=longest, penalty=penalty)
        reached(what, X, y, x if trial % 2 else -X[0], other_label(loss, y[0]))


@pytest.mark.parametrize("loss", LOSSES[:4], ids=repr)
def test_check_query(loss):
    def make_rows(X, y):
        rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
        rows.public = replace(rows.public, n_rows=20)
        return rows

    what = tilted(loss, 20, 4, 1.0, clip=0.5, longest=2.0, penalty=2.0)
    assert check_query(what, n_features=3, n_classes=loss.n_classes, make_rows=make_rows, trials=8) > 0.05


def test_a_row_that_left_counts_as_one_without_a_loss():
    """Not as one that is missing in the mean: then its weight would go to the others."""
    X, y = example(Logistic(), 30)
    what = tilted(Logistic(), 30, 4, 5.0, penalty=30.0)
    total = {}
    for name, X_, y_, n in (("left", X[1:], y[1:], 30), ("nothing", without_first(X), y, 30)):
        rows = ArrayRows(X_, y_, RowMap(fit_intercept=False))
        rows.public = replace(rows.public, n_rows=n)
        total[name] = weights(what, rows)
    # a row of zeros has the loss at 0, and so a larger weight
    assert np.linalg.norm(total["nothing"]) < np.linalg.norm(total["left"]) - 2 * what.near
    change = found(what, ArrayRows(X, y, RowMap(fit_intercept=False))) - np.rint(
        total["left"][:, 0] / what.unit
    ).astype(int)
    fractions(what, "zero-out", change)


def test_the_change_of_gradients_is_bounded_as_the_docstring_says():
    """For any losses between a and A and any gradients no longer than 1; and never by much more than can be."""
    rng, largest = np.random.default_rng(0), {"replace": 0.0, "zero-out": 0.0}
    for _ in range(4000):
        n, tilt, low, spread = int(rng.integers(2, 8)), 10 ** rng.uniform(-2, 0.7), rng.uniform(0, 1), rng.uniform(0, 3)
        losses = low + spread * rng.choice([0.0, 1.0, rng.random()], n)
        gradients = rng.normal(size=(n, 2))
        if rng.random() < 0.5:
            gradients[1:] = -gradients[0]
        gradients /= np.linalg.norm(gradients, axis=1)[:, None]
        other, other_gradient = low + spread * rng.choice([0.0, 1.0]), -gradients[0]
        heaviest = 1 / (1 + (n - 1) * np.exp(-tilt * spread))

        def mean(first, first_gradient):
            raised = np.exp(tilt * np.append(first, losses[1:]))  # noqa: B023
            return raised @ np.vstack([first_gradient, gradients[1:]]) / raised.sum()  # noqa: B023

        whole = mean(losses[0], gradients[0])
        for name, changed, factor in (
            ("replace", mean(other, other_gradient), 2),
            ("zero-out", mean(0.0, 0 * other_gradient), 2 - np.exp(-tilt * (low + spread))),
        ):
            part = np.linalg.norm(whole - changed) / (heaviest * factor)
            assert part <= 1 + 1e-12
            largest[name] = max(largest[name], part)
    assert min(largest.values()) > 0.9


def test_rows_that_leave_together_move_the_gradient_by_no_more_than_as_often_as_much():
    """What groups of rows rest on. One after the other would not do: where others left before, a row weighs more."""
    rng, together, after_others = np.random.default_rng(4), 0.0, 0.0
    for trial in range(2000):
        n, tilt, highest = int(rng.integers(3, 40)), 10.0 ** rng.uniform(-2, 1), rng.uniform(0.1, 3)
        k, lowest = int(rng.integers(1, n)), rng.uniform(0, highest)
        losses, gradients = rng.uniform(lowest, highest, n), rng.normal(size=(n, 3))
        gradients /= np.linalg.norm(gradients, axis=1)[:, None]
        if trial % 2:  # those that leave pull one way, with all their weight
            losses[:k], losses[k:] = highest, lowest
            gradients[:k], gradients[k:] = gradients[0], -gradients[0]

        def mean(left, losses=losses, gradients=gradients, tilt=tilt):
            weights = np.exp(tilt * np.append(np.zeros(left), losses[left:]))
            return weights[left:] @ gradients[left:] / weights.sum()

        spread = math.exp(tilt * (highest - lowest))
        one = (2 - math.exp(-tilt * highest)) * spread / (spread + n - 1)  # what a single row is promised to do at most
        together = max(together, np.linalg.norm(mean(0) - mean(k)) / (k * one))
        after_others = max(after_others, np.linalg.norm(mean(k - 1) - mean(k)) / one)
    assert 0.99 < together <= 1 + 1e-12
    assert after_others > 2


def test_the_identity_in_the_papers_proof_does_not_hold():
    """Lowy & Razaviyayn (2021), Lemma 5.2, keep the weights of the other rows when one is replaced; they change."""
    losses, replaced = np.array([0.1, 0.4, 2.0]), np.array([0.1, 0.4, 0.2])
    gradients = np.array([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]])
    other = np.vstack([gradients[:2], [0.0, 1.0]])
    before, after = (np.exp(f) / np.exp(f).sum() for f in (losses, replaced))
    difference = before @ gradients - after @ other
    claimed = before[2] * gradients[2] - after[2] * other[2]
    assert np.linalg.norm(difference - claimed) > 0.39
    u = before[:2] @ gradients[:2] / before[:2].sum()
    np.testing.assert_allclose(difference, claimed + (after[2] - before[2]) * u, atol=1e-15)


# ---------------------------------------------------------------------------------------------- the sure bound


@pytest.mark.parametrize("loss", LOSSES[:4], ids=repr)
def test_losses_at_minimisers_are_where_the_bound_says(loss):
    rng, nearest = np.random.default_rng(2), 0.0
    cases = (1, 0.5, 9.0), (10, 1.0, 9.0), (10, 1.0, 0.3), (200, 2.0, 0.5), (200, 400.0, 9.0), (10, 99.0, 0.05)
    for n, penalty, clip in cases:
        what = tilted(loss, n, 3, 1.0, penalty=penalty, clip=clip, longest=1.0).objective
        (lowest, highest), one = what.losses, what.one
        directions = rng.normal(size=(400, 3))
        w = directions / np.linalg.norm(directions, axis=1)[:, None] * what.farthest
        length = np.where(rng.random(400) < 0.5, 1.0, rng.random(400))
        steepness = what.clip / length
        for sign in (-1, 1):
            margins = sign * length * np.linalg.norm(w, axis=1)
            losses = one.flattened(margins, steepness, one.corner(steepness))
            assert lowest <= losses.min()
            assert losses.max() <= highest
            nearest = max(nearest, losses.max() / highest)
    assert nearest > 0.9


def exact_gradient(what, rows, w):
    """Return the gradient at the floats w, in 60 digits."""
    exact = np.vectorize(mpf, otypes=[object])
    total = exact(w) * mpf(what.penalty)
    for k in range(w.shape[1]):
        weighed, pulled = mpf(0), np.vectorize(mpf)(np.zeros(len(w)))
        for chunk in rows._chunks():
            x = chunk.dense(slice(None))
            sizes = np.minimum(1, what.longest * (1 - 2.0**-30) / chunk.norms) * chunk.scale
            for i, size in enumerate(sizes):
                units = exact(x[i])
                label = int(chunk.y[i]) if what.n_classes is None else 1 if chunk.y[i] == k else -1
                margin = label * mpf(size) * (units @ exact(w[:, k]))
                steepest = mpf(what.clip) * (1 - mpf(2) ** -30) / (mpf(chunk.norm[i]) * mpf(size))
                if isinstance(what.one, Logistic):
                    corner = mpmath.log(1 / steepest - 1) if steepest < 1 else -mpmath.inf
                    at = max(margin, corner)
                    loss = mpmath.log(1 + mpmath.exp(-at)) + (steepest * (corner - margin) if margin < corner else 0)
                    slope = min(1 / (1 + mpmath.exp(margin)), steepest)
                else:
                    h = mpf(what.one.h)
                    corner = 1 + h - 2 * h * steepest if steepest < 1 else -mpmath.inf
                    at = max(margin, corner)
                    ramp = min(max(1 + h - at, 0), 2 * h)
                    loss = ramp**2 / (4 * h) + max(1 - h - at, 0)
                    loss += steepest * (corner - margin) if margin < corner else 0
                    slope = min(min(max((1 + h - margin) / (2 * h), 0), 1), steepest)
                raised = mpmath.exp(mpf(what.tilt) * loss)
                weighed += raised
                pulled = pulled - label * slope * mpf(size) * raised * units
        total[:, k] += what.n_rows * pulled / weighed
    return total


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [HuberHinge(0.2), OneVsRest(Logistic(), 3)], ids=repr)
def test_gradients_are_computed_to_within_the_error(loss, kind):
    X, y = data(kind, loss)
    X, y, rng = X[:15], y[:15], np.random.default_rng(3)
    for tilt, clip in ((5.0, 0.4), (100.0, 1.5), (1e6, 1.5)):
        rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
        what = of_rows(loss, rows, tilt, clip=clip).objective
        for size in (1e-9, 1.0, 3 * what.n_rows * what.clip / what.penalty):
            w = rng.normal(size=what.shape)
            w *= size / np.linalg.norm(w, axis=0)
            objectives = what.over(rows)
            with mpmath.workdps(60), np.errstate(all="ignore"):
                error = exact_gradient(what, rows, sum(two_parts(w))) - objectives.gradient(w)
                assert longest_column(error) < what.rounding()


@pytest.mark.parametrize("kind", KINDS)
def test_the_true_gradient_is_within_the_tolerance(kind):
    X, y = data(kind, Logistic())
    X, y, tilt = X[:15], y[:15], 5.0
    for options in ({}, {"penalty": 0.02}, {"clip": 1e-9}):
        rows = ArrayRows(X, y)
        what = of_rows(Logistic(), rows, tilt, **options)
        w = weights(what, rows)
        with mpmath.workdps(60):
            gradient = longest_column(exact_gradient(what.objective, rows, w))
        moved = what.objective.smoothness * what.unit * math.sqrt(len(w)) / 2  # rounding to the grid
        assert gradient <= what.near * what.objective.penalty + moved


@pytest.mark.parametrize("garbage", GARBAGE)
def test_whatever_a_method_returns_the_point_is_near_the_minimum(garbage, monkeypatch):
    X, y = example(Logistic(), 40)
    rows = ArrayRows(X, y)
    good = weights(of_rows(Logistic(), rows, 2.0), rows)
    monkeypatch.setitem(METHODS, "agd", GARBAGE[garbage])
    what = of_rows(Logistic(), rows, 2.0, method="agd")
    assert np.linalg.norm(weights(what, rows) - good) <= 2 * what.near + 2 * what.unit


def test_what_rounding_would_hide_is_refused():
    with pytest.raises(ValueError, match="rounding hides"):
        tilted(Logistic(), 100, 3, 1e10, penalty=1e-9)


# ---------------------------------------------------------------------------------------------- the same bits


@pytest.mark.slow
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", [Logistic(), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_every_storage_chunking_and_order_gives_the_same_bits(loss, columns, tmp_path):
    X, y = example(loss, 300)
    X = X + np.random.default_rng(1).normal(size=X.shape) * (X != 0)
    order = np.random.default_rng(2).permutation(len(y))
    how = RowMap(loss.n_classes, columns=COLUMNS[columns])
    variants = [
        ArrayRows(store(X, tmp_path), y, how, chunk_rows=chunk_rows)
        for store in STORES.values()
        for chunk_rows in (None, 17)
    ]
    variants.append(ArrayRows(X[order], y[order], how))
    what, results = of_rows(loss, variants[0], 2.0), []
    w = np.random.default_rng(5).normal(size=what.objective.shape)
    damping = np.full(what.objective.shape[1], 0.1)
    for rows in variants:
        objectives = what.objective.over(rows)
        arrays = objectives.gradient(w), objectives.hessians(w, damping), objectives.products(w, damping)(w)
        results.append([array.tobytes() for array in (*arrays, found(what, rows))])
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), OneVsRest(Logistic(), 3)], ids=repr)
def test_hessians_are_nearly_the_derivatives_of_gradients_and_within_the_smoothness(loss, columns):
    """beta + tilt L^2 (Lowy & Razaviyayn 2021, Lemma 5.3) is the bound."""
    X, y = example(loss, 600)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes, columns=COLUMNS[columns]))
    what = of_rows(loss, rows, 2.0, clip=1.0).objective
    objectives, w = what.over(rows), 0.3 * np.random.default_rng(0).normal(size=what.shape)
    none = np.zeros(what.shape[1])
    hessians = objectives.hessians(w, none) + what.penalty * np.eye(what.shape[0])
    size = np.linalg.norm(hessians, axis=(1, 2))
    for j, unit in enumerate(np.eye(what.shape[0])[:, :, None]):
        step = unit * np.ones(what.shape[1])
        slope = (objectives.gradient(w + 1e-6 * step) - objectives.gradient(w - 1e-6 * step)) / 2e-6
        for by in (hessians[:, :, j].T, objectives.products(w, none)(step)):
            assert (np.linalg.norm(by - slope, axis=0) <= 0.01 * size).all()
    assert max(np.linalg.norm(hessian, 2) for hessian in hessians) <= what.smoothness


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("bad", [Hinge(), OneVsRest(Hinge(), 3)], ids=repr)
def test_losses_with_a_kink_are_refused(bad):
    with pytest.raises(ValueError, match="smooth losses"):
        tilted(bad, 10, 3, 1.0)


def test_parts_of_the_rows_are_refused_and_so_is_no_tilt():
    rows = ArrayRows(*example(Logistic()))
    with pytest.raises(ValueError, match="no sum over rows"):
        of_rows(Logistic(), rows, 1.0, method="katyusha").over(rows, SeededBits(0))
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="tilt"):
            of_rows(Logistic(), rows, bad)


def test_sparse_rows_are_tilted_like_dense_ones():
    X, y = example(Logistic(), 200)
    what = tilted(Logistic(), 200, 5, 1.0)
    assert np.array_equal(found(what, ArrayRows(X, y)), found(what, ArrayRows(sp.csr_matrix(X), y)))
