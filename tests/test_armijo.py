import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from row_changes import fractions

from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, MarginLoss, OneVsRest, Sigmoid, Softmax, SquaredHinge
from dpsk.mechanisms import AboveThreshold, SeededBits
from dpsk.privacy import Budget, Ledger
from dpsk.queries import ArmijoGains, GradientSum
from dpsk.testing import check_query
from dpsk.testing.common import heavy_tailed

BINARY = [Logistic(), Hinge(), HuberHinge()]
OTHERS = [SquaredHinge(), Sigmoid()]
SEVERAL = [Softmax(2), Softmax(9), OneVsRest(Logistic(), 3), OneVsRest(HuberHinge(), 4), OneVsRest(Hinge(), 3)]
CONVEX = (Logistic, Hinge, HuberHinge, SquaredHinge)
STEPS = [4.0, 1.0, 0.3, 0.01]


def columns(loss):
    return () if loss.n_classes is None else (loss.n_classes,)


def labels(loss, n, rng):
    return rng.choice([-1.0, 1.0], n) if loss.n_classes is None else rng.integers(loss.n_classes, size=n)


def gains(loss, *, size=1.0, along=1.0, steps=STEPS, clip=1.3, per_unit=True, n_parameters=5):
    rng = np.random.default_rng(0)
    w, direction = rng.normal(size=(2, n_parameters, *columns(loss)))
    return ArmijoGains(loss, size * w, along * direction, steps, clip=clip, per_unit=per_unit)


def total(rows, query):
    with np.errstate(all="ignore"):  # as PrivateData.measure does
        return rows.total(query)


# --------------------------------------------------------------------------------------------- one row's influence


@pytest.mark.slow
@pytest.mark.parametrize("per_unit", [True, False])
@pytest.mark.parametrize("loss", [*BINARY, *OTHERS, *SEVERAL], ids=repr)
def test_sensitivity(loss, per_unit):
    for clip in (1e-3, 1.3, 500.0):
        check_query(gains(loss, clip=clip, per_unit=per_unit), n_features=4, n_classes=loss.n_classes, trials=15)


@pytest.mark.slow
@pytest.mark.parametrize("per_unit", [True, False])
@pytest.mark.parametrize(("size", "along"), [(1e100, 1e100), (1e-100, 1e-100), (1e100, 1e-100), (0.0, 1e-30)])
@pytest.mark.parametrize("steps", [[1e-12, 1e12], [2.0**59]], ids=str)
def test_sensitivity_with_extreme_weights_and_steps(per_unit, size, along, steps):
    for loss, clip in itertools.product([Logistic(), SquaredHinge(), Softmax(3)], [2.0**-100, 1.0, 2.0**100]):
        query = gains(loss, size=size, along=along, steps=steps, clip=clip, per_unit=per_unit)
        check_query(query, n_features=4, n_classes=loss.n_classes, trials=6)


@pytest.mark.parametrize("clip", [2.0**-100, 2.0**-100 * 1.5, 0.1, 3.3, 2.0**99 * 1.1, 2.0**100])
def test_a_row_adds_at_most_the_clip_and_any_clip_leaves_room_for_all_rows(clip):
    """1/10 and 3.3 round up in single precision; the bound is the exact one."""
    for per_unit in (True, False):
        query = gains(Logistic(), clip=clip, per_unit=per_unit)
        assert query.unit == 2.0 ** np.ceil(np.log2(clip)) * 2.0**-20
        assert query.sensitivity("zero-out").linf * query.unit == clip
        assert 2**26 * query.sensitivity("replace").linf < 2**62
        rng = np.random.default_rng(1)
        X = np.minimum(heavy_tailed(300, 4, rng), 1e250) * rng.choice([1.0, clip], 300)[:, None]
        (chunk,) = ArrayRows(X, rng.choice([-1.0, 1.0], 300))._chunks()
        with np.errstate(all="ignore"):
            alone = np.array([query(chunk.take(np.array([i]))) for i in range(300)])
        assert np.abs(alone).max() <= query.clip / query.unit


SATURATED = {
    # a short step from 0, where the loss falls by half a row's length per unit, and one from margins of 100 to -100
    "per unit": ({"w": 0.0, "direction": 1.0, "steps": [2.0**-10, 2.0**-9, 2.0**-8], "per_unit": True}, 100.0),
    "both losses": ({"w": 1.0, "direction": 1.0, "steps": [2.0, 2.5, 3.0], "per_unit": False}, 100.0),
}


