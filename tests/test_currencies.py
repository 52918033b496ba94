"""Currencies: limits that keep their promise, prices, groups of rows, and why no order is chosen at the end."""

import math

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpsk.privacy import (
    ZCDP,
    BoundedRangeCost,
    Budget,
    BudgetExhausted,
    GaussianCost,
    GaussianDP,
    Ledger,
    PureCost,
    PureDP,
    RenyiDP,
)
from dpsk.privacy.conversions import paper_rho, rdp_epsilon, zcdp_rho

mp = mpmath.MPContext()
mp.dps = 50

CURRENCIES = [ZCDP(), GaussianDP(), RenyiDP(40.0), PureDP()]
every_currency = pytest.mark.parametrize("currency", CURRENCIES, ids=lambda currency: currency.name)
check = settings(derandomize=True, deadline=None, max_examples=150)


def near(value, rel):
    return pytest.approx(float(value), rel=rel, abs=0)


def powers_of_ten(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


any_epsilon, any_delta = powers_of_ten(-2, 3), powers_of_ten(-14, -0.5)


def exact_gaussian_delta(epsilon, mu):
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


# ---------------------------------------------------------------------------------- limits and round trips


@every_currency
@pytest.mark.parametrize("epsilon", [0.8, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-8, 1e-12])
def test_a_limit_guarantees_what_was_asked_for(currency, epsilon, delta):
    limit = currency.limit(epsilon, delta)
    assert limit > 0
    assert currency.delta(limit, epsilon) <= delta * (1 + 1e-9)
    assert currency.epsilon(limit, delta) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), RenyiDP(40.0)], ids=lambda currency: currency.name)
@pytest.mark.parametrize("epsilon", [0.8, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-8, 1e-12])
def test_a_limit_is_the_largest_that_does(currency, epsilon, delta):
    limit = currency.limit(epsilon, delta)
    assert currency.epsilon(limit, delta) == near(epsilon, rel=1e-9)
    assert currency.delta(limit * (1 + 1e-6), epsilon) > delta


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ZCDP, GaussianDP, RenyiDP, PureDP])
@given(epsilon=any_epsilon, delta=any_delta)
@check
def test_putting_a_limit_back_never_exceeds_delta(kind, epsilon, delta):
    currency = RenyiDP(2 + 2 * math.log(1 / delta) / epsilon) if kind is RenyiDP else kind()
    assert currency.delta(currency.limit(epsilon, delta), epsilon) <= delta


@every_currency
@given(limit=powers_of_ten(-3, 2.9), delta=powers_of_ten(-20, -0.5))
@check
def test_putting_an_epsilon_back_never_exceeds_delta(currency, limit, delta):
    assert currency.delta(limit, currency.epsilon(limit, delta)) <= delta


def test_an_epsilon_just_below_a_pure_limit_is_not_rounded_down():
    """delta below one unit in the last place of the limit: (epsilon, delta) must still hold."""
    limit, delta = 10.0, 1.0e-15
    epsilon = PureDP().epsilon(limit, delta)
    assert PureDP().delta(limit, epsilon) <= delta


@given(powers_of_ten(-2, 2), powers_of_ten(-2, 2))
@check
def test_the_limit_of_gaussian_dp_does_not_round_above_its_mu(epsilon, mu):
    """The square root of the limit is what the ledger's sum is turned back into."""
    delta = float(exact_gaussian_delta(epsilon, mu))
    assume(1e-300 < delta < 0.999)
    limit = GaussianDP().limit(epsilon, delta)
    assert exact_gaussian_delta(epsilon, math.sqrt(limit)) <= delta * (1 + 1e-10)
    assert limit == near(mu * mu, rel=1e-8)


@every_currency
def test_epsilon_falls_with_delta_and_delta_with_epsilon(currency):
    limit = currency.limit(1.0, 1e-6)
    epsilons = [currency.epsilon(limit, 10.0**-k) for k in range(12, 0, -1)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] > epsilons[-1]
    deltas = [currency.delta(limit, e) for e in (0.0, 0.2, 0.5, 0.9)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[0] > deltas[-1]


@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), RenyiDP(40.0)], ids=lambda currency: currency.name)
def test_without_delta_only_pure_dp_has_an_epsilon(currency):
    assert currency.epsilon(0.1, 0.0) == math.inf
    assert PureDP().epsilon(0.1, 0.0) == 0.1
    with pytest.raises(ValueError, match=r"delta=0\.0 must lie strictly between 0 and 1.*output perturbation"):
        currency.limit(1.0, 0.0)


