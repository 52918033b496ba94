"""Amplification: equal to independent sums, above exact divergences of small cases, and priced jointly.

Oracles enumerate samples or integrate over noise; none of them uses the formulas under test.
"""

import itertools
import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp.rdp_privacy_accountant import _compute_rdp_poisson_subsampled_gaussian
from scipy.special import logsumexp

from dpsk.privacy import (
    BatchCost,
    BoundedRangeCost,
    Budget,
    BudgetExhausted,
    Cost,
    GaussianCost,
    GaussianThresholdCost,
    LaplaceThresholdCost,
    Ledger,
    PureCost,
    RenyiDP,
    Sampling,
    best_order,
)
from dpsk.privacy.amplification import (
    ORDERS,
    SCHEMES,
    poisson_general_rdp,
    poisson_rdp,
    sampled_epsilon,
    without_replacement_rdp,
)
from dpsk.privacy.conversions import pure_mu, pure_rdp, pure_rho

mp = mpmath.MPContext()
mp.dps = 40

SLACK = 1 + 1e-9
"""Rounding of the oracles that are sums of floats."""


def near(value, rel):
    return pytest.approx(float(value), rel=rel, abs=0)


# ------------------------------------------------------------------------------------------------ oracles


def renyi(order, p, q):
    """D_a(P || Q) of two vectors of probabilities, or of densities times the width of a grid."""
    p, q = np.asarray(p), np.asarray(q)
    with np.errstate(divide="ignore"):
        logs = order * np.log(p) + (1 - order) * np.log(q)
    return float(logsumexp(logs[p > 0])) / (order - 1)


def both_ways(order, p, q):
    return max(renyi(order, p, q), renyi(order, q, p))


def sampled_gaussian(order, rate, mu):
    """The divergence of the Poisson-sampled Gaussian as a sum, with 40 digits."""
    rate = mp.mpf(rate)
    excess = mp.fsum(
        mp.binomial(order, k) * (1 - rate) ** (order - k) * rate**k * mp.expm1((k * k - k) * mp.mpf(mu) ** 2 / 2)
        for k in range(2, order + 1)
    )
    return mp.log1p(excess) / (order - 1)


AXIS = np.linspace(-32, 32, 2_561)


def normal(mean, sigma=1.0):
    """Density of a Gaussian on AXIS, times the width of the grid: sums are integrals, to rounding."""
    return np.exp(-(((AXIS - mean) / sigma) ** 2) / 2) * (AXIS[1] - AXIS[0]) / (sigma * math.sqrt(2 * math.pi))


def randomised_response(epsilon):
    yes = 1 / (1 + math.exp(-epsilon))
    return np.array([yes, 1 - yes]), np.array([1 - yes, yes])


def subsets(n, size=None):
    sizes = range(n + 1) if size is None else [size]
    return [frozenset(s) for r in sizes for s in itertools.combinations(range(n), r)]


def poisson_mixture(outputs, n, rate, absent=()):
    """The distribution of a release on a Poisson sample of rows 0..n-1 without the ``absent``."""
    present = [i for i in range(n) if i not in absent]
    total = 0.0
    for s in subsets(len(present)):
        chosen = frozenset(present[i] for i in s)
        total = total + rate ** len(s) * (1 - rate) ** (len(present) - len(s)) * outputs[chosen]
    return total


# --------------------------------------------------------------------------------------- one batch, one price


@pytest.mark.parametrize(
    ("rate", "noise", "order", "joint", "separate"),
    [
        (0.1, 1.0, 4, 0.982, 0.117),
        (0.1, 1.0, 8, 5.37, 2.76),
        (0.1, 2.0, 16, 1.55, 0.091),
        (0.01, 1.0, 8, 2.74, 0.00179),
    ],
)
def test_two_releases_on_one_batch_cost_more_than_the_sum_of_both(rate, noise, order, joint, separate):
    """They are one Gaussian release with noise s/sqrt(2), whose divergence is computed by quadrature."""
    sampling, cost = Sampling(rate), GaussianCost(1 / noise)
    together = sampling.cost([cost, cost]).rdp(order)
    far = renyi(order, (1 - rate) * normal(0) + rate * normal(math.sqrt(2) / noise), normal(0))
    assert together == near(far, rel=1e-6)
    assert together == near(joint, rel=5e-3)
    assert together == near(sampling.cost([GaussianCost(math.sqrt(2) / noise)]).rdp(order), rel=1e-12)
    assert 2 * sampling.cost([cost]).rdp(order) == near(separate, rel=1e-2)


