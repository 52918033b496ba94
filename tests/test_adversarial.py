"""Objectives under attack: the closed form, the minimum and its kinks, how far one row moves it, and rounding."""

import dataclasses
import math
from functools import partial

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.optimize import minimize
from test_descent import GARBAGE
from test_minimizer import found, labels, other_label, reached, weights
from test_minimizers import COLUMNS, KINDS, STORES, data, example, longest_column

from dpsk import OutputPerturbationLogisticRegression
from dpsk.data import ArrayRows, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, SquaredHinge
from dpsk.minimizers import AttackedSum, Minimizer, RegularizedSum
from dpsk.minimizers.descent import METHODS
from dpsk.minimizers.regularized import two_parts
from dpsk.testing import check_query

SMOOTH = [Logistic(), HuberHinge(), SquaredHinge()]
LOSSES = [*SMOOTH, OneVsRest(Logistic(), 3), OneVsRest(HuberHinge(), 3)]
NORMS = [2, math.inf]
each_norm = pytest.mark.parametrize("norm", NORMS)


def attacked(loss, n, p, norm, radius=0.2, constant=True, **options):
    defaults = {"clip": 0.4, "longest": 1.5, "penalty": 0.05 * n}
    kind = partial(AttackedSum, radius=radius, norm=norm, constant=constant)
    return Minimizer(loss, n, p, **defaults | options, kind=kind)


def of_rows(loss, rows, norm, **options):
    return attacked(loss, rows.n_rows, rows.n_parameters, norm, **options)


# ------------------------------------------------------------------------------------------- which minimum it is


@each_norm
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_no_attack_is_worse_than_the_closed_form(loss, norm):
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, w, y, r = rng.normal(size=3), rng.normal(size=3), rng.choice([-1.0, 1.0]), 0.3
        length = np.linalg.norm(w) if norm == 2 else np.abs(w).sum()
        closed = loss.phi(np.array([y * (x @ w) - r * length]))[0]
        v = rng.normal(size=(3000, 3))
        v *= r / np.linalg.norm(v, ord=norm, axis=1)[:, None]
        assert loss.phi(y * ((x + v) @ w)).max() <= closed + 1e-12
        worst = -y * r * (w / length if norm == 2 else np.sign(w))
        assert np.linalg.norm(worst, ord=norm) <= r * (1 + 1e-12)
        assert loss.phi(np.array([y * ((x + worst) @ w)]))[0] == pytest.approx(closed)


def explicit(what, X, y, w, kink):
    """Return objective and gradient as defined, for labels -1 and 1, with the norm rounded off at ``kink``."""
    rows = np.hstack([X, np.ones((len(X), 1))])
    length = np.linalg.norm(rows, axis=1)
    rows *= np.minimum(1, what.longest / length)[:, None]
    steepest = what.clip / (np.minimum(length, what.longest) + what.radius * what.length)
    v, outward = w[:-1], np.zeros_like(w)
    root = np.sqrt((v @ v if what.norm == 2 else v * v) + kink**2)
    outward[:-1] = v / np.maximum(root, 1e-300)
    margins = y * (rows @ w) - what.radius * np.sum(root - kink)
    losses = what.one.flattened(margins, steepest, what.one.corner(steepest))
    slopes = np.maximum(what.one.slope(margins), -steepest)
    value = losses.sum() + what.penalty / 2 * w @ w
    return value, rows.T @ (y * slopes) - what.radius * slopes.sum() * outward + what.penalty * w


@each_norm
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_minimum_is_the_one_that_is_defined(loss, norm):
    X, y = example(loss)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
    for radius in (0.02, 0.2):
        what = of_rows(loss, rows, norm, radius=radius)
        w, objective = weights(what, rows), what.objective
        for k in range(w.shape[1]):
            signs = y if loss.n_classes is None else np.where(y == k, 1.0, -1.0)

            def at(v, kink=objective.rounded_off, s=signs, of=objective):
                return explicit(of, X, s, v, kink)

            assert (
                np.linalg.norm(at(w[:, k])[1]) <= what.near * objective.penalty + 5 * objective.smoothness * what.unit
            )
            best = minimize(at, w[:, k] + 0.01, jac=True, method="BFGS", options={"gtol": 1e-8}).x
            assert at(w[:, k])[0] <= at(best)[0] + objective.penalty * what.near**2 + 1e-9


