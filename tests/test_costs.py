"""Costs: never below what the dearest mechanism of the family really loses, and not needlessly above it.

Every bound is tested from both sides, so that a price a tenth too small makes a test fail.
"""

import math
from dataclasses import fields
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from dpsk.privacy import (
    BoundedRangeCost,
    Cost,
    GaussianCost,
    GaussianThresholdCost,
    LaplaceThresholdCost,
    PureCost,
)
from dpsk.privacy.conversions import (
    bounded_range_mu,
    bounded_range_rho,
    pure_delta,
    pure_mu,
    pure_rdp,
    pure_rho,
)

mp = mpmath.MPContext()
mp.dps = 60

ORDERS = [1 + 10.0**k for k in np.arange(-6, 4.1, 0.25)]
check = settings(derandomize=True, deadline=None, max_examples=100)


def near(value, rel):
    return pytest.approx(float(value), rel=rel, abs=0)


# ------------------------------------------------------------------------------------------------ oracles


def exact_renyi(order, p, q):
    """D_a(P || Q) of two distributions on a few points."""
    order = mp.mpf(order)
    return mp.log(mp.fsum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True))) / (order - 1)


def exact_delta(epsilon, p, q):
    return mp.fsum(max(mp.zero, x - mp.exp(epsilon) * y) for x, y in zip(p, q, strict=True))


def randomised_response(epsilon):
    yes, no = 1 / (1 + mp.exp(-mp.mpf(epsilon))), 1 / (1 + mp.exp(mp.mpf(epsilon)))
    return (yes, no), (no, yes)


def two_points(up, down):
    """The pair of distributions on two points with log-ratios ``up`` > 0 and ``-down`` < 0."""
    up, down = mp.mpf(up), mp.mpf(down)
    q = -mp.expm1(-down) / (mp.exp(up) - mp.exp(-down))
    p = mp.exp(up) * q
    return (p, 1 - p), (q, 1 - q)


def quantile(probability):
    return mp.sqrt(2) * mp.erfinv(2 * probability - 1)


def gaussian_trade_off(mu, alpha):
    """G_mu(alpha) of Dong, Roth & Su: the type II error of the best test of N(0,1) against N(mu,1)."""
    return mp.ncdf(quantile(1 - alpha) - mu)


def pure_trade_off(epsilon, alpha):
    return max(mp.zero, 1 - mp.exp(epsilon) * alpha, mp.exp(-epsilon) * (1 - alpha))


# ------------------------------------------------------------------------------------------------ pure DP


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 0.5, 1.0, 4.0, 20.0])
def test_pure_rho_is_the_supremum_over_orders_of_randomised_response(epsilon):
    ratios = [exact_renyi(order, *randomised_response(epsilon)) / order for order in ORDERS]
    assert max(ratios) <= pure_rho(epsilon) * (1 + 1e-12)
    assert max(ratios) >= pure_rho(epsilon) * (1 - 1e-4)
    assert 0 < pure_rho(epsilon) <= min(epsilon, epsilon**2 / 2)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 10.0])
def test_pure_mu_lies_below_the_pure_trade_off_and_touches_it(epsilon):
    """G_mu <= f everywhere says that mu is dear enough; a tenth less is not, at the kink."""
    kink = 1 / (1 + mp.exp(mp.mpf(epsilon)))
    below = [kink * mp.mpf(k) / 50 for k in range(1, 51)]
    above = [kink + (1 - kink) * mp.mpf(k) / 50 for k in range(1, 50)]
    mu = pure_mu(epsilon)
    for alpha in below + above:
        assert gaussian_trade_off(mu, alpha) <= pure_trade_off(epsilon, alpha) + 1e-13
    assert gaussian_trade_off(mu, kink) == near(pure_trade_off(epsilon, kink), rel=1e-9)
    assert gaussian_trade_off(0.9 * mu, kink) > pure_trade_off(epsilon, kink) * (1 + 1e-4)


@pytest.mark.parametrize("order", [1 + 1e-12, 1 + 1e-6, 1.5, 2.0, 100.0, 1e4])
@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 1.0, 10.0, 700.0])
def test_pure_rdp_equals_randomised_response(order, epsilon):
    assert pure_rdp(order, epsilon) == near(exact_renyi(order, *randomised_response(epsilon)), rel=1e-11)


def test_pure_rdp_near_order_one_is_the_kullback_leibler_divergence():
    p, q = randomised_response(0.7)
    divergence = mp.fsum(x * mp.log(x / y) for x, y in zip(p, q, strict=True))
    assert pure_rdp(1 + 1e-13, 0.7) == near(divergence, rel=1e-11)


def test_pure_rdp_grows_with_the_order_up_to_epsilon():
    values = [pure_rdp(order, 1.3) for order in ORDERS]
    assert all(a < b for a, b in pairwise(values))
    assert values[-1] < 1.3 == pure_rdp(math.inf, 1.3)