def test_two_coins_on_one_batch_cost_more_than_the_sum_of_both():
    """Exact: both answers of randomised response about the presence of one row."""
    rate, epsilon, order = 0.05, 1.5, 8
    yes, no = randomised_response(epsilon)
    p, q = np.outer(yes, yes).ravel(), np.outer(no, no).ravel()
    exact = both_ways(order, (1 - rate) * q + rate * p, q)
    apart = 2 * poisson_rdp(order, rate, lambda k: pure_rdp(k, epsilon))
    joint = poisson_rdp(order, rate, lambda k: 2 * pure_rdp(k, epsilon))
    assert 1.5 * apart < exact == near(joint, rel=1e-8)
    assert Sampling(rate).cost([PureCost(epsilon)] * 2).rdp(order) >= exact


# ------------------------------------------------------------------------------------------ Poisson: Gaussian


@pytest.mark.parametrize("rate", [1e-3, 0.01, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("noise", [0.7, 2.0, 10.0])
@pytest.mark.parametrize("order", [2, 3, 16, 128])
def test_the_sampled_gaussian_agrees_with_dp_accounting_and_mpmath(rate, noise, order):
    value = Sampling(rate).cost([GaussianCost(1 / noise)]).rdp(order)
    exact = sampled_gaussian(order, rate, 1 / noise)
    assert exact <= value <= exact * (1 + 1e-8)
    if exact > 1e-6:  # below, the accountant loses digits
        assert value == near(_compute_rdp_poisson_subsampled_gaussian(rate, noise, [order])[0], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-9, 1e-4, 0.3, 1 - 1e-6])
@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.1, 3.0])
@pytest.mark.parametrize("order", [2, 64, 1500])
def test_no_rounding_makes_a_sampled_gaussian_too_cheap(rate, mu, order):
    """Also where the price is 1e-30, or made of terms that nearly cancel in logarithms."""
    exact = sampled_gaussian(order, rate, mu)
    assert exact <= poisson_rdp(order, rate, GaussianCost(mu).rdp) <= exact * (1 + 2e-9)


@pytest.mark.slow
def test_no_rounding_makes_the_largest_order_too_cheap():
    order, rate, mu = ORDERS[-1], 1e-4, 0.03
    exact = sampled_gaussian(order, rate, mu)
    assert exact <= poisson_rdp(order, rate, GaussianCost(mu).rdp) <= exact * (1 + 2e-9)


@pytest.mark.parametrize("rate", [1e-300, 1 - 2**-53])
@pytest.mark.parametrize("curve", [lambda k: math.inf, lambda k: 0.0, lambda k: 1e-320, lambda k: 1e300], ids=range(4))
@pytest.mark.parametrize("theorem", [poisson_rdp, poisson_general_rdp, without_replacement_rdp])
def test_extreme_curves_and_rates_give_a_number_that_is_not_negative(theorem, curve, rate):
    value = theorem(7, rate, curve)
    assert value >= 0
    assert value == math.inf or curve(7) < math.inf


