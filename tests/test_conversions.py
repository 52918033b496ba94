"""Conversions: equal to 50-digit arithmetic and to dp-accounting, never on the wrong side, sane at the extremes."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from dp_accounting.rdp.rdp_privacy_accountant import compute_delta, compute_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsk.privacy import Budget, RenyiDP
from dpsk.privacy import conversions as cv

mp = mpmath.MPContext()
mp.dps = 50

EPSILONS = [0.01, 0.1, 1.0, 3.0, 10.0]
DELTAS = [1e-4, 1e-6, 1e-8, 1e-12]
over_the_grid = [
    pytest.mark.parametrize("epsilon", EPSILONS),
    pytest.mark.parametrize("delta", DELTAS),
]


def on_grid(test):
    """Run a test at every (epsilon, delta) of the grid."""
    for mark in over_the_grid:
        test = mark(test)
    return test


def powers_of_ten(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


any_epsilon = powers_of_ten(-4, 4)
any_delta = st.one_of(powers_of_ten(-12, -0.1), powers_of_ten(-300, -12))
check = settings(derandomize=True, deadline=None, max_examples=150)


def near(value, rel):
    """Relative closeness only: most numbers here are far below pytest's default absolute tolerance."""
    return pytest.approx(float(value), rel=rel, abs=0)


# ------------------------------------------------------------------------------------------------ oracles