@pytest.mark.parametrize("clip", [0.3, 1.0, 7.7])
@pytest.mark.parametrize("form", SATURATED)
def test_sensitivity_is_reached_and_not_exceeded(form, clip):
    options, x = SATURATED[form]
    w, direction = np.full(1, options["w"]), np.full(1, options["direction"])
    query = ArmijoGains(Logistic(), w, direction, options["steps"], clip=clip, per_unit=options["per_unit"])
    X, rest = np.array([[x], [0.0]]), ArrayRows(np.zeros((1, 1)), np.ones(1), RowMap(fit_intercept=False))
    totals = {y: total(ArrayRows(X, np.array([y, 1.0]), RowMap(fit_intercept=False)), query) for y in (-1.0, 1.0)}
    for y in (-1.0, 1.0):
        assert min(fractions(query, "zero-out", totals[y] - total(rest, query)).values()) > 0.99
    assert min(fractions(query, "replace", totals[1.0] - totals[-1.0]).values()) > 0.99
    assert (np.sign(totals[1.0]) == -np.sign(totals[-1.0])).all()


def test_check_query_finds_the_sensitivity_reached():
    query = ArmijoGains(Logistic(), np.zeros(5), np.ones(5), [2.0**-20, 2.0**-18], clip=1.0)
    assert check_query(query, n_features=4) > 0.99


@dataclasses.dataclass(frozen=True)
class Squared(MarginLoss):
    """(1 - m)^2 rises on both sides."""

    lipschitz = np.inf
    smoothness = 2.0

    def phi(self, margin):
        return (1 - margin) ** 2

    def slope(self, margin):
        return 2 * (margin - 1)

    def curvature(self, margin):
        return np.full_like(margin, 2.0)


def test_gains_are_not_monotone():
    """One row may gain by a short step and lose by a long one: half the noise would not do."""
    query = ArmijoGains(Squared(), np.array([-1.0]), np.array([-1.0]), [1.0, 40.0], clip=30.0)
    row = ArrayRows(np.ones((1, 1)), np.ones(1), RowMap(fit_intercept=False))
    assert np.sign(total(row, query)).tolist() == [1, -1]
    assert not any(query.sensitivity(adjacency).monotone for adjacency in ("zero-out", "replace"))


@dataclasses.dataclass(frozen=True)
class Careless(Logistic):
    """A loss that returns what no loss should, for some rows."""

    what: float = np.nan

    def phi(self, margin):
        return np.where(margin > 0.5, self.what, super().phi(margin))


@pytest.mark.parametrize("per_unit", [True, False])
@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf, 1e300, -1e300, -5.0])
def test_one_row_is_bounded_whatever_a_loss_returns(what, per_unit):
    for loss in (Careless(what), OneVsRest(Careless(what), 3)):
        check_query(gains(loss, clip=3.0, per_unit=per_unit), n_features=4, n_classes=loss.n_classes, trials=20)


def test_a_loss_that_is_not_a_number_counts_as_no_gain():
    rows = ArrayRows(np.array([[3.0], [-2.0]]), np.ones(2), RowMap(fit_intercept=False))
    query = ArmijoGains(Careless(np.nan), np.ones(1), np.array([-1.0]), [1.0], clip=5.0)
    only = ArmijoGains(Logistic(), np.ones(1), np.array([-1.0]), [1.0], clip=5.0)
    expected = total(ArrayRows(np.array([[-2.0]]), np.ones(1), RowMap(fit_intercept=False)), only)
    assert total(rows, query).tolist() == expected.tolist() != [0]


def test_a_negative_loss_counts_as_zero_where_both_losses_are_clipped():
    row = ArrayRows(np.ones((1, 1)), np.ones(1), RowMap(fit_intercept=False))
    query = ArmijoGains(Careless(-5.0), np.zeros(1), np.array([-1.0]), [1.0], clip=3.0, per_unit=False)
    assert total(row, query) * query.unit == pytest.approx(np.log(2), abs=2 * query.unit)


@dataclasses.dataclass(frozen=True)
class Misshapen(Logistic):
    how: str = ""

    def margins(self, scores, y):
        margins = super().margins(scores, y)
        return {"margins": margins[:, None], "short margins": margins[:-1]}.get(self.how, margins)

    def phi(self, margin):
        losses = super().phi(margin)
        wrong = {"sum": losses.sum(), "column": losses[:, None], "long": np.append(losses, 0.0), "one": losses[:1]}
        return wrong.get(self.how, losses)


