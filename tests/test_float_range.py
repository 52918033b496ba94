"""Conversions over the whole range of floats: a claim is on the safe side of 60-digit arithmetic, or refused by name.

The true value is computed independently, with mpmath. A claim may also not waste: with every argument moved by 1e-9 the
truth has to reach it.
"""

import itertools
import math

import mpmath
import numpy as np
import pytest

from dpsk.privacy import (
    ZCDP,
    BoundedRangeCost,
    Budget,
    GaussianCost,
    GaussianDP,
    GaussianThresholdCost,
    LaplaceThresholdCost,
    ObjectiveDP,
    PerturbedMinimaCost,
    PureCost,
    PureDP,
    RenyiDP,
    Sampling,
)
from dpsk.privacy import conversions as cv
from dpsk.privacy.amplification import sampled_epsilon
from dpsk.privacy.costs import sum_above
from dpsk.privacy.rounding import LEAST, MARGIN, above, below, down, up

mp = mpmath.MPContext()
mp.dps = 60

WASTE = mp.mpf(10) ** -9
SPECIAL = [2.2250738585072014e-308, LEAST, 1e-300, 1e-160, 1e-100, 0.05, 1.0, 40.0, 700.0, 745.0, 1e16, 1e100, 1e150]
FLOATS = sorted(
    {
        *(float(x) for x in np.logspace(-323, 308, 60)),
        *(math.nextafter(x, side) for x in SPECIAL for side in (0.0, x, math.inf)),
        *(5e-324, 1e-323, math.nextafter(math.inf, 0)),
    }
)
DELTAS = [1e-300, math.nextafter(1e-300, 1), 1e-200, 1e-16, 1e-6, 0.3, 0.9, math.nextafter(1, 0)]


def random_floats(seed, n, low, high):
    return [float(x) for x in 10 ** np.random.default_rng(seed).uniform(low, high, n)]


def attempt(call):
    """Return what a call returns, and the message of the ValueError that it raises."""
    try:
        return call(), None
    except ValueError as error:
        return None, str(error)


def safe(claim, truth, moved, name):
    """The claim is at least the truth, and no more than the truth at moved arguments, but for what is too small."""
    assert claim >= truth, name
    assert claim <= max(moved * (1 + WASTE), 10 * LEAST) or moved > 1.79e308, name


# ---------------------------------------------------------------------------------------------------- Gaussian DP


def gaussian_delta(epsilon, mu):
    """The difference of two tails; from 1e-20 down its limit, mu times the expected excess of a normal number."""
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    x = epsilon / mu
    if x - mu / 2 > 60:
        return mp.mpf(0)  # less than 1e-780
    if mu < mp.mpf(10) ** -20:
        return mu * (mp.npdf(x) - x * mp.erfc(x / mp.sqrt(2)) / 2)
    first = mp.erfc((x - mu / 2) / mp.sqrt(2)) / 2
    if x + mu / 2 > 1e6:  # Mills' ratio is between 1/t - 1/t^3 and 1/t
        return first - mp.npdf(x - mu / 2) / (x + mu / 2)
    return first - mp.exp(epsilon) * mp.erfc((x + mu / 2) / mp.sqrt(2)) / 2


@pytest.mark.parametrize("mu", FLOATS)
def test_gaussian_delta_on_all_floats(mu):
    for epsilon in [0.0, *FLOATS[::10], mu, mu * mu / 2, 38 * mu]:
        if epsilon == math.inf:
            continue
        claim = cv.gaussian_delta(epsilon, mu)
        moved = gaussian_delta(epsilon * (1 - WASTE), mu * (1 + WASTE))
        safe(claim, gaussian_delta(epsilon, mu), moved, (epsilon, mu))