def true_minimum(what, X, y):
    """Return the minimiser with the kink, for l_inf: w = a - b with a, b >= 0 makes it smooth."""

    def split(ab):
        w = np.append(ab[:4] - ab[4:8], ab[8])
        rows = np.hstack([X, np.ones((len(X), 1))])
        length = np.linalg.norm(rows, axis=1)
        rows *= np.minimum(1, what.longest / length)[:, None]
        steepest = what.clip / (np.minimum(length, what.longest) + what.radius * what.length)
        margins = y * (rows @ w) - what.radius * ab[:8].sum()
        losses = what.one.flattened(margins, steepest, what.one.corner(steepest))
        slopes = np.maximum(what.one.slope(margins), -steepest)
        by_w = rows.T @ (y * slopes) + what.penalty * w
        shorter = -what.radius * slopes.sum()
        gradient = np.concatenate([by_w[:4] + shorter, -by_w[:4] + shorter, by_w[4:]])
        return losses.sum() + what.penalty / 2 * w @ w, gradient

    bounds = [(0, None)] * 8 + [(None, None)]
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 5000}
    ab = minimize(split, np.full(9, 0.1), jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    return np.append(ab[:4] - ab[4:8], ab[8])


@pytest.mark.parametrize("radius", [0.05, 0.1, 0.2, 0.6])
def test_on_coordinate_planes_it_is_as_near_the_true_minimum_as_it_says(radius):
    X, y = example(Logistic(), 200)
    rows = ArrayRows(X, y)
    what = of_rows(Logistic(), rows, math.inf, radius=radius, penalty=1.0)
    objective, w = what.objective, weights(what, rows)[:, 0]
    best = true_minimum(objective, X, y)
    assert (np.abs(best[:-1]) < 1e-9).sum() >= 1  # the minimum lies on planes
    near = math.sqrt(
        ((what.near * objective.penalty) ** 2 / objective.penalty + 2 * objective.hidden) / objective.penalty
    )
    assert np.linalg.norm(w - best) <= near + 2 * what.unit
    assert np.abs(w - best).max() < 5 * objective.rounded_off + 5 * what.near  # as a rule much nearer than that


def test_at_zero_it_is_as_near_the_true_minimum_as_it_says():
    """The minimum is at 0, and that is told by the smallest subgradient there."""
    X, y = example(Logistic(), 200)
    units = X * np.minimum(1, 1.5 / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    pull = np.linalg.norm(units.T @ y) / 2 / len(y)  # (1/n)||sum phi'(0) y x||, and |phi'(0)| = 1/2
    for radius, at_zero in ((2.2 * pull, True), (1.5 * pull, False)):
        rows = ArrayRows(X, y, RowMap(fit_intercept=False))
        what = of_rows(Logistic(), rows, 2, radius=radius, clip=9.0, constant=False, penalty=20.0)
        w = weights(what, rows)
        near = math.sqrt(what.near**2 + 2 * what.objective.hidden / what.objective.penalty)
        assert not at_zero or np.linalg.norm(w) <= near + 2 * what.unit
        assert (np.linalg.norm(w) < 5 * what.objective.rounded_off) == at_zero


def test_the_constant_is_not_attacked():
    """Rows that are all of one class are told by the constant, whatever the attack."""
    rng = np.random.default_rng(0)
    rows = ArrayRows(rng.normal(size=(100, 3)), np.ones(100))
    for norm in NORMS:
        w = weights(of_rows(Logistic(), rows, norm, radius=5.0, clip=9.0, longest=4.0), rows)[:, 0]
        assert w[-1] > 1
        assert np.abs(w[:-1]).max() < 0.01


# ------------------------------------------------------------------------------- how far one row moves the minimum


@pytest.mark.slow
@each_norm
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_random_rows_of_any_size_stay_within_the_sensitivity(loss, norm):
    rng = np.random.default_rng(0)
    for trial in range(10):
        n, d = int(rng.integers(2, 12)), int(rng.integers(1, 5))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-3, 0, 0, 0, 3, 100], (n, 1))
        X[:, -1] = 1
        y, x = labels(loss, rng, n), rng.normal(size=d) * 10.0 ** rng.choice([-3, 0, 100])
        clip, longest, penalty, radius = (10.0 ** rng.uniform(*e) for e in ((-3, 1.5), (-1, 0.5), (-1.5, 2), (-2, 0.5)))
        options = {"clip": clip, "longest": longest, "penalty": penalty, "radius": radius, "constant": bool(trial % 3)}
        what = attacked(loss, n, d, norm, **options)
        reached(what, X, y, x if trial % 2 else -X[0], other_label(loss, y[0]))


