"""Bounds on rounding against 60 digits: nothing is above them, and no bound could be much smaller than it is."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from mpmath import mpf

from dpsk.data import ArrayRows, Columns, RowMap
from dpsk.losses import HuberHinge, Logistic, OneVsRest, SquaredHinge
from dpsk.minimizers import AttackedSum, RegularizedSum, TiltedSum
from dpsk.minimizers.regularized import two_parts

U = 2.0**-53
ONE = [Logistic(), HuberHinge(), HuberHinge(1e-3), HuberHinge(40.0), SquaredHinge()]
LOSSES = [Logistic(), HuberHinge(0.2), SquaredHinge(), OneVsRest(Logistic(), 3), OneVsRest(HuberHinge(1e-3), 3)]
digits = np.vectorize(mpf, otypes=[object])
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


@pytest.fixture(autouse=True)
def many_digits():
    with mpmath.workdps(60), np.errstate(all="ignore"):
        yield


# --------------------------------------------------------------------------------------- what is evaluated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "exact", "domain"),
    [
        (np.exp, mpmath.exp, (-700.0, 700.0)),
        (np.exp, mpmath.exp, (-1.0, 1.0)),
        (np.log, mpmath.log, (1e-300, 2.0)),
        (np.log1p, mpmath.log1p, (-1.0 + 1e-9, 2.0)),
        (np.log1p, mpmath.log1p, (0.0, 1e-12)),
    ],
)
def test_elementary_functions_are_within_the_four_units_that_are_assumed(function, exact, domain):
    x = np.random.default_rng(0).uniform(*domain, 2001)
    x[0] = x[1] / 1e9
    for length in (1, 7, 2001):  # the remainder of a vector may be computed in another way
        computed = np.concatenate([function(part) for part in np.array_split(x, len(x) // length)])
        error = max(abs((mpf(c) - exact(mpf(a))) / exact(mpf(a))) for a, c in zip(x, computed, strict=True))
        assert error <= 8 * U  # a unit in the last place is at most 2u of a number


def phi(one, m):
    """Return the loss and its slope, downwards, at an exact margin."""
    if isinstance(one, Logistic):
        return mpmath.log1p(mpmath.exp(-m)), 1 / (1 + mpmath.exp(m))
    if isinstance(one, SquaredHinge):
        return max(1 - m, mpf(0)) ** 2, 2 * max(1 - m, mpf(0))
    h = mpf(one.h)
    ramp = min(max(1 + h - m, mpf(0)), 2 * h)
    return ramp**2 / (4 * h) + max(1 - h - m, mpf(0)), ramp / (2 * h)


@pytest.mark.parametrize("one", ONE, ids=repr)
def test_losses_are_computed_as_exactly_as_they_promise(one):
    rng = np.random.default_rng(1)
    ends = [1.0] if not isinstance(one, HuberHinge) else [1 - one.h, 1 + one.h]
    margins = np.concatenate(
        [rng.normal(size=400) * 10.0 ** rng.uniform(-12, 2.5, 400), [0.0, -1e60, 1e60, 36.0, 740.0]]
        + [end * (1 + rng.normal(size=100) * 10.0 ** rng.uniform(-16, -1, 100)) for end in ends]
    )
    at_zero, worst = phi(one, mpf(0))[0], {"slope": 0.0, "phi": 0.0}
    for m, slope, value in zip(margins, -one.slope(margins), one.phi(margins), strict=True):
        exact_value, exact_slope = phi(one, mpf(m))
        tiny = mpf(2) ** -1000  # what a decay of e^-700 leaves is nobody's business
        slack = 2.0**-49 * exact_slope + 2.0**-53 * mpf(one.conditioning) + tiny
        worst["slope"] = max(worst["slope"], float(abs(mpf(slope) - exact_slope) / slack))
        slack = 2.0**-48 * (exact_value + at_zero)
        worst["phi"] = max(worst["phi"], float(abs(mpf(value) - exact_value) / slack))
    assert max(worst.values()) <= 1


# ------------------------------------------------------------------------------- gradients, to the last digit


def some_gradients(what, rows, w):
    """Return the gradients of rows as they are defined, in 60 digits: the scales of a row are floats of that row alone.

    Equal rows are computed once.
    """
    objective, known = what.over(rows), {}
    total = digits(w) * mpf(what.penalty)
    for k in range(what.shape[1]):
        rises, weights, pulled = [], [], []
        at, shift, outward = digits(w[:, k]), mpf(0), 0
        if isinstance(what, AttackedSum):
            v, nu = at[: what.n_features], mpf(what.rounded_off)
            roots = [mpmath.sqrt(square + nu**2) for square in ([v @ v] if what.norm == 2 else v * v)]
            shift = mpf(what.radius) * sum(root - nu for root in roots)
            outward = np.append(v / np.array(roots), digits(np.zeros(int(what.constant)))) * mpf(what.radius)
        for chunk in rows._chunks():
            x, (sizes, _, limits) = chunk.dense(slice(None)), objective.scales(chunk)
            for i, (size, limit) in enumerate(zip(sizes, limits, strict=True)):
                label = int(chunk.y[i]) if what.n_classes is None else 1 if chunk.y[i] == k else -1
                key = k, label, x[i].tobytes(), size, limit
                if key not in known:
                    row = digits(x[i]) * mpf(size)
                    margin = label * (row @ at) - shift
                    steepest = mpf(limit) * mpf(objective._spacing) / mpf(size)
                    slope = min(phi(what.one, margin)[1], steepest)
                    known[key] = flattened(what, margin, steepest), slope * (outward - label * row)
                rises.append(known[key][0])
                pulled.append(known[key][1])
        if isinstance(what, TiltedSum):
            weights = [mpmath.exp(mpf(what.tilt) * rise) for rise in rises]
            total[:, k] += what.n_rows * sum(a * g for a, g in zip(weights, pulled, strict=True)) / sum(weights)
        else:
            total[:, k] += sum(pulled)
    return total


def flattened(what, margin, steepest):
    """Return the loss of a row, which goes on along its tangent where it would be steeper."""
    if not isinstance(what, TiltedSum):
        return None
    one = what.one
    if isinstance(one, Logistic):
        corner = mpmath.log(1 / steepest - 1) if steepest < 1 else -mpmath.inf
    elif isinstance(one, SquaredHinge):
        corner = 1 - steepest / 2
    else:
        corner = 1 + mpf(one.h) - 2 * mpf(one.h) * steepest if steepest < 1 else -mpmath.inf
    return phi(one, max(margin, corner))[0] + (steepest * (corner - margin) if margin < corner else 0)


def part_of_bound(what, rows, w):
    """Return the error of the computed gradient in parts of the bound, for the longest column."""
    computed, at = what.over(rows).gradient(w), sum(two_parts(w))
    errors = [mpmath.norm(list(column)) for column in (some_gradients(what, rows, at) - digits(computed)).T]
    return float(max(errors)) / what.rounding(what.penalty * np.linalg.norm(at, axis=0).max())


def labels(loss, rng, n):
    return rng.choice([-1.0, 1.0], n) if loss.n_classes is None else rng.integers(0, loss.n_classes, n)


def weights(what, rng, size):
    w = rng.normal(size=what.shape)
    return w * (size / np.linalg.norm(w, axis=0))


def kinds(n_features, constant):
    """Return the sums: plain, tilted from hardly to hard, and attacked in both norms."""
    tilted = [partial(TiltedSum, tilt=tilt) for tilt in (0.01, 1.0, 30.0, 1000.0)]
    radii = (1e-4, 2.0)
    attacked = [partial(AttackedSum, radius=r, norm=q, constant=constant) for r in radii for q in (2, math.inf)]
    return [RegularizedSum, *tilted, *attacked]


CENTRED = Columns(np.full(3, -2.0), np.full(3, 4.0), np.array([1.0, 0.5, 4.0]), np.array([0.25, -0.5, 0.125]))


@pytest.mark.thorough
@pytest.mark.slow
@each_loss
def test_random_rows_of_all_sizes(loss):
    """Rows over 150 orders of magnitude, plain and centred, dense and sparse, extreme clips, near and far weights."""
    rng, largest = np.random.default_rng(2), 0.0
    for trial in range(4):
        n = int(rng.integers(1, 8))
        X = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-8, 150, (n, 1))
        X[rng.random(X.shape) < 0.2] = 0
        columns = CENTRED if trial % 2 else None
        store = sp.csr_matrix if trial >= 2 else np.asarray
        rows = ArrayRows(store(X), labels(loss, rng, n), RowMap(n_classes=loss.n_classes, columns=columns))
        for clip, longest in ((0.4, 1.5), (1e-9, 1.5), (2.0**-99, 2.0**-99), (2.0**99, 2.0**99), (30.0, 1.0)):
            for kind in kinds(3, True):
                penalty = 10.0 ** rng.uniform(-1, 1) * n * clip * longest  # margins of the longest row of about 1
                what = kind(loss, n, 4, clip=clip, longest=longest, penalty=penalty)
                for far in (1e-9, 1.0, 3.0):
                    w = weights(what, rng, far * n * what.clip / what.penalty)
                    largest = max(largest, part_of_bound(what, rows, w))
    assert largest <= 1


@pytest.mark.thorough
@pytest.mark.slow
@each_loss
def test_thousands_of_columns_and_scores_that_cancel(loss):
    rng, p = np.random.default_rng(3), 2000
    X = np.sign(rng.normal(size=(2, p))) * (1 + rng.random((2, p)) * 1e-9)
    rows = ArrayRows(X, labels(loss, rng, 2), RowMap(n_classes=loss.n_classes, fit_intercept=False))
    for kind in kinds(p, False)[1::3]:
        what = kind(loss, 2, p, clip=0.7, longest=1.0, penalty=1.0)
        w = weights(what, rng, 2.0)
        w -= X.T @ np.linalg.solve(X @ X.T, X @ w)  # nothing is left of a score but roundings of its terms
        assert part_of_bound(what, rows, w) <= 1


# ----------------------------------------------------------------------------------- how near errors come


def reached(n, loss, at, **options):
    """Return the largest part of the bound for n equal rows, whose errors add up, at margins about ``at``."""
    x = np.rint(np.array([0.3, -0.7, 0.55]) * 2.0**18) * 2.0**-18  # as it is on the grid
    rows, largest = ArrayRows(np.tile(x, (n, 1)), np.ones(n), RowMap(fit_intercept=False)), 0.0
    longest = 0.9 * np.linalg.norm(x)  # so that a score is rounded twice
    what = RegularizedSum(loss, n, 3, **{"longest": longest, "penalty": 1e-3} | options)
    for seed in range(60):
        w = np.random.default_rng(seed).normal(size=3)
        w *= at / np.dot(0.9 * x, w)
        largest = max(largest, part_of_bound(what, rows, w[:, None]))
    return largest


@pytest.mark.slow
def test_a_bound_of_plain_sums_that_is_too_small_would_be_noticed():
    """A third of it where equal rows lie at the corner and a margin's rounding is all there is.

    Slopes of the logistic loss are computed more exactly, by far, than is asked for.
    """
    for loss in (HuberHinge(0.01), HuberHinge(0.1), SquaredHinge()):
        at = 1 + getattr(loss, "h", 0.0) - 1e-7 / loss.smoothness
        assert 1 / 3 < reached(300, loss, at, clip=1e-6) <= 1
    assert 1 / 100 < reached(300, Logistic(), 0.3, clip=1.0) <= 1
    assert 1 / 50 < reached(300, Logistic(), 1.5, clip=0.3) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [1.0, 30.0, 1000.0])
def test_a_bound_of_tilted_sums_that_is_too_small_would_be_noticed(tilt):
    """A 1000th of it, at two kinds of rows whose losses are large and whose weights are alike: these move a mean most.

    Losses are computed more exactly, by far, than is asked for.
    """
    n, far, largest = 40, 50.0, 0.0
    rows = ArrayRows(np.where(np.arange(n) % 2 == 0, 0.5, -0.5)[:, None], np.ones(n))
    for loss in (Logistic(), HuberHinge()):
        what = TiltedSum(loss, n, 2, clip=1.0, longest=1.0, penalty=3 * n / far, tilt=tilt)
        for near, away in np.random.default_rng(5).uniform(0.9, 1, (80, 2)):
            w = np.array([[near * 0.1 / tilt], [-far * away]])
            largest = max(largest, part_of_bound(what, rows, w))
    assert 1 / 1000 < largest <= 1


@pytest.mark.parametrize("norm", [2, math.inf])
def test_a_bound_under_attack_that_is_too_small_would_be_noticed(norm):
    """A 128th of it, where scores and attacks nearly cancel at the corner of a narrow hinge."""
    n, largest = 50, 0.0
    rows = ArrayRows(np.ones((n, 1)), np.ones(n))
    what = AttackedSum(HuberHinge(0.2), n, 2, clip=9.0, longest=1.5, penalty=1.0, radius=1.0, norm=norm, constant=True)
    for w in 3 * n * what.clip / what.penalty * np.random.default_rng(0).uniform(0.6, 0.7, 200):
        constant = 1 - (w - what.norms(np.array([[w], [0.0]]))[0][0])
        largest = max(largest, part_of_bound(what, rows, np.array([[w], [constant]])))
    assert 1 / 128 < largest <= 1


@pytest.mark.slow
def test_lengths_of_a_million_weights_are_covered():
    """NumPy adds the squares of columns side by side one after the other: errors grow with their number, not its root.

    Rows of zeros are pulled by the attack alone, and weights that are all alike leave one number to compute.
    """
    n, p, loss = 4, 10**6, OneVsRest(Logistic(), 3)
    rows = ArrayRows(sp.csr_matrix((n, p)), np.zeros(n, dtype=int), RowMap(n_classes=3, fit_intercept=False))
    what = AttackedSum(loss, n, p, clip=1e3, longest=1e-3, penalty=1e9, radius=1.0, norm=2, constant=False)
    largest = 0.0
    for v in (0.1, 0.3, 0.7):
        w = np.full((p, 3), v * 2.0**-36)  # as long as n clip/penalty
        computed, at = what.over(rows).gradient(w), sum(two_parts(w))
        assert (np.ptp(at, axis=0) == 0).all()
        assert (np.ptp(computed, axis=0) == 0).all()
        root = mpmath.sqrt(p * mpf(at[0, 0]) ** 2 + mpf(what.rounded_off) ** 2)
        for k in range(3):
            slope = n * phi(what.one, -mpf(what.radius) * (root - mpf(what.rounded_off)))[1]
            exact = mpf(at[0, k]) * (mpf(what.penalty) + mpf(what.radius) * slope / root)
            error = float(abs(exact - mpf(computed[0, k])) * mpmath.sqrt(p))
            largest = max(largest, error / what.rounding())
    assert 1 / 32 < largest <= 1
