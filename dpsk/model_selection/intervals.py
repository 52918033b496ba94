"""Where an accuracy lies, given what was released of it: a count of right predictions, or of votes, with noise.

The noise is discrete Laplace noise. Rows are right or wrong, so their count has a binomial law. The vote of a person is
a part of its rows, and nothing is known of its law.

Chances far out underflow to 0, as they should. All numbers here were released, so nothing is told by that either.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr
from scipy.stats import binom

from ..mechanisms.samplers import Floats

_PARTS = 2000  # places at which the chance of so many votes is computed
_FAR = 5.0  # roots of n: a sum of n votes is farther from its mean with probability 2e-22
_ROUNDING = 1e-6  # more than what the rounding of logarithms, times n, changes a chance by


def rows_interval(noisy: int, n: int, one: int, scale: int, error: float) -> tuple[float, float]:
    """Return an interval that misses count/n with probability ``error``, for ``noisy = one * count + noise``.

    It rests on the tails of the discrete Laplace distribution (docs/guarantees.md, 13.3).
    """
    reach = _reach(scale, error)
    low = max(0, -((reach - noisy) // one))  # counts are integers: round up, and down
    high = min(n, (noisy + reach) // one)
    return (low / n, high / n) if low <= high else (noisy / (n * one),) * 2


@np.errstate(under="ignore")
def rows_population_interval(noisy: int, n: int, one: int, scale: int, error: float) -> tuple[float, float]:
    """Return an interval that misses p with probability ``error``, for ``noisy = one * Binomial(n, p) + noise``.

    It consists of all p under which neither tail has a probability of at most error/2 (docs/guarantees.md, 13.3).
    """

    def tail(p: float, sign: int) -> float:
        """Return how much likelier than error/2 the noisy count or less (1) or the noisy count or more (-1) is."""
        count, weight = _counts(n, p)
        return 1e-15 + float(weight @ noise_cdf(sign * (noisy - one * count), scale)) - error / 2

    low = 0.0 if tail(0.0, -1) > 0 else float(brentq(tail, 0.0, 1.0, (-1,), xtol=1e-10)) - 1e-9
    high = 1.0 if tail(1.0, 1) > 0 else float(brentq(tail, 0.0, 1.0, (1,), xtol=1e-10)) + 1e-9
    return max(0.0, low), min(1.0, high)


def _counts(n: int, p: float) -> tuple[Floats, Floats]:
    """Return the counts that are not negligible (the others have 1e-20 together, covered by 1e-15), with chances."""
    reach = 10 * math.sqrt(n * p * (1 - p)) + 60
    count = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1)
    return count.astype(np.float64), binom.pmf(count, n, p)


def votes_interval(noisy: int, n: int, lost: int, one: int, scale: int, error: float) -> tuple[float, float]:
    """Return an interval that misses votes/n with probability ``error`` at most, for ``noisy = one * votes + noise``.

    Votes lie in [0, 1]. They were counted too low by ``lost`` steps of 1/one together at most (docs/guarantees.md,
    13.4).
    """
    reach = _reach(scale, error)
    return max(0, noisy - reach) / (n * one), min(n * one, noisy + reach + lost) / (n * one)


@np.errstate(under="ignore")
def votes_population_interval(noisy: int, n: int, lost: int, one: int, scale: int, error: float) -> tuple[float, float]:
    """Return an interval that misses the mean of a vote with probability ``error`` at most.

    Votes are independent and lie in [0, 1]. Nothing else is known of their law, so a bound of Hoeffding (1963) takes
    its place, averaged over the noise (docs/guarantees.md, 13.4).
    """
    low = _least_mean(noisy, n, one, scale, error / 2)
    return low, 1 - _least_mean(n * one - noisy - lost, n, one, scale, error / 2)


def _least_mean(noisy: int, n: int, one: int, scale: int, error: float) -> float:
    """Return a mean under which so high a noisy sum of votes, or a higher one, has the probability ``error`` at most.

    Under smaller means it is less likely still. 0 if there is no such mean.
    """

    def excess(p: float) -> float:
        return (1 + _ROUNDING) * _chance(p, noisy, n, one, scale) - error

    return 0.0 if excess(0.0) > 0 else max(0.0, float(brentq(excess, 0.0, 1.0, xtol=1e-10)) - 1e-9)


def _chance(p: float, noisy: int, n: int, one: int, scale: int) -> float:
    """Return a bound on P(one * votes + noise >= noisy) for n independent votes in [0, 1] of mean p.

    Beyond n p votes the chance of so many falls; between two of _PARTS + 1 places it counts as at the lower one.
    """
    far = min(n * (1 - p), _FAR * math.sqrt(n))
    beyond = far * (np.arange(_PARTS + 1) / _PARTS) ** 2
    mean = np.minimum(p + beyond / n, 1.0)
    so_many = np.exp(-n * (rel_entr(mean, p) + rel_entr(1 - mean, 1 - p)))
    if far == n * (1 - p):
        so_many[-1] = 0.0  # there are no more than n
    enough = noise_cdf(np.floor(one * (n * p + beyond) - noisy) + 1, scale)
    return float(np.maximum(so_many[:-1] - so_many[1:], 0.0) @ enough[1:] + so_many[-1])


def _reach(scale: int, error: float) -> int:
    """Return how many steps the noise exceeds with probability ``error`` at most."""
    return max(0, math.ceil(scale * math.log(2 / (error * (1 + math.exp(-1 / scale))))) - 1)


@np.errstate(under="ignore")
def noise_cdf(k: Floats, scale: int) -> Floats:
    """Return P(noise <= k) for discrete Laplace noise."""
    r = math.exp(-1 / scale)
    far = np.exp(-np.where(k >= 0, k + 1, -k) / scale) / (1 + r)
    cdf: Floats = np.where(k >= 0, 1 - far, far)
    return cdf
