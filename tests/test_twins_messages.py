"""Messages of check_twins: numbers look like numbers, and mistakes of a call are named with their remedy."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpsk import check_twins
from dpsk.testing import check_company

X, Y = np.linspace(0, 1, 24).reshape(8, 3), np.arange(8) % 2
HUGE = {"a huge row": ([50.0, 50.0, 50.0], None)}


def noise(X, y):
    return np.random.default_rng().normal(size=3)


def large(X):
    return int((np.asarray(X) > 10).sum())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (large, "0 became 3,"),
        (lambda X: np.int64(large(X)), "0 became 3,"),
        (lambda X: np.float64(large(X) + 1) * 1.5e-10, "1.5e-10 became 6e-10,"),
        (lambda X: np.float32(large(X) + 0.5), "0.5 became 3.5,"),
        (lambda X: np.bool_(large(X) > 0), "False became True,"),
        (lambda X: np.array([large(X), 2]), "0 2 became 3 2,"),
        (lambda X: np.array([large(X)], np.uint8), "0 became 3,"),
        (lambda X: np.array([[large(X)]], ">i4"), "0 became 3,"),
        (lambda X: np.array([large(X)], np.float16), "0 became 3,"),
        (lambda X: np.array([large(X) / 4]), "0 became 0.75,"),
        (lambda X: np.array([large(X) > 0]), "False became True,"),
    ],
)
def test_numbers_look_like_numbers(value, said):
    with pytest.raises(AssertionError, match=rf"result \.n_: {said} whatever the noise"):
        check_twins(lambda X, y: SimpleNamespace(n_=value(X)), X, Y, rows=HUGE)


@pytest.mark.parametrize("action", [3, SimpleNamespace(fit=1)])
def test_an_action_is_a_function(action):
    said = rf"action is a {type(action).__name__}: give a function of \(X, y\) .* lambda X, y: model.fit\(X, y\)"
    with pytest.raises(TypeError, match=said):
        check_twins(action, X, Y)


def test_lists_are_tables():
    check_twins(noise, X.tolist(), Y.tolist())
    with pytest.raises(AssertionError, match="0 became 3"):
        check_twins(lambda X, y: large(X), X.tolist(), Y.tolist(), rows=HUGE)
    check_company(lambda X: np.asarray(X)[:, 0], X.tolist(), rows=HUGE)


@pytest.mark.parametrize("row", [[1, 2, 3], [1, 2], (1, 2, 3), None, "ab", ([1.0, 2.0], None), (5.0, None)])
def test_rows_are_values_and_a_label(row):
    said = r"rows=\{'a': .*\}: each must be a tuple \(values of the row or None, label or None\), with 3 values"
    with pytest.raises(ValueError, match=said):
        check_twins(noise, X, Y, rows={"a": row})
