"""Sums of Hessians: what one row can move, exactness, and agreement with plain numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, Columns, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, MarginLoss, OneVsRest, Sigmoid, Softmax, SquaredHinge
from dpsk.queries import HessianSum
from dpsk.testing import check_query

BINARY = [Logistic(), HuberHinge(), SquaredHinge(), Sigmoid()]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("clip", [1e-6, 0.7, 1e6])
@pytest.mark.parametrize("loss", BINARY, ids=repr)
def test_sensitivity_of_binary_losses(loss, clip, fit_intercept):
    w = np.random.default_rng(0).normal(size=4 + fit_intercept)
    check_query(HessianSum(loss, w, clip=clip), n_features=4, fit_intercept=fit_intercept, trials=30)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_sensitivity_of_several_classes(n_classes):
    w = np.random.default_rng(0).normal(size=(5, n_classes))
    for loss in BINARY:
        check_query(HessianSum(OneVsRest(loss, n_classes), w, clip=0.3), n_features=4, n_classes=n_classes, trials=20)


def test_sensitivity_with_data_norm():
    query = HessianSum(Sigmoid(), np.ones(5), clip=HessianSum.largest(Sigmoid(), np.sqrt(2)))
    check_query(query, n_features=4, data_norm=1.0)


def placed(X, y):
    low, high = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 4.0, 3.0])
    columns = Columns.within(low, high, 3).standardised(np.array([1.0, 20.0, 3.0]), np.array([0.3, -0.2, 0.0]))
    return ArrayRows(X, y, RowMap(columns=columns))


@pytest.mark.parametrize("clip", [1e-3, 5.0])
def test_sensitivity_of_standardised_columns(clip):
    check_query(HessianSum(Logistic(), np.ones(4), clip=clip), n_features=3, make_rows=placed)


def frobenius(rows, others, query, y=1.0, other_y=1.0):
    """How far replacing some rows moves the sum, in units of the promise of a leaving row."""

    def total(X, label):
        return ArrayRows(X, np.full(len(X), label), RowMap(fit_intercept=False)).total(query)

    change = total(np.array(rows), y) - total(np.array(others), other_y)
    return np.linalg.norm(change.astype(float)) / query.sensitivity("zero-out").l2


def test_the_promised_sensitivities_are_reached():
    """Leaving: the clip. Replaced: sqrt(2) of it, by orthogonal rows, where phi is convex; else twice, by one row."""
    query = HessianSum(Logistic(), np.zeros(3), clip=1.0)
    nothing, east, north = [[0.0, 0.0, 0.0]], [[9.0, 0.0, 0.0]], [[0.0, 9.0, 0.0]]
    assert frobenius(east, nothing, query) == pytest.approx(1.0, abs=1e-3)
    assert frobenius(east, north, query) == pytest.approx(np.sqrt(2), abs=2e-3)
    assert query.sensitivity("replace").l2 == pytest.approx(np.sqrt(2) * query.sensitivity("zero-out").l2, rel=1e-12)
    query = HessianSum(Sigmoid(), np.array([0.1, 0.0, 0.0]), clip=1.0)
    assert frobenius(east, east, query, 1.0, -1.0) == pytest.approx(2.0, abs=2e-3)
    assert query.sensitivity("replace").l2 == 2 * query.sensitivity("zero-out").l2


class Lopsided(MarginLoss):
    """Curved up to 1, down to 0.2."""

    lipschitz, smoothness, concavity = 10.0, 1.0, 0.2

    def phi(self, margin):
        raise NotImplementedError

    slope = phi

    def curvature(self, margin):
        return np.where(margin > 0, 1.0, -0.2)

    def __hash__(self):
        return 0


def test_negative_curvature_is_cut_where_it_is_promised_to_be():
    """max(sqrt(2) clip, clip + m): for m = 0.2 orthogonal rows are worst."""
    query = HessianSum(Lopsided(), np.array([1.0, 0.0]), clip=1.0)
    assert query.sensitivity("replace").l2 / query.sensitivity("zero-out").l2 == pytest.approx(np.sqrt(2))
    check_query(query, n_features=2, fit_intercept=False)
    for concavity, factor in ((0.2, np.sqrt(2)), (0.9, 1.9)):
        loss = Lopsided()
        loss.concavity = concavity
        query = HessianSum(loss, np.array([1.0, 0.0]), clip=1e-3)
        assert query.sensitivity("replace").l2 / query.sensitivity("zero-out").l2 == pytest.approx(factor)
        # whatever the loss returns: -0.2 is far more than the clip allows of this row
        assert frobenius([[9.0, 0.0]], [[0.0, 0.0]], query, -1.0) <= concavity * (1 + 1e-9)


@pytest.mark.parametrize("returned", [np.nan, np.inf, -np.inf, 1e300, -1e300])
def test_whatever_a_loss_returns_the_bound_holds(returned):
    class Broken(Logistic):
        def curvature(self, margin):
            return np.where(margin > 0, returned, 0.1)

    check_query(HessianSum(Broken(), np.ones(5), clip=1.0), n_features=4, trials=20)
    with np.errstate(all="ignore"):
        alone = ArrayRows(np.ones((1, 4)), np.ones(1)).total(HessianSum(Broken(), np.ones(5), clip=1.0))
    assert np.linalg.norm(alone.astype(float)) <= HessianSum(Broken(), np.ones(5), clip=1.0).sensitivity("zero-out").l2
    check_query(HessianSum(OneVsRest(Broken(), 3), np.ones((5, 3)), clip=1.0), n_features=4, n_classes=3, trials=20)


class ForgetsToClip(HessianSum):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.clip *= 1.5

    def sensitivity(self, adjacency):
        l2 = super().sensitivity(adjacency)
        return type(l2)(l2.l1 / 1.5, l2.l2 / 1.5, l2.linf / 1.5)


class IgnoresReplacement(HessianSum):
    def sensitivity(self, adjacency):
        return super().sensitivity("zero-out")


@pytest.mark.parametrize("broken", [ForgetsToClip, IgnoresReplacement])
@pytest.mark.parametrize("loss", [Logistic(), Sigmoid()], ids=repr)
def test_check_query_catches(broken, loss):
    with pytest.raises(AssertionError, match="one unit moved the sum"):
        check_query(broken(loss, np.full(5, 0.1), clip=1e-3), n_features=4)


# -------------------------------------------------------------------------------------------------------- the values


def plain(loss, X, y, w):
    return np.einsum("i,ij,ik->jk", loss.second_derivative(X @ w, y), X, X)


@pytest.mark.parametrize("loss", BINARY, ids=repr)
def test_values_are_those_of_plain_numpy(loss):
    rng = np.random.default_rng(1)
    X, y, w = rng.integers(-64, 65, (5000, 3)) / 16, rng.choice([-1.0, 1.0], 5000), rng.integers(-8, 9, 4) / 16
    with_ones = np.hstack([X, np.ones((5000, 1))])
    query = HessianSum(loss, w, clip=HessianSum.largest(loss, 8.0))
    got = ArrayRows(X, y).total(query) * query.unit
    assert np.linalg.norm(got - plain(loss, with_ones, y, w), 2) <= 5000 * query.rounding(4)
    assert np.linalg.norm(got - plain(loss, with_ones, y, w), 2) <= 1e-5 * 5000 * query.clip


def test_values_of_several_classes():
    rng = np.random.default_rng(1)
    loss = OneVsRest(Sigmoid(), 3)
    X, y, w = rng.normal(size=(3000, 3)), rng.integers(3, size=3000), rng.normal(size=(4, 3))
    with_ones = np.hstack([X, np.ones((3000, 1))])
    query = HessianSum(loss, w, clip=HessianSum.largest(loss, 8.0))
    got = ArrayRows(X, y, RowMap(n_classes=3)).total(query) * query.unit
    expected = [plain(Sigmoid(), with_ones, np.where(y == k, 1.0, -1.0), w[:, k]) / 3 for k in range(3)]
    assert np.abs(got - expected).max() < 1e-3 * np.abs(expected).max()


def test_a_clipped_row_keeps_its_direction():
    query = HessianSum(Logistic(), np.zeros(2), clip=0.1)
    got = ArrayRows(np.array([[3.0, 4.0]]), np.ones(1), RowMap(fit_intercept=False)).total(query) * query.unit
    np.testing.assert_allclose(got, 0.1 * np.array([[9, 12], [12, 16]]) / 25, rtol=2e-3)


def test_nothing_is_clipped_at_the_largest_hessian():
    """A row of norm R and curvature c has exactly the norm c R^2, for one class and for several."""
    X = np.array([[0.6, 0.8]])
    for loss, w, y in ((Logistic(), np.zeros(2), [1.0]), (OneVsRest(Logistic(), 4), np.zeros((2, 4)), [0])):
        query = HessianSum(loss, w, clip=HessianSum.largest(loss, 1.0))
        got = ArrayRows(X, np.array(y), RowMap(n_classes=loss.n_classes, fit_intercept=False)).total(query) * query.unit
        assert np.linalg.norm(got) == pytest.approx(query.clip, rel=2e-3)


def test_the_same_bits_on_every_storage_order_and_chunking():
    rng = np.random.default_rng(2)
    X = np.where(rng.random((6000, 5)) < 0.4, rng.normal(size=(6000, 5)) * 10.0 ** rng.integers(-3, 4, (6000, 1)), 0)
    y, w = rng.choice([-1.0, 1.0], 6000), rng.normal(size=6)
    query = HessianSum(Sigmoid(), w, clip=2.0)
    whole = ArrayRows(X, y).total(query)
    assert whole.any()
    assert np.array_equal(whole, whole.T)
    order = rng.permutation(6000)
    for rows in (
        ArrayRows(np.asfortranarray(X), y, RowMap(row_major=True)),
        ArrayRows(sp.csr_matrix(X), y),
        ArrayRows(X, y, chunk_rows=777),
        ArrayRows(X[order], y[order]),
        ArrayRows(X, y).subset(np.arange(6000)),
    ):
        assert np.array_equal(rows.total(query), whole)


def test_the_same_bits_with_standardised_columns():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(3000, 3)) * (rng.random((3000, 3)) < 0.5), rng.choice([-1.0, 1.0], 3000)
    query = HessianSum(Logistic(), np.ones(4), clip=3.0)
    assert np.array_equal(placed(X, y).total(query), placed(sp.csr_matrix(X), y).total(query))


def test_empty_rows_add_nothing():
    query = HessianSum(Logistic(), np.zeros(3), clip=1.0)
    assert not ArrayRows(np.ones((3, 2)), np.ones(3)).subset(np.zeros(0, dtype=np.int64)).total(query).any()
    assert not ArrayRows(np.zeros((3, 3)), np.ones(3), RowMap(fit_intercept=False)).total(query).any()


@pytest.mark.parametrize("loss", [Softmax(3), Hinge(), OneVsRest(Hinge(), 3)], ids=repr)
def test_losses_without_a_bounded_second_derivative_per_margin_are_refused(loss):
    shape = (4,) if loss.n_classes is None else (4, 3)
    with pytest.raises(ValueError, match="Hessians are summed for margin losses"):
        HessianSum(loss, np.zeros(shape), clip=1.0)


@pytest.mark.parametrize("clip", [0, -1.0, np.nan, np.inf])
def test_clip_is_validated(clip):
    with pytest.raises(ValueError, match="clip="):
        HessianSum(Logistic(), np.zeros(3), clip=clip)


def test_the_unit_depends_on_public_facts_only():
    assert HessianSum(Logistic(), np.zeros(3), clip=3.0).unit == 4 * 2.0**-36