@each_norm
def test_the_hard_instance_reaches_the_sensitivity(norm):
    """All rows are 0 but one, or all against one; flattened, so that its gradient is as long as the clip."""
    n, p, largest = 6, 3, {}
    for x in (np.eye(p)[0], np.full(p, p**-0.5)):
        for rest in (0.0, -1.0):
            what = attacked(HuberHinge(), n, p, norm, radius=0.05, constant=False, clip=0.02, longest=1.0, penalty=2.0)
            X = np.vstack([x, rest * np.tile(x, (n - 1, 1))])
            for key, part in reached(what, X, np.ones(n), -x, 1.0).items():
                largest[key] = max(largest.get(key, 0.0), part)
    assert largest["zero-out", "l2"] > 0.6
    assert largest["replace", "l2"] > 0.6


@pytest.mark.slow
@each_norm
@pytest.mark.parametrize("loss", [Logistic(), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_check_query(loss, norm):
    def make_rows(X, y):
        rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
        rows.public = dataclasses.replace(rows.public, n_rows=20)
        return rows

    what = attacked(loss, 20, 4, norm, clip=0.5, longest=2.0, penalty=2.0)
    assert check_query(what, n_features=3, n_classes=loss.n_classes, make_rows=make_rows, trials=6) > 0.1


@each_norm
def test_gradients_of_rows_are_no_longer_than_the_clip(norm):
    """|phi'| ||y x - r grad N||, flattened: R + r or R + r sqrt(d) times the slope, and no more than the clip."""
    rng = np.random.default_rng(1)
    for clip in (9.0, 0.3):
        what = attacked(Logistic(), 1, 5, norm, radius=0.4, clip=clip, longest=1.0).objective
        longest = what.longest + what.radius * (1 if norm == 2 else 2)
        assert what.extent == pytest.approx(longest)
        largest = 0.0
        for _ in range(300):
            x = rng.normal(size=(1, 4)) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], (1, 4))
            y = rng.choice([-1.0, 1.0], 1)
            rows = ArrayRows(x, y)
            w = (-y * x.T if rng.random() < 0.5 else rng.normal(size=(4, 1))) * rng.choice([1, 30])
            w = np.vstack([w, rng.normal(size=(1, 1))])
            gradient = what.over(rows).gradient(w) - what.penalty * sum(two_parts(w))
            assert np.linalg.norm(gradient) <= what.clip
            largest = max(largest, np.linalg.norm(gradient) / what.clip)
        assert largest > 0.7


# --------------------------------------------------------------------------------------------------- the sure bound