@pytest.mark.slow
def test_gaussian_delta_at_random_points():
    rng = np.random.default_rng(0)
    nearest = math.inf
    for mu in random_floats(1, 3000, -8, 3):
        epsilon = max(0.0, (rng.uniform(-5, 37) + mu / 2) * mu)
        truth, claim = gaussian_delta(epsilon, mu), cv.gaussian_delta(epsilon, mu)
        safe(claim, truth, gaussian_delta(epsilon * (1 - WASTE), mu * (1 + WASTE)), (epsilon, mu))
        off = mp.mpf(cv._gaussian_delta(epsilon, mu)) / truth - 1
        nearest = min(nearest, 1 - abs(off) / MARGIN) if truth > 1e-290 else nearest
    assert nearest > 2 / 3, "what is computed uses up no more than a third of the margin"


@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_calibrations_on_all_floats(delta):
    for epsilon in [0.0, *FLOATS]:
        mu, refusal = attempt(lambda epsilon=epsilon: cv.gaussian_mu(epsilon, delta))
        if refusal:
            assert not 1e-100 <= epsilon <= 1e100
            assert f"epsilon={epsilon!r} must lie between" in refusal
            continue
        assert mu > 0
        assert gaussian_delta(epsilon, mu) <= delta
        assert gaussian_delta(epsilon, mu * (1 + WASTE)) > delta or delta > 0.999 or mu > 1e7
    for mu in FLOATS:
        epsilon = cv.gaussian_epsilon(delta, mu)
        assert epsilon == math.inf or gaussian_delta(epsilon, mu) <= delta


@pytest.mark.slow
def test_gaussian_mu_is_never_too_large():
    """It was by up to 2e-12: more budget than there is."""
    rng = np.random.default_rng(2)
    for epsilon, log_delta in zip(random_floats(3, 400, -4, 3), rng.uniform(-40, -0.01, 400), strict=True):
        delta = float(10**log_delta)
        mu = cv.gaussian_mu(epsilon, delta)
        assert gaussian_delta(epsilon, mu) <= delta < gaussian_delta(epsilon, mu * (1 + WASTE))
        least = cv.gaussian_epsilon(delta, mu)
        assert gaussian_delta(least, mu) <= delta
        assert delta < gaussian_delta(least * (1 - WASTE), mu * (1 + WASTE)) * (1 + WASTE) or least == 0


def test_the_smaller_budgets_of_the_papers_are_rounded_down():
    for epsilon, delta in itertools.product([x for x in FLOATS if 1e-100 <= x <= 1e100], [1e-300, 1e-9, 0.4, 0.49999]):
        e, d = mp.mpf(epsilon), mp.mpf(delta)
        c2 = mp.log(2 * (mp.sqrt(16 * d + 1) + 1) / (16 * d))
        exact = mp.sqrt(2) * e / (mp.sqrt(c2) + mp.sqrt(c2 + e))
        assert exact * (1 - WASTE) <= cv.paper_mu(epsilon, delta) <= exact
        exact = (e / (mp.sqrt(e - mp.log(d)) + mp.sqrt(-mp.log(d)))) ** 2
        assert exact * (1 - WASTE) <= cv.paper_rho(epsilon, delta) <= exact


# ------------------------------------------------------------------------------------------------- zCDP and Renyi DP


def log_bound(excess, divergence, epsilon):
    """The logarithm of the bound of Canonne, Kamath & Steinke (2020) at the order 1 + excess."""
    order = 1 + excess
    return excess * (divergence - epsilon) - excess * mp.log1p(1 / excess) - mp.log(order)


def zcdp_delta(epsilon, rho):
    """The bound at the best order, where its derivative is 0: by halving an interval of logarithms."""
    epsilon, rho = mp.mpf(epsilon), mp.mpf(rho)

    def slope(t):
        excess = mp.exp(t)
        return (2 * excess + 1) * rho - epsilon - mp.log1p(1 / excess)

    low, high = mp.mpf(-3000), mp.mpf(3000)
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    excess = mp.exp(low)
    return mp.exp(min(mp.zero, log_bound(excess, (1 + excess) * rho, epsilon)))


