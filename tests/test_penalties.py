import numpy as np
import pytest
from scipy.optimize import check_grad

from dpsk.penalties import L2, Bounded


@pytest.mark.parametrize("kind", [L2, Bounded])
@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_gradient_is_the_derivative_of_the_value(shape, free_intercept, kind):
    penalty = kind(0.3, free_intercept=free_intercept)
    w = np.random.default_rng(0).normal(size=shape)
    error = check_grad(
        lambda v: penalty.value(v.reshape(shape)), lambda v: penalty.gradient(v.reshape(shape)).ravel(), w.ravel()
    )
    assert error < 1e-6
    h = 1e-6 * np.random.default_rng(1).normal(size=shape)
    change = (penalty.gradient(w + h) - penalty.gradient(w - h)) / 2
    np.testing.assert_allclose(change, penalty.curvature(w) * h, atol=1e-14, rtol=1e-5)


@pytest.mark.parametrize("kind", [L2, Bounded])
def test_the_constants_are_those_of_its_derivatives(kind):
    penalty, w = kind(0.7), np.linspace(-6, 6, 240_001)[:, None]
    curvature = penalty.curvature(w)
    assert curvature.max() == pytest.approx(penalty.smoothness, rel=1e-9)
    assert -curvature.min() <= penalty.concavity + 1e-12
    assert kind is L2 or -curvature.min() == pytest.approx(penalty.concavity, rel=1e-6)
    third = np.abs(np.diff(curvature[:, 0]) / np.diff(w[:, 0])).max()
    assert third <= penalty.jerk + 1e-9
    assert third == pytest.approx(penalty.jerk, rel=1e-4, abs=1e-9)
    assert penalty.value(np.zeros(3)) == 0
    assert (penalty.values(w[:, None, :]) >= 0).all()


def test_the_bounded_penalty_lets_large_weights_be():
    w = np.array([1e9, -3.0, 0.0, 5.0])
    assert Bounded(2.0).value(w) == pytest.approx(2 * (1 + 0.9 + 25 / 26))
    assert Bounded(2.0, free_intercept=True).value(w) == pytest.approx(2 * 1.9)
    assert abs(Bounded(2.0).gradient(w)[0]) < 1e-26


def test_a_free_intercept_is_not_penalised_and_weights_are_not_touched():
    w = np.array([1.0, 2.0, 1000.0])
    assert L2(2.0, free_intercept=True).value(w) == 5.0
    assert L2(2.0).value(w) == 5.0 + 1e6
    assert w[-1] == 1000.0


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [L2, Bounded])
def test_alpha_is_validated(alpha, kind):
    with pytest.raises(ValueError, match="alpha"):
        kind(alpha)