# ----------------------------------------------------------------------------- Poisson: products, exact small cases


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.7])
@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 0.5), (1.0, 0.2), (0.8, 2.0)])
@pytest.mark.parametrize("order", [2, 3, 7, 20])
def test_a_gaussian_and_a_pure_release_on_one_batch_by_quadrature(rate, mu, epsilon, order):
    """The bound is the divergence of the mixture from the base, and the way back is no larger."""
    yes, no = randomised_response(epsilon)
    p = np.concatenate([yes[0] * normal(mu), yes[1] * normal(mu)])
    q = np.concatenate([no[0] * normal(0), no[1] * normal(0)])
    mixture = (1 - rate) * q + rate * p
    bound = Sampling(rate).cost([GaussianCost(mu), PureCost(epsilon)]).rdp(order)
    assert bound == near(renyi(order, mixture, q), rel=1e-6)
    assert renyi(order, q, mixture) <= bound
    assert 0.99 * bound > renyi(order, (1 - rate) * normal(0) + rate * normal(mu), normal(0)), "the coin counts"


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("order", [2, 5, 16])
def test_a_gaussian_that_depends_on_an_earlier_coin_is_covered(rate, order):
    """Two rows, both may be absent. The coin decides which way, and about which row, the Gaussian is told."""
    yes, no = randomised_response(0.8)
    outputs = {}
    for s in subsets(2):
        coin = yes if len(s) % 2 else no
        shown = [(0.7 if 0 in s else 0.0) + (0.7 if 1 in s else 0.0), (-0.7 if 1 in s else 0.0)]
        outputs[s] = np.concatenate([coin[0] * normal(shown[0]), coin[1] * normal(shown[1])])
    bound = Sampling(rate).cost([PureCost(0.8), GaussianCost(0.7)]).rdp(order)
    for leaving in (0, 1):
        p, q = (poisson_mixture(outputs, 2, rate, absent) for absent in ((), (leaving,)))
        assert both_ways(order, p, q) <= bound * SLACK


def adaptive_coins(rng, n, first, second):
    """Randomised response to a random question about the batch, then to one that depends on the answer."""
    questions = rng.integers(0, 2, size=(3, 2**n))
    outputs = {}
    for i, s in enumerate(subsets(n)):
        a = randomised_response(first)[questions[0, i]]
        b = [randomised_response(second)[questions[1 + answer, i]] for answer in (0, 1)]
        outputs[s] = np.concatenate([a[0] * b[0], a[1] * b[1]])
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.8])
@pytest.mark.parametrize("strengths", [(0.3, 0.3), (1.0, 0.4), (2.0, 3.0)])
def test_no_adaptive_composition_of_coins_on_a_sample_exceeds_the_joint_price(rate, strengths):
    """Random questions about up to 3 rows, all samples enumerated, every row leaving, both directions."""
    rng = np.random.default_rng(0)
    batch = Sampling(rate).cost([PureCost(e) for e in strengths])
    bounds = {order: poisson_rdp(order, rate, lambda k: batch._total(k, dominating=True)) for order in (2, 4, 12)}
    largest = dict.fromkeys(bounds, 0.0)
    for n in (1, 2, 3):
        for _ in range(40):
            outputs = adaptive_coins(rng, n, *strengths)
            whole = poisson_mixture(outputs, n, rate)
            for leaving in range(n):
                without = poisson_mixture(outputs, n, rate, (leaving,))
                for order in bounds:
                    largest[order] = max(largest[order], both_ways(order, whole, without))
                assert np.abs(np.log(whole / without)).max() <= batch.epsilon * SLACK
    for order, bound in bounds.items():
        assert 0.99 * bound < largest[order] <= bound * SLACK
        assert largest[order] <= batch.rdp(order) * SLACK


def random_mechanism(rng, n, outcomes):
    """Any distribution for every batch; its curve is the worst of all pairs and both directions."""
    width = rng.choice([0.2, 1.0, 4.0])
    outputs = {}
    for s in subsets(n):
        weights = np.exp(width * rng.normal(size=outcomes))
        outputs[s] = weights / weights.sum()
    pairs = [(outputs[s], outputs[s - {i}]) for s in outputs for i in s]
    return outputs, lambda k: max(both_ways(k, p, q) for p, q in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.01, 0.2, 0.6])
def test_no_random_mechanism_on_a_poisson_sample_exceeds_the_general_price(rate):
    rng = np.random.default_rng(1)
    nearest = 0.0
    for _ in range(60):
        n, outcomes = rng.integers(1, 4), rng.integers(2, 5)
        outputs, curve = random_mechanism(rng, n, outcomes)
        for order in (2, 3, 8):
            bound = poisson_general_rdp(order, rate, curve)
            for leaving in range(n):
                p, q = (poisson_mixture(outputs, n, rate, absent) for absent in ((), (leaving,)))
                assert both_ways(order, p, q) <= bound * SLACK
                nearest = max(nearest, both_ways(order, p, q) / bound)
    assert nearest > 0.9, "at order 2 the bound is attained"