@pytest.mark.parametrize("how", ["margins", "short margins", "sum", "column", "long", "one"])
def test_a_loss_of_another_shape_is_refused(how):
    rows = ArrayRows(np.ones((3, 4)), np.ones(3))
    for per_unit in (True, False):
        with pytest.raises(TypeError, match=r"one value per row|shape of the scores"):
            rows.total(gains(Misshapen(how), per_unit=per_unit))


def test_floating_point_errors_of_some_row_stay_inside():
    X = np.array([[1e308, -1e308], [5e-324, 0.0], [1e-200, 1e200], [0.0, 0.0], [1e300, 2.0**-1074]])
    data = PrivateData(ArrayRows(X, np.array([1.0, -1, 1, -1, 1])), Ledger(Budget.of(1.0, 1e-6)), SeededBits(0))
    with np.errstate(all="raise"):
        for per_unit, clip, along in itertools.product((True, False), (2.0**-100, 1.0, 2.0**100), (1e-90, 1.0, 1e90)):
            query = gains(SquaredHinge(), clip=clip, along=along, per_unit=per_unit, n_parameters=3)
            fired = data.release(data.measure(query), AboveThreshold(1e-3, length=4))
            assert fired in range(5)


# -------------------------------------------------------------------------------------------------------- the values


def flat(loss, X, y, w, clip):
    """Return losses whose gradients are the clipped ones, where that is a convex function of the margin."""
    if not isinstance(loss, CONVEX):
        return loss.value(X @ w, y)
    margin, steepest = y * (X @ w), clip / np.linalg.norm(X, axis=1)
    low, high = np.full(len(y), -1e4), np.full(len(y), 1e4)  # the slope is clipped up to a margin in between
    for _ in range(100):
        middle = (low + high) / 2
        clipped = loss.slope(middle) < -steepest
        low, high = np.where(clipped, middle, low), np.where(clipped, high, middle)
    return loss.phi(np.maximum(margin, low)) + steepest * np.maximum(low - margin, 0)


def has_objective(loss):
    """Whether some loss has the clipped gradient as its gradient: for two classes, if convex."""
    return loss.n_classes is None and loss.corner(np.ones(1)) is not None


def clipped_slope(loss, X, y, at, direction, clip):
    """Each row's gradient, formed and clipped, along minus the direction."""
    residuals = loss.derivative(X @ at, y).reshape(len(y), -1)
    rows = residuals[:, None, :] * X[:, :, None]
    norm = np.sqrt(np.square(rows).sum(axis=(1, 2)))
    along = np.einsum("ijk,jk->i", rows, direction.reshape(X.shape[1], -1))
    return np.minimum(1, clip / np.maximum(norm, 1e-300)) * along


def plain(loss, X, y, w, direction, steps, clip, per_unit):
    """The same sums in double precision."""
    sums = []
    for step in steps:
        there = w - step * direction
        length = np.linalg.norm(direction)
        if not per_unit:
            gain = np.clip(loss.value(X @ w, y), 0, clip) - np.clip(loss.value(X @ there, y), 0, clip)
        elif has_objective(loss):
            gain = (flat(loss, X, y, w, clip) - flat(loss, X, y, there, clip)) / (step * length)
        else:
            gain = sum(clipped_slope(loss, X, y, at, direction, clip) for at in (w, there)) / (2 * length)
            never_clipped = loss.lipschitz * np.linalg.norm(X, axis=1) <= clip
            gain = np.where(never_clipped, (loss.value(X @ w, y) - loss.value(X @ there, y)) / (step * length), gain)
        sums.append(np.clip(gain, -clip, clip).sum())
    return np.array(sums)


@pytest.mark.slow
@pytest.mark.parametrize("per_unit", [True, False])
@pytest.mark.parametrize("clip", [0.3, 1.0, 40.0])
@pytest.mark.parametrize("loss", [*BINARY, *OTHERS, *SEVERAL, Squared()], ids=repr)
def test_gains_are_those_of_plain_numpy(loss, clip, per_unit):
    """Up to one unit a row, for the grid and for single precision; data and weights lie on their grids."""
    rng = np.random.default_rng(2)
    n = 9000  # more than a block
    X, y = rng.integers(-64, 65, (n, 3)) / 16, labels(loss, n, rng)
    w, direction = rng.integers(-32, 33, (2, 4, *columns(loss))) / 16
    steps = [2.0, 0.5, 0.1, 2.0**-7]
    query = ArmijoGains(loss, w, direction, steps, clip=clip, per_unit=per_unit)
    got = total(ArrayRows(X, y, RowMap(n_classes=loss.n_classes)), query) * query.unit
    with_ones = np.hstack([X, np.ones((n, 1))])
    expected = plain(loss, with_ones, y, w, direction, steps, clip, per_unit)
    assert (np.abs(got - expected) <= n * query.unit).all()
    assert np.abs(expected).max() > 2 * n * query.unit