def exact_gradient(what, rows, w):
    """Return the gradient at the floats w, in 60 digits."""
    exact = np.vectorize(mpf, otypes=[object])
    total = exact(w) * mpf(what.penalty)
    for k in range(w.shape[1]):
        v, nu, r = exact(w[: what.n_features, k]), mpf(what.rounded_off), mpf(what.radius)
        squares = [v @ v] if what.norm == 2 else v * v
        roots = [mpmath.sqrt(square + nu**2) for square in squares]
        shift, outward = r * sum(root - nu for root in roots), v / np.array(roots)
        length = mpmath.sqrt(1 if what.norm == 2 else what.n_features)
        for chunk in rows._chunks():
            x = chunk.dense(slice(None))
            sizes = np.minimum(1, what.longest * (1 - 2.0**-30) / chunk.norms) * chunk.scale
            for i, size in enumerate(sizes):
                units = exact(x[i])
                label = int(chunk.y[i]) if what.n_classes is None else 1 if chunk.y[i] == k else -1
                margin = label * mpf(size) * (units @ exact(w[:, k])) - shift
                if isinstance(what.one, Logistic):
                    slope = 1 / (1 + mpmath.exp(margin))
                else:
                    slope = min(max((1 + mpf(what.one.h) - margin) / (2 * mpf(what.one.h)), 0), 1)
                limit = mpf(what.clip) * (1 - mpf(2) ** -30) / (mpf(size) * mpf(chunk.norm[i]) + r * length)
                slope = min(slope, limit)
                total[:, k] -= label * slope * mpf(size) * units
                total[: what.n_features, k] += r * slope * outward
    return total


@pytest.mark.slow
@each_norm
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [HuberHinge(0.2), OneVsRest(Logistic(), 3)], ids=repr)
def test_gradients_are_computed_to_within_the_error(loss, kind, norm):
    X, y = data(kind, loss)
    X, y, rng = X[:15], y[:15], np.random.default_rng(3)
    for radius, clip in ((1e-3, 0.4), (3.0, 1.5)):
        rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))
        what = of_rows(loss, rows, norm, radius=radius, clip=clip).objective
        for size in (1e-9, 1.0, 3 * what.n_rows * what.clip / what.penalty):
            w = rng.normal(size=what.shape)
            w *= size / np.linalg.norm(w, axis=0)
            with mpmath.workdps(60), np.errstate(all="ignore"):
                error = exact_gradient(what, rows, sum(two_parts(w))) - what.over(rows).gradient(w)
                assert longest_column(error) < what.rounding()


def test_margins_that_are_small_beside_their_terms_are_covered():
    """A score and its attack nearly cancel: then relative errors of slopes are large."""
    rows = ArrayRows(np.ones((8, 1)), np.ones(8))
    what = of_rows(HuberHinge(0.2), rows, 2, radius=1.0, clip=9.0, penalty=1e-3).objective
    largest, rng = 0.0, np.random.default_rng(0)
    for w in 3 * what.n_rows * what.clip / what.penalty * rng.uniform(0.3, 0.7, 20):
        constant = 1 - (w - what.norms(np.array([[w], [0.0]]))[0][0])
        at = np.array([[w], [constant]])
        with mpmath.workdps(60):
            error = longest_column(exact_gradient(what, rows, sum(two_parts(at))) - what.over(rows).gradient(at))
        assert error < what.rounding()
        largest = max(largest, error)
    assert largest > 1.1 * RegularizedSum.rounding(what)  # what covers a plain sum is not enough


@each_norm
@pytest.mark.parametrize("kind", KINDS)
def test_the_true_gradient_is_within_the_tolerance(kind, norm):
    X, y = data(kind, Logistic())
    X, y = X[:15], y[:15]
    for options in ({}, {"penalty": 0.02}, {"clip": 1e-9}):
        rows = ArrayRows(X, y)
        what = of_rows(Logistic(), rows, norm, **options)
        w = weights(what, rows)
        with mpmath.workdps(60):
            gradient = longest_column(exact_gradient(what.objective, rows, w))
        moved = what.objective.smoothness * what.unit * math.sqrt(len(w)) / 2  # rounding to the grid
        assert gradient <= what.near * what.objective.penalty + moved


@each_norm
@pytest.mark.parametrize("garbage", GARBAGE)
def test_whatever_a_method_returns_the_point_is_near_the_minimum(garbage, norm, monkeypatch):
    X, y = example(Logistic(), 40)
    rows = ArrayRows(X, y)
    good = weights(of_rows(Logistic(), rows, norm), rows)
    monkeypatch.setitem(METHODS, "katyusha", GARBAGE[garbage])
    what = of_rows(Logistic(), rows, norm, method="katyusha")
    assert np.linalg.norm(weights(what, rows) - good) <= 2 * what.near + 2 * what.unit


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_followed_to_the_end(method):
    X, y = example(Logistic(), 40)
    rows = ArrayRows(X, y)
    good = weights(of_rows(Logistic(), rows, math.inf), rows)
    what = of_rows(Logistic(), rows, math.inf, method=method)
    assert np.linalg.norm(weights(what, rows) - good) <= 2 * what.near + 2 * what.unit