def test_the_general_bound_is_the_special_one_with_a_factor_of_three():
    """Zhu & Wang's sum as they write it, in 40 digits."""
    rate, mu = mp.mpf("0.05"), 0.9
    for order in (2, 3, 10, 200):
        terms = [
            (3 if k > 2 else 1)
            * mp.binomial(order, k)
            * (1 - rate) ** (order - k)
            * rate**k
            * mp.exp((k * k - k) * mp.mpf(mu) ** 2 / 2)
            for k in range(2, order + 1)
        ]
        head = (1 - rate) ** (order - 1) * (order * rate - rate + 1)
        exact = mp.log(head + mp.fsum(terms)) / (order - 1)
        assert exact <= poisson_general_rdp(order, float(rate), GaussianCost(mu).rdp) <= exact * (1 + 1e-8)


# -------------------------------------------------------------------------------------------- without replacement


def test_without_replacement_needs_twice_the_sensitivity_even_when_a_row_only_leaves():
    """One of 100 rows is drawn and shown with noise 1. All others hold -1; the leaving row holds 1.

    With a public n its place stays empty; if others may take it, the divergence is larger still. The Poisson formula
    and the one with a single sensitivity are below both.
    """
    rate = 0.01
    once, twice = GaussianCost(1.0).rdp, GaussianCost(2.0).rdp
    before = (1 - rate) * normal(-1) + rate * normal(1)
    empty = both_ways(2, before, (1 - rate) * normal(-1) + rate * normal(0))
    taken = both_ways(2, before, normal(-1))
    assert empty == near(0.00291, rel=5e-3)
    assert taken == near(0.00535, rel=5e-3)
    assert poisson_rdp(2, rate, once) == near(0.00017, rel=2e-2)
    assert without_replacement_rdp(2, rate, once) == near(0.00054, rel=1e-2)
    assert without_replacement_rdp(2, rate, twice) == near(0.0109, rel=1e-2)
    assert without_replacement_rdp(2, rate, once) < empty < taken < without_replacement_rdp(2, rate, twice)
    assert Sampling(rate, "without-replacement").cost([GaussianCost(2.0)]).rdp(2) > taken


@pytest.mark.parametrize("order", [2, 3, 6, 16])
@pytest.mark.parametrize(("n", "size"), [(2, 1), (5, 1), (5, 2), (6, 4)])
def test_sampled_gaussian_sums_without_replacement_by_quadrature(order, n, size):
    """Rows hold -1, 0 or 1. One is replaced, leaves its place empty, or leaves it to another row."""
    rng = np.random.default_rng(2)
    rate, mu = size / n, 0.6
    batch = Sampling(rate, "without-replacement").cost([GaussianCost(2 * mu)])
    formula = without_replacement_rdp(order, rate, GaussianCost(2 * mu).rdp)

    def mixture(rows):
        samples = [sum(rows[i] for i in s) for s in subsets(len(rows), size)]
        return sum(normal(mu * total) for total in samples) / len(samples)

    worst = 0.0
    for others in [[-1] * (n - 1), [0] * (n - 1), [1, -1, 1, -1, 1][: n - 1], *rng.integers(-1, 2, size=(3, n - 1))]:
        others = list(others)
        one = mixture([*others, 1])
        for another in (mixture([*others, -1]), mixture([*others, 0]), mixture(others)):
            worst = max(worst, both_ways(order, one, another))
    assert worst <= batch.rdp(order) * SLACK
    assert worst <= formula * SLACK
    if order <= 3 and size < n / 2:
        assert worst > 0.1 * formula


def laplace_masses(shift, epsilon, reach=150):
    """Discrete Laplace noise of scale 1/epsilon around ``shift``; what is beyond ``reach`` only lacks."""
    return math.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1) - shift))