def test_pure_epsilon_at_a_delta_inverts_randomised_response():
    """The exact delta of randomised response with epsilon 2, turned around."""
    for epsilon in (0.0, 0.5, 1.9):
        delta = (mp.exp(2) - mp.exp(epsilon)) / (1 + mp.exp(2))
        assert PureDP().epsilon(2.0, float(delta)) == pytest.approx(epsilon, rel=1e-10, abs=1e-10)
    assert PureDP().epsilon(2.0, 0.999) == 0


# ------------------------------------------------------------------------------------------------- prices


def test_every_cost_has_its_price_in_every_currency():
    gauss, pure, narrow = GaussianCost(0.4), PureCost(0.4), BoundedRangeCost(0.4)
    assert ZCDP().price(gauss) == near(0.08, rel=1e-15)
    assert ZCDP().price(pure) == near(0.4 * mp.tanh(0.2), rel=1e-11)
    assert ZCDP().price(narrow) == near(0.02, rel=1e-11)
    assert GaussianDP().price(gauss) == near(0.16, rel=1e-15)
    assert GaussianDP().price(pure) == near(8 * mp.erfinv(mp.tanh(0.2)) ** 2, rel=1e-11)
    assert GaussianDP().price(narrow) == near(8 * mp.erfinv(mp.tanh(0.1)) ** 2, rel=1e-11)
    assert RenyiDP(3.0).price(gauss) == near(0.24, rel=1e-15)
    assert RenyiDP(3.0).price(narrow) == near(0.06, rel=1e-11)
    assert RenyiDP(1e6).price(narrow) <= PureDP().price(narrow) == PureDP().price(pure) == 0.4


def test_gaussian_noise_cannot_be_bought_with_pure_epsilon():
    assert PureDP().price(GaussianCost(0.01)) == math.inf
    ledger = Ledger(Budget.of(1.0, 0.0))
    with pytest.raises(ValueError, match=r"'gradient' costs inf epsilon.*GaussianCost may have no price"):
        ledger.charge(GaussianCost(0.01), "gradient")
    assert ledger.charged == 0


def test_rho_is_the_zcdp_that_a_limit_implies():
    """The Gaussian with mu^2 = 0.2 and the purely private mechanism with epsilon 0.3 cost this much rho."""
    assert ZCDP().rho(0.2) == 0.2
    assert GaussianDP().rho(0.2) == near(GaussianCost(math.sqrt(0.2)).rho, rel=1e-15)
    assert PureDP().rho(0.3) == PureCost(0.3).rho
    assert RenyiDP(8.0).rho(0.2) is None


# ------------------------------------------------------------------------------------------ groups of rows


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_groups_cost_what_a_mechanism_shifted_k_times_costs(size):
    """k rows move a Gaussian k times as far, and multiply a density ratio k times."""
    mu, epsilon, delta = 0.3, 0.25, 1e-6
    for currency, one, all_together in (
        (GaussianDP(), mu**2, GaussianCost(size * mu)),
        (ZCDP(), mu**2 / 2, GaussianCost(size * mu)),
        (PureDP(), epsilon, PureCost(size * epsilon)),
    ):
        expected = currency.epsilon(currency.price(all_together), delta)
        assert currency.epsilon_for_group(one, delta, size) == near(expected, rel=1e-12)


def test_one_order_makes_no_statement_for_groups():
    assert RenyiDP(8.0).epsilon_for_group(0.1, 1e-6, 1) == RenyiDP(8.0).epsilon(0.1, 1e-6)
    with pytest.raises(ValueError, match="gives no statement for groups"):
        RenyiDP(8.0).epsilon_for_group(0.1, 1e-6, 2)


# ------------------------------------------------------------------------------------------ one Renyi order


@pytest.mark.parametrize("bad", [1.0, 0.5, -2.0, math.inf, math.nan])
def test_an_order_must_be_finite_and_above_one(bad):
    with pytest.raises(ValueError, match=r"order=.* must be a finite number greater than 1"):
        RenyiDP(bad)


def test_an_order_too_small_for_the_promise_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"order=2\.0 .*epsilon=0\.1 at delta=1e-08: raise the order"):
        RenyiDP(2.0).limit(0.1, 1e-8)
    assert RenyiDP(500.0).limit(0.1, 1e-8) > 0


