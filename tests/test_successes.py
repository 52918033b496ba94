"""Successes: what one row moves the count by, and that it counts rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from row_changes import fractions

from dpsk.data import ArrayRows, RawRows
from dpsk.queries import Successes


def total(correct):
    column = np.asarray(correct, dtype=float)[:, None]
    return RawRows(column).total(Successes())


def test_it_counts_rows_whatever_their_value():
    assert total([0, 1, 1, 0, 1e-300, -5.0]) * Successes.unit == 4
    assert total([0.0]) == 0
    assert RawRows(sp.csr_matrix([[1.0], [0.0], [0.0]])).total(Successes()) * Successes.unit == 1


def test_the_sensitivity_is_kept_and_reached():
    rng, reached = np.random.default_rng(0), {}
    for _ in range(200):
        correct = rng.integers(2, size=rng.integers(2, 20))
        other = correct.copy()
        other[0] = rng.integers(2)
        for adjacency, neighbour in (("zero-out", correct[1:]), ("replace", other)):
            change = total(correct) - total(neighbour)
            for key, part in fractions(Successes(), adjacency, change).items():
                reached[key] = max(reached.get(key, 0), part)
    assert set(reached.values()) == {1.0}


def test_only_a_leaving_row_moves_it_in_one_direction():
    assert Successes().sensitivity("zero-out").monotone
    assert not Successes().sensitivity("replace").monotone


def test_other_rows_are_refused():
    with pytest.raises(ValueError, match="one column"):
        RawRows(np.ones((3, 2))).total(Successes())
    with pytest.raises(ValueError, match="user's units"):
        ArrayRows(np.ones((3, 1)), np.ones(3)).total(Successes())