@pytest.mark.parametrize(("n", "size"), [(3, 1), (5, 2), (6, 3), (6, 5)])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_noisy_counts_without_replacement_are_covered(n, size, epsilon):
    """Rows hold 0 or 1; replacing one moves the count of the sample by at most one. All data sets are enumerated."""
    rate = size / n
    batch = Sampling(rate, "without-replacement").cost([PureCost(epsilon)])
    nearest = 0.0

    def mixture(rows):
        samples = [sum(rows[i] for i in s) for s in subsets(len(rows), size)]
        return sum(laplace_masses(total, epsilon) for total in samples) / len(samples)

    for ones in range(n):
        others = [1] * ones + [0] * (n - 1 - ones)
        one = mixture([*others, 1])
        for another in (mixture([*others, 0]), mixture(others)):
            log_ratio = np.abs(np.log(one / another)).max()
            assert log_ratio <= batch.epsilon * SLACK
            nearest = max(nearest, log_ratio / batch.epsilon)
            for order in (2, 3, 10):
                formula = without_replacement_rdp(order, rate, lambda k: pure_rdp(k, epsilon), epsilon)
                assert both_ways(order, one, another) <= min(formula, batch.rdp(order)) * SLACK
    assert nearest > 0.999, "the sampled epsilon is attained"


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("n", "size"), [(4, 1), (4, 2), (5, 3)])
def test_no_random_mechanism_on_a_sample_without_replacement_exceeds_its_price(n, size):
    """Any distribution for every multiset of values 0, 1, 2 in the sample; every replacement of one row."""
    rng = np.random.default_rng(3)
    multisets = list(itertools.combinations_with_replacement(range(3), size))
    for trial in range(25):
        width = (0.3, 1.0, 3.0)[trial % 3]
        weights = np.exp(width * rng.normal(size=(len(multisets), 3)))
        outputs = dict(zip(multisets, weights / weights.sum(axis=1, keepdims=True), strict=True))
        pairs = [
            (outputs[tuple(sorted([*rest, v]))], outputs[tuple(sorted([*rest, w]))])
            for rest in itertools.combinations_with_replacement(range(3), size - 1)
            for v, w in itertools.permutations(range(3), 2)
        ]
        epsilon = max(np.abs(np.log(p / q)).max() for p, q in pairs)

        def curve(k, pairs=pairs):
            return max(renyi(k, p, q) for p, q in pairs)

        def mixture(rows, outputs=outputs):
            samples = [tuple(sorted(rows[i] for i in s)) for s in subsets(len(rows), size)]
            return sum(outputs[s] for s in samples) / len(samples)

        bounds = {order: without_replacement_rdp(order, size / n, curve, epsilon) for order in (2, 3, 8)}
        for others in itertools.combinations_with_replacement(range(3), n - 1):
            mixtures = [mixture([*others, v]) for v in range(3)]
            if n > size:
                mixtures.append(mixture(list(others)))
            for p, q in itertools.permutations(mixtures, 2):
                assert np.log(p / q).max() <= sampled_epsilon(size / n, epsilon) * SLACK
                for order, bound in bounds.items():
                    assert renyi(order, p, q) <= bound * SLACK


def test_a_batch_without_replacement_pays_by_the_theorem_of_its_own_scheme():
    """That of Poisson samples is cheaper, but is about rows that leave without being replaced."""
    for cost in (GaussianCost(0.6), LaplaceThresholdCost(0.4, 0.2, 9)):
        for order in (2, 5, 11):
            own = without_replacement_rdp(order, 0.01, cost.rdp, cost.epsilon)
            if math.isfinite(cost.epsilon):
                own = min(own, pure_rdp(order, sampled_epsilon(0.01, cost.epsilon)))
            batch = Sampling(0.01, "without-replacement").cost([cost])
            assert batch.rdp(order) == near(min(own, cost.rdp(order)), rel=1e-14)
    assert batch.rdp(2) >= Sampling(0.01).cost([cost]).rdp(2)