@pytest.mark.slow
def test_zcdp_delta_on_all_floats_and_at_random_points():
    points = list(itertools.product([0.0, *FLOATS[::17], 1.0], [*FLOATS[::13], 0.01]))
    rng = np.random.default_rng(4)
    for rho in random_floats(5, 60, -9, 4):
        points.append((rho + 2 * math.sqrt(rho * rng.uniform(0.01, 690)), rho))
    for epsilon, rho in points:
        with mp.workdps(400 if max(epsilon, rho) > 1e40 else 60):
            moved = zcdp_delta(epsilon * (1 - WASTE), rho * (1 + WASTE))
            if min(epsilon, rho) > 1e-50 and epsilon < 1e280:  # beyond it the best order is not found well, which costs
                safe(cv.zcdp_delta(epsilon, rho), zcdp_delta(epsilon, rho), moved, (epsilon, rho))
            else:
                assert 1 >= cv.zcdp_delta(epsilon, rho) >= zcdp_delta(epsilon, rho)


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_calibrations_on_all_floats(delta):
    """Putting back is enough: the test above holds what it is put into on the safe side."""
    for epsilon in FLOATS:
        rho, refusal = attempt(lambda epsilon=epsilon: cv.zcdp_rho(epsilon, delta))
        if refusal:
            assert not 1e-100 <= epsilon <= 1e100
            assert f"epsilon={epsilon!r} must lie between" in refusal
            continue
        assert rho > 0
        assert cv.zcdp_delta(epsilon, rho) <= delta
    for rho in FLOATS:
        epsilon = cv.zcdp_epsilon(delta, rho)
        assert epsilon == math.inf or cv.zcdp_delta(epsilon, rho) <= delta


@pytest.mark.slow
@pytest.mark.parametrize("order", [1 + 2.0**-52, 1.001, 2.0, 17.5, 1e4, 1e16, 1e300])
def test_renyi_conversions_on_all_floats(order):
    with mp.workdps(700):
        for epsilon, value in itertools.product([0.0, *FLOATS[::6], 1.0], [0.0, *FLOATS[::6], 1.0]):
            excess = mp.mpf(order) - 1
            claim = cv.rdp_delta([order], [value], epsilon)
            truth, moved = (
                mp.exp(max(-2000, min(mp.zero, log_bound(excess, value * (1 + by), epsilon * (1 - by)))))
                for by in (0, 100 * WASTE if order > 1e10 else WASTE)
            )
            safe(claim, truth if truth > 1e-700 else 0, moved, (epsilon, value))
        for delta, value in itertools.product(DELTAS, FLOATS[::6]):
            epsilon = cv.rdp_epsilon([order], [value], delta)
            assert epsilon == math.inf or cv.rdp_delta([order], [value], epsilon) <= delta


# ---------------------------------------------------------------------------------------------------------- pure DP


def pure_delta(epsilon, pure):
    return max(mp.zero, -mp.expm1(mp.mpf(epsilon) - pure) / (1 + mp.exp(-mp.mpf(pure)))) if epsilon < pure else mp.zero


def pure_rho(pure):
    return mp.mpf(pure) * mp.tanh(mp.mpf(pure) / 2)


def renyi(order, pure):
    """Randomised response: log(cosh((a - 1/2) eps)/cosh(eps/2))/(a - 1)."""
    x, a = mp.mpf(pure) / 2, mp.mpf(order)
    if max(x, 2 * a * x) > 1e5:
        return 2 * x if x > 1e5 else (2 * a - 1) * x / (a - 1) - (mp.log(2) + mp.log(mp.cosh(x))) / (a - 1)
    return mp.log(mp.cosh((2 * a - 1) * x) / mp.cosh(x)) / (a - 1)


