"""Intervals of an evaluation: the law of the noise, ends of intervals, and the areas under curves, from other ways."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom
from sklearn.metrics import average_precision_score

from benchmarks.simulated import asked_of, drawn, evaluation, population, released
from dpsk.evaluation.curves import _area, _deviation_of_pairs
from dpsk.evaluation.evidence import Evidence, Sample
from dpsk.evaluation.inversion import Noise, Statistic, binomial_tails, bounded_tails, interval, normal_tails
from dpsk.evaluation.release import Level


def _two_laplace(t, one, other):
    """Return P(sum >= t) for t >= 0 and two Laplace variables."""
    if one == other:
        return np.exp(-t / one) * (2 + t / one) / 4
    return (one**2 * np.exp(-t / one) - other**2 * np.exp(-t / other)) / (one**2 - other**2) / 2


@pytest.mark.parametrize(("one", "other"), [(1.0, 1.0), (1.0, 3.0), (0.02, 5.0)])
def test_the_law_of_noise_has_the_tails_of_a_sum_of_laplace_variables(one, other):
    for t in np.array([0.5, 1.0, 2.0, 4.0]) * np.hypot(one, other):
        statistic = Statistic(t, Noise.of(np.array([one, -other])))
        assert _two_laplace(t, one, other) * 0.98 < statistic.chance_above() < _two_laplace(t, one, other) * 1.08
        assert statistic.chance_above() == pytest.approx(Statistic(-t, statistic.noise).chance_below(), rel=1e-6)


def test_many_variables_of_one_scale_are_those_one_by_one():
    (values, chances), (others, more) = (
        noise.law() for noise in (Noise(np.array([2.0, 0.5]), np.array([3.0, 1.0])), Noise.of(np.array([2, 2, 0.5, 2])))
    )
    np.testing.assert_allclose(values, others)
    np.testing.assert_allclose(chances, more, atol=1e-12)
    assert chances @ values**2 == pytest.approx(2 * (3 * 4 + 0.25), rel=0.01)


@pytest.mark.parametrize("scale", [0.0, 1e-310, 1e-12])
def test_noise_that_is_next_to_nothing_adds_nothing(scale):
    (values, chances), (others, more) = (Noise.of(np.array(scales)).law() for scales in ((3.0, scale), (3.0,)))
    np.testing.assert_allclose(values, others)
    np.testing.assert_allclose(chances, more, atol=1e-12)


@pytest.mark.parametrize(("n", "theta"), [(1, 0.3), (7, 0.5), (2_000, 0.01)])
def test_binomial_tails_are_those_of_scipy(n, theta):
    tails, t = binomial_tails(n, theta, size=3.0), np.linspace(-3.0 * n - 5, 3.0 * n + 5, 101)
    successes = np.arange(n + 1)
    moved = 3.0 * (successes - n * theta)
    chances = binom.pmf(successes, n, theta)
    np.testing.assert_allclose(tails.up(t), [chances[moved >= x - 1e-9].sum() for x in t], atol=1e-9)
    np.testing.assert_allclose(tails.down(t), [chances[moved <= -x + 1e-9].sum() for x in t], atol=1e-9)


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (3, 20), (20, 20), (4_000, 5_000)])
def test_without_noise_a_part_has_the_interval_of_clopper_and_pearson(hits, n):
    counts = np.array([hits, n - hits], dtype=float)
    evidence = Evidence(Level(counts, 1e-12), counts, Sample(n, True, 0.0), 0.05)
    found = evidence.part(hits / n, (np.array([True, False]), np.array([False, True]))).interval
    error = 0.9 * 0.05 / 2  # a tenth is for the number of trials
    low, high = (beta.ppf(error, hits, n - hits + 1), beta.isf(error, hits + 1, n - hits))
    assert found == pytest.approx((0.0 if hits == 0 else low, 1.0 if hits == n else high), abs=2e-3 / np.sqrt(n))


@pytest.mark.parametrize("tails", [binomial_tails, bounded_tails, lambda n, _: normal_tails(np.sqrt(n) / 2)])
@pytest.mark.parametrize("value", [-30.0, 0.0, 61.5, 200.0])
def test_ends_are_where_a_chance_is_half_of_the_error(tails, value):
    def at(theta):
        return Statistic(value - 200 * theta, Noise.of(np.full(3, 4.0)), tails(200, theta))

    low, high = interval(at, at, 0.1)
    assert low == 0 or 0.049 < at(low).chance_above() <= 0.05
    assert high == 1 or high < 1e-6 or 0.049 < at(high).chance_below() <= 0.05


def test_the_area_of_a_table_is_that_of_its_rows():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 400, (2, 6)).astype(float)
    counts[1, 2] = counts[0, 4] = 0.0
    found, areas = {None: [], 0: [], 1: []}, {}
    for first, shown in found.items():
        for seed in range(20 if first is None else 1):
            score = np.concatenate([np.repeat(-np.arange(6.0), some.astype(int)) for some in counts])
            true = np.repeat([0, 1], counts.sum(axis=1).astype(int))
            within = 0.4 * np.random.default_rng(seed).random(len(true)) + 0.5 * (true == first)
            shown.append(average_precision_score(true, score + within))
        areas[first] = float(_area(counts, first))
        assert areas[first] == pytest.approx(np.mean(shown), abs=4e-3)
    assert areas[0] < areas[None] < areas[1]
    hits, false = counts[1], counts[0]
    above, before = np.cumsum(hits) - hits, np.cumsum(false) - false
    parts = [
        quad(lambda u, k=k: hits[k] * (above[k] + hits[k] * u) / (above[k] + before[k] + (hits + false)[k] * u), 0, 1)
        for k in np.flatnonzero(hits)
    ]
    assert areas[None] == pytest.approx(sum(part for part, _ in parts) / hits.sum(), abs=1e-6)


def test_pairs_vary_no_more_than_is_allowed_for():
    """Both sides are known to 3 % with 2,000 draws; the allowance for one more row of each class is 1 % here."""
    rng, sizes, shares = np.random.default_rng(0), (600, 200), rng_shares()
    theta = float(shares[1] @ (np.cumsum(shares[0]) - shares[0] / 2))
    draws = [[rng.multinomial(size, some) for size, some in zip(sizes, shares, strict=True)] for _ in range(2_000)]
    pairs = [float(hits @ (np.cumsum(false) - false / 2)) - theta * 600 * 200 for false, hits in draws]
    counts = np.array([size * some for size, some in zip(sizes, shares, strict=True)])
    allowed = _deviation_of_pairs(counts, np.array(sizes, dtype=float))(theta)
    assert np.std(pairs) < 1.05 * allowed < 1.4 * np.std(pairs)


def rng_shares():
    shares = np.random.default_rng(1).random((2, 12)) + np.linspace(0.2, 1, 12) ** np.array([[0], [2]])
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("scores", "n", "epsilon", "base_rate", "persons"),
    [("calibrated", 1_000, 4.0, 0.2, False), ("perfect", 1_000, 0.5, 0.2, False), ("ties", 500, 4.0, 0.3, True)],
)
def test_areas_of_the_population_lie_in_their_intervals(scores, n, epsilon, base_rate, persons):
    """At 90 % more than 52 misses in 400 have a probability of 2.6 %, if the interval is just right; they miss less."""
    whole, rng, misses = population(scores, base_rate, persons), np.random.default_rng(0), np.zeros(2)
    for seed in range(400):
        rows = drawn(scores, n, base_rate, persons, rng)
        seen = evaluation(released(rows, asked_of(scores), epsilon, seed), 0.9)
        for k, (estimate, value) in enumerate(
            ((seen.auc, whole.auc), (seen.average_precision, whole.average_precision))
        ):
            low, high = estimate.interval
            misses[k] += not low - 1e-6 <= value <= high + 1e-6
    assert (misses <= 52).all()
