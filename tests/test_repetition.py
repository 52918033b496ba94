"""The best of a secret number of runs: its exact divergence never exceeds the claim, and faults are seen."""

import math
from itertools import product

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm, poisson

from dpsk.privacy import (
    ZCDP,
    Budget,
    GaussianCost,
    GaussianDP,
    Ledger,
    ObjectiveDP,
    PureDP,
    Sampling,
    best_order,
    conversions,
)
from dpsk.privacy.repetition import BestOf, Poisson, TruncatedNegativeBinomial, Within

K = np.arange(0, 3000)


def pmf(law):
    """The probabilities of the number of runs by the papers' formula, independent of generating functions."""
    if isinstance(law, Poisson):
        return poisson.pmf(K, law.mean)
    weights = np.ones(len(K))
    weights[0] = 0
    for k in K[2:]:
        weights[k] = weights[k - 1] * (1 - law.gamma) * (k - 1 + law.eta) / k
    return weights / weights.sum()


LAWS = [
    TruncatedNegativeBinomial(1.0, 0.1),
    TruncatedNegativeBinomial(1.0, 0.02),
    TruncatedNegativeBinomial(0.0, 0.02),
    TruncatedNegativeBinomial(-0.5, 0.05),
    TruncatedNegativeBinomial(2.5, 0.1),
    TruncatedNegativeBinomial(1.0, 0.9),
    Poisson(10.0),
    Poisson(2.0),
    Poisson(0.4),
]
each_law = pytest.mark.parametrize("law", LAWS, ids=repr)


@each_law
def test_the_mean_is_that_of_the_probabilities(law):
    assert pmf(law) @ K == pytest.approx(law.mean, rel=1e-9)


# ------------------------------------------------------------------------------------ exact laws of small mechanisms


def best_of(weights, p, rank):
    """The exact law of the best of K runs with outcome probabilities p, ties by lot; the last entry is "nothing"."""
    law, below = np.zeros(len(p) + 1), 0.0
    for r in np.unique(rank):
        group = rank == r
        upto = below + p[group].sum()
        chance = weights @ (min(upto, 1.0) ** K - below**K)
        if p[group].sum() > 0:
            law[:-1][group] = chance * p[group] / p[group].sum()
        below = upto
    law[-1] = weights[0]
    return law


def hockey(p, q, epsilon):
    return max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())


def gaussian_pair(mu, cells=60):
    edges = np.concatenate([[-np.inf], np.linspace(-8, 8 + mu, cells), [np.inf]])

    def cell(shift):
        return np.where(edges[1:] < shift, np.diff(norm.cdf(edges, shift)), -np.diff(norm.sf(edges, shift)))

    return cell(0.0), cell(mu), np.arange(cells + 1)


