import dataclasses
import math

import numpy as np
import pytest

from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax, SquaredHinge, sum_of_classes
from dpsk.testing import check_loss

MARGIN_LOSSES = [Logistic(), Hinge(), HuberHinge(), HuberHinge(h=0.1), SquaredHinge(), Sigmoid()]


@pytest.mark.parametrize("loss", MARGIN_LOSSES, ids=repr)
def test_binary_losses_keep_their_promises(loss):
    check_loss(loss)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_losses_for_several_classes_keep_their_promises(n_classes):
    check_loss(Softmax(n_classes), n_classes=n_classes)
    for loss in MARGIN_LOSSES:
        check_loss(OneVsRest(loss, n_classes), n_classes=n_classes)


def test_constants_are_attained():
    """A constant that is merely large enough would waste accuracy."""
    margins = np.linspace(-30, 30, 200_001)
    for loss in MARGIN_LOSSES:
        if math.isfinite(loss.lipschitz):
            assert np.abs(loss.slope(margins)).max() > 0.999 * loss.lipschitz
        if math.isfinite(loss.smoothness):
            assert np.abs(loss.curvature(margins)).max() > 0.999 * loss.smoothness
    certain = np.array([[50.0, -50.0, -50.0]])
    assert np.linalg.norm(Softmax(3).derivative(certain, np.array([1]))) == pytest.approx(math.sqrt(2))
    tie = np.array([[0.0, 0.0, -50.0]])
    assert np.linalg.eigvalsh(Softmax(3).second_derivative(tie, np.array([0])))[0, -1] == pytest.approx(0.5)
    wrong = np.where(np.arange(4) == 1, -50.0, 50.0)[None]
    assert np.linalg.norm(OneVsRest(Hinge(), 4).derivative(wrong, np.array([1]))) == pytest.approx(1 / 2)


def test_known_values():
    one = np.array([1.0])
    assert Logistic().value(np.array([0.0]), one)[0] == pytest.approx(math.log(2))
    assert Hinge().value(np.array([-1.0]), one)[0] == 2
    assert HuberHinge(0.5).value(np.array([1.0]), one)[0] == pytest.approx(0.125)
    assert SquaredHinge().value(np.array([-1.0]), one)[0] == 4
    assert Sigmoid().value(np.array([0.0]), one)[0] == 0.5
    assert Softmax(4).value(np.zeros((1, 4)), np.array([2]))[0] == pytest.approx(math.log(4))
    # K hinge losses at zero sum to K; their mean is 1 and is not clipped away
    assert OneVsRest(Hinge(), 10).value(np.zeros((1, 10)), np.array([3]))[0] == pytest.approx(1)


def test_softmax_with_two_classes_is_logistic():
    scores = np.random.default_rng(0).normal(size=(100, 2)) * 5
    y = np.random.default_rng(1).integers(2, size=100)
    margin, sign = scores[:, 1] - scores[:, 0], 2.0 * y - 1
    np.testing.assert_allclose(Softmax(2).value(scores, y), Logistic().value(margin, sign), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(Softmax(2).derivative(scores, y)[:, 1], Logistic().derivative(margin, sign), atol=1e-14)


def test_huber_refuses_a_corner_that_is_none():
    with pytest.raises(ValueError, match=r"h=0.*positive"):
        HuberHinge(h=0)


@dataclasses.dataclass(frozen=True)
class _Wrong(Logistic):
    what: str = ""

    def phi(self, margin):
        if self.what == "rows":
            return super().phi(margin - margin.mean())
        return np.exp(-margin) if self.what == "overflow" else super().phi(margin) - 0.01 * (self.what == "negative")

    def slope(self, margin):
        return super().slope(margin) * (0.9 if self.what == "slope" else 1)

    def curvature(self, margin):
        return super().curvature(margin) * (0.9 if self.what == "curvature" else 1)

    @property
    def lipschitz(self):
        return 0.99 if self.what == "lipschitz" else 1.0

    @property
    def smoothness(self):
        return 0.24 if self.what == "smoothness" else 0.25


def test_check_loss_accepts_the_unbroken_one():
    check_loss(_Wrong())


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("overflow", "overflows"),
        ("negative", "negative"),
        ("slope", "not the derivative of its value"),
        ("curvature", "not the derivative of its derivative"),
        ("lipschitz", "lipschitz is"),
        ("smoothness", "smoothness is"),
        ("rows", "depends on other rows"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_check_loss_catches(what, message):
    with pytest.raises(AssertionError, match=message):
        check_loss(_Wrong(what))


@dataclasses.dataclass(frozen=True)
class _MixesRows(Softmax):
    """The largest score of all rows where that of each row is meant: an easy slip."""

    def _probabilities(self, scores):
        p = np.exp(scores - scores.max())
        return p / np.maximum(p.sum(axis=1), 1e-300)[:, None]


def test_check_loss_catches_a_loss_that_mixes_rows():
    with pytest.raises(AssertionError, match="derivative of a row depends on other rows"):
        check_loss(_MixesRows(3), n_classes=3)


def test_the_sum_over_classes_of_a_row_does_not_depend_on_the_shape_of_the_array():
    """NumPy's own adds 8 or more numbers in pairs when a row stands alone, and one by one when columns come first."""
    values = np.asfortranarray(np.random.default_rng(0).normal(size=(200, 17)))
    alone = np.concatenate([sum_of_classes(values[i : i + 1]) for i in range(200)])
    assert np.array_equal(sum_of_classes(values), alone)
    assert not np.array_equal(values.sum(axis=1), [values[i : i + 1].sum() for i in range(200)]), "an idle test"


def test_check_loss_notices_a_wrong_corner():
    class Wrong(Logistic):
        def corner(self, steepness):
            return super().corner(steepness) + 0.3

    class Shape(Logistic):
        def corner(self, steepness):
            return super().corner(steepness)[:1]

    with pytest.raises(AssertionError, match="corner"):
        check_loss(Wrong())
    with pytest.raises(AssertionError, match="corner"):
        check_loss(Shape())


def test_check_loss_notices_what_would_void_a_minimum():
    """Determinants and rounding errors of minima rest on these numbers, and nothing else looks at them."""

    class TooFlat(Logistic):
        def curvature_below(self, steepness):
            return 0.5 * super().curvature_below(steepness)

    class TooFlatForLongRows(Logistic):
        def curvature_below(self, steepness):
            return super().curvature_below(steepness) if steepness < 0.5 else 1.0

    class WellConditioned(HuberHinge):
        conditioning = 0.25

    with pytest.raises(AssertionError, match="curvature_below is too small"):
        check_loss(TooFlat())
    with pytest.raises(AssertionError, match="curvature_below grows faster than its square"):
        check_loss(TooFlatForLongRows())
    with pytest.raises(AssertionError, match=r"conditioning is 0\.25, seen"):
        check_loss(WellConditioned())


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), HuberHinge(), SquaredHinge()], ids=repr)
def test_flattened_losses_are_convex_and_as_steep_as_allowed(loss):
    margins = np.linspace(-40, 40, 4001)
    for steepness in (1e-6, 0.2, 0.5, 1.0, 3.0):
        slope = np.full_like(margins, steepness)
        values = loss.flattened(margins, slope, loss.corner(slope))
        steps = np.diff(values) / np.diff(margins)
        assert (np.diff(steps) > -1e-9).all()
        assert steps.min() >= -steepness * (1 + 1e-9)
        if steepness <= loss.lipschitz:
            assert steps.min() == pytest.approx(-steepness, rel=1e-3)


def test_a_loss_that_is_not_convex_has_no_corner():
    assert Sigmoid().corner(np.array([0.1])) is None
