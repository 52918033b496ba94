"""The discovery of values of persons, who have several rows: no weights of theirs show more than was promised."""

import math
from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr
from test_discovery import cell_law, coarse, hockey, near, tail_sum

from dpsk.privacy import Discovery, GaussianDP
from dpsk.privacy.conversions import gaussian_delta

mp = mpmath.MPContext()
mp.dps = 50


def compositions(total, parts, least=0):
    """Yield the ways to write ``total`` as a sum of so many integers >= ``least``, in order."""
    if parts == 1:
        yield (total,)
        return
    for first in range(least, total - least * (parts - 1) + 1):
        for rest in compositions(total - first, parts - 1, least):
            yield (first, *rest)


def failure_of(threshold, weights, sigma, columns):
    """The probability that a person shows a value who has these weights in every column, from sums over integers."""
    return 1 - mp.fprod(1 - tail_sum(threshold - w, sigma) for w in weights) ** columns


@pytest.mark.parametrize(("failure", "columns"), [(0.3, 1), (1e-3, 3), (1e-7, 40)])
@pytest.mark.parametrize(("unit_steps", "sigma"), [(8, 2), (8, 8), (8, 40)])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_no_weights_of_a_person_show_more_than_the_failure(most, unit_steps, sigma, failure, columns):
    threshold = Discovery(failure, columns, unit_steps / sigma, most).threshold(unit_steps, sigma)
    ways = {tuple(sorted(way)) for used in range(1, most + 1) for way in compositions(unit_steps, used, 1)}
    assert max(failure_of(threshold, way, sigma, columns) for way in ways) <= failure
    limit = [unit_steps] + [0] * (most - 1)  # next to no weight, on a grid that is finer
    assert failure_of(threshold, limit, sigma, columns) <= failure < failure_of(threshold - 1, limit, sigma, columns)


def test_without_the_number_of_rows_the_failure_is_broken():
    threshold = Discovery(1e-3, 1, 0.08).threshold(8, 100)
    assert failure_of(threshold, (5, 1, 1, 1), 100, 1) > 3e-3


def test_one_row_each_is_as_before():
    """No term for other values is left."""
    for failure, columns, shift in ((0.05, 2, 0.5), (1e-7, 8, 0.01), (1e-12, 100, 3.0)):
        plain, one = Discovery(failure, columns, shift), Discovery(failure, columns, shift, 1)
        assert plain == one
        z = -float(mp.sqrt(2) * mp.erfinv(2 * (1 - (1 - mp.mpf(failure)) ** (mp.mpf(1) / columns)) - 1))
        for size in (2, 5, 40):
            shared, own = mp.ncdf(z - (size - 1) * shift) ** columns, (1 - mp.mpf(failure)) ** size
            assert plain.of_group(size) == near(1 - min(shared, own), rel=1e-6)


# ------------------------------------------------------------------------------ exact laws of looks at a few persons

STEPS = 4


def law_of(people, column, value, threshold, sigma):
    """The law of what a look shows of a value. A person has pairs of a value and its steps in each column."""
    steps = sum(k for person in people for name, k in person[column] if name == value)
    return cell_law(steps / STEPS, threshold, STEPS, sigma), steps


def laws(people, others, discovery, sigma):
    threshold, outcome = discovery.threshold(STEPS, sigma), (np.ones(1), np.ones(1))
    pairs = []
    for column, value in product(range(discovery.columns), range(6)):
        (one, a), (other, b) = (law_of(data, column, value, threshold, sigma) for data in (people, others))
        if a != b:
            pairs.append((one, other))
    for pair in pairs:
        one, other = coarse(*pair, 400)
        outcome = coarse(*(np.outer(x, y).ravel() for x, y in zip(outcome, (one, other), strict=True)), 4000)
    return outcome


def person(*ways):
    """A person by the steps of its values in each column, from the value 0 on; a pair gives the first value as well."""
    return [[(first + j, k) for j, k in enumerate(way)] for first, way in ways]


PEOPLE = [
    person((0, (4,)), (0, (4,))),
    person((0, (2, 2)), (0, (1, 3))),
    person((0, (2, 1, 1)), (0, (2, 1, 1))),
    person((0, (1, 1, 1)), (1, (4,))),
    person((2, (2, 1, 1)), (2, (1, 1, 1))),
]
RESTS = [[], PEOPLE[:1], [PEOPLE[0], PEOPLE[1]]]
EPSILONS = (0.0, 0.3, 1.0, 3.0)


def worst_ratio(kind, discovery, promised, sigma):
    """How large an exact delta is beside its promise, at worst over neighbours and epsilons."""
    currency, worst = GaussianDP(promised), 0.0
    limit = (2 if kind == "replace" else 1) * discovery.columns * (STEPS / sigma) ** 2
    pairs = [([*rest, one], rest) for rest in RESTS for one in PEOPLE]
    if kind == "replace":
        pairs = [([*rest, one], [*rest, two]) for rest in RESTS for one, two in combinations(PEOPLE, 2)]
    for data in pairs:
        p, q = laws(*data, discovery, sigma)
        worst = max(worst, *(hockey(p, q, epsilon) / currency.delta(limit, epsilon) for epsilon in EPSILONS))
    return worst


