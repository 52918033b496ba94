"""The discovery of values: its failure is never more than promised, on the grid, for groups, and in adaptive runs."""

import math
import pickle
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import poisson

from dpsk.privacy import (
    ZCDP,
    Budget,
    BudgetExhausted,
    Cost,
    Discovery,
    DiscoveryCost,
    GaussianCost,
    GaussianDP,
    Ledger,
    ObjectiveDP,
    PrivacySpent,
    PureCost,
    PureDP,
    RenyiDP,
    Sampling,
)
from dpsk.privacy.conversions import gaussian_delta, gaussian_epsilon, largest_within
from dpsk.privacy.discovery import rounded_tail
from dpsk.privacy.repetition import BestOf, Poisson, TruncatedNegativeBinomial

mp = mpmath.MPContext()
mp.dps = 50

SMALL = Discovery(failure=0.05, columns=2, shift=0.5)


def near(value, rel):
    return pytest.approx(float(value), rel=rel, abs=0)


def tail_sum(steps, sigma):
    """P(noise >= steps), added up over integers: each has the probability of the interval of half a step around it."""
    half, sigma, k, total = mp.mpf(1) / 2, mp.mpf(sigma), steps, mp.mpf(0)
    above = mp.ncdf((half - k) / sigma)
    while True:
        beyond = mp.ncdf((-half - k) / sigma)
        one, above = above - beyond, beyond
        if k > 0 and one < total * mp.mpf(10) ** -13:
            return total
        total, k = total + one, k + 1


def failure_of(threshold, unit_steps, sigma, columns):
    """The probability that one row shows a value, in any of the columns, from sums over integers."""
    return 1 - (1 - tail_sum(threshold - unit_steps, sigma)) ** columns


# ---------------------------------------------------------------------------------------------------- the threshold


@pytest.mark.parametrize("columns", [1, 40])
@pytest.mark.parametrize("failure", [0.3, 1e-3, 1e-7, 1e-15])
@pytest.mark.parametrize(("unit_steps", "sigma"), [(1, 1), (1, 5), (3, 2), (4, 40)])
def test_the_threshold_is_the_least_that_keeps_the_failure(unit_steps, sigma, failure, columns):
    found = Discovery(failure, columns, unit_steps / sigma).threshold(unit_steps, sigma)
    assert isinstance(found, int)
    assert failure_of(found, unit_steps, sigma, columns) <= failure
    assert failure_of(found - 1, unit_steps, sigma, columns) > failure