@pytest.mark.parametrize("order", [1.0, 0.5, -1.0, math.nan])
def test_pure_rdp_refuses_an_order_that_is_not_above_one(order):
    with pytest.raises(ValueError, match=r"order=.* must be greater than 1"):
        pure_rdp(order, 1.0)


@given(
    st.lists(st.floats(0.01, 1), min_size=3, max_size=5),
    st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    st.floats(0.01, 5),
    st.floats(1.01, 50),
)
@check
def test_no_random_pure_mechanism_costs_more(weights, tilts, epsilon, order):
    """Discrete pairs whose log-ratios stay within +-epsilon: rescaling costs at most the other half."""
    p = [mp.mpf(w) for w in weights]
    q = [x * mp.exp(epsilon / 2 * t) for x, t in zip(p, tilts, strict=False)]
    p, q = [x / mp.fsum(p) for x in p], [y / mp.fsum(q) for y in q]
    assert max(abs(mp.log(x / y)) for x, y in zip(p, q, strict=True)) <= epsilon * (1 + 1e-15)
    divergence = exact_renyi(order, p, q)
    assert divergence <= pure_rdp(order, epsilon) * (1 + 1e-12)
    assert divergence <= order * pure_rho(epsilon) * (1 + 1e-12)
    assert exact_delta(epsilon / 2, p, q) <= pure_delta(epsilon / 2, epsilon) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-10, 1e-16])
def test_pure_prices_keep_their_digits_for_small_epsilon(epsilon):
    """A price that loses its digits may be too small, or 0."""
    quadratic = mp.mpf(epsilon) ** 2
    assert pure_rho(epsilon) == near(quadratic / 2, rel=1e-6)
    assert pure_mu(epsilon) == near(mp.sqrt(mp.pi / 2) * epsilon, rel=1e-6)
    assert pure_rdp(2.0, epsilon) == near(quadratic, rel=1e-6)


@pytest.mark.parametrize("epsilon", [700.0, 800.0, 1e4])
def test_pure_prices_are_finite_for_large_epsilon(epsilon):
    """mu^2 grows like 8 epsilon."""
    assert pure_rho(epsilon) == near(epsilon, rel=1e-9)
    assert pure_rdp(2.0, epsilon) == near(epsilon, rel=1e-9)
    assert pure_mu(epsilon) == near(math.sqrt(8 * epsilon), rel=0.01)


# ------------------------------------------------------------------------------------------- bounded range


@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0, 4.0, 16.0])
def test_bounded_range_mu_is_the_worst_of_the_two_point_family(eta):
    """mu(t) = Phi^-1(P) - Phi^-1(Q) of the pair with log-ratios t and t - eta, on a grid of 20,001 values of t."""
    up = np.linspace(0, eta, 20_003)[1:-1]
    down = eta - up
    p = np.expm1(-down) / np.expm1(-eta)
    q = np.expm1(down) / np.expm1(eta)
    needed = ndtri(p) - ndtri(q)
    assert needed.max() <= bounded_range_mu(eta) * (1 + 1e-9)
    assert abs(up[needed.argmax()] - eta / 2) <= 1e-2 * eta
    assert needed[10_000] == near(bounded_range_mu(eta), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("eta", [1e-2, 1.0, 8.0, 40.0, 200.0])
def test_bounded_range_mu_is_the_worst_in_high_precision(eta):
    """As above with 150 digits and a coarse grid, for ranges where doubles lose the tails."""
    with mp.workdps(150):

        def needed(up):
            (p, _), (q, _) = two_points(up, eta - up)
            return quantile(p) - quantile(q)

        worst = max(needed(mp.mpf(eta) * k / 40) for k in range(1, 40))
        assert worst <= bounded_range_mu(eta) * (1 + 1e-10)
        assert needed(mp.mpf(eta) / 2) == near(bounded_range_mu(eta), rel=1e-10)


@pytest.mark.parametrize("eta", [0.01, 0.5, 2.0, 8.0, 30.0])
def test_bounded_range_rho_covers_the_two_point_family(eta):
    orders = [1 + 10.0**k for k in np.arange(-4, 4.1, 0.5)]
    pairs = [two_points(eta * k / 40, eta - eta * mp.mpf(k) / 40) for k in range(1, 40)]
    worst = max(exact_renyi(order, *pair) / order for pair in pairs for order in orders)
    assert worst <= bounded_range_rho(eta) * (1 + 1e-12)
    if eta <= 0.5:
        assert worst >= 0.99 * bounded_range_rho(eta), "for small eta a hundredth less would not do"


@pytest.mark.parametrize("eta", [0.1, 1.0, 6.0, 20.0])
@pytest.mark.parametrize("order", [1.01, 2.0, 30.0, 1000.0])
def test_bounded_range_rdp_and_delta_cover_the_two_point_family(eta, order):
    cost = BoundedRangeCost(eta)
    for k in range(1, 20):
        pair = two_points(eta * k / 20, eta - eta * mp.mpf(k) / 20)
        assert exact_renyi(order, *pair) <= cost.rdp(order) * (1 + 1e-12)
        for epsilon in (0.0, eta / 4, 0.9 * eta):
            assert exact_delta(epsilon, *pair) <= cost.delta(epsilon) * (1 + 1e-12)


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=5),
    st.lists(st.floats(0, 1), min_size=5, max_size=5),
    st.floats(0.05, 6),
    st.floats(1.01, 100),
)
@check
def test_the_exponential_mechanism_keeps_its_bounded_range_price(utilities, shifts, eta, order):
    """Probabilities exp(eta*u) before, exp(eta*(u + shift)) after, every shift in [0, 1]: both directions."""
    p = [mp.exp(eta * mp.mpf(u)) for u in utilities]
    q = [x * mp.exp(eta * mp.mpf(s)) for x, s in zip(p, shifts, strict=False)]
    p, q = [x / mp.fsum(p) for x in p], [y / mp.fsum(q) for y in q]
    cost = BoundedRangeCost(eta)
    for pair in ((p, q), (q, p)):
        assert exact_renyi(order, *pair) <= min(cost.rdp(order), order * cost.rho) * (1 + 1e-12)
        assert exact_delta(eta / 3, *pair) <= cost.delta(eta / 3) * (1 + 1e-12)
        assert max(mp.log(x / y) for x, y in zip(*pair, strict=True)) <= cost.epsilon * (1 + 1e-12)