def gaussian_of(pure, mu):
    """The excess of Phi(mu/2) over e^pure/(1 + e^pure), relative to mu: at most 0 where mu is too small."""
    pure, mu = mp.mpf(pure), mp.mpf(mu)
    if pure < 1:
        return mp.erf(mu / 2 / mp.sqrt(2)) - mp.tanh(pure / 2)
    if mu > 1e6:  # log of a tail is at most -t^2/2 - log(t) - log(2 pi)/2
        return (
            pure + mp.log1p(mp.exp(-min(pure, mp.mpf(10) ** 6))) - (mu**2 / 8 + mp.log(mu / 2) + mp.log(2 * mp.pi) / 2)
        )
    return -mp.log(mp.erfc(mu / 2 / mp.sqrt(2)) / 2) - pure - mp.log1p(mp.exp(-min(pure, mp.mpf(10) ** 6)))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("pure", [*FLOATS, *random_floats(6, 60, -6, 3)])
def test_prices_of_pure_mechanisms_on_all_floats(pure):
    more = pure * (1 + WASTE)
    with mp.workdps(1000):
        safe(cv.pure_rho(pure), pure_rho(pure), pure_rho(more), "rho")
        safe(cv.bounded_range_rho(pure), min(mp.mpf(pure) ** 2 / 8, pure_rho(pure)), mp.inf, "range rho")
        for order in (1 + 2.0**-52, 1.5, 2.0, 300.0, 1e16, 1e300):
            safe(cv.pure_rdp(order, pure), min(renyi(order, pure), mp.mpf(pure)), renyi(order, more), order)
    for price, exact in ((cv.pure_mu(pure), mp.mpf(pure)), (cv.bounded_range_mu(pure), mp.mpf(pure) / 2)):
        with mp.workdps(700):
            if price < math.inf:
                assert gaussian_of(exact, price) >= 0 or price > 1e6
                assert price <= 10 * LEAST or price > 1e6 or gaussian_of(exact, price * (1 - WASTE)) < 0
                assert mp.mpf(price) ** 2 / 8 >= exact * (1 - WASTE) - 20 or price <= 1e6


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("pure", FLOATS[::4])
def test_pure_delta_on_all_floats(pure):
    with mp.workdps(700):
        for epsilon in [0.0, *FLOATS[::3], pure / 2, math.nextafter(pure, 0), pure]:
            claim, truth = cv.pure_delta(epsilon, pure), pure_delta(epsilon, pure)
            assert (claim == 0) == (epsilon >= pure), "delta is 0 for a pure mechanism, and only for that"
            safe(claim, truth, truth * (1 + WASTE), epsilon)
        for delta in [0.0, 5e-324, *DELTAS]:
            epsilon = cv.pure_epsilon(delta, pure)
            assert pure_delta(epsilon, pure) <= delta
            assert epsilon <= pure


def test_sums_of_epsilons_are_exact_or_rounded_up():
    assert sum_above(0.1, 0.2) == math.nextafter(0.3, 1) == 0.1 + 0.2
    assert LaplaceThresholdCost(0.05, 0.025, 3).epsilon == 0.1
    assert sum_above(1.0, 5e-324) == math.nextafter(1.0, 2)
    assert sum_above(1e308, 1e308) == sum_above(1.0, math.inf) == math.inf
    of_three = PureDP().epsilon_for_group(0.1, 0.0, 3)
    assert of_three > 3 * mp.mpf(0.1)
    assert of_three == PureCost(of_three).epsilon
    for x in (mp.mpf(1) / 3, mp.mpf(10) ** -320):
        exact = above.__globals__["Fraction"](str(x))
        assert below(exact) <= exact <= above(exact)
        assert math.nextafter(below(exact), math.inf) == above(exact)
    assert up(1e-320) == LEAST
    assert down(1.0) < 1 < up(1.0)


# ------------------------------------------------------------------------------------- prices, currencies, budgets