# ---------------------------------------------------------------------------------------------------- the same bits


@pytest.mark.slow
@each_norm
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", [Logistic(), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_every_storage_chunking_and_order_gives_the_same_bits(loss, columns, norm, tmp_path):
    X, y = example(loss, 120)
    X = X + np.random.default_rng(1).normal(size=X.shape) * (X != 0)
    order = np.random.default_rng(2).permutation(len(y))
    how = RowMap(n_classes=loss.n_classes, columns=COLUMNS[columns])
    variants = [
        ArrayRows(store(X, tmp_path), y, how, **chunks)
        for store in STORES.values()
        for chunks in ({}, {"chunk_rows": 17})
    ]
    variants.append(ArrayRows(X[order], y[order], how))
    what, results = of_rows(loss, variants[0], norm), []
    w = np.random.default_rng(5).normal(size=what.objective.shape)
    damping = np.full(what.objective.shape[1], 0.1)
    for rows in variants:
        objectives = what.objective.over(rows)
        arrays = objectives.gradient(w), objectives.hessians(w, damping), objectives.products(w, damping)(w)
        results.append([array.tobytes() for array in (*arrays, found(what, rows))])
    assert all(result == results[0] for result in results)


@each_norm
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), OneVsRest(Logistic(), 3)], ids=repr)
def test_hessians_are_nearly_the_derivatives_of_gradients_and_within_the_smoothness(loss, columns, norm):
    X, y = example(loss, 600)
    rows = ArrayRows(X, y, RowMap(n_classes=loss.n_classes, columns=COLUMNS[columns]))
    what = of_rows(loss, rows, norm, clip=1.0).objective
    objectives = what.over(rows)
    none = np.zeros(what.shape[1])
    for scale in (0.3, 2 * what.rounded_off):
        w = scale * np.random.default_rng(0).normal(size=what.shape)
        hessians = objectives.hessians(w, none) + what.penalty * np.eye(what.shape[0])
        size = np.linalg.norm(hessians, axis=(1, 2))
        for j, unit in enumerate(np.eye(what.shape[0])[:, :, None]):
            step, h = unit * np.ones(what.shape[1]), 1e-4 * scale
            slope = (objectives.gradient(w + h * step) - objectives.gradient(w - h * step)) / (2 * h)
            for by in (hessians[:, :, j].T, objectives.products(w, none)(step)):
                assert (np.linalg.norm(by - slope, axis=0) <= 0.01 * size).all()
        assert max(np.linalg.norm(hessian, 2) for hessian in hessians) <= what.smoothness


# ------------------------------------------------------------------------------------------------- what is refused


def test_kinks_of_losses_other_norms_and_no_attack_are_refused():
    with pytest.raises(ValueError, match="smooth losses"):
        attacked(Hinge(), 10, 3, 2)
    with pytest.raises(ValueError, match="attack_norm=1 must be 2 or inf"):
        attacked(Logistic(), 10, 3, 1)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="attack_radius"):
            attacked(Logistic(), 10, 3, 2, radius=bad)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_estimator_leaves_its_own_constant_alone_and_no_column(fit_intercept):
    """Two columns that are the same get the same weight, unless one of them is not attacked."""
    column = np.random.default_rng(0).choice([-0.5, 0.5], 400)
    X, y = np.stack([column, column], axis=1), (column > 0).astype(int)
    options = {"objective": "adversarial", "attack_norm": math.inf, "attack_radius": 0.2, "alpha": 0.01}
    model = OutputPerturbationLogisticRegression(1e6, fit_intercept=fit_intercept, random_state=0, **options).fit(X, y)
    first, last = model.coef_[0]
    assert last > 0.1
    assert first == pytest.approx(last, rel=1e-2)
