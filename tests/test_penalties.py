import numpy as np
import pytest
from scipy.optimize import check_grad

from dpsk.penalties import L2


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_gradient_is_the_derivative_of_the_value(shape, free_intercept):
    penalty = L2(0.3, free_intercept=free_intercept)
    w = np.random.default_rng(0).normal(size=shape)
    error = check_grad(
        lambda v: penalty.value(v.reshape(shape)), lambda v: penalty.gradient(v.reshape(shape)).ravel(), w.ravel()
    )
    assert error < 1e-6


def test_a_free_intercept_is_not_penalised_and_weights_are_not_touched():
    w = np.array([1.0, 2.0, 1000.0])
    assert L2(2.0, free_intercept=True).value(w) == 5.0
    assert L2(2.0).value(w) == 5.0 + 1e6
    assert w[-1] == 1000.0


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_alpha_is_validated(alpha):
    with pytest.raises(ValueError, match="alpha"):
        L2(alpha)