@pytest.mark.parametrize("sigma", [8, 40])
@pytest.mark.parametrize("kind", ["zero-out", "replace"])
def test_persons_of_several_rows_keep_the_promise(kind, sigma):
    discovery = Discovery(0.05, 2, STEPS / sigma, 3)
    assert 0.3 < worst_ratio(kind, discovery, discovery, sigma) <= 1 + 1e-9


@pytest.mark.parametrize("kind", ["zero-out", "replace"])
def test_a_threshold_for_one_row_each_breaks_the_promise(kind):
    few, several = Discovery(0.05, 2, 0.1), Discovery(0.05, 2, 0.1, 3)
    assert worst_ratio(kind, few, several, 40) > 1.5


# ----------------------------------------------------------------------------------------------------------- groups

QUARTERS = 4


def ways_of_a_person(most, pool):
    """Every way to spread a weight of up to 1 over up to ``most`` of the values of a pool, in quarters; NaN: no row."""
    ways = set()
    for chosen in combinations(range(pool), most):
        for weight in compositions(QUARTERS, most):
            way = [math.nan] * pool
            for value, k in zip(chosen, weight, strict=True):
                way[value] = k / QUARTERS
            ways.add(tuple(way))
    return np.array(sorted(ways, key=str))


def lowest_threshold(discovery, shift):
    """How many deviations the threshold is above one person, where it is as low as the failure allows."""
    one = mp.log(1 - mp.mpf(discovery.failure)) / discovery.columns

    def left(x):
        return mp.log(mp.ncdf(x)) + (discovery.most - 1) * mp.log(mp.ncdf(x + shift)) - one

    low, high = mp.mpf(0), mp.mpf(40)
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (low, middle) if left(middle) > 0 else (middle, high)
    return high


def worst_of_group(discovery, shift, size, most=None):
    """The largest failure of a group, over all ways of all of its members, who have ``most`` rows each."""
    x, most = float(lowest_threshold(discovery, shift)), most or discovery.most
    ways = ways_of_a_person(most, pool=size * most)
    held, weight = ~np.isnan(ways), np.nan_to_num(ways)
    for _ in range(size - 1):
        held = (held[:, None] | ~np.isnan(ways)[None]).reshape(-1, ways.shape[1])
        weight = (weight[:, None] + np.nan_to_num(ways)[None]).reshape(-1, ways.shape[1])
        _, first = np.unique(np.sort(np.where(held, weight, -1.0)), axis=0, return_index=True)  # names do not matter
        held, weight = held[first], weight[first]
    hidden = np.where(held, log_ndtr(x + (1 - weight) * shift), 0.0).sum(axis=1).min()
    return -math.expm1(discovery.columns * hidden)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("failure", [0.4, 1e-3, 1e-9])
@pytest.mark.parametrize("shift", [1e-3, 0.1, 0.5, 3.0])
@pytest.mark.parametrize(("size", "most"), [(2, 2), (2, 3), (3, 2)])
def test_no_weights_of_a_group_of_persons_show_more_than_its_failure(size, most, shift, failure):
    discovery = Discovery(failure, 3, shift, most)
    promised = discovery.of_group(size)
    for less in (shift, 0.7 * shift, 0.1 * shift):  # noise may be stronger than it was planned
        found = worst_of_group(discovery, less, size)
        assert found <= promised * (1 + 1e-9)
    assert worst_of_group(discovery, shift, size) > promised * (1 - 1e-6)


def test_groups_without_the_number_of_rows_promise_too_little():
    discovery = Discovery(1e-3, 3, 0.1)
    assert worst_of_group(discovery, 0.1, 2) <= discovery.of_group(2)
    for most in (2, 3):
        assert worst_of_group(discovery, 0.1, 2, most) > 0.7 * most * discovery.of_group(2)


@pytest.mark.parametrize("most", [2, 300, 10**6, 2**40])
def test_large_numbers_of_rows_have_thresholds(most):
    few, many = Discovery(1e-8, 30, 0.01), Discovery(1e-8, 30, 0.01, most)
    low, high = few.threshold(2**20, 100 * 2**20), many.threshold(2**20, 100 * 2**20)
    assert low < high < 2 * low + 2**20 * 100
    tail = mp.ncdf(-(mp.mpf(high) - 0.5) / (100 * 2**20))
    full = mp.ncdf(-(mp.mpf(high - 2**20) - 0.5) / (100 * 2**20))
    assert 0.9999 * 1e-8 < 1 - ((1 - full) * (1 - tail) ** (most - 1)) ** 30 <= 1e-8
    sizes = [many.of_group(size) for size in range(1, 12)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1e-8
    assert many.of_group(10**6) == 1.0


def test_a_group_of_persons_has_a_promise_with_epsilon():
    discovery = Discovery(1e-7, 3, 0.01, 50)
    currency = GaussianDP(discovery)
    limit = currency.limit(1.0, 1e-6)
    alone = gaussian_delta(2.0, 2 * math.sqrt(limit), discovery.failure)
    assert gaussian_delta(2.0, 2 * math.sqrt(limit), discovery.of_group(2)) > alone