@pytest.mark.parametrize("strength", FLOATS)
def test_prices_that_are_products_are_off_by_no_more_than_limits_allow_for(strength):
    """A limit is converted at (1 + MARGIN) times its value; a price is right to 2^-50, or larger."""
    gauss, exact = GaussianCost(strength), mp.mpf(strength) ** 2
    for price, truth in (
        (gauss.rho, exact / 2),
        (GaussianDP().price(gauss), exact),
        (gauss.rdp(3.0), 3 * exact / 2),
        (GaussianDP().price(BoundedRangeCost(strength)), mp.mpf(BoundedRangeCost(strength).mu) ** 2),
    ):
        assert price * (1 + mp.mpf(2) ** -50) >= truth
        assert price <= max(truth * (1 + mp.mpf(2) ** -50), 10 * LEAST) or truth > 1.79e308


@pytest.mark.slow
@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), RenyiDP(30.0), PureDP()], ids=lambda c: c.name)
def test_budgets_of_all_floats_are_kept_or_refused_by_name(currency):
    for epsilon, delta in itertools.product(FLOATS, [5e-324, 1e-310, *DELTAS]):
        budget, refusal = attempt(lambda promise=(epsilon, delta): Budget.of(*promise, currency=currency))
        if refusal:
            assert f"epsilon={epsilon!r}" in refusal or f"delta={delta!r}" in refusal
            assert any(remedy in refusal for remedy in ("choose one there", "use at least", "raise the order"))
            continue
        assert 0 < budget.limit < math.inf
        if isinstance(currency, GaussianDP):
            assert gaussian_delta(epsilon, mp.sqrt(budget.limit * (1 + mp.mpf(2) ** -45))) <= delta
    for rho in FLOATS:
        whole = Budget.from_rho(rho, 1e-6)
        assert whole.epsilon == math.inf or cv.zcdp_delta(whole.epsilon, rho) <= 1e-6


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-30, 1e-9, 0.01, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("mu", [5e-324, 1e-160, 1e-100, 1e-8, 0.3, 2.0, 30.0])
def test_sampled_prices_on_all_floats(rate, mu):
    """The exact binomial sum, for Poisson samples of a Gaussian release."""
    cost = Sampling(rate).cost([GaussianCost(mu)])
    with mp.workdps(80):
        for order in (2, 3, 20, 64):
            terms = (
                mp.binomial(order, k)
                * mp.mpf(rate) ** k
                * (1 - mp.mpf(rate)) ** (order - k)
                * mp.expm1(k * (k - 1) * mp.mpf(mu) ** 2 / 2)
                for k in range(2, order + 1)
            )
            truth = min(mp.log1p(mp.fsum(terms)) / (order - 1), order * mp.mpf(mu) ** 2 / 2)
            assert cost.rdp(order) * (1 + mp.mpf(2) ** -50) >= truth
            assert cost.rdp(order) <= max(truth * (1 + 2 * WASTE), 10 * order * LEAST)
    for order in (1e6, 1e16, 1e300):
        assert cost.rdp(order) <= max(order * mu * mu / 2 * (1 + 1e-12), 10 * order * LEAST)


@pytest.mark.parametrize("mu", FLOATS)
def test_mu_of_several_releases_on_all_floats(mu):
    """None of them is free: squares of small prices vanish, and reciprocals overflow."""
    for claim, times in (
        (Sampling(0.1).cost([GaussianCost(mu)] * 2).mu, mp.sqrt(2)),
        (GaussianThresholdCost(mu, mu, 1).mu, 1 / mp.sqrt(2)),
        (GaussianThresholdCost(mu, mu, 3).mu, mp.sqrt(3)),
    ):
        truth = times * mp.mpf(mu)
        assert claim * (1 + mp.mpf(2) ** -50) >= truth
        assert claim <= max(truth * (1 + WASTE), LEAST) or truth > 1.79e308