def test_no_single_order_beats_zcdp():
    """For Gaussian releases a*rho <= limit(a) means rho <= limit(a)/a: at best what zCDP allows."""
    best = max(RenyiDP(order).limit(1.0, 1e-6) / order for order in [15 + 0.01 * k for k in range(4000)])
    assert best <= zcdp_rho(1.0, 1e-6) * (1 + 1e-12)
    assert best >= zcdp_rho(1.0, 1e-6) * (1 - 1e-6)
    assert best > paper_rho(1.0, 1e-6)


# --------------------------------------------------------------- why the best order at the end is not offered


class Coin:
    """A release of one bit that is 1 with probability ``p`` under the data and ``q`` under its neighbour."""

    def __init__(self, p, q):
        self.p, self.q = p, q

    def rdp(self, order):
        return max(_renyi(order, self.p, self.q), _renyi(order, self.q, self.p))


def _renyi(order, p, q):
    excess = order - 1
    return math.log(p * (p / q) ** excess + (1 - p) * ((1 - p) / (1 - q)) ** excess) / excess


def _dearest_coin(order, log_ratio, price):
    """The coin with p/q = e^log_ratio and the largest p that still costs at most ``price`` at this order."""
    low, high = 0.0, 1.0
    for _ in range(100):
        p = (low + high) / 2
        low, high = (p, high) if Coin(p, p * math.exp(-log_ratio)).rdp(order) <= price else (low, p)
    return Coin(low, low * math.exp(-log_ratio))


EPSILON, DELTA, LOW, HIGH = 8.0, 1e-6, 4.0, 64.0


def _adversary():
    """A first coin, then one that exhausts the low order after a 0 and the high order after a 1."""
    first = Coin(1e-4, 1e-4 * math.exp(-0.3))
    so_far = {0: math.log((1 - first.p) / (1 - first.q)), 1: math.log(first.p / first.q)}
    second = {}
    for bit, order in ((0, LOW), (1, HIGH)):
        rest = RenyiDP(order).limit(EPSILON, DELTA) - first.rdp(order)
        # The log-ratio at which the conversion from this order is tight, less what the first bit contributed.
        second[bit] = _dearest_coin(order, EPSILON + math.log(order / (order - 1)) - so_far[bit], rest * (1 - 1e-12))
    return first, second


def _accepts(order, coins):
    """Does a filter at this order let all these coins through?"""
    ledger = Ledger(Budget.of(EPSILON, DELTA, currency=RenyiDP(order)))
    try:
        for coin in coins:
            ledger.charge(coin, "coin")
    except BudgetExhausted:
        return False
    return True


def _true_delta(orders):
    """The exact delta(EPSILON) of the adaptive run when a coin is tossed as soon as one of ``orders`` accepts it."""
    first, second = _adversary()
    assert any(_accepts(order, [first]) for order in orders)
    total = 0.0
    for bit, (p1, q1) in enumerate(((1 - first.p, 1 - first.q), (first.p, first.q))):
        coin = second[bit] if any(_accepts(order, [first, second[bit]]) for order in orders) else Coin(1.0, 1.0)
        for p2, q2 in ((1 - coin.p, 1 - coin.q), (coin.p, coin.q)):
            total += max(0.0, p1 * p2 - math.exp(EPSILON) * q1 * q2)
    return total


def test_choosing_the_best_of_two_orders_at_the_end_breaks_the_guarantee_twice_over():
    """If it were offered, this run would stay within the limit of one of the two orders on each path."""
    assert _true_delta([LOW, HIGH]) > 1.99 * DELTA


@pytest.mark.parametrize("order", [LOW, HIGH])
def test_one_order_fixed_in_advance_keeps_the_guarantee_against_the_same_adversary(order):
    assert 0.99 * DELTA < _true_delta([order]) <= DELTA


def test_a_budget_takes_one_order_only():
    """The two-order filter cannot be built: an order is one number, and the limit is that order's."""
    with pytest.raises(TypeError):
        RenyiDP([LOW, HIGH])
    limit = Budget.of(EPSILON, DELTA, currency=RenyiDP(HIGH)).limit
    assert rdp_epsilon([HIGH], [limit], DELTA) == near(EPSILON, rel=1e-10)