def test_the_bound_without_replacement_is_the_sum_of_the_paper():
    """Wang, Balle & Kasiviswanathan (2019), with and without a pure epsilon, in 40 digits."""
    rate = mp.mpf("0.02")
    for cost in (GaussianCost(0.8), PureCost(0.4), PureCost(1.3)):
        for order in (2, 3, 9, 60):
            pure = cost.epsilon
            top = mp.inf if math.isinf(pure) else mp.expm1(pure)
            e = {k: mp.exp((k - 1) * mp.mpf(cost.rdp(k))) for k in range(2, order + 1)}
            total = rate**2 * mp.binomial(order, 2) * min(4 * (e[2] - 1), e[2] * min(2, top**2))
            total += mp.fsum(rate**k * mp.binomial(order, k) * e[k] * min(2, top**k) for k in range(3, order + 1))
            exact = mp.log1p(total) / (order - 1)
            assert exact <= without_replacement_rdp(order, float(rate), cost.rdp, pure) <= exact * (1 + 1e-8)


# ------------------------------------------------------------------------------------------------ sampled epsilon


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [1e-10, 0.01, 1.0, 30.0, 600.0])
def test_the_sampled_epsilon_is_attained_by_randomised_response(rate, epsilon):
    """The log-ratio of (1-rate) no + rate yes to no, with 400 digits so that nothing cancels."""
    with mp.workdps(400):
        ratio = mp.log((1 - mp.mpf(rate)) + mp.mpf(rate) * mp.exp(mp.mpf(epsilon)))
    assert sampled_epsilon(rate, epsilon) == near(ratio, rel=2e-9)
    assert sampled_epsilon(rate, epsilon) >= ratio * (1 - mp.mpf(10) ** -15)  # epsilon itself is a rounded number


@pytest.mark.parametrize("epsilon", [701.0, 1e5, math.inf])
def test_a_huge_epsilon_is_never_amplified_below_what_is_true(epsilon):
    assert epsilon + math.log(0.1) <= sampled_epsilon(0.1, epsilon) <= epsilon


# ------------------------------------------------------------------------------------------------------ BatchCost

