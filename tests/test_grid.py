from fractions import Fraction

import numpy as np
import pytest

from dpsk.data.grid import CHUNK_ROWS, UNIT_BITS, WEIGHT_BITS, power_of_two_above, weights_on_grid


@pytest.mark.parametrize(("x", "power"), [(1.0, 1.0), (1.0000001, 2.0), (3.0, 4.0), (0.5, 0.5), (0.3, 0.5)])
def test_power_of_two_above(x, power):
    assert power_of_two_above(x) == power


def test_the_bits_leave_room_for_every_partial_sum():
    # a clipped gradient entry is at most 2^UNIT_BITS residual steps of at most 2^UNIT_BITS unit steps
    assert CHUNK_ROWS * 2 ** (2 * UNIT_BITS) <= 2**53
    # scores: |units . w| <= ||w||_1, in steps of 2^-UNIT_BITS * spacing
    assert 32 * 2 ** (UNIT_BITS + WEIGHT_BITS) <= 2**53


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1.0, 1e9, 1e100])
@pytest.mark.parametrize("shape", [(7,), (7, 3)])
def test_weights_are_close_to_what_was_asked_for_and_on_the_grid(scale, shape):
    w = np.random.default_rng(0).normal(size=shape) * scale
    rounded, spacing = weights_on_grid(w)
    assert np.abs(rounded - w).max() <= spacing / 2
    assert all((Fraction(v) / Fraction(spacing)).denominator == 1 for v in rounded.ravel())
    assert np.abs(rounded).sum(axis=0).max() <= spacing * 2 ** (WEIGHT_BITS + 1)
    again, same = weights_on_grid(rounded)
    assert np.array_equal(again, rounded)
    assert same == spacing


def test_points_of_a_line_are_kept_until_their_products_would_round():
    start, spacing = weights_on_grid(np.array([0.3, -0.2]))
    start[0] += spacing * (start[0] / spacing % 2 == 0)
    for multiple in (1, 7, 31, 61, 201):  # odd, so that they need the spacing of the start
        point = start * multiple
        kept, _ = weights_on_grid(point)
        exact = np.abs(point).sum() <= spacing * 2.0 ** (53 - UNIT_BITS)
        assert np.array_equal(kept, point) == exact


def test_a_step_uses_the_coarser_of_two_grids():
    _, spacing = weights_on_grid(np.ones(3))
    step, used = weights_on_grid(np.full(3, 1e-12), spacing)
    assert used == spacing
    assert np.all(step == 0)


def test_zero_weights():
    rounded, spacing = weights_on_grid(np.zeros(4))
    assert spacing > 0
    assert not rounded.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_weights_must_be_finite_and_sane(bad):
    with pytest.raises(ValueError, match="weights must be finite"):
        weights_on_grid(np.array([1.0, bad]))
