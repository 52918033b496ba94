import math

import numpy as np
import pytest

from dpsk.data import ArrayRows, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax, SquaredHinge
from dpsk.queries import GradientSum
from dpsk.testing import check_query

BINARY = [Logistic(), Hinge(), HuberHinge(), SquaredHinge(), Sigmoid()]


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("clip", [1e-6, 0.7, 3.0, 1e6])
@pytest.mark.parametrize("loss", BINARY, ids=repr)
def test_sensitivity_of_binary_losses(loss, clip, fit_intercept):
    w = np.random.default_rng(0).normal(size=4 + fit_intercept)
    check_query(GradientSum(loss, w, clip=clip), n_features=4, fit_intercept=fit_intercept, trials=40)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_sensitivity_of_several_classes(n_classes):
    w = np.random.default_rng(0).normal(size=(5, n_classes)) * 3
    losses = [Softmax(n_classes), *(OneVsRest(loss, n_classes) for loss in BINARY)]
    for loss in losses:
        check_query(GradientSum(loss, w, clip=1.3), n_features=4, n_classes=n_classes, trials=30)


def test_sensitivity_is_reached():
    """A bound that is never reached would waste the budget."""
    reached = check_query(GradientSum(Logistic(), np.zeros(5), clip=1.3), n_features=4)
    assert reached > 1 - 1e-6
    w = np.random.default_rng(0).normal(size=(5, 3))
    assert check_query(GradientSum(Softmax(3), w, clip=1.3), n_features=4, n_classes=3) > 1 - 1e-4


def test_sensitivity_with_data_norm():
    check_query(GradientSum(Logistic(), np.ones(5), clip=0.5), n_features=4, data_norm=1.0)


class ForgetsToClip(GradientSum):
    def __call__(self, chunk):
        chunk.norm[:] = 1.0
        return super().__call__(chunk)


class IgnoresReplacement(GradientSum):
    def sensitivity(self, adjacency):
        return super().sensitivity("zero-out")


class ForgetsTheIntercept(GradientSum):
    def __call__(self, chunk):
        chunk.norm = np.maximum(np.sqrt(np.square(np.asarray(_dense(chunk.units))).sum(axis=1)), 2.0**-18)
        return super().__call__(chunk)


def _dense(units):
    return units if isinstance(units, np.ndarray) else units.toarray()


@pytest.mark.parametrize("broken", [ForgetsToClip, IgnoresReplacement, ForgetsTheIntercept])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_check_query_catches(broken):
    with pytest.raises(AssertionError, match="one unit moved the sum"):
        check_query(broken(Logistic(), np.zeros(5), clip=1.0), n_features=4)


@pytest.mark.parametrize("clip", [0, -1.0, np.nan, np.inf, "1"])
def test_clip_is_validated(clip):
    with pytest.raises(ValueError, match="clip="):
        GradientSum(Logistic(), np.zeros(3), clip=clip)


def test_the_unit_depends_on_public_facts_only():
    assert GradientSum(Logistic(), np.zeros(3), clip=3.0).unit == 4 * 2.0**-36


def test_a_row_of_zeros_moves_only_the_intercept():
    rows = ArrayRows(np.zeros((1, 3)), np.ones(1))
    total = rows.total(GradientSum(Logistic(), np.zeros(4), clip=1.0))
    assert total[:3].tolist() == [0, 0, 0]
    assert total[3] < 0


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("whole", [Logistic(), Softmax(3)], ids=lambda loss: type(loss).__name__)
def test_a_loss_of_short_numbers_does_not_loosen_the_bound(whole, kind):
    """Limits would be rounded up to its type, in half precision to infinity."""

    class Short(type(whole)):
        def derivative(self, scores, y):
            return super().derivative(scores, y).astype(kind)

    several = isinstance(whole, Softmax)
    loss, n_classes = (Short(3), 3) if several else (Short(), None)
    w, labels = np.zeros((5, 3) if several else 5), np.zeros(1) if several else np.ones(1)
    rng = np.random.default_rng(0)
    for clip in (0.3, 1e-3):
        query = GradientSum(loss, w, clip=clip)
        for _ in range(50):
            X = rng.normal(size=(1, 4)) * 10.0 ** rng.uniform(-2, 6)
            total = ArrayRows(X, labels, RowMap(n_classes)).total(query)
            assert math.sqrt(sum(int(c) ** 2 for c in total.ravel())) <= query.sensitivity("zero-out").l2
