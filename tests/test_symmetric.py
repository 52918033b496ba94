"""Gaussian noise on symmetric matrices: its distribution in every direction, and what it costs."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from dpsk.mechanisms import SeededBits, Sensitivity, SymmetricGaussian
from dpsk.mechanisms.additive import _two_scales
from dpsk.privacy import BudgetExhausted
from dpsk.testing import check_mechanism

SENSITIVITY = Sensitivity(l1=2048.0, l2=1024.0, linf=1024.0)
ALLOWED = 1e-9  # probability with which a comparison may fail by chance


def noise(mu=0.5, p=3, times=4000, seed=0, blocks=()):
    bits, zero = SeededBits(seed), np.zeros((*blocks, p, p), dtype=np.int64)
    mechanism = SymmetricGaussian(mu)
    return np.array([mechanism(zero, SENSITIVITY, bits) for _ in range(times)])


def spread_agrees(sample, sigma):
    """Whether the mean square of independent normal numbers fits sigma."""
    statistic, n = np.square(sample / sigma).sum(), sample.size
    return 2 * min(chi2.cdf(statistic, n), chi2.sf(statistic, n)) > ALLOWED


def test_noise_is_symmetric():
    sample = noise(times=10, blocks=(2,))
    assert sample.shape == (10, 2, 3, 3)
    assert np.array_equal(sample, np.swapaxes(sample, -1, -2))
    assert not np.array_equal(sample[:, 0], sample[:, 1]), "blocks have noise of their own"


@pytest.mark.slow
@pytest.mark.parametrize("factor", [2 / 3, 1.0, 3 / 2])
def test_it_is_the_same_in_every_direction_of_the_space_of_symmetric_matrices(factor):
    """<E, D> for symmetric D of Frobenius norm 1 has the standard deviation l2/mu, whatever D; 2/3 and 3/2 are told
    apart. Off the diagonal an entry alone has 1/sqrt(2) of it.
    """
    sample, sigma, rng = noise(), factor * 2048.0, np.random.default_rng(0)
    directions = [np.diag([1.0, 0.0, 0.0]), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])]
    for _ in range(5):
        d = rng.normal(size=(3, 3))
        directions.append(d + d.T)
    for direction in directions:
        along = np.einsum("njk,jk->n", sample, direction / np.linalg.norm(direction))
        assert spread_agrees(along, sigma) == (factor == 1)
    assert spread_agrees(sample[:, 0, 1], sigma / math.sqrt(2)) == (factor == 1)
    if factor == 1:
        assert kstest(sample[:, 1, 1] / sigma, "norm").pvalue > ALLOWED
        assert kstest(sample[:, 0, 2] / sigma * math.sqrt(2), "norm").pvalue > ALLOWED


@pytest.mark.slow
def test_entries_are_independent_within_a_block_and_between_blocks():
    """Correlations of 4,000 independent pairs exceed 6.8/sqrt(4000) with probability below 1e-11 each."""
    entries = noise(blocks=(2,))[..., *np.triu_indices(3)].reshape(4000, 12)
    correlations = np.corrcoef(entries.T) - np.eye(12)
    assert np.abs(correlations).max() < 6.8 / math.sqrt(4000)


def test_spectral_noise_is_what_is_promised():
    """About sqrt(2 p) sigma, not sqrt(p) times that: the paper's sensitivity has a factor of sqrt(p) for nothing."""
    largest = np.linalg.eigvalsh(noise(p=54, times=20)[:, :, :] / 2048.0)[:, -1]
    assert abs(largest.mean() / math.sqrt(2 * 54) - 1) < 0.1


@pytest.mark.thorough
@pytest.mark.slow
def test_it_passes_check_mechanism():
    zero, along = np.zeros((2, 2), dtype=np.int64), np.zeros((2, 2), dtype=np.int64)
    along[0, 1] = along[1, 0] = math.floor(1024 / math.sqrt(2))
    corner, both = np.diag([1024, 0]), np.array([[724, 362], [362, -512]])
    for other in (along, corner, both):
        assert 1000 < np.linalg.norm(other) <= 1024
    pairs = [(zero, along), (zero, corner), (zero, both)]
    assert check_mechanism(SymmetricGaussian(1.0), sensitivity=SENSITIVITY, neighbours=pairs, draws=2_000) > 0.3


class LessOffTheDiagonal(SymmetricGaussian):
    """The tempting mistake: noise of half the standard deviation, instead of the root of half the variance."""

    def __call__(self, value, sensitivity, bits):
        noisy = super().__call__(value, sensitivity, bits)
        diagonal = np.diag(np.diag(noisy - value))
        return value + diagonal + (noisy - value - diagonal) / math.sqrt(2)


@pytest.mark.thorough
@pytest.mark.slow
def test_check_mechanism_catches_too_little_noise_off_the_diagonal():
    along = np.zeros((2, 2), dtype=np.int64)
    along[0, 1] = along[1, 0] = math.floor(1024 / math.sqrt(2))
    pairs = [(np.zeros((2, 2), dtype=np.int64), along)]
    with pytest.raises(AssertionError, match="is not as private as"):
        check_mechanism(LessOffTheDiagonal(2.5), sensitivity=SENSITIVITY, neighbours=pairs, draws=8_000)


def test_only_the_symmetric_part_is_released():
    """Replacing a matrix by it never enlarges a Frobenius norm, so a skew matrix is as safe."""
    value = np.array([[5, 1000], [-1000, 7]])
    released = SymmetricGaussian(1e6)(value, Sensitivity(1.0, 1.0, 1.0), SeededBits(0))
    assert np.abs(released - np.diag([5, 7])).max() <= 5


def test_values_come_out_in_their_places():
    value = np.array([[[1, 20, 30], [20, 4, 50], [30, 50, 6]], [[0, 0, 0], [0, 0, 0], [0, 0, 9]]]) * 2**30
    released = SymmetricGaussian(1.0)(value, Sensitivity(1.0, 1.0, 1.0), SeededBits(0))
    assert np.abs(released - value).max() < 50


@pytest.mark.parametrize("sigma", [1, 2, 3, 17, 1000, 2**40 + 1, 2**54])
def test_the_noise_off_the_diagonal_is_never_too_small(sigma):
    on, off = _two_scales(float(sigma), 1.0)
    assert on == sigma
    assert off**2 >= 2 * on**2 > (off - 1) ** 2


@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 3, 2)])
def test_matrices_have_to_be_square(shape):
    with pytest.raises(ValueError, match="square matrices"):
        SymmetricGaussian(1.0).check(SENSITIVITY, shape)


def test_too_much_noise_is_an_exhausted_budget():
    with pytest.raises(BudgetExhausted):
        SymmetricGaussian(1e-20).check(SENSITIVITY, (2, 2))


def test_it_costs_what_a_gaussian_costs():
    assert SymmetricGaussian(0.3).cost.rho == pytest.approx(0.045)