COSTS = [
    GaussianCost(0.4),
    PureCost(0.3),
    BoundedRangeCost(0.5),
    LaplaceThresholdCost(0.4, 0.2, 15),
    GaussianThresholdCost(0.4, 0.2, 15),
]
BATCHES = [*((cost,) for cost in COSTS), (COSTS[0], COSTS[3]), (COSTS[1], COSTS[2], COSTS[3]), tuple(COSTS)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("costs", BATCHES, ids=repr)
def test_a_batch_of_all_rows_costs_the_plain_sums(costs, scheme):
    batch = Sampling(1.0, scheme).cost(costs)
    assert isinstance(batch, Cost)
    for order in (1.3, 2.0, 7.5):
        plain = sum(cost.rdp(order) for cost in costs)
        assert batch.rdp(order) <= plain * (1 + 1e-15)
        assert batch.dominating_rdp(order) == near(sum(cost.dominating_rdp(order) for cost in costs), rel=1e-14)
        if math.isinf(batch.epsilon):
            assert batch.rdp(order) == near(plain, rel=1e-14)
        else:
            assert batch.rdp(order) == near(min(plain, pure_rdp(order, batch.epsilon)), rel=1e-14)
    if math.isinf(batch.epsilon):
        assert batch.rho == near(sum(cost.rho for cost in costs), rel=1e-14)
        assert batch.mu == near(math.sqrt(sum(cost.mu**2 for cost in costs)), rel=1e-14)
    else:
        assert batch.epsilon == near(sum(cost.epsilon for cost in costs), rel=1e-14)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("rate", [0.01, 0.4, 0.999])
@pytest.mark.parametrize("costs", BATCHES, ids=repr)
def test_sampling_never_makes_a_batch_dearer_and_its_price_grows_with_order_and_rate(costs, rate, scheme):
    batch, everything = Sampling(rate, scheme).cost(costs), Sampling(1.0).cost(costs)
    prices = [batch.rdp(order) for order in (2, 3, 5, 8, 20, 64)]
    assert all(0 < a <= b * SLACK for a, b in pairwise(prices))
    assert all(p <= everything.rdp(o) * SLACK for p, o in zip(prices, (2, 3, 5, 8, 20, 64), strict=True))
    assert batch.rdp(5) <= Sampling(min(1.0, 1.1 * rate), scheme).cost(costs).rdp(5) * SLACK
    assert batch.rho <= everything.rho
    assert batch.mu <= everything.mu
    assert batch.epsilon <= everything.epsilon
    assert batch.dominating_rdp(5) == math.inf, "no theorem gives a symmetric pair for a sampled release"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_small_rates_amplify(scheme):
    """Far below the sum of the prices, so that a theorem that is never applied is noticed."""
    for costs in BATCHES:
        batch, everything = Sampling(0.01, scheme).cost(costs), Sampling(1.0).cost(costs)
        assert batch.rdp(2) < everything.rdp(2) / 20


def test_a_fractional_order_is_rounded_up_on_a_sample_only():
    costs = (GaussianCost(0.5), PureCost(0.2))
    batch = Sampling(0.1).cost(costs)
    assert batch.rdp(1.01) == batch.rdp(1.5) == batch.rdp(2)
    assert batch.rdp(6.000001) == batch.rdp(7) > batch.rdp(6)
    assert Sampling(1.0).cost(costs).rdp(1.5) < Sampling(1.0).cost(costs).rdp(2)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pure_batches_are_pure(scheme):
    batch = Sampling(0.1, scheme).cost([PureCost(0.5), BoundedRangeCost(0.25), LaplaceThresholdCost(0.25, 0.125, 9)])
    assert batch.epsilon == near(math.log1p(0.1 * math.expm1(1.25)), rel=2e-9)
    epsilon = batch.epsilon
    assert batch.rho == near(pure_rho(epsilon), rel=1e-14)
    assert batch.mu == near(pure_mu(epsilon), rel=1e-14)
    assert batch.rdp(3) <= pure_rdp(3, epsilon) * SLACK
    assert batch.delta(epsilon) == 0 < batch.delta(0.9 * epsilon)


def test_a_batch_with_gaussian_noise_is_not_pure_and_keeps_the_unsampled_rho():
    """Sampled Gaussians are not zCDP with any smaller rho: what was paid without sampling is all that is claimed."""
    batch = Sampling(0.1).cost([GaussianCost(0.5), PureCost(0.2)])
    assert batch.epsilon == math.inf
    assert batch.rho == near(GaussianCost(0.5).rho + PureCost(0.2).rho, rel=1e-14)
    assert batch.mu == near(math.hypot(0.5, PureCost(0.2).mu), rel=1e-14)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_order_of_releases_does_not_matter(scheme):
    one, other = COSTS[0], COSTS[3]
    sampling = Sampling(0.2, scheme)
    assert sampling.cost([one, other]).rdp(9) == near(sampling.cost([other, one]).rdp(9), rel=1e-13)


def test_costs_without_a_symmetric_pair_pay_the_general_price():
    """A sampled batch inside a batch is such a release; neither is it cheaper than that theorem allows."""
    inner = Sampling(0.5).cost([GaussianCost(1.0)])
    outer = Sampling(0.1).cost([inner, GaussianCost(0.3)])
    for order in (2, 6, 20):
        total = lambda k: inner.rdp(k) + GaussianCost(0.3).rdp(k)  # noqa: E731
        assert outer.rdp(order) == min(total(order), poisson_general_rdp(order, 0.1, total))


def test_a_batch_needs_a_release():
    with pytest.raises(ValueError, match="a batch needs at least one release"):
        Sampling(0.1).cost([])
    with pytest.raises(ValueError, match="a batch needs at least one release"):
        BatchCost((), Sampling(0.1))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan, math.inf, "0.1", None])
def test_rates_outside_of_0_to_1_are_refused(rate):
    with pytest.raises(ValueError, match=r"rate=.* must lie in \(0, 1\]"):
        Sampling(rate)


def test_other_schemes_are_refused():
    with pytest.raises(ValueError, match="scheme='with-replacement' must be one of"):
        Sampling(0.1, "with-replacement")