# ----------------------------------------------------------------------------------------- Gaussian mechanism


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("order", [1.5, 4.0])
def test_gaussian_rdp_equals_quadrature(mu, order):
    peak = order * mu
    integral = mp.quad(
        lambda x: mp.npdf(x - mu) ** order * mp.npdf(x) ** (1 - mp.mpf(order)),
        [peak - 30, peak - 3, peak + 3, peak + 30],
    )
    expected = mp.log(integral) / (order - 1)
    assert GaussianCost(mu).rdp(order) == near(expected, rel=1e-10)
    assert order * GaussianCost(mu).rho == near(expected, rel=1e-10)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_gaussian_delta_equals_quadrature(epsilon):
    mu, cut = 1.4, epsilon / 1.4 + 0.7
    integral = mp.quad(lambda x: mp.npdf(x - mu) - mp.exp(epsilon) * mp.npdf(x), [cut, cut + 2, cut + 6, cut + 30])
    assert GaussianCost(mu).delta(epsilon) == near(integral, rel=5e-11)


# ------------------------------------------------------------------------------------------- the three classes


@pytest.mark.parametrize("cost", [GaussianCost(0.3), PureCost(0.3), BoundedRangeCost(0.3)])
def test_every_cost_has_the_five_members_and_is_plain_frozen_data(cost):
    assert isinstance(cost, Cost)
    assert cost == type(cost)(0.3)
    assert hash(cost) == hash(type(cost)(0.3))
    assert repr(cost).startswith(type(cost).__name__)
    (field,) = vars(cost)
    with pytest.raises(AttributeError):
        setattr(cost, field, 1.0)


@pytest.mark.parametrize("cost", [PureCost(0.3), BoundedRangeCost(0.3)])
def test_pure_epsilon_is_finite_where_delta_can_be_zero(cost):
    assert cost.epsilon == 0.3
    assert cost.delta(0.3) == 0 < cost.delta(0.29)


def test_gaussian_noise_has_no_pure_epsilon():
    cost = GaussianCost(0.3)
    assert cost.epsilon == math.inf
    assert cost.delta(5.0) > 0
    assert cost.mu == 0.3


@pytest.mark.parametrize("strength", [0.01, 1.0, 6.0])
def test_bounded_range_is_cheaper_than_pure_with_the_same_epsilon(strength):
    """The reason to choose the exponential mechanism: up to 4 times less rho."""
    wide, narrow = PureCost(strength), BoundedRangeCost(strength)
    assert narrow.rho < wide.rho
    assert narrow.mu < wide.mu
    assert narrow.rdp(1.2) < wide.rdp(1.2)
    assert narrow.rdp(1e4) <= wide.rdp(1e4)


@pytest.mark.parametrize(("make", "name"), [(GaussianCost, "mu"), (PureCost, "epsilon"), (BoundedRangeCost, "eta")])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_costs_refuse_strengths_that_are_not_positive_and_finite(make, name, bad):
    with pytest.raises(ValueError, match=rf"{name}={bad!r} must be a positive finite number"):
        make(bad)