def test_a_gain_per_unit_never_exceeds_the_largest_gradient_norm():
    """So one clip fits all steps: none is clipped that is not clipped by a gradient's own norm."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 4)), rng.choice([-1.0, 1.0], 200)
    norm = np.sqrt(np.square(X).sum(axis=1) + 1).max()
    wide, tight = (gains(Logistic(), clip=clip) for clip in (norm, 50 * norm))
    sums = [total(ArrayRows(X, y), query) * query.unit for query in (wide, tight)]
    np.testing.assert_allclose(*sums, atol=200 * 2 * (wide.unit + tight.unit))


@pytest.mark.parametrize("clip", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), HuberHinge(), SquaredHinge()], ids=repr)
def test_a_short_step_gains_what_the_clipped_gradient_says(loss, clip):
    """The search and the gradient look at one convex objective; single precision leaves about 1e-5 of a short step."""
    rng = np.random.default_rng(12)
    n, length = 2000, 2.0**-8
    X, y = rng.normal(size=(n, 4)), rng.choice([-1.0, 1.0], n)
    w, direction = rng.normal(size=(2, 5))
    rows, direction = ArrayRows(X, y), direction / np.linalg.norm(direction)
    gradient, query = GradientSum(loss, w, clip=clip), ArmijoGains(loss, w, direction, [length], clip=clip)
    expected = rows.total(gradient) * gradient.unit @ direction
    (got,) = total(rows, query) * query.unit
    bend = 4 * length * min(loss.smoothness, 1 / length) / 2  # kinks: few rows cross one
    assert abs(got - expected) < n * (bend if np.isfinite(loss.smoothness) else 0.02)
    assert abs(expected) > 5 * abs(got - expected)


def test_points_are_where_the_steps_lead():
    rng = np.random.default_rng(4)
    for loss in (Logistic(), Softmax(3)):
        w, direction = rng.normal(size=(2, 5, *columns(loss)))
        query = ArmijoGains(loss, w, direction, STEPS, clip=1.0)
        assert query.points.shape == (4, *w.shape)
        for point, step in zip(query.points, STEPS, strict=True):
            np.testing.assert_allclose(point, w - step * direction, rtol=0, atol=2.0**-24)
        np.testing.assert_allclose(query.lengths, [np.linalg.norm(step * direction) for step in STEPS])
        with pytest.raises(ValueError, match="read-only"):
            query.points[...] = 0


def test_later_changes_of_the_arguments_change_nothing():
    w, direction, steps = np.ones(5), np.full(5, 2.0), np.array([1.0, 0.5])
    query = ArmijoGains(Logistic(), w, direction, steps, clip=1.0)
    rows = ArrayRows(np.random.default_rng(5).normal(size=(50, 4)), np.ones(50))
    before = rows.total(query)
    w[:], direction[:], steps[:] = 7.0, 9.0, 3.0
    np.testing.assert_array_equal(rows.total(query), before)


def test_work_is_counted_as_one_loss_more_than_steps():
    assert gains(Logistic()).evaluations == len(STEPS) + 1
    assert gains(Logistic()).label == "gains"


# ------------------------------------------------------------------------------------------- the same bits everywhere


def example(loss, n=9000, d=4):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    X[rng.random((n, d)) < 0.5] = 0
    return X, labels(loss, n, rng)


@pytest.mark.parametrize("per_unit", [True, False])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(9), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_storage_chunks_and_order_do_not_matter(loss, per_unit, tmp_path):
    X, y = example(loss)
    order = np.random.default_rng(7).permutation(len(y))
    np.save(tmp_path / "X.npy", X)
    how = RowMap(n_classes=loss.n_classes)
    query = gains(loss, per_unit=per_unit)
    expected = total(ArrayRows(X, y, how), query)
    assert expected.dtype == np.int64
    assert expected.shape == (len(STEPS),)
    others = {
        "columns first": ArrayRows(np.asfortranarray(X), y, how),
        "CSR": ArrayRows(sp.csr_matrix(X), y, how),
        "CSC array": ArrayRows(sp.csc_array(X), y, how, chunk_rows=1000),
        "memmap": ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), y, how),
        "chunks of 777": ArrayRows(X, y, how, chunk_rows=777),
        "permuted": ArrayRows(X[order], y[order], how),
        "subset": ArrayRows(X, y, how).subset(np.arange(len(y))),
    }
    for name, rows in others.items():
        assert np.array_equal(total(rows, query), expected), name


@pytest.mark.slow
@pytest.mark.parametrize("per_unit", [True, False])
@pytest.mark.parametrize("loss", [*BINARY, *OTHERS, *SEVERAL], ids=repr)
def test_a_row_adds_the_same_wherever_it_stands(loss, per_unit):
    """If a row's rounding depended on its place in a block, a leaving row could move the gains of all that follow."""
    X, y = example(loss, 300)
    query = gains(loss, per_unit=per_unit)
    (chunk,) = ArrayRows(X, y, RowMap(n_classes=loss.n_classes))._chunks()
    with np.errstate(all="ignore"):
        alone = np.array([query(chunk.take(np.array([i]))) for i in range(300)])
        for first, last in ((0, 300), (1, 300), (3, 300), (0, 299), (5, 22), (7, 15), (131, 133)):
            together = query(chunk.take(np.arange(first, last)))
            assert np.array_equal(together, alone[first:last].sum(axis=0))
    assert np.unique(alone[:, 1]).size > 20