@pytest.mark.slow
def test_sampled_epsilons_on_all_floats():
    for rate, epsilon in itertools.product([x for x in FLOATS if x < 1] + [1.0], FLOATS):
        with mp.workdps(700):
            exact = mp.log1p(mp.mpf(rate) * mp.expm1(min(mp.mpf(epsilon), mp.mpf(10) ** 5)))
            if epsilon < 1e5:
                assert sampled_epsilon(rate, epsilon) >= min(exact, mp.mpf(epsilon))
        assert sampled_epsilon(rate, epsilon) <= epsilon


# ----------------------------------------------------------------------------------------- objective perturbation


@pytest.mark.slow
@pytest.mark.parametrize(("n", "replaced"), [(1, False), (1, True), (9, False), (4, True), (600, True)])
def test_the_sum_over_corners_on_all_floats(n, replaced):
    corners = _power({0: 1, 3: 2, 4: 1} if replaced else {0: 1, 4: 1}, n)
    corners = dict(list(corners.items())[:: max(1, n // 10)])  # some of very many
    for strength, shift, left in itertools.product(
        [1e-160, 1e-6, 0.3, 5.0], [1e-160, 1e-3, 0.3], [0.0, 2.0**-30, 0.5, 20.0]
    ):
        cost = PerturbedMinimaCost(strength, shift, 0.25, n, replaced)
        squares = [(mp.mpf(strength) ** 2 * (4 * n - q) / (4 * n) + mp.mpf(shift) ** 2, c) for q, c in corners.items()]
        truth = mp.fsum(c * gaussian_delta(left, mp.sqrt(s)) for s, c in squares)
        claim = cost.delta(0.25 + left)
        assert claim >= min(truth, 1)
        if n < 10:
            assert claim <= max(truth * (1 + 1e-5), 1e-140)


def _times(one, other):
    product = {}
    for (a, x), (b, y) in itertools.product(one.items(), other.items()):
        product[a + b] = product.get(a + b, 0) + x * y
    return product


def _power(one, n):
    whole = {0: 1}
    for _ in range(n):
        whole = _times(whole, one)
    return whole


@pytest.mark.parametrize("order", [1 + 2.0**-40, 1.5, 2.0, 64.0])
def test_renyi_divergences_of_minima_on_all_floats(order):
    """E e^((a - 1) max(0, A)) for a normal number A; many digits, because it is next to 1."""
    a = mp.mpf(order)
    with mp.workdps(400):
        for strength, shift, log_determinant in itertools.product(
            [1e-160, 1e-20, 1e-6, 0.3, 5.0], [1e-150, 0.1], [1e-100, 0.2]
        ):
            s = mp.mpf(strength)
            mean = mp.ncdf(-s / 2) + mp.exp(a * (a - 1) * s * s / 2) * mp.ncdf((a - mp.mpf(1) / 2) * s)
            truth = log_determinant + mp.log(mean) / (a - 1) + a * mp.mpf(shift) ** 2 / 2
            claim = PerturbedMinimaCost(strength, shift, log_determinant).rdp(order)
            assert truth <= claim <= truth * (1 + WASTE) + 2.0**-49 / (order - 1)


def test_objective_perturbation_plans_within_what_it_promises():
    for epsilon, delta in itertools.product([1e-100, 1e-30, 1e-3, 1.0, 300.0, 1e9], [1e-300, 1e-30, 1e-6, 0.5]):
        currency = ObjectiveDP.plan(epsilon, delta, 0.15 * epsilon, 1, replaced=False)
        limit = mp.mpf(Budget.of(epsilon, delta, currency=currency).limit)
        left = mp.mpf(epsilon) - mp.mpf(0.15 * epsilon)
        kept = mp.sqrt(limit - mp.mpf(currency.least))
        assert gaussian_delta(left, mp.sqrt(limit)) + gaussian_delta(left, kept) <= delta
    for epsilon, delta, name in ((1e-101, 1e-6, "epsilon"), (1.0, 1e-301, "delta"), (1e10, 1e-6, "epsilon")):
        with pytest.raises(ValueError, match=f"{name}="):
            ObjectiveDP.plan(epsilon, delta, 0.15 * epsilon, 1, replaced=False)