@pytest.mark.parametrize(("rate", "noise"), [(0.03, 1.0), (0.1, 1.5), (0.5, 3.0)])
def test_the_delta_of_a_sampled_gaussian_is_sound_and_useful_beside_its_loss_distribution(rate, noise):
    batch = Sampling(rate).cost([GaussianCost(1 / noise)])
    pld = from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=1e-3,
    )
    for epsilon in (0.3, 1.0, 2.0):
        exact = pld.get_delta_for_epsilon(epsilon)
        assert exact <= batch.delta(epsilon)
        if exact > 1e-9:
            assert batch.delta(epsilon) < 100 * exact


# ---------------------------------------------------------------------------------------------- the best order

FAMILIES = {
    "gaussian": lambda s: (GaussianCost(s),),
    "search": lambda s: (GaussianCost(s), LaplaceThresholdCost(s / 2, s / 4, 5)),
    "pure": lambda s: (PureCost(s),),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("rate", "times", "epsilon", "delta"), [(0.01, 1000, 1.0, 1e-6), (0.2, 30, 6.0, 1e-5)])
def test_no_other_order_buys_more_than_the_best(monkeypatch, scheme, family, rate, times, epsilon, delta):
    monkeypatch.setattr("dpsk.privacy.amplification.ORDERS", SOME := (2, 3, 4, 6, 10, 16, 24, 48, 96))
    sampling, costs_of = Sampling(rate, scheme), FAMILIES[family]

    def strength(currency):
        return sampling.strongest(costs_of, currency.limit(epsilon, delta) / times * (1 - 1e-9), currency)

    best = best_order(sampling, costs_of, times, epsilon, delta)
    bought = strength(best)
    ledger = Ledger(Budget.of(epsilon, delta, currency=best))
    ledger.charge(sampling.cost(costs_of(bought)), "batch", times)
    with pytest.raises(BudgetExhausted):
        ledger.charge(sampling.cost(costs_of(bought)), "batch")
    for order in SOME:
        currency = RenyiDP(order)
        try:
            other = strength(currency)
        except ValueError:  # this order promises nothing at this epsilon
            continue
        assert other <= bought * (1 + 1e-8)


def test_the_best_order_is_not_always_the_same():
    orders = {best_order(Sampling(0.01), FAMILIES["gaussian"], 100, e, 1e-6).order for e in (0.2, 1.0, 8.0)}
    assert len(orders) == 3
    assert orders <= set(ORDERS)


def test_orders_rise_from_2_to_about_ten_thousand():
    assert ORDERS[0] == 2
    assert 9_000 < ORDERS[-1] < 10_000
    assert all(a < b for a, b in pairwise(ORDERS))


def test_an_epsilon_that_no_order_can_promise_is_refused_clearly():
    with pytest.raises(ValueError, match=r"epsilon=0\.0001 with delta=1e-06 is too small for sampled batches: raise"):
        best_order(Sampling(0.1), FAMILIES["gaussian"], 10, 1e-4, 1e-6)


# ------------------------------------------------------------------------------------------- the stopping rule


@pytest.mark.parametrize(("own", "other", "rate", "mu"), [(6, 14, 0.5, 0.05), (14, 6, 0.001, 1.3)])
def test_a_run_stops_at_its_own_order_although_another_would_have_room(own, other, rate, mu):
    """The ledger refuses what exceeds the limit at its order, however much is left at another."""
    epsilon, delta = 3.0, 1e-6
    batch = Sampling(rate).cost([GaussianCost(mu)])
    ledger = Ledger(Budget.of(epsilon, delta, currency=RenyiDP(own)))
    times = int(ledger.remaining / batch.rdp(own))
    if times:
        ledger.charge(batch, "batch", times)
    before = ledger.charged
    with pytest.raises(BudgetExhausted):
        ledger.charge(batch, "batch")
    assert ledger.charged == before
    assert (times + 1) * batch.rdp(other) < 0.9 * RenyiDP(other).limit(epsilon, delta), "the other would have room"