def pairs():
    """Outcome probabilities under two neighbours, and the rank of each outcome: random ones, and nasty ones."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = rng.integers(2, 8)
        p = rng.dirichlet(rng.choice([0.1, 0.5, 2.0]) * np.ones(n))
        q = p * np.exp(rng.choice([0.02, 0.3, 1.0]) * rng.normal(size=n))
        yield p, q / q.sum(), rng.integers(0, n, size=n)  # with ties
    for mu in (0.05, 0.3, 1.0):
        p, q, rank = gaussian_pair(mu)
        yield from ((p, q, rank), (p, q, rank // 6))  # a coarse score has ties
    for tail, e in product(
        (1e-3, 0.05, 0.2, 0.35), (0.1, 0.5, 1.0)
    ):  # y is rare, its ratio and that of what beats it largest
        rare = 1e-6
        p, q = np.array([0, rare * math.exp(e), tail]), np.array([0, rare, tail * math.exp(e)])
        if q.sum() < 1:
            p[0], q[0] = 1 - p.sum(), 1 - q.sum()
            yield p, q, np.arange(3)
    for lost in (1e-6, 1e-3):  # the best outcome gives a row away
        yield np.array([1 - lost, lost]), np.array([1.0, 0.0]), np.arange(2)
        for spoiled in (0.01, 0.1):
            p = np.array([1 - spoiled - lost, spoiled, lost])
            yield p, np.array([1 - spoiled * 1.5, spoiled * 1.5, 0.0]), np.arange(3)


PAIRS = list(pairs())
EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 1.5, 3.0)


def bounds_of(p, q, law):
    """Yield sets of true bounds of the runs, as the law takes them."""
    if isinstance(law, Poisson):
        yield tuple(Within(u, hockey(p, q, u)) for u in np.linspace(0, 3, 16))
        yield tuple(Within(u, hockey(p, q, u)) for u in (0.0, 0.1, 0.5, 2.0))
        return
    for a in (0.02, 0.1, 0.3, 0.5, 1.0):
        for e in (0.0, 0.1, 0.5, 1.0):
            yield Within(e, hockey(p, q, e)), Within(a, hockey(p, q, a))


def worst(law, claimed):
    """How far the exact divergence exceeds the claim (as a difference and a ratio), over all pairs and epsilons."""
    excess, ratio, weights = -math.inf, 0.0, pmf(law)
    for p, q, rank in PAIRS:
        best = best_of(weights, p, rank), best_of(weights, q, rank)
        for bounds in bounds_of(p, q, law):
            at = EPSILONS
            if len(bounds) == 2:
                at = [0.7, *(bounds[0].epsilon + part * (1 + law.eta) * bounds[1].epsilon for part in (0.5, 1.0))]
            for epsilon in at:
                truth, claim = hockey(*best, epsilon), claimed(bounds, epsilon)
                excess = max(excess, truth - claim)
                ratio = max(ratio, truth / claim if claim > 1e-15 else 0.0)
    return excess, ratio


@pytest.mark.thorough
@pytest.mark.slow
@each_law
def test_the_exact_divergence_never_exceeds_the_claim(law):
    excess, ratio = worst(law, law.delta)
    assert excess <= 1e-12  # rounding of sums over thousands of runs
    assert ratio > 0.5, "the claim is met closely somewhere, so that faults below would show"


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS[0:5:2], ids=repr)
@pytest.mark.parametrize("fault", ["mean", "exponent", "leak"])
def test_a_fault_in_the_claim_is_seen(law, fault):
    """What stands in the theorem of the truncated negative binomial law is all needed."""

    def claimed(bounds, epsilon):
        far, near = bounds
        if fault == "mean":
            return law.delta((Within(far.epsilon, far.delta / 2), near), epsilon)
        if fault == "leak":  # whatever b is
            return law.delta((far, Within(near.epsilon, 0.0)), epsilon)
        return law.delta((far, near), epsilon + 0.5 * (1 + law.eta) * near.epsilon)

    assert worst(law, claimed)[0] > 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("law", "fault"), [(Poisson(10.0), "mean"), (Poisson(2.0), "mean"), (Poisson(10.0), "leak")])
def test_a_fault_in_the_claim_of_poisson_is_seen(law, fault):
    def claimed(bounds, epsilon):
        if fault == "mean":
            return law.delta(bounds, epsilon) / 2
        return law.delta(bounds, epsilon + 0.5 * law.mean * bounds[0].delta)

    assert worst(law, claimed)[0] > 1e-9


def test_pure_runs_cost_two_plus_eta_epsilons_and_that_is_nearly_needed():
    law = TruncatedNegativeBinomial(1.0, 1e-3)
    p = np.array([0, 1e-7 * math.e, 0.1])
    q = np.array([0, 1e-7, 0.1 * math.e])
    p[0], q[0] = 1 - p.sum(), 1 - q.sum()
    assert law.delta((Within(1.0, 0.0), Within(1.0, 0.0)), 3.0) <= 1e-15
    best = [best_of(pmf(law), x, np.arange(3)) for x in (p, q)]
    assert 2.9 < math.log(best[0][1] / best[1][1]) < 3.0


@pytest.mark.parametrize("law", LAWS[:6], ids=repr)
def test_a_search_of_pure_runs_is_pure(law):
    budget = BestOf.budget(law, 1.0, 0.0, Budget.of)
    each, delta = law.start(budget.currency.bounds, 1.0, 0.0)
    assert delta == 0
    assert 1 / (2 + law.eta) - 1e-5 < each < 1
    assert budget.currency.delta(1.0, 1.0) == 0
    assert budget.currency.epsilon(1.0, 0.0) == pytest.approx(1.0)
    assert budget.currency.epsilon(2.0, 0.0) == math.inf
    p, q = coin(each)
    assert hockey(*(best_of(pmf(law), x, np.arange(2)) for x in (p, q)), 1.0) <= 1e-15


def test_poisson_integrates_the_profile_of_a_run():
    """The piecewise form against quadrature over the same bound, with the exact profile of a Gaussian."""
    law, mu, epsilon = Poisson(5.0), 0.2, 1.0
    grid = np.linspace(0, 2, 2001)
    profile = [conversions.gaussian_delta(u, mu) for u in grid]
    fine = law.delta(tuple(Within(*point) for point in zip(grid, profile, strict=True)), epsilon)
    best = math.inf
    for a in np.linspace(0.005, 0.3, 60):
        b, c = conversions.gaussian_delta(a, mu), 1 / math.expm1(a)
        log_end = epsilon - law.mean * b + a
        u = np.linspace(-3, log_end, 40_001)  # log r; the integrand is psi''(r) H(r) r
        above = np.array([conversions.gaussian_delta(abs(v), mu) for v in u[::40]])
        h = np.where(u[::40] >= 0, above, 1 - np.exp(u[::40]) * (1 - above))
        h = np.exp(np.interp(u, u[::40], np.log(h)))
        best = min(best, law.mean * np.trapezoid(c * np.exp(c * (u - log_end)) * h, u))
    assert fine == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize("epsilon", [650.0, 705.0, 709.0, 720.0, 1000.0, 1e6])
def test_poisson_where_the_exponential_of_epsilon_is_no_float(epsilon):
    """An outcome that gives a row away, and beats all others, costs its chance at every epsilon."""
    law, lost = Poisson(10.0), 1e-6
    truth = -math.expm1(-law.mean * lost)
    at = (0.0, 0.1, 1.0, 100.0, epsilon)
    assert truth <= law.delta(tuple(Within(u, lost) for u in at), epsilon) <= 1.001 * truth
    budget = BestOf.budget(law, epsilon, 1e-6, lambda e, d: Budget.of(e, d, currency=GaussianDP()))
    assert budget.currency.covers(Budget.of(min(0.5 * epsilon, 400.0), 1e-7, currency=GaussianDP()))
    assert law.delta((Within(epsilon + 1000, 0.0),), epsilon) == 1.0, "nothing that a float can hold"


# ------------------------------------------------------------------- what would break it: mechanisms that tell more


def coin(e):
    """Randomised response as a run: under p the bad outcome, rank 0, is the likelier one."""
    yes = 1 / (1 + math.exp(-e))
    return np.array([yes, 1 - yes]), np.array([1 - yes, yes])


def test_to_return_the_number_of_runs_would_break_the_claim():
    law, e = TruncatedNegativeBinomial(1.0, 0.05), 0.5
    p, q = coin(e)
    claim = 3 * e
    best = [best_of(pmf(law), x, np.arange(2)) for x in (p, q)]
    assert hockey(*best, claim) <= 1e-12
    # with K all runs bad shows at K * e
    told = sum(w * max(0, p[0] ** k - math.exp(claim) * q[0] ** k) for k, w in zip(K, pmf(law), strict=True))
    assert told > 1e-3


def test_a_grid_without_replacement_would_break_the_claim():
    """Then no more than all of its points can be tried, so the number of runs has another law."""
    law, e, points = TruncatedNegativeBinomial(10.0, 0.02), 0.5, 40
    capped = np.zeros(len(K))
    np.add.at(capped, np.minimum(K, points), pmf(law))
    p, q = coin(e)
    claim = 12 * e
    assert law.delta((Within(e, 0.0), Within(e, 0.0)), claim + 1e-9) == 0
    assert hockey(*(best_of(pmf(law), x, np.arange(2)) for x in (p, q)), claim) <= 1e-15
    assert hockey(*(best_of(capped, x, np.arange(2)) for x in (p, q)), claim) > 1e-9


def test_a_fixed_number_of_runs_would_break_the_claim():
    p, q = coin(0.5)
    ten = np.eye(len(K))[10]
    assert hockey(*(best_of(ten, x, np.arange(2)) for x in (p, q)), 1.5) > 0.005


# --------------------------------------------------------------------------------------------------- calibration


@pytest.mark.thorough
@pytest.mark.slow
@each_law
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-6), (300.0, 1e-5)])
@pytest.mark.parametrize("currency", [GaussianDP(), ZCDP(), "perturbed"], ids=str)
def test_a_plan_keeps_its_promise_and_wastes_little(law, currency, epsilon, delta):
    def budget_of(e, d):
        if currency == "perturbed":
            return Budget.of(e, d, currency=ObjectiveDP.plan(e, d, 0.15 * e, 1, replaced=False))
        return Budget.of(e, d, currency=currency)

    budget = BestOf.budget(law, epsilon, delta, budget_of)
    search = budget.currency
    assert (budget.epsilon, budget.delta, budget.limit) == (epsilon, delta, 1.0)
    assert search.delta(1.0, epsilon) <= delta
    assert search.epsilon(1.0, delta) <= epsilon
    assert search.delta(2.0, epsilon) == 1.0, "two searches are not one"
    assert search.epsilon(2.0, delta) == math.inf
    start = law.start(search.bounds, epsilon, delta)
    each = search.strongest(lambda e: [budget_of(e, start[1])], start[0])
    assert search.covers(budget_of(each, start[1]))
    assert each == start[0] or not search.covers(budget_of(each * 1.001, start[1]))
    assert each < epsilon
    wasteful = isinstance(law, Poisson) and (currency == "perturbed" or law.mean < 1)
    if not wasteful:  # there more of epsilon can be a worse profile; here a run has nearly all of epsilon
        with pytest.raises(ValueError, match="does not guarantee"):
            Budget(0.99 * epsilon, delta, search, 1.0)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("law", [TruncatedNegativeBinomial(), Poisson(3.0)], ids=repr)
def test_a_plan_for_runs_on_random_batches(law):
    """Their budget is kept at one Renyi order, another one for every promise."""

    def budget_of(e, d):
        return Budget.of(e, d, currency=best_order(Sampling(0.1), lambda mu: [GaussianCost(mu)], 100, e, d))

    search = BestOf.budget(law, 1.0, 1e-6, budget_of).currency
    start = law.start(search.bounds, 1.0, 1e-6)
    each = search.strongest(lambda e: [budget_of(e, start[1])], start[0])
    assert search.covers(budget_of(each, start[1]))
    assert 0.1 < each < 1.0


@pytest.mark.thorough
@pytest.mark.slow
@each_law
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_best_of_gaussian_runs_is_as_private_as_planned(law, epsilon):
    """Exactly, on a fine grid: the worst score of Gaussian runs is what they release."""
    delta = 1e-5
    budget = BestOf.budget(law, epsilon, delta, lambda e, d: Budget.of(e, d, currency=GaussianDP()))
    start = law.start(budget.currency.bounds, epsilon, delta)
    each = budget.currency.strongest(lambda e: [Budget.of(e, start[1], currency=GaussianDP())], start[0])
    mu = math.sqrt(Budget.of(each, start[1], currency=GaussianDP()).limit)
    p, q, rank = gaussian_pair(mu, cells=200)
    exact = hockey(best_of(pmf(law), p, rank), best_of(pmf(law), q, rank), epsilon)
    assert 0 < exact <= delta


def test_what_issue_and_papers_say_of_twenty_runs_and_what_is_proved_here():
    law, rho = TruncatedNegativeBinomial(1.0, 0.05), conversions.zcdp_rho(1.0, 1e-6)
    orders = [1 + x / 10 for x in range(1, 1000)]
    event = RepeatAndSelectDpEvent(GaussianDpEvent((2 * rho) ** -0.5), law.mean, law.eta)
    published = RdpAccountant(orders).compose(event).get_epsilon(1e-6)
    composed = conversions.zcdp_epsilon(1e-6, 20 * rho)
    assert published == pytest.approx(2.17, abs=0.01)
    assert composed == pytest.approx(5.15, abs=0.01)
    base = Budget.of(1.0, 1e-6, currency=ZCDP())
    budget = BestOf.budget(law, 1.78, 1e-6, lambda e, d: Budget.of(e, d, currency=ZCDP()))
    assert budget.currency.covers(base), "at 1.78 in all, a run may have what it has at 2.17 by the published bound"


# --------------------------------------------------------------------------------------- a currency like the others


def test_one_search_is_all_that_a_ledger_of_a_search_takes():
    budget = BestOf.budget(LAWS[0], 1.0, 1e-6, lambda e, d: Budget.of(e, d, currency=ZCDP()))
    ledger = Ledger(budget)
    ledger.charge(budget.currency.cost, "search")
    with pytest.raises(ValueError, match="is left"):
        ledger.charge(budget.currency.cost, "search")
    other = BestOf.budget(LAWS[0], 2.0, 1e-6, lambda e, d: Budget.of(e, d, currency=ZCDP()))
    with pytest.raises(ValueError, match="must be positive and finite"):
        Ledger(budget).charge(other.currency.cost, "search")


def test_a_search_covers_budgets_by_what_they_promise_at_every_bound():
    search = BestOf(LAWS[0], (Within(1.0, 1e-6), Within(0.2, 1e-2)))
    assert search.covers(Budget.of(0.2, 0.0))
    assert not search.covers(Budget.of(0.3, 0.0)), "pure epsilon 0.3 has a delta of 0.05 at 0.2"
    assert Within(0.2, 1e-2).holds(Budget(0.21, 0.0, PureDP(), 0.21))
    assert not search.covers(Budget.of(0.2, 0.0), Budget.of(0.3, 0.0))
    with pytest.raises(ValueError, match="no epsilon keeps"):
        BestOf(LAWS[0], (Within(0.0, 1e-12), Within(0.0, 1e-12))).strongest(lambda e: [Budget.of(e, 0.0)], 1.0)


def test_what_a_search_does_not_promise():
    budget = BestOf.budget(LAWS[0], 1.0, 1e-6, lambda e, d: Budget.of(e, d, currency=ZCDP()))
    assert budget.currency.rho(1.0) is None
    with pytest.raises(ValueError, match="no statement for groups"):
        budget.currency.epsilon_for_group(1.0, 1e-6, 2)
    assert budget.currency.epsilon(1.0, 1e-9) == math.inf
    assert budget.currency.epsilon(1.0, 0.0) == math.inf
    for law, currency in ((LAWS[0], ZCDP()), (Poisson(3.0), PureDP())):
        with pytest.raises(ValueError, match=r"delta=0\.0 must lie strictly"):
            BestOf.budget(law, 1.0, 0.0, lambda e, d, currency=currency: Budget.of(e, d, currency=currency))
    cost = budget.currency.cost
    assert cost.rdp(2.0) == cost.rho == cost.mu == cost.epsilon == cost.dominating_rdp(3.0) == math.inf
    assert cost.delta(1.0) <= 1e-6


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TruncatedNegativeBinomial(eta=-1.0), r"eta=-1\.0 must lie in"),
        (lambda: TruncatedNegativeBinomial(eta="1"), "eta='1' must be a finite number"),
        (lambda: TruncatedNegativeBinomial(gamma=0.0), r"gamma=0\.0 must lie in"),
        (lambda: TruncatedNegativeBinomial(gamma=1.0), r"gamma=1\.0 must lie in"),
        (lambda: TruncatedNegativeBinomial(gamma=math.nan), "gamma=nan must be a finite number"),
        (lambda: Poisson(0.0), r"mean=0\.0 must lie in"),
        (lambda: Poisson(True), "mean=True must be a finite number"),
    ],
)
def test_bad_laws_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_laws_say_what_they_are():
    assert repr(TruncatedNegativeBinomial()) == "TruncatedNegativeBinomial(eta=1.0, gamma=0.05)"
    assert repr(Poisson(3)) == "Poisson(mean=3.0)"
