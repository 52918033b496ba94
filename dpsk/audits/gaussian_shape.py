"""How far apart two Gaussian samples lie: a bound below the distance of their means, if they are Gaussian."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import f as variance_ratio

from ..mechanisms.samplers import Floats

LEVEL = 0.01
"""How often each of the three tests of the shape rejects Gaussian samples of one variance."""

_FEWEST = 20


def looks_gaussian(ones: Floats, others: Floats) -> bool:
    """Return whether both samples pass a test of Gaussian shape, and both together one of equal variances.

    The first is that of Anderson & Darling (1952) for an unknown mean and variance, with the critical value of
    Stephens (1974) as D'Agostino & Stephens (1986) give it; the second is the F-test. Each has the level ``LEVEL``.
    """
    if min(len(ones), len(others)) < _FEWEST or not min(ones.std(), others.std()) > 0:
        return False
    if max(_anderson_darling(some) for some in (ones, others)) > 1.035:
        return False
    ratio = ones.var(ddof=1) / others.var(ddof=1)
    tail = variance_ratio.cdf(ratio, len(ones) - 1, len(others) - 1)
    return bool(min(tail, 1 - tail) > LEVEL / 2)


def _anderson_darling(sample: Floats) -> float:
    """Return the statistic of the test, corrected for the number of draws; 1.035 is its 99 % point."""
    n = len(sample)
    z = np.sort((sample - sample.mean()) / sample.std(ddof=1))
    place = 2 * np.arange(1, n + 1) - 1
    square = -n - float((place * (log_ndtr(z) + log_ndtr(-z[::-1]))).sum()) / n
    return square * (1 + 0.75 / n + 2.25 / n**2)


def least_distance(ones: Floats, others: Floats, error: float) -> float:
    """Return a bound below (mean - other mean) / standard deviation, for Gaussian samples of one variance.

    It is too high with probability ``error``: the t statistic of the two samples has a noncentral t distribution, whose
    tail is integrated here (that of SciPy overflows for large distances).
    """
    n, m = len(ones), len(others)
    freedom, length = n + m - 2, math.sqrt(1 / n + 1 / m)
    spread = math.sqrt(((n - 1) * ones.var(ddof=1) + (m - 1) * others.var(ddof=1)) / freedom)
    t = float(ones.mean() - others.mean()) / (spread * length)
    # P(T >= t) is the mean of Phi(shift - t s), where s is the ratio of the two standard deviations
    wide = 14 / math.sqrt(2 * freedom)
    s = np.linspace(max(1e-9, 1 - wide), 1 + wide, 4001)
    logs = (freedom - 1) * np.log(s) - freedom * (s**2 - 1) / 2
    density = np.exp(logs - logs.max())
    density /= density.sum()

    def gap(shift: float) -> float:
        return float(density @ ndtr(shift - t * s)) - error

    slack = 14 * (1 + abs(t) / math.sqrt(freedom))
    return max(0.0, float(brentq(gap, t - slack, t + slack)) * length)