def test_a_chunk_without_rows_adds_nothing():
    for loss, store in itertools.product([Logistic(), Softmax(3)], [np.asarray, sp.csr_matrix]):
        rows = ArrayRows(store(np.eye(4)), labels(loss, 4, np.random.default_rng(8)), RowMap(n_classes=loss.n_classes))
        for per_unit in (True, False):
            sums = rows.subset(np.zeros(0, dtype=np.int64)).total(gains(loss, per_unit=per_unit))
            assert sums.tolist() == [0] * len(STEPS)
            assert sums.dtype == np.int64


# --------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("steps", [[0.0], [1.0, -1.0], [np.nan], [-0.0], [1.0, 0.0]], ids=str)
def test_steps_must_be_positive(steps):
    with pytest.raises(ValueError, match="steps must be positive"):
        gains(Logistic(), steps=steps)


@pytest.mark.parametrize("steps", [[], [[1.0]], [np.inf], 1.0, [2.0**60]], ids=str)
def test_steps_must_be_a_sequence_of_finite_numbers(steps):
    with pytest.raises(ValueError, match="multiples"):
        gains(Logistic(), steps=steps)


@pytest.mark.parametrize("direction", [np.zeros(5), np.full(5, 1e-200)], ids=["zero", "next to zero"])
def test_a_gain_per_unit_needs_a_direction(direction):
    with pytest.raises(ValueError, match="must not be zero"):
        ArmijoGains(Logistic(), np.ones(5), direction, [1.0], clip=1.0)
    without = ArmijoGains(Logistic(), np.ones(5), direction, [1.0], clip=1.0, per_unit=False)
    assert total(ArrayRows(np.ones((3, 4)), np.ones(3)), without).tolist() == [0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_weights_and_directions_must_be_finite(bad):
    for w, direction in ((np.full(5, bad), np.ones(5)), (np.ones(5), np.full(5, bad))):
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="weights must be finite"):
            ArmijoGains(Logistic(), w, direction, [1.0], clip=1.0)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="takes weights of shape"):
        ArmijoGains(Softmax(3), np.zeros(5), np.ones((5, 3)), [1.0], clip=1.0)
    with pytest.raises(ValueError, match="takes weights of shape"):
        ArmijoGains(Logistic(), np.zeros(5), np.ones((5, 1)), [1.0], clip=1.0)
    with pytest.raises(ValueError, match="same shape"):
        ArmijoGains(Logistic(), np.zeros(5), np.ones(4), [1.0], clip=1.0)


@pytest.mark.parametrize("clip", [0, -1.0, np.nan, np.inf, 2.0**-101, 2.0**101])
def test_clip_is_validated(clip):
    with pytest.raises(ValueError, match="clip="):
        gains(Logistic(), clip=clip)
