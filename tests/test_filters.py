"""Filters: whoever chooses prices as results come in gains nothing, in any currency, as long as their sum is fixed."""

import math

import numpy as np
import pytest

from dpsk.privacy import ZCDP, GaussianDP, PureCost, PureDP, RenyiDP
from dpsk.privacy.conversions import largest_within

CURRENCIES = [ZCDP(), GaussianDP(), RenyiDP(40.0), PureDP()]
DEPTH = 9


def transcripts(currency, limit, share_of, cheaper=1.0):
    """Return the probabilities of all transcripts of nine coins under two neighbours.

    Each coin is randomised response, which is as bad as a pure release can be. It is bought for a share of what is left
    of the limit, and the share depends on the coins before; ``cheaper`` than 1 is a price that is wrong.
    """
    p, q, left = np.ones(1), np.ones(1), np.full(1, limit)
    for step in range(DEPTH):
        spent = left * (1.0 if step == DEPTH - 1 else share_of(step, p / q))
        bought = {price: _epsilon(currency, price / cheaper) for price in set(spent.tolist())}
        epsilon = np.array([bought[price] for price in spent.tolist()])
        yes, no = 1 / (1 + np.exp(-epsilon)), 1 / (1 + np.exp(epsilon))
        p, q = np.concatenate([p * yes, p * no]), np.concatenate([q * no, q * yes])
        left = np.tile(left - spent, 2)
    return p, q


def _epsilon(currency, price):
    return largest_within(lambda e: currency.price(PureCost(e)), price) if price > 1e-12 else 0.0


def greedy_when_lucky(step, ratio):
    return np.where(ratio > 1, 0.4, 0.05)


def greedy_when_unlucky(step, ratio):
    return np.where(ratio < 1, 0.5, 0.1)


def even(step, ratio):
    return np.full(len(ratio), 1 / (DEPTH - step))


ADVERSARIES = [greedy_when_lucky, greedy_when_unlucky, even]


def largest_excess(currency, limit, adversary, cheaper=1.0):
    """Return the largest true delta over the promised one, in both directions; promises below 1e-9 are left out."""
    p, q = transcripts(currency, limit, adversary, cheaper)
    np.testing.assert_allclose([p.sum(), q.sum()], 1)
    found = []
    for epsilon in np.linspace(0, currency.epsilon(limit, 1e-4), 30):
        promised = currency.delta(limit, epsilon)
        if promised > 1e-9:
            true = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
            found.append(true / promised)
    return max(found)


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("currency", CURRENCIES, ids=lambda c: c.name)
def test_no_transcript_of_adaptive_prices_exceeds_the_promise(currency, adversary):
    for epsilon in (0.3, 1.0, 4.0):
        limit = epsilon if currency == PureDP() else currency.limit(epsilon, 1e-4)
        assert largest_excess(currency, limit, adversary) <= 1 + 1e-9


@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), PureDP()], ids=lambda c: c.name)
def test_a_price_that_is_too_low_is_seen(currency):
    limit = 1.0 if currency == PureDP() else currency.limit(1.0, 1e-4)
    assert largest_excess(currency, limit, even, cheaper=0.6) > 1


def test_epsilons_and_deltas_that_are_chosen_on_the_way_add_up():
    """Each release leaks all with chance delta, randomised response otherwise: none is worse."""
    epsilon, delta, rng = 1.0, 0.1, np.random.default_rng(0)
    for _ in range(40):
        weight = {"lucky": rng.random(2), "unlucky": rng.random(2)}
        # path: (P, Q, log of P/Q of the coins, what is left of both); a leak ends it, and is only possible under P
        paths, leaked = [(1.0, 1.0, epsilon, delta)], 0.0
        for step in range(6):
            after = []
            for p, q, e_left, d_left in paths:
                part = np.ones(2) if step == 5 else weight["lucky" if p > q else "unlucky"]
                e, d = e_left * part[0], d_left * part[1]
                yes = 1 / (1 + math.exp(-e))
                leaked += p * d
                kept = (p * (1 - d), q * (1 - d), e_left - e, d_left - d)
                after.append((kept[0] * yes, kept[1] * (1 - yes), *kept[2:]))
                after.append((kept[0] * (1 - yes), kept[1] * yes, *kept[2:]))
            paths = after
        true = leaked + sum(max(0.0, p - math.exp(epsilon) * q) for p, q, *_ in paths)
        assert 0.1 * delta < true <= delta * (1 + 1e-12)