@pytest.mark.parametrize("sigma", [2**40 + 1, 2**56])
def test_thresholds_of_wide_noise_keep_the_failure(sigma):
    found = Discovery(1e-9, 5, 0.01).threshold(sigma // 128, sigma)
    for threshold, kept in ((found, True), (found - sigma // 10**7, False)):
        tail = mp.ncdf(-(mp.mpf(threshold - sigma // 128) - 0.5) / sigma)
        assert (1 - (1 - tail) ** 5 <= mp.mpf(1e-9)) is kept


def test_the_continuous_tail_is_too_small():
    """At 5.5 rows the threshold of 31 rows above one would have a failure of .87e-8: a half of what it is."""
    continuous = mp.ncdf(-31 / mp.mpf(5.5))
    assert float(continuous) == pytest.approx(0.868e-8, rel=1e-3)
    assert rounded_tail(31, 5.5) == near(tail_sum(31, 5.5), rel=1e-9)
    assert rounded_tail(31, 5.5) == pytest.approx(1.466e-8, rel=1e-3)
    for unit_steps, sigma, failure in ((1, 5, 1e-7), (1, 40, 1e-6), (3, 2, 1e-3), (1, 11, 1e-8)):
        z = -float(mp.sqrt(2) * mp.erfinv(2 * mp.mpf(failure) - 1))
        by_continuous_tail = unit_steps + math.ceil(sigma * z)
        if by_continuous_tail < Discovery(failure, 1, 1.5).threshold(unit_steps, sigma):
            assert failure_of(by_continuous_tail, unit_steps, sigma, 1) > failure
            return
    pytest.fail("no case in which the two differ")


@pytest.mark.parametrize("sigma", [1, 2, 5.5, 30])
def test_the_tail_of_the_rounded_noise_is_a_sum_rounded_up(sigma):
    for steps in sorted({*range(-8, 9), *(round(sigma * z) for z in (-3, 3, 7, 12, 20))}):
        exact = tail_sum(steps, sigma)
        assert exact <= rounded_tail(steps, sigma) <= min(1, exact * (1 + mp.mpf(10) ** -8))


def test_noise_that_is_weaker_than_promised_is_refused():
    discovery = Discovery(1e-7, 3, 0.1)
    assert discovery.threshold(1, 10) > 1
    assert Discovery(1e-7, 3, 1 / 70).threshold(7, 490) > 7, "a quotient that was rounded down"
    with pytest.raises(ValueError, match=r"sigma=9 is too small.*unit_steps=1.*0\.1 standard deviations"):
        discovery.threshold(1, 9)
    for bad in (0, -1, 1.0, True, None):
        with pytest.raises(ValueError, match="unit_steps="):
            discovery.threshold(bad, 10)
        with pytest.raises(ValueError, match="sigma="):
            discovery.threshold(1, bad)


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ({"failure": 0.0}, "failure"),
        ({"failure": 0.5}, "failure"),
        ({"failure": -1e-9}, "failure"),
        ({"failure": math.nan}, "failure"),
        ({"failure": "x"}, "failure"),
        ({"failure": 1e-300}, "failure"),
        ({"columns": 0}, "columns"),
        ({"columns": 1.5}, "columns"),
        ({"columns": True}, "columns"),
        ({"columns": 2**31}, "columns"),
        ({"shift": 0.0}, "shift"),
        ({"shift": math.inf}, "shift"),
        ({"shift": None}, "shift"),
        ({"most": 0}, "most"),
        ({"most": 2.0}, "most"),
        ({"most": 2**41}, "most"),
    ],
)
def test_bad_facts_are_refused_and_named(bad, name):
    with pytest.raises(ValueError, match=f"{name}="):
        Discovery(**({"failure": 1e-7, "columns": 3, "shift": 0.1} | bad))


def test_facts_are_plain_values():
    assert pickle.loads(pickle.dumps(SMALL)) == SMALL == Discovery(np.float64(0.05), np.int64(2), 0.5)
    assert type(Discovery(np.float64(0.05), np.int64(2), 0.5).columns) is int
    least = Discovery(1e-290, 2**30, 1.0)
    assert least.threshold(1, 1) < 42


# ------------------------------------------------------------------ exact laws of small looks, from the rows themselves


def cell_law(count, threshold, unit_steps, sigma):
    """The law of what a look shows of one value: nothing, or its noisy count. None for a threshold: always shown."""
    at = np.arange(-9 * sigma, 9 * sigma + 4 * unit_steps + 1)
    law = np.diff(ndtr((np.append(at, at[-1] + 1) - 0.5 - unit_steps * count) / sigma))
    if threshold is None:
        return law
    if count == 0:
        return np.append(np.zeros(len(at) - np.searchsorted(at, threshold)), 1.0)
    shown = at >= threshold
    return np.append(law[shown], law[~shown].sum())


OUTCOMES = 200_000


def coarse(p, q, size):
    """Show less: put outcomes of similar ratios together, so that about ``size`` remain.

    What is possible in one data set only is never put together with other outcomes.
    """
    if len(p) <= size:
        return p, q
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(p / q, kind="stable")
    p, q = p[order], q[order]
    where = np.searchsorted(np.cumsum(p + q), np.linspace(0, 2, size)[1:-1])
    starts = np.unique([0, *where, *(np.flatnonzero(np.diff((p > 0) + 2.0 * (q > 0))) + 1)])
    starts = starts[starts < len(p)]
    return np.add.reduceat(p, starts), np.add.reduceat(q, starts)


def look_laws(rows, others, discovery, unit_steps, sigma, extra=()):
    """The laws of a whole look for two data sets, lists of rows of values: the product over columns and values.

    Cells with one law in both are left out. ``extra`` are pairs of laws of what is released besides.
    """
    threshold = discovery.threshold(unit_steps, sigma)
    laws = [(np.ones(1), np.ones(1)), *extra]
    for column in range(discovery.columns):
        counts = [[[row[column] for row in data].count(value) for data in (rows, others)] for value in range(5)]
        laws += [[cell_law(n, threshold, unit_steps, sigma) for n in pair] for pair in counts if pair[0] != pair[1]]
    p, q = laws[0]
    for one, other in (coarse(*pair, round(OUTCOMES ** (1 / max(1, len(laws) - 1)))) for pair in laws[1:]):
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    return p, q


def hockey(p, q, epsilon):
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))


UNIT, SIGMA = 1, 2
ALPHABET = list(product(range(3), repeat=2))
RESTS = [[], [(0, 0)], [(0, 1), (1, 0)]]
EPSILONS = (0.0, 0.3, 1.0, 2.0, 4.0)


def later(mu):
    """A pair of laws that is mu-GDP: what a fit releases after its look."""
    return [(cell_law(0, None, 10, math.ceil(10 / mu)), cell_law(1, None, 10, math.ceil(10 / mu)))]


def neighbours(kind, size):
    """Yield pairs of data sets in which ``size`` rows leave or are replaced; values are numbers from 0 to 2 (or 4)."""
    if kind == "zero-out":
        for rest, leaving in product(RESTS, product(ALPHABET, repeat=size)):
            if tuple(sorted(leaving)) == leaving:
                yield [*rest, *leaving], rest
        return
    for rest, old in product(RESTS, product(ALPHABET[:: 1 if size == 1 else 2], repeat=size)):
        for new in ([(3, 3)] * size, [(3, 4), (4, 3)][:size], [(0, 3)] * size, [(0, 1)] * size):
            if tuple(sorted(old)) == old:
                yield [*rest, *old], [*rest, *new]


def worst_ratio(kind, size, promise, *, discovery=SMALL, mu_later=None):
    """How large an exact delta is beside its promise, at worst over neighbours and epsilons."""
    extra = [] if mu_later is None else later(mu_later)
    worst = 0.0
    for rows, others in neighbours(kind, size):
        p, q = look_laws(rows, others, discovery, UNIT, SIGMA, extra)
        worst = max(worst, *(hockey(p, q, epsilon) / promise(epsilon) for epsilon in EPSILONS))
    return worst


def squared(kind, mu_later=None, discovery=SMALL):
    """The mu**2 of the look, with two columns that are unknown, and of what follows."""
    parts = 2 if kind == "replace" else 1
    return parts * discovery.columns * (UNIT / SIGMA) ** 2 + (0.0 if mu_later is None else mu_later**2)


KINDS = pytest.mark.parametrize("kind", ["zero-out", "replace"])


@KINDS
@pytest.mark.parametrize("mu_later", [None, 0.5])
@pytest.mark.slow
def test_no_neighbours_of_a_small_look_exceed_the_promise(kind, mu_later):
    limit, currency = squared(kind, mu_later), GaussianDP(SMALL)
    assert 0.3 < worst_ratio(kind, 1, lambda e: currency.delta(limit, e), mu_later=mu_later) <= 1 + 1e-9


@KINDS
def test_one_column_keeps_the_promise_at_its_threshold(kind):
    """The failure is what the threshold really has, so nothing is to spare."""
    facts = Discovery(0.3, 1, 0.5)
    exact = float(failure_of(facts.threshold(UNIT, SIGMA), UNIT, SIGMA, 1))
    currency = GaussianDP(Discovery(exact, 1, 0.5))
    limit = squared(kind, discovery=facts)
    found = worst_ratio(kind, 1, lambda e: currency.delta(limit, e), discovery=facts)
    assert 0.99 < found <= 1 + 1e-9


def test_the_promise_is_nearly_needed():
    """Two values of its own, epsilon beyond what the counts can tell: the failure is all there is."""
    exact = float(failure_of(SMALL.threshold(UNIT, SIGMA), UNIT, SIGMA, 2))
    p, q = look_laws([(0, 0)], [], SMALL, UNIT, SIGMA)
    for epsilon in (4.0, 8.0):
        assert hockey(p, q, epsilon) == near(exact, rel=1e-9)
        assert exact < GaussianDP(Discovery(exact, 2, 0.5)).delta(squared("zero-out"), epsilon) < 1.001 * exact


@KINDS
def test_a_promise_without_the_failure_is_broken(kind):
    limit = squared(kind)
    assert worst_ratio(kind, 1, lambda e: max(gaussian_delta(e, math.sqrt(limit)), 1e-12)) > 10


@KINDS
def test_a_threshold_that_is_one_too_low_breaks_the_promise(kind):
    """The checks above see such a fault where the failure is nearly used up."""
    facts = Discovery(0.3, 1, 0.5)
    tight = Discovery(float(failure_of(facts.threshold(UNIT, SIGMA), UNIT, SIGMA, 1)) * (1 + 1e-9), 1, 0.5)

    class TooLow(Discovery):
        def threshold(self, unit_steps, sigma):
            return super().threshold(unit_steps, sigma) - 1

    limit = squared(kind, discovery=facts)
    promise = GaussianDP(tight)
    for kept, discovery in ((True, tight), (False, TooLow(tight.failure, 1, 0.5))):
        found = worst_ratio(kind, 1, lambda e: promise.delta(limit, e), discovery=discovery)
        assert bool(found <= 1 + 1e-9) is kept


def gaussian_profile(epsilon, mu):
    """G(epsilon; mu) of 5.1 for any real epsilon, elementwise."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.slow
def test_the_bound_covers_the_worst_case_of_the_theorem():
    """100,000 settings: the exact delta of a look and what follows, for every number u of values of its own."""
    rng = np.random.default_rng(23)
    closest = 0.0
    for _ in range(25_000):
        unknown = int(rng.integers(1, 13))
        k = unknown + int(rng.integers(0, 9))
        sigma, failure = 10 ** rng.uniform(-0.3, 3), 10 ** rng.uniform(-9, -0.31)
        rest, discovery = 10 ** rng.uniform(-3, 0.7), Discovery(failure, unknown, 1 / sigma)
        hidden = (1 - failure) ** (np.arange(unknown + 1) / unknown)
        hidden[-1] = 1 - failure
        moved = np.sqrt((k - np.arange(unknown + 1)) / sigma**2 + rest**2)
        currency = GaussianDP(discovery)
        epsilons = rng.uniform(0, 1, (4, 1)) * (4 * moved[0] + moved[0] ** 2)
        forth = (1 - hidden) + hidden * gaussian_profile(epsilons - np.log(hidden), moved)
        back = gaussian_profile(epsilons + np.log(hidden), moved)
        exact = np.maximum(forth, back).max(axis=1)
        promised = [currency.delta(k / sigma**2 + rest**2, float(epsilon)) for (epsilon,) in epsilons]
        assert np.all(exact <= np.array(promised) * (1 + 1e-9) + 1e-13)
        closest = max(closest, *(exact / promised))
    assert closest > 0.9999


# ---------------------------------------------------------------------------------------------------- groups of rows


@KINDS
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.slow
def test_groups_of_rows_keep_the_promise_for_groups(kind, size):
    facts = Discovery(0.02, 2 if kind == "zero-out" and size == 2 else 1, 0.5)
    limit = squared(kind, discovery=facts)

    def promise(epsilon):
        return gaussian_delta(epsilon, size * math.sqrt(limit), facts.of_group(size))

    assert 0.1 < worst_ratio(kind, size, promise, discovery=facts) <= 1 + 1e-9


def test_scaling_mu_alone_would_not_protect_a_group():
    """Three rows with three values of their own: each may be shown."""
    facts = Discovery(0.02, 1, 0.5)
    tight = Discovery(float(failure_of(facts.threshold(UNIT, SIGMA), UNIT, SIGMA, 1)), 1, 0.5)
    p, q = look_laws([(0, 0), (1, 0), (2, 0)], [], facts, UNIT, SIGMA)
    mu, epsilon = 3 * UNIT / SIGMA, 9.0
    assert hockey(p, q, epsilon) > 2.5 * gaussian_delta(epsilon, mu, tight.failure)
    assert hockey(p, q, epsilon) <= gaussian_delta(epsilon, mu, tight.of_group(3))


def partitions(total, largest=None):
    """Yield the ways to write ``total`` as a sum of positive integers, from the largest on."""
    largest = total if largest is None else largest
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


@pytest.mark.parametrize("columns", [1, 7])
@pytest.mark.parametrize("failure", [0.4, 1e-3, 1e-9])
@pytest.mark.parametrize("shift", [1e-4, 0.02, 0.1, 0.5, 3.0])
def test_the_failure_for_a_group_is_that_of_its_worst_values(shift, failure, columns):
    """Every way in which up to seven rows can share values among themselves, with 40 digits."""
    discovery = Discovery(failure, columns, shift)
    z = mp.sqrt(2) * mp.erfinv(2 * (1 - mp.mpf(failure)) ** (mp.mpf(1) / columns) - 1)
    hidden = [mp.ncdf(z - c * mp.mpf(shift)) for c in range(9)]
    sizes = [discovery.of_group(size) for size in range(1, 10)]
    assert sizes == sorted(sizes)
    assert sizes[0] == failure
    for size in range(2, 8):
        worst = max(
            1 - mp.fprod(hidden[c - 1] for c in shared) ** columns
            for rows in range(1, size + 1)
            for shared in partitions(rows)
        )
        assert worst <= sizes[size - 1] <= worst * (1 + mp.mpf(10) ** -8)


def test_large_groups_have_no_protection_left():
    assert SMALL.of_group(10**6) == 1.0
    assert Discovery(1e-9, 3, 0.01).of_group(3000) == near(1, rel=1e-6)
    for bad in (0, 1.0, True):
        with pytest.raises(ValueError, match="size="):
            SMALL.of_group(bad)


# ------------------------------------------------------------------------------------- currencies, costs and ledgers

PLANNED = Discovery(1e-7, 8, 0.01)
COST = DiscoveryCost(0.05, PLANNED)


def budget(discovery=PLANNED, epsilon=1.0, delta=1e-6):
    return Budget.of(epsilon, delta, currency=GaussianDP(discovery))


@pytest.mark.parametrize("failure", [1e-9, 1e-7, 0.999e-6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_limit_beside_a_failure_keeps_the_promise_and_no_more(epsilon, failure):
    """delta = failure + (1 - failure) * G, with 40 digits."""
    currency = GaussianDP(Discovery(failure, 3, 0.01))
    limit = currency.limit(epsilon, 1e-6)
    mu, e, d = mp.sqrt(mp.mpf(limit)), mp.mpf(epsilon), mp.mpf(failure)
    hidden = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
    assert mp.mpf(1e-6) * (1 - mp.mpf(10) ** -8) < d + (1 - d) * hidden <= mp.mpf(1e-6)
    assert limit < GaussianDP().limit(epsilon, 1e-6)
    assert currency.epsilon(limit, 1e-6) == near(epsilon, rel=1e-7)
    assert currency.delta(limit, currency.epsilon(limit, 1e-5)) <= 1e-5
    assert currency.epsilon(limit, failure) == currency.epsilon(limit, 0.0) == math.inf
    assert currency.delta(limit, math.inf) >= failure
    assert currency.delta(limit, 1e9) == near(failure, rel=1e-9)


def test_a_tenth_of_delta_costs_about_one_percent():
    assert 0.985 < budget().limit / GaussianDP().limit(1.0, 1e-6) < 0.995


@pytest.mark.parametrize("delta", [1e-7, 1e-8])
def test_a_delta_that_the_failure_uses_up_is_refused(delta):
    with pytest.raises(ValueError, match=r"delta=.* must be larger than the part of it that is for failures, 1e-07"):
        budget(delta=delta)
    with pytest.raises(ValueError, match="does not guarantee"):
        Budget(1.0, 1e-6, GaussianDP(PLANNED), GaussianDP().limit(1.0, 1e-6))


def test_without_a_discovery_nothing_changes():
    assert GaussianDP() == GaussianDP(None)
    assert GaussianDP().failure == 0
    for epsilon in (0.0, 0.5, math.inf):
        assert GaussianDP().delta(0.1, epsilon) == gaussian_delta(epsilon, math.sqrt(0.1))
    assert GaussianDP().epsilon(0.1, 1e-6) == gaussian_epsilon(1e-6, math.sqrt(0.1))
    assert GaussianDP().rho(0.1) == 0.05


def test_a_discovery_has_a_price_in_its_own_currency_only():
    assert isinstance(COST, Cost)
    assert GaussianDP(PLANNED).price(COST) == near(0.05**2, rel=1e-15)
    assert GaussianDP(PLANNED).price(GaussianCost(0.05)) == GaussianDP(PLANNED).price(COST)
    other = Discovery(1e-8, 8, 0.01)
    objective = ObjectiveDP.plan(1.0, 1e-6, 0.1, 1, replaced=False)
    for currency in (GaussianDP(), GaussianDP(other), ZCDP(), RenyiDP(8.0), PureDP(), objective):
        assert currency.price(COST) == math.inf
        assert currency.price(Sampling(1.0).cost([COST])) == math.inf
        assert currency.price(Sampling(0.1).cost([COST])) == math.inf
    assert GaussianDP(PLANNED).price(Sampling(1.0).cost([COST])) == math.inf
    assert {COST.epsilon, COST.rho, COST.mu, COST.rdp(2.0), COST.dominating_rdp(2.0)} == {math.inf}
    assert COST.delta(1.0) == gaussian_delta(1.0, 0.05, 1e-7) > 1e-7
    assert GaussianDP(PLANNED).rho(0.1) is None


def test_a_cost_below_that_of_its_unknown_columns_is_refused():
    DiscoveryCost(math.sqrt(8) * 0.01, PLANNED)
    for bad in (0.028, 0.0, -1.0, math.inf, math.nan, "1"):
        with pytest.raises(ValueError, match="counts_mu="):
            DiscoveryCost(bad, PLANNED)


def test_a_discovery_is_charged_once_and_only_where_it_was_planned():
    ledger = Ledger(budget())
    ledger.charge(GaussianCost(0.02), "ranges")
    assert ledger.failure == 0
    before = ledger.charged
    for cost, times, match in (
        (DiscoveryCost(0.05, Discovery(1e-8, 8, 0.01)), 1, r"'look' costs inf mu\*\*2.*made for it.*Categories"),
        (COST, 2, "one discovery more"),
    ):
        with pytest.raises(ValueError, match=match):
            ledger.charge(cost, "look", times)
    with pytest.raises(BudgetExhausted):
        ledger.charge(DiscoveryCost(5.0, PLANNED), "look")
    assert (ledger.charged, ledger.failure, ledger.turn) == (before, 0, 1)
    ledger.charge(COST, "look")
    assert ledger.failure == 1e-7
    assert ledger.charged == near(0.02**2 + 0.05**2, rel=1e-12)
    charged = ledger.charged
    with pytest.raises(ValueError, match="discover the values of all columns in one look"):
        ledger.charge(COST, "look")
    assert ledger.charged == charged
    ledger.charge(GaussianCost(0.02), "gradient")
    for currency in (GaussianDP(), ZCDP(), RenyiDP(40.0)):
        plain = Ledger(Budget.of(1.0, 1e-6, currency=currency))
        with pytest.raises(ValueError, match="made for it"):
            plain.charge(COST, "look")
        assert (plain.charged, plain.failure, plain.releases) == (0, 0, ())


# ----------------------------------------------------------------------------------------------- adaptive composition


def failing_run(limit, failure, greedy):
    """The exact delta of a run of coins at the epsilons, with failures, where both prices follow from what was seen.

    Each release shows everything with its failure, and is otherwise randomised response, which is as bad as a pure
    release can be. ``greedy`` gives the shares of what is left.
    """
    paths, leaked = [(1.0, 1.0, limit, failure)], [0.0, 0.0]
    for step in range(7):
        after = []
        for p, q, price_left, failure_left in paths:
            last = step == 6
            price, lost = (
                left if last else left * share
                for left, share in zip((price_left, failure_left), greedy(p / q), strict=True)
            )
            e = largest_within(lambda e: GaussianDP().price(PureCost(e)), price)
            yes = 1 / (1 + math.exp(-e))
            leaked[0] += p * lost
            leaked[1] += q * lost
            rest = price_left - price, failure_left - lost
            p, q = p * (1 - lost), q * (1 - lost)
            after += [(p * yes, q * (1 - yes), *rest), (p * (1 - yes), q * yes, *rest)]
        paths = after
    p, q = (
        np.array([path[side] for path in paths] + [leaked[0] * (side == 0), leaked[1] * (side == 1)]) for side in (0, 1)
    )
    assert p.sum() == pytest.approx(1)
    assert q.sum() == pytest.approx(1)
    return p, q


STRATEGIES = [
    lambda ratio: (0.4, 0.6) if ratio > 1 else (0.1, 0.05),
    lambda ratio: (0.5, 0.05) if ratio < 1 else (0.1, 0.7),
    lambda ratio: (0.2, 0.2),
]


@pytest.mark.parametrize("greedy", STRATEGIES)
@pytest.mark.parametrize(("limit", "failure"), [(0.2, 0.05), (1.0, 0.01), (0.5, 0.3)])
def test_failures_that_are_chosen_on_the_way_add_up(greedy, limit, failure):
    p, q = failing_run(limit, failure, greedy)
    for epsilon in (0.0, 0.2, 0.7, 1.5, 5.0):
        assert hockey(p, q, epsilon) <= gaussian_delta(epsilon, math.sqrt(limit), failure)
    assert hockey(p, q, 5.0) > 0.8 * failure


def test_a_filter_without_the_failures_is_seen():
    p, q = failing_run(0.2, 0.05, STRATEGIES[0])
    assert hockey(p, q, 2.0) > 2 * gaussian_delta(2.0, math.sqrt(0.2))


# ------------------------------------------------------------------------------------------------------------ reports


def report(delta=1e-6, discovery=PLANNED, **options):
    ledger = Ledger(budget(discovery, delta=delta))
    ledger.charge(DiscoveryCost(0.05, discovery), "discovery")
    return PrivacySpent.of(ledger, **({"adjacency": "zero-out", "private": True} | options))


def test_a_report_names_the_part_of_delta_that_is_for_the_discovery():
    spent = report()
    sentence = (
        "Of delta, 1e-07 is for the discovery of values: for each row, with at most this probability a value that it "
        "alone has appears in the model."
    )
    assert sentence in spent.statement()
    assert sentence in report(complete=False).statement()
    assert "zCDP" not in spent.statement()
    assert spent.rho is None
    assert spent.to_dict()["discovery"] == {"failure": 1e-7, "columns": 8, "shift": 0.01, "most": 1}
    assert "delta=1e-06 (1e-07 of it for a discovery)" in repr(spent)
    assert pickle.loads(pickle.dumps(spent)) == spent
    rounded = report(discovery=Discovery(1.2345e-7, 8, 0.01))
    assert "1.24e-07 is for the discovery" in rounded.statement()


def test_a_report_without_a_discovery_says_nothing_of_one():
    ledger = Ledger(Budget.of(1.0, 1e-6, currency=GaussianDP()))
    plain = PrivacySpent.of(ledger, adjacency="zero-out", private=True)
    assert plain.discovery is None
    assert plain.to_dict()["discovery"] is None
    assert "discovery" not in plain.statement() + repr(plain)


def test_a_report_states_other_deltas_and_groups_with_the_failure():
    spent, mu = report(), math.sqrt(budget().limit)
    for epsilon in (0.2, 1.0, 3.0):
        assert spent.delta_at(epsilon) == gaussian_delta(epsilon, mu, 1e-7)
    assert spent.delta_at(50.0) == near(1e-7, rel=1e-9)
    assert spent.epsilon_at(1e-6) == near(1.0, rel=1e-7)
    assert spent.epsilon_at(1e-7) == math.inf
    assert spent.epsilon_at(1e-5) == near(gaussian_epsilon(1e-5, mu, 1e-7), rel=1e-12)
    for size in (2, 3, 5):
        found = spent.epsilon_for_group(size)
        assert found == near(gaussian_epsilon(1e-6, size * mu, PLANNED.of_group(size)), rel=1e-12)
        assert found > gaussian_epsilon(1e-6, size * mu, 1e-7), "scaled mu alone"
    assert spent.epsilon_for_group(20) == math.inf


def test_a_report_says_where_a_group_has_no_epsilon():
    spent = report(discovery=Discovery(2e-7, 8, 0.01))
    assert spent.epsilon_for_group(10) == math.inf
    assert (
        "and infinite (a value that only they have may appear with a probability of 2e-06) for 10" in spent.statement()
    )


# ----------------------------------------------------------------------------------------------- the best of many runs

K = np.arange(0, 3000)
LAWS = [TruncatedNegativeBinomial(1.0, 0.1), TruncatedNegativeBinomial(0.0, 0.05), Poisson(6.0)]


def best_law(law, p):
    """The exact law of the best of K runs, whose outcomes stand from the worst to the best; the last is nothing."""
    if isinstance(law, Poisson):
        weights = poisson.pmf(K, law.mean)
    else:
        weights = np.zeros(len(K))
        weights[1:] = np.cumprod([1, *((1 - law.gamma) * (K[2:] - 1 + law.eta) / K[2:])])
        weights /= weights.sum()
    upto = np.minimum(np.cumsum(p), 1.0)
    generated = np.array([weights @ s**K for s in [0.0, *upto]])
    return np.append(np.diff(generated), weights[0])


def run_laws(mu, failure):
    """A run that moves a Gaussian by mu, and shows a value of one row, as its best outcome, with the failure."""
    edges = np.concatenate([[-np.inf], np.linspace(-7, 7, 41), [np.inf]])
    one, other = (np.diff(ndtr(edges - shift)) for shift in (mu, 0.0))
    return np.append(one * (1 - failure), failure), np.append(other, 0.0)


def budget_with(part):
    """The budgets of runs of which a part of delta is for a discovery."""
    return lambda epsilon, delta: Budget.of(epsilon, delta, currency=GaussianDP(Discovery(part * delta, 4, 0.01)))


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("part", [0.1, 0.9])
def test_the_best_of_runs_that_discover_keeps_the_claim(law, part):
    epsilon, delta = 3.0, 1e-3
    search = BestOf.budget(law, epsilon, delta, budget_with(part)).currency
    start = law.start(search.bounds, epsilon, delta)
    found = search.strongest(lambda e: [budget_with(part)(e, start[1])], start[0])
    of_run = budget_with(part)(found, start[1])
    assert search.covers(of_run)
    p, q = (best_law(law, run) for run in run_laws(math.sqrt(of_run.limit), of_run.currency.failure))
    assert hockey(p, q, epsilon) <= delta
    assert hockey(p, q, epsilon) > 0.5 * part * delta, "the failure of every run counts"


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_search_that_forgets_the_failure_is_seen(law):
    """Runs that were covered for their counts alone, and fail with the whole delta of the search."""
    epsilon, delta = 3.0, 1e-3

    def without(e, d):
        return Budget.of(e, d, currency=GaussianDP())

    search = BestOf.budget(law, epsilon, delta, without).currency
    start = law.start(search.bounds, epsilon, delta)
    of_run = without(search.strongest(lambda e: [without(e, start[1])], start[0]), start[1])
    p, q = (best_law(law, run) for run in run_laws(math.sqrt(of_run.limit), delta))
    assert hockey(p, q, epsilon) > 2 * delta
    honest = GaussianDP(Discovery(delta, 4, 0.01))
    assert not search.covers(Budget(9.0, 0.9, honest, of_run.limit))
