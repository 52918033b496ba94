"""Bounds from counts, and what they say about promises: against exact pairs of distributions."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpsk.audits.claims import Claim
from dpsk.audits.coins import Coin, least, most
from dpsk.privacy.currencies import ZCDP, GaussianDP, PureDP, RenyiDP

DELTA = 1e-6


def claim(currency=None, epsilon=1.0, delta=DELTA):
    return Claim(epsilon, delta, currency, math.nan if currency is None else currency.limit(epsilon, delta))


@pytest.mark.parametrize("p", [0.0, 0.01, 0.3, 0.97, 1.0])
def test_bounds_from_counts_hold_as_often_as_they_say(p):
    """Exactly: the probabilities of all counts for which a bound is wrong add up to at most the error."""
    tosses, error = 60, 0.05
    counts = np.arange(tosses + 1)
    chance = binom.pmf(counts, tosses, p)
    assert chance[[least(int(k), tosses, error) > p for k in counts]].sum() <= error + 1e-12
    assert chance[[most(int(k), tosses, error) < p for k in counts]].sum() <= error + 1e-12
    assert least(30, tosses, error) > 0.35
    assert most(30, tosses, error) < 0.65


def test_a_coin_between_the_bounds_needs_no_less():
    epsilons = np.linspace(0, 5, 51)
    bounds = Coin(0.6, 0.2).delta(epsilons)
    for p, r in ((0.6, 0.2), (0.7, 0.2), (0.6, 0.1), (0.99, 0.01)):
        assert (Coin(p, r).delta(epsilons) >= bounds - 1e-15).all()
    assert (Coin(0.5, 0.2).delta(epsilons) < bounds).any()
    assert Coin.seen((80, 10), (100, 100), 1e-3) == Coin(least(80, 100, 5e-4), most(10, 100, 5e-4))


def gaussian(mu):
    return lambda e: np.maximum(norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu), 0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
def test_the_least_epsilon_of_an_exact_pair_is_its_own(epsilon):
    promise = claim(GaussianDP(), epsilon)
    exact = gaussian(math.sqrt(promise.limit))
    assert promise.least_epsilon(exact) == pytest.approx(epsilon, rel=0.02)
    assert promise.least_epsilon(exact) <= epsilon * (1 + 1e-9)
    pure = claim(PureDP(), epsilon, 0.0)
    response = Coin(1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon)))
    assert pure.least_epsilon(response.delta) == pytest.approx(epsilon, rel=1e-6)
    assert claim(None, epsilon, 0.0).least_epsilon(response.delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("currency", [None, GaussianDP(), ZCDP(), PureDP(), RenyiDP(22.0)], ids=str)
def test_a_true_promise_is_never_refused(currency):
    """The pair keeps every one of these promises, and is close to no more."""
    delta = 0.0 if isinstance(currency, PureDP) else DELTA
    promise = claim(currency, 1.0, delta)
    pure = Coin(1 / (1 + math.exp(-0.1)), 1 / (1 + math.exp(0.1)))  # 0.1-DP
    assert not promise.refuted_by(pure.delta)
    assert promise.least_epsilon(pure.delta) <= 1.0
    broken = Coin(0.9, 0.1)
    assert promise.refuted_by(broken.delta)
    assert promise.least_epsilon(broken.delta) > 1.0
    assert promise.least_epsilon(Coin(1.0, 0.0).delta) == math.inf


def test_two_units_are_charged_as_two():
    promise = claim(GaussianDP())
    mu = math.sqrt(promise.limit)
    assert not promise.refuted_by(gaussian(2 * mu), size=2)
    assert promise.refuted_by(gaussian(2 * mu), size=1)
    assert promise.refuted_by(gaussian(2.05 * mu), size=2)
    assert promise.least_epsilon(gaussian(2 * mu), 2) == pytest.approx(1.0, rel=0.02)
    for currency in (None, RenyiDP(22.0)):  # (2 epsilon, (1 + e^epsilon) delta), and no more
        plain = claim(currency)
        assert plain.delta_at(np.array([2.0]), 2)[0] == pytest.approx((1 + math.e) * DELTA, rel=1e-6)
    pure = claim(PureDP(), 1.0, 0.0)
    two = Coin(1 / (1 + math.exp(-2.0)), 1 / (1 + math.exp(2.0)))
    assert not pure.refuted_by(two.delta, 2)
    assert pure.refuted_by(two.delta, 1)


def test_what_promises_nothing_is_refused():
    for wrong in ((math.inf, 0.0), (0.0, 0.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="no promise"):
            Claim(*wrong)