# ------------------------------------------------------------------- above-threshold (divergences: test_sparse_vector)

THRESHOLDS = [LaplaceThresholdCost(0.4, 0.2, 15), GaussianThresholdCost(0.4, 0.2, 15)]


@pytest.mark.parametrize("cost", THRESHOLDS, ids=repr)
def test_threshold_costs_have_the_five_members_and_are_plain_frozen_data(cost):
    assert isinstance(cost, Cost)
    assert cost == type(cost)(0.4, 0.2, 15)
    assert hash(cost) == hash(type(cost)(0.4, 0.2, 15))
    assert [declared.name for declared in fields(cost)] == ["threshold", "query", "length"]
    with pytest.raises(AttributeError):
        cost.length = 1


def test_above_threshold_with_laplace_noise_is_pure_whatever_its_length():
    """The threshold once, the values twice: once for the value that fires, once for the threshold it moves with."""
    for length in (1, 15, 10**6):
        cost = LaplaceThresholdCost(0.4, 0.3, length)
        assert cost.epsilon == pytest.approx(1.0)
        assert (cost.rho, cost.mu) == (pure_rho(cost.epsilon), pure_mu(cost.epsilon))
        assert cost.delta(cost.epsilon) == 0 < cost.delta(0.99 * cost.epsilon) == pure_delta(0.99 * cost.epsilon, 1.0)
        for order in ORDERS[::4]:
            assert 0 < cost.rdp(order) <= pure_rdp(order, cost.epsilon)


def test_above_threshold_with_gaussian_noise_has_no_pure_price():
    cost = GaussianThresholdCost(0.4, 0.2, 15)
    assert cost.epsilon == math.inf
    assert cost.mu == near(0.2 * math.sqrt(15), rel=1e-14)
    assert cost.rho == near(cost.mu**2 / 2, rel=1e-14)
    for epsilon in (0.0, 1.0, 5.0):
        assert cost.delta(epsilon) == GaussianCost(cost.mu).delta(epsilon) > 0


@pytest.mark.parametrize("make", [LaplaceThresholdCost, GaussianThresholdCost])
@pytest.mark.parametrize("order", [1.5, 2.0, 30.0])
def test_a_longer_or_less_noisy_search_is_never_cheaper(make, order):
    prices = [make(0.4, 0.2, length).rdp(order) for length in (1, 2, 3, 8, 20, 1000)]
    assert all(a <= b for a, b in pairwise(prices))
    assert prices[0] < prices[-1]
    for more in (make(0.5, 0.2, 8), make(0.4, 0.25, 8)):
        assert more.rdp(order) >= make(0.4, 0.2, 8).rdp(order)
        assert more.mu >= make(0.4, 0.2, 8).mu


def test_one_gaussian_comparison_is_cheaper_than_either_number_it_compares():
    cost = GaussianThresholdCost(0.4, 0.3, 1)
    assert cost.mu == near(0.24, rel=1e-14)
    assert cost.rdp(2) < min(GaussianCost(0.4).rdp(2), GaussianCost(0.3).rdp(2))


@pytest.mark.parametrize("make", [LaplaceThresholdCost, GaussianThresholdCost])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_threshold_costs_refuse_fields_that_are_not_positive_and_finite(make, bad):
    for name in ("threshold", "query", "length"):
        with pytest.raises(ValueError, match=rf"{name}={bad!r} must be a(n integer >= 1| positive)"):
            make(**{"threshold": 0.1, "query": 0.1, "length": 3, name: bad})


@pytest.mark.parametrize("make", [LaplaceThresholdCost, GaussianThresholdCost])
@pytest.mark.parametrize("length", [np.uint8(255), np.int8(127), np.int64(127)], ids=repr)
def test_a_length_in_a_narrow_type_is_the_number_it_stands_for(make, length):
    """One more than the largest number of its type wraps around."""
    narrow, plain = make(0.02, 0.01, length), make(0.02, 0.01, int(length))
    assert (narrow, hash(narrow)) == (plain, hash(plain))
    for order in (1.5, 2.0, 500.0):
        assert narrow.rdp(order) == plain.rdp(order)


@pytest.mark.parametrize("order", [2, 3, 20])
def test_the_symmetric_pair_of_every_cost_dominates_it(order):
    """Its divergence is that of two Gaussians or of randomised response, and no smaller than the price."""
    for cost in (GaussianCost(0.7), PureCost(0.7), BoundedRangeCost(0.7), *THRESHOLDS):
        pair = cost.dominating_rdp(order)
        assert pair >= cost.rdp(order)
        if math.isinf(cost.epsilon):
            assert pair == near(order * cost.mu**2 / 2, rel=1e-14)
        else:
            assert pair == near(exact_renyi(order, *randomised_response(cost.epsilon)), rel=1e-11)
