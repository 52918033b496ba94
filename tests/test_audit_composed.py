"""The composed profile is that of exact sums, and never above them."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from dpsk.audits.coins import Coin
from dpsk.audits.composed import Batches, Composed, gaussian_profile, grouped
from dpsk.privacy.conversions import gaussian_delta

EPSILONS = np.linspace(0, 4, 21)


def exact(coins, epsilon):
    """Return the profile of coins by going through all their outcomes."""
    one = other = 0.0
    for heads in product((True, False), repeat=len(coins)):
        p = math.prod(coin.often if head else 1 - coin.often for head, coin in zip(heads, coins, strict=True))
        r = math.prod(coin.seldom if head else 1 - coin.seldom for head, coin in zip(heads, coins, strict=True))
        one += max(0.0, p - math.exp(epsilon) * r)
        other += max(0.0, r - math.exp(epsilon) * p)
    return max(one, other)


def test_profiles_are_those_of_exact_sums_and_never_above():
    coins = [Coin(0.7, 0.3)] * 3 + [Coin(0.5, 0.2), Coin(0.99, 0.9)]
    found, wanted = Composed(coins=coins).delta(EPSILONS), np.array([exact(coins, e) for e in EPSILONS])
    assert (found <= wanted).all()
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-5)
    assert (Composed(0.8, [Coin(0.5, 0.5)]).delta(EPSILONS) <= gaussian_profile(0.8, EPSILONS)).all()
    np.testing.assert_allclose(
        Composed(0.8, [Coin(0.5, 0.5)]).delta(EPSILONS), gaussian_profile(0.8, EPSILONS), rtol=5e-3, atol=1e-7
    )


def test_the_profile_of_gaussian_noise_is_that_of_the_library():
    wanted = [gaussian_delta(float(e), 0.8) for e in EPSILONS]
    np.testing.assert_allclose(gaussian_profile(0.8, EPSILONS), wanted, rtol=1e-9)
    assert (gaussian_profile(0.0, EPSILONS) == 0).all()


@pytest.mark.parametrize(("rate", "mu", "count"), [(0.05, 1.0, 100), (0.3, 0.5, 30)])
def test_batches_agree_with_an_independent_accountant(rate, mu, count):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    theirs = pld.from_gaussian_mechanism(1 / mu, sampling_prob=rate, value_discretization_interval=1e-4)
    wanted = np.array([theirs.self_compose(count).get_delta_for_epsilon(e) for e in EPSILONS])
    found = Composed(batches=[Batches(mu, rate, count)]).delta(EPSILONS)
    assert (found <= wanted * (1 + 1e-9) + 1e-12).all()
    seen = wanted > 1e-7
    np.testing.assert_allclose(found[seen], wanted[seen], rtol=0.12)


def test_batches_of_about_one_size_are_taken_together_from_below():
    found = grouped([(0.12345, 0.1), (0.12391, 0.1), (0.5, 0.1), (0.0, 0.1)])
    assert [(round(one.mu, 6), one.rate, one.count) for one in found] == [(0.123, 0.1, 2), (0.5, 0.1, 1)]


def test_adaptive_shifts_with_one_sum_of_squares_are_one_gaussian():
    """Shifts that follow from earlier noise, with a fixed sum of squares: the sum of 17.4 has a normal law.

    Kolmogorov-Smirnov on 20,000 draws fails by chance with probability 1e-6 (a distance of 0.0193).
    """
    rng = np.random.default_rng(0)
    draws, m = 20_000, 1.3
    for theta in (0, 1):
        total, left = np.zeros(draws), np.full(draws, m * m)
        mu = np.full(draws, 0.4)
        while (left > 1e-15).any():
            z, extra = rng.standard_normal((2, draws))
            b = np.sqrt(np.minimum(left, mu * mu))
            part = b / mu
            total += b * (part * (z + theta * mu) + np.sqrt(np.maximum(0, 1 - part**2)) * extra)
            left = np.maximum(left - b * b, 0)
            mu = 0.2 + 0.5 * (z + theta * mu > 0.3)  # the next shift follows from what was seen
        scaled = np.sort((total - theta * m * m) / m)
        distance = np.abs(np.arange(1, draws + 1) / draws - norm.cdf(scaled)).max()
        assert distance < 0.0193


def test_losses_that_fall_off_the_grid_do_not_come_back_at_its_other_end():
    # a million small losses, each rounded down, once added up to less than the grid holds: deltas were twice too high
    epsilons = np.linspace(0, 2, 21)
    composed = Composed(0.0, (), [Batches(0.001, 1 - 1e-12, 1_000_000)])
    assert (composed.delta(epsilons) <= gaussian_profile(1.0, epsilons)).all()
