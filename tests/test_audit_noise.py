"""What an audit says about noise: scales from above, shapes, related noises, and coins of other mechanisms."""

import math

import numpy as np
import pytest

from dpsk.audits.noise_law import (
    coin_of,
    fresh_noise,
    is_normal,
    largest_scale,
    noise_of,
    related_noises,
    repeated_numbers,
)
from dpsk.audits.recording import Use
from dpsk.mechanisms import Gaussian, Laplace, NoisyMin, SeededBits, Sensitivity, SymmetricGaussian, SystemBits

ONE = Sensitivity(l1=1 << 20, l2=1 << 20, linf=1 << 20)


def use(mechanism, value, seed=0):
    value = np.asarray(value)
    return Use("value", mechanism, value, ONE, mechanism(value, ONE, SeededBits(seed)))


def test_scales_are_bounded_from_above():
    """Each bound of 400 is too low with probability 0.01: more than 15 are with probability 1e-5."""
    rng = np.random.default_rng(1)
    bounds = [largest_scale(rng.standard_normal(50), 0.01) for _ in range(400)]
    assert sum(bound < 1 for bound in bounds) <= 15
    assert max(bounds) < 2
    assert largest_scale(rng.standard_normal(200_000), 1e-4) < 1.01


@pytest.mark.parametrize(
    "one",
    [use(Gaussian(0.5), np.arange(30)), use(SymmetricGaussian(2.0), np.zeros((6, 6), np.int64))],
    ids=["vector", "matrix"],
)
def test_noise_is_measured_in_the_deviations_that_were_promised(one):
    fresh = fresh_noise(one)
    assert fresh.size > 100_000
    assert math.sqrt((fresh**2).mean()) == pytest.approx(1, abs=0.02)
    assert np.abs(noise_of(one)).max() < 6
    assert is_normal(fresh, one, 1e-6)


def test_other_shapes_are_told_apart():
    one = use(Gaussian(0.5), np.arange(30))
    rng = np.random.default_rng(2)
    assert not is_normal(rng.laplace(size=20_000), one, 1e-6)
    assert not is_normal(rng.uniform(-1, 1, 20_000), one, 1e-6)


def test_related_noise_is_told_apart():
    rng = np.random.default_rng(3)
    noises = [(f"fit {k}", rng.standard_normal(40)) for k in range(20)]
    assert related_noises(noises, 1e-3) == []
    assert len(related_noises([*noises, ("a copy", noises[4][1])], 1e-3)) == 1
    mixed = 0.9 * noises[7][1] + 0.4 * rng.standard_normal(40)
    assert "fit 7" in related_noises([*noises, ("a mixture", mixed)], 1e-3)[0]
    assert len(related_noises([*noises, ("the opposite", -noises[4][1])], 1e-3)) == 1


@pytest.mark.parametrize(
    ("mechanism", "values", "truth"),
    [
        (Laplace(1.0), ([1 << 20], [0]), 1.0),
        (NoisyMin(1.0), ([0, 1 << 20, 0], [1 << 20, 0, 1 << 20]), 1.0),
    ],
    ids=["laplace", "noisy min"],
)
def test_coins_of_other_mechanisms_stay_below_the_truth_and_come_close(mechanism, values, truth):
    """Both bounds of the coin hold but with probability 1e-6."""
    coin = coin_of(*([use(mechanism, value)] for value in values), error=1e-6, seconds=1.0)
    found = max(math.log(coin.often / coin.seldom), math.log((1 - coin.seldom) / (1 - coin.often)))
    assert 0.3 * truth < found <= truth


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda noise: noise, None),
        (lambda noise: np.append(noise[:-1], 0), "1 had no noise"),
        (lambda noise: np.append(noise[:-1], noise[0]), "1 that of another one"),
        (lambda noise: np.append(noise[:-1], -noise[0]), "1 that of another one"),
    ],
)
def test_entries_without_noise_of_their_own_are_told(spoil, words):
    mechanism, sensitivity, value = Gaussian(1.0), Sensitivity(2.0**40, 2.0**40, 2.0**40), np.arange(6)
    noise = spoil(np.asarray(mechanism(np.zeros(6, np.int64), sensitivity, SystemBits())))
    found = repeated_numbers([Use("a sum", mechanism, value, sensitivity, value + noise)], 1e-6)
    assert [words in text for text in found] == ([] if words is None else [True])


def test_noise_on_a_coarse_grid_may_repeat():
    mechanism, sensitivity, value = Gaussian(1.0), Sensitivity(9.0, 9.0, 9.0), np.zeros(100, np.int64)
    noisy = np.asarray(mechanism(value, sensitivity, SystemBits()))
    assert repeated_numbers([Use("a sum", mechanism, value, sensitivity, noisy)], 1e-6) == []