def exact_gaussian_delta(epsilon, mu):
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), by mpmath."""
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def maximum(function, low, high, steps):
    """Maximum of a unimodal function by golden sections."""
    golden = (mp.sqrt(5) - 1) / 2
    low, high = mp.mpf(low), mp.mpf(high)
    for _ in range(steps):
        width = golden * (high - low)
        if function(high - width) < function(low + width):
            low = high - width
        else:
            high = low + width
    return function((low + high) / 2)


def exact_renyi_log_delta(order, divergence, epsilon):
    """Log of the best delta provable by Markov's inequality from E[e^((a-1)L)] <= e^((a-1)D).

    The smallest c with (1 - e^(eps-x))+ <= c e^((a-1)x) for all x is found by search, not by the closed formula.
    """
    excess = mp.mpf(order) - 1

    def log_ratio(log_x):
        x = epsilon + mp.exp(log_x)
        return mp.log(-mp.expm1(epsilon - x)) - excess * (x - mp.mpf(divergence))

    around = -mp.log(excess)
    return maximum(log_ratio, around - 20, around + 6, 45)


def exact_zcdp_delta(epsilon, rho):
    """The bound above at the best order, which is searched as well."""
    epsilon, rho = mp.mpf(epsilon), mp.mpf(rho)

    def minus_log_delta(log_excess):
        order = 1 + mp.exp(log_excess)
        return -exact_renyi_log_delta(order, order * rho, epsilon)

    planned = mp.log(epsilon / (2 * rho))
    return mp.exp(-maximum(minus_log_delta, planned - 3, planned + 3, 33))


def fine_orders(epsilon, rho):
    """Orders for dp-accounting, spaced 1.4e-4 in log(order - 1) around the planned one."""
    return 1 + epsilon / (2 * rho) * np.geomspace(0.25, 4, 20_001)


# ---------------------------------------------------------------------------------------------- Gaussian DP


@on_grid
def test_gaussian_delta_equals_mpmath(epsilon, delta):
    mu = cv.gaussian_mu(epsilon, delta)
    for factor in (0.7, 1.0, 1.5):
        expected = exact_gaussian_delta(epsilon, factor * mu)
        assert cv.gaussian_delta(epsilon, factor * mu) == near(expected, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.0, 0.5), (0.3, 1.0), (1.0, 2.0), (2.0, 0.8)])
def test_gaussian_delta_is_the_integral_of_the_excess_density(epsilon, mu):
    """Quadrature of (p - e^eps q)+ for two unit Gaussians mu apart, with no Phi in it."""
    cut = mp.mpf(epsilon) / mu + mp.mpf(mu) / 2
    integral = mp.quad(lambda x: mp.npdf(x - mu) - mp.exp(epsilon) * mp.npdf(x), [cut, cut + 2, cut + 6, cut + 30])
    assert cv.gaussian_delta(epsilon, mu) == near(integral, rel=2e-10)


@on_grid
def test_gaussian_mu_is_the_largest_that_keeps_delta(epsilon, delta):
    mu = cv.gaussian_mu(epsilon, delta)
    assert exact_gaussian_delta(epsilon, mu * (1 - 1e-10)) < delta < exact_gaussian_delta(epsilon, mu * (1 + 1e-10))


@on_grid
def test_gaussian_epsilon_is_the_smallest_that_keeps_delta(epsilon, delta):
    mu = 1.1 * cv.gaussian_mu(epsilon, delta)
    found = cv.gaussian_epsilon(delta, mu)
    assert exact_gaussian_delta(found * (1 + 1e-10), mu) < delta < exact_gaussian_delta(found * (1 - 1e-10), mu)


@on_grid
def test_gaussian_agrees_with_dp_accounting(epsilon, delta):
    mu = cv.gaussian_mu(epsilon, delta)
    theirs = GaussianPrivacyLoss(1 / mu, adjacency_type=AdjacencyType.ADD)
    assert theirs.get_delta_for_epsilon(epsilon) == near(delta, rel=1e-6)
    calibrated = GaussianPrivacyLoss.from_privacy_guarantee(DifferentialPrivacyParameters(epsilon, delta))
    assert mu == near(1 / calibrated.standard_deviation, rel=1e-6)
    assert cv.gaussian_epsilon(delta, mu) == near(epsilon, rel=1e-6)


# ----------------------------------------------------------------------------------------------------- zCDP


@pytest.mark.thorough
@pytest.mark.slow
@on_grid
def test_zcdp_delta_equals_a_search_over_orders_by_mpmath(epsilon, delta):
    rho = cv.zcdp_rho(epsilon, delta)
    assert cv.zcdp_delta(epsilon, rho) == near(exact_zcdp_delta(epsilon, rho), rel=1e-9)


@on_grid
def test_zcdp_rho_and_epsilon_are_extremal(epsilon, delta):
    rho = cv.zcdp_rho(epsilon, delta)
    assert cv.zcdp_delta(epsilon, rho * (1 + 1e-10)) > delta
    found = cv.zcdp_epsilon(delta, rho)
    assert cv.zcdp_delta(found * (1 - 1e-10), rho) > delta


@pytest.mark.slow
@on_grid
def test_zcdp_agrees_with_dp_accounting(epsilon, delta):
    rho = cv.zcdp_rho(epsilon, delta)
    orders = fine_orders(epsilon, rho)
    assert compute_delta(orders, orders * rho, epsilon)[0] == near(delta, rel=1e-6)
    assert compute_epsilon(orders, orders * rho, delta)[0] == near(epsilon, rel=1e-6)
    assert cv.zcdp_epsilon(delta, rho) == near(epsilon, rel=1e-9)


@on_grid
def test_the_gaussian_mechanism_keeps_what_its_zcdp_promises(epsilon, delta):
    """D_a of the mu-GDP Gaussian is a*mu^2/2, so its exact delta must not exceed the zCDP bound."""
    rho = cv.zcdp_rho(epsilon, delta)
    mu = math.sqrt(2 * rho)
    assert exact_gaussian_delta(epsilon, mu) < delta
    assert exact_gaussian_delta(epsilon, 1.2 * mu) > delta, "the bound is not so loose that anything would pass"


# ------------------------------------------------------------------------------------------------- Renyi DP


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(("order", "divergence"), [(1.5, 0.3), (2.0, 0.05), (32.0, 0.7), (1e4, 0.09)])
def test_rdp_delta_is_the_best_constant_in_markovs_inequality(epsilon, order, divergence):
    expected = mp.exp(min(mp.mpf(0), exact_renyi_log_delta(order, divergence, epsilon)))
    rounded = pytest.approx(float(expected), rel=1e-9 + 1e-11 * order, abs=1e-300)  # up, more so at large orders
    assert cv.rdp_delta([order], [divergence], epsilon) == rounded


@pytest.mark.parametrize("delta", DELTAS)
def test_rdp_agrees_with_dp_accounting(delta):
    orders = [1.5, 2, 4, 8, 16, 64, 256, 1024]
    for scale in (1e-3, 1e-2, 0.3):
        values = [scale * order + 0.01 * math.sqrt(order) for order in orders]
        epsilon = cv.rdp_epsilon(orders, values, delta)
        assert epsilon == near(compute_epsilon(orders, values, delta)[0], rel=1e-9)
        assert cv.rdp_delta(orders, values, epsilon) == near(compute_delta(orders, values, epsilon)[0], rel=1e-6)
        assert cv.rdp_delta(orders, values, epsilon) == near(delta, rel=1e-9)


def test_rdp_takes_the_best_order_given():
    orders, values = [2.0, 8.0, 64.0], [0.1, 0.4, 3.2]
    assert cv.rdp_delta(orders, values, 1.0) == min(
        cv.rdp_delta([a], [v], 1.0) for a, v in zip(orders, values, strict=True)
    )
    assert cv.rdp_epsilon(orders, values, 1e-5) == min(
        cv.rdp_epsilon([a], [v], 1e-5) for a, v in zip(orders, values, strict=True)
    )


def test_rdp_on_fine_orders_recovers_zcdp():
    rho = cv.zcdp_rho(1.0, 1e-6)
    orders = list(fine_orders(1.0, rho))
    values = [order * rho for order in orders]
    assert cv.rdp_delta(orders, values, 1.0) == near(1e-6, rel=1e-6)
    assert cv.rdp_delta(orders, values, 1.0) >= cv.zcdp_delta(1.0, rho) * (1 - 1e-12)


@pytest.mark.parametrize("pure", [0.5, 2.0])
def test_rdp_epsilon_at_order_infinity_is_no_smaller_than_pure_epsilon(pure):
    """D_inf <= 2 is 2-DP: the order inf, which pure_rdp accepts, must never turn it into 0-DP."""
    assert cv.pure_rdp(math.inf, pure) == pure
    try:
        epsilon = cv.rdp_epsilon([math.inf], [pure], 1e-9)
    except ValueError:
        return  # refusing the order is as good
    assert epsilon >= pure * (1 - 1e-6)


@given(st.floats(1e-3, 1e4), st.floats(1e-3, 10), any_delta)
@check
def test_rdp_epsilon_put_back_keeps_delta(excess, value, delta):
    """Exactly, as for the other inverses: the epsilon reported is never too small."""
    epsilon = cv.rdp_epsilon([1 + excess], [value], delta)
    assert cv.rdp_delta([1 + excess], [value], epsilon) <= delta


# -------------------------------------------------------------------------------------------- pure_delta


@pytest.mark.parametrize("pure", [1e-4, 0.1, 1.0, 5.0, 30.0, 700.0])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9, 0.999])
def test_pure_delta_equals_randomised_response(pure, fraction):
    """The maximum over all events of P(event) - e^eps Q(event)."""
    yes, no = 1 / (1 + mp.exp(-mp.mpf(pure))), 1 / (1 + mp.exp(mp.mpf(pure)))
    p, q = (yes, no), (no, yes)
    epsilon = fraction * pure
    growth = mp.exp(mp.mpf(epsilon))
    events = [[], [0], [1], [0, 1]]
    expected = max(sum(p[i] for i in event) - growth * sum(q[i] for i in event) for event in events)
    assert cv.pure_delta(epsilon, pure) == near(expected, rel=1e-11)


def test_pure_delta_is_zero_from_pure_on_and_only_there():
    assert cv.pure_delta(2.0, 2.0) == 0
    assert cv.pure_delta(1e4, 2.0) == 0
    assert cv.pure_delta(math.nextafter(2.0, 0), 2.0) > 0


# ----------------------------------------------------------------------------------------- known numbers


def test_the_three_budgets_at_a_tenth_and_1e_8():
    assert cv.zcdp_rho(0.1, 1e-8) == near(2.088e-4, rel=3e-4)
    assert cv.paper_rho(0.1, 1e-8) == near(1.354e-4, rel=5e-4)
    assert cv.gaussian_mu(0.1, 1e-8) ** 2 / 2 == near(2.369e-4, rel=3e-4)


@pytest.mark.parametrize(
    ("epsilon", "paper", "exact", "gaussian"),
    [
        (0.05, 3.388e-5, 5.526e-5, 6.301e-5),
        (0.1, 1.354e-4, 2.088e-4, 2.369e-4),
        (0.2, 5.399e-4, 7.899e-4, 8.921e-4),
        (0.4, 2.148e-3, 2.986e-3, 3.357e-3),
        (0.8, 8.502e-3, 1.124e-2, 1.258e-2),
        (1.6, 3.331e-2, 4.198e-2, 4.673e-2),
    ],
)
def test_the_table_of_budgets_at_1e_8(epsilon, paper, exact, gaussian):
    """The documented table, to the four digits it is printed with."""
    assert cv.paper_rho(epsilon, 1e-8) == near(paper, rel=5e-4)
    assert cv.zcdp_rho(epsilon, 1e-8) == near(exact, rel=5e-4)
    assert cv.gaussian_mu(epsilon, 1e-8) ** 2 / 2 == near(gaussian, rel=5e-4)


@given(any_epsilon, any_delta)
@check
def test_the_papers_closed_formulas_are_never_better(epsilon, delta):
    rho, paper = cv.zcdp_rho(epsilon, delta), cv.paper_rho(epsilon, delta)
    assert 0 < paper <= rho
    bun_steinke = paper + 2 * math.sqrt(paper * math.log(1 / delta))
    assert bun_steinke == near(epsilon, rel=1e-9)
    assert cv.zcdp_epsilon(delta, paper) <= bun_steinke * (1 + 1e-12)


@given(powers_of_ten(-3, 2), powers_of_ten(-14, -0.31))
@check
def test_the_c_delta_noise_of_output_perturbation_is_never_smaller(epsilon, delta):
    c = math.sqrt(math.log(2 / (math.sqrt(16 * delta + 1) - 1)))
    sigma = (c + math.sqrt(c * c + epsilon)) / (math.sqrt(2) * epsilon)
    assert sigma >= 1 / cv.gaussian_mu(epsilon, delta)


def test_the_exact_noise_at_known_points():
    for epsilon, exact in [(0.1, 36.30), (1.0, 4.225), (4.0, 1.194)]:
        assert 1 / cv.gaussian_mu(epsilon, 1e-6) == near(exact, rel=5e-4)


# -------------------------------------------------------------------------- the safe side and round trips


@given(any_epsilon, any_delta)
@check
def test_putting_a_calibration_back_never_exceeds_delta(epsilon, delta):
    assert cv.zcdp_delta(epsilon, cv.zcdp_rho(epsilon, delta)) <= delta
    assert cv.gaussian_delta(epsilon, cv.gaussian_mu(epsilon, delta)) <= delta
    assert cv.zcdp_delta(epsilon, cv.paper_rho(epsilon, delta)) <= delta


@given(powers_of_ten(-8, 4), powers_of_ten(-4, 2), any_delta)
@check
def test_putting_an_epsilon_back_never_exceeds_delta(rho, mu, delta):
    assert cv.zcdp_delta(cv.zcdp_epsilon(delta, rho), rho) <= delta
    assert cv.gaussian_delta(cv.gaussian_epsilon(delta, mu), mu) <= delta


@given(any_epsilon, any_delta)
@check
def test_epsilon_and_calibration_are_inverse(epsilon, delta):
    assert cv.zcdp_epsilon(delta, cv.zcdp_rho(epsilon, delta)) == near(epsilon, rel=1e-9)
    assert cv.gaussian_epsilon(delta, cv.gaussian_mu(epsilon, delta)) == near(epsilon, rel=1e-9)


@pytest.mark.parametrize(("delta_of", "tiny"), [(cv.gaussian_delta, 0.1), (cv.zcdp_delta, 0.01)])
def test_delta_falls_with_epsilon_and_grows_with_the_parameter(delta_of, tiny):
    epsilons = np.geomspace(1e-2, 5, 60)
    in_epsilon = [delta_of(float(e), 0.5) for e in epsilons]
    assert all(later < earlier for earlier, later in pairwise(in_epsilon))
    in_parameter = [delta_of(1.0, float(x)) for x in np.geomspace(tiny, 1, 60)]
    assert all(later > earlier for earlier, later in pairwise(in_parameter))


@pytest.mark.parametrize("calibrate", [cv.gaussian_mu, cv.zcdp_rho, cv.paper_rho])
def test_calibrations_grow_with_epsilon_and_delta(calibrate):
    in_epsilon = [calibrate(float(e), 1e-8) for e in np.geomspace(1e-4, 1e4, 60)]
    assert all(later > earlier for earlier, later in pairwise(in_epsilon))
    in_delta = [calibrate(1.0, float(d)) for d in np.geomspace(1e-300, 0.5, 60)]
    assert all(later > earlier for earlier, later in pairwise(in_delta))


# --------------------------------------------------------------------------------------------- extremes


@pytest.mark.parametrize("epsilon", [1e-4, 700.0, 1e4])
@pytest.mark.parametrize("delta", [1e-300, 1e-8, 0.9])
def test_extreme_budgets_are_finite_and_sensible(epsilon, delta):
    """Warnings are errors in this suite, so an overflow or a nan on the way would show as well."""
    for calibrate in (cv.gaussian_mu, cv.zcdp_rho, cv.paper_rho):
        assert 0 < calibrate(epsilon, delta) < 2 * epsilon + 10
    mu = cv.gaussian_mu(epsilon, delta)
    assert exact_gaussian_delta(epsilon, mu) <= delta * (1 + 1e-8)
    rho = cv.zcdp_rho(epsilon, delta)
    assert rho <= mu * mu / 2 * (1 + 1e-9), "the Gaussian with this rho keeps (epsilon, delta)"


@pytest.mark.parametrize(("epsilon", "rho"), [(0.0, 1e-300), (1.0, 1e-300), (1.0, 1e-310)])
def test_tiny_rho_gives_a_tiny_delta(epsilon, rho):
    assert 0 <= cv.zcdp_delta(epsilon, rho) < 1e-140


@pytest.mark.parametrize("rho", [1e-300, 1e-310])
def test_tiny_rho_gives_a_tiny_epsilon(rho):
    assert 0 <= cv.zcdp_epsilon(1e-6, rho) < 1e-140
    assert 0 <= cv.gaussian_epsilon(1e-6, rho) < 1e-140


@pytest.mark.parametrize("epsilon", [1e100, 1e300])
def test_huge_epsilon_has_a_small_delta(epsilon):
    """Never 0: no finite epsilon is pure for such a mechanism."""
    assert 0 < cv.zcdp_delta(epsilon, 1.0) < 1e-300
    assert 0 < cv.gaussian_delta(epsilon, 1.0) < 1e-300


@pytest.mark.parametrize("rho", [1e6, 1e100, 1e308])
def test_huge_rho_gives_a_huge_epsilon(rho):
    assert cv.zcdp_delta(1.0, rho) == 1
    assert cv.zcdp_epsilon(1e-6, rho) >= rho


@pytest.mark.parametrize("mu", [1e3, 1e100, 1e160])
def test_huge_mu_gives_a_huge_epsilon(mu):
    assert cv.gaussian_delta(1.0, mu) == 1
    assert cv.gaussian_epsilon(1e-6, mu) >= mu


def test_the_smallest_delta_has_an_epsilon():
    delta = 1e-300
    with pytest.raises(ValueError, match=r"delta=1e-310 is finer than can be computed: use at least 1e-300"):
        cv.gaussian_epsilon(1e-310, 1.0)
    log_inverse = -float(mp.log(mp.mpf(delta)))
    assert 35 < cv.gaussian_epsilon(delta, 1.0) < 40
    assert 40 < cv.zcdp_epsilon(delta, 1.0) < 1 + 2 * math.sqrt(log_inverse)
    one_order = 1 + (log_inverse - math.log(9)) / 8 + math.log(8 / 9)
    assert cv.rdp_epsilon([9.0], [1.0], delta) == near(one_order, rel=1e-10)


def test_nothing_is_lost_at_parameter_zero_or_epsilon_infinity():
    assert cv.gaussian_delta(0.5, 0.0) == cv.zcdp_delta(0.5, 0.0) == 0
    assert cv.gaussian_delta(math.inf, 2.0) == cv.zcdp_delta(math.inf, 2.0) == cv.pure_delta(math.inf, 2.0) == 0
    assert cv.gaussian_epsilon(1e-6, 0.0) == cv.zcdp_epsilon(1e-6, 0.0) == 0


def test_epsilon_is_zero_where_delta_alone_is_enough():
    assert cv.gaussian_epsilon(0.5, 1e-3) == cv.zcdp_epsilon(0.5, 1e-3) == cv.rdp_epsilon([2.0], [1e-3], 0.5) == 0


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.0, 1e-4), (0.0, 1e-8), (1e-4, 2e-5), (1e-12, 1e-12), (0.0, 1e-16), (1e-15, 2e-16)]
)
def test_gaussian_delta_keeps_its_digits_for_small_mu(epsilon, mu):
    """As its docstring says; a difference that rounds to 0 would promise perfect privacy."""
    assert cv.gaussian_delta(epsilon, mu) == near(exact_gaussian_delta(epsilon, mu), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-4, 1e-20), (1e-8, 1e-14), (1e-12, 1e-18), (1e-15, 1e-20)])
def test_gaussian_mu_keeps_delta_for_small_epsilon(epsilon, delta):
    assert exact_gaussian_delta(epsilon, cv.gaussian_mu(epsilon, delta)) <= delta * (1 + 1e-6)


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("function", [cv.gaussian_delta, cv.zcdp_delta, cv.pure_delta])
@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_delta_functions_refuse_bad_numbers_by_name(function, bad):
    with pytest.raises(ValueError, match=r"epsilon=.* must be"):
        function(bad, 1.0)
    with pytest.raises(ValueError, match=r"(mu|rho|pure)=.* must be"):
        function(1.0, bad)
    with pytest.raises(ValueError, match=r"(mu|rho|pure)=inf must be"):
        function(1.0, math.inf)


@pytest.mark.parametrize(
    "function",
    [
        cv.gaussian_epsilon,
        cv.zcdp_epsilon,
        lambda delta, _: cv.gaussian_mu(1.0, delta),
        lambda delta, _: cv.zcdp_rho(1.0, delta),
        lambda delta, _: cv.paper_rho(1.0, delta),
        lambda delta, value: cv.rdp_epsilon([2.0], [value], delta),
    ],
)
@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan])
def test_inverses_refuse_a_delta_outside_the_open_unit_interval(function, bad):
    with pytest.raises(ValueError, match=r"delta=.* must lie strictly between 0 and 1"):
        function(bad, 1.0)


@pytest.mark.parametrize(
    ("orders", "values", "message"),
    [
        ([], [], "same positive length"),
        ([2.0], [1.0, 2.0], "same positive length"),
        ([1.0], [1.0], "order=1.0 must be greater than 1"),
        ([math.nan], [1.0], "order=nan must be greater than 1"),
        ([2.0], [-1.0], "-1.0 at order 2.0"),
        ([2.0], [math.nan], "nan at order 2.0"),
    ],
)
def test_bad_renyi_curves_are_refused(orders, values, message):
    with pytest.raises(ValueError, match=message):
        cv.rdp_delta(orders, values, 1.0)
    with pytest.raises(ValueError, match=message):
        cv.rdp_epsilon(orders, values, 1e-5)


def test_an_infinite_divergence_promises_nothing():
    assert cv.rdp_delta([2.0], [math.inf], 5.0) == 1
    assert cv.rdp_epsilon([2.0], [math.inf], 1e-5) == math.inf
    assert cv.rdp_epsilon([2.0, 4.0], [math.inf, 0.1], 1e-5) == cv.rdp_epsilon([4.0], [0.1], 1e-5)


# ------------------------------------------------------------------------------------------ largest_within


@pytest.mark.parametrize(
    ("price_of", "inverse"),
    [
        (lambda x: x, lambda price: price),
        (lambda x: x * x / 2, lambda price: math.sqrt(2 * price)),
        (math.expm1, math.log1p),
        (lambda x: x**0.25, lambda price: price**4),
        (lambda x: x**9, lambda price: price ** (1 / 9)),
    ],
)
@given(price=powers_of_ten(-15, 2))
@check
def test_largest_within_never_overshoots_and_leaves_next_to_nothing(price_of, inverse, price):
    found = cv.largest_within(price_of, price)
    assert price_of(found) <= price
    assert found == near(inverse(price), rel=1e-12)
    assert price_of(found * (1 + 1e-12)) > price


def test_largest_within_does_not_overshoot_where_the_price_jumps():
    """A price may become infinite: the search stays below the jump."""
    found = cv.largest_within(lambda x: x if x < 3 else math.inf, 10.0)
    assert found < 3
    assert found == near(3, rel=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_largest_within_refuses_a_bad_price(bad):
    with pytest.raises(ValueError, match=r"price=.* must be a positive finite number"):
        cv.largest_within(lambda x: x, bad)


def test_largest_within_refuses_a_price_that_buys_nothing():
    with pytest.raises(ValueError, match=r"price=0\.1 is too small to buy anything"):
        cv.largest_within(lambda _: math.inf, 0.1)


@pytest.mark.parametrize("order", [1.5, 12, 13, 500.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.5, 20.0])
def test_what_a_budget_at_one_order_promises_is_what_its_limit_is_stated_at(order, epsilon):
    """An epsilon that is moved until its delta is kept is moved no further: by less than a few last places."""
    try:
        budget = Budget.of(epsilon, 1e-5, currency=RenyiDP(order))
    except ValueError:  # no limit at this order is small enough
        return
    assert budget.currency.epsilon(budget.limit, 1e-5) <= epsilon * (1 + 1e-14)
