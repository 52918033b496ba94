"""How a mechanism draws: the scale of Gaussian noise, and coins from all other mechanisms, from many draws of each.

The draws come from the mechanism that the fit has used, at the sensitivity that it was given there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import betainc
from scipy.stats import chi2, kstwo, norm

from ..mechanisms import Gaussian, Laplace, Mechanism, Sensitivity, SymmetricGaussian, SystemBits
from ..mechanisms.samplers import Floats, Integers
from ..mechanisms.sparse_vector import OpenSearch
from .coins import Coin
from .recording import Use

DRAWS = 200_000
LEAST_DRAWS = 500
_COARSE = 50  # grid units in a standard deviation, below which rounded noise is not normal enough for the test
_MOST_COMPARED = 2000
_LEAST_IN_COMMON = 12  # numbers for a test of two noises


def is_gaussian(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, Gaussian | SymmetricGaussian)


def _stated(one: Use) -> float:
    """Return the standard deviation that the mechanism promises, in grid units."""
    return float(one.sensitivity.l2 / one.mechanism.mu)  # type: ignore[attr-defined]


def in_deviations(one: Use, difference: Floats) -> Floats:
    """Return a difference of values or of releases in standard deviations of the noise that the mechanism promises.

    Of a symmetric matrix the part on and above the diagonal is returned: there its entries have noise of their own.
    """
    if not isinstance(one.mechanism, SymmetricGaussian):
        return np.ravel(difference) / _stated(one)
    symmetric = (difference + np.swapaxes(difference, -1, -2)) / 2
    j, k = np.triu_indices(difference.shape[-1])
    return np.ravel(symmetric[..., j, k] * np.where(j == k, 1.0, math.sqrt(2))) / _stated(one)


def noise_of(one: Use) -> Floats:
    """Return the noise of a Gaussian release, in the standard deviations that it promises."""
    return in_deviations(one, np.asarray(one.noisy, dtype=np.float64) - one.value)


def fresh_noise(one: Use) -> Floats:
    """Return many fresh draws of the same noise."""
    if isinstance(one.mechanism, SymmetricGaussian):
        size = one.value.shape[-1]
        shape: tuple[int, ...] = (max(1, 2 * DRAWS // (size * (size + 1))), size, size)
    else:
        shape = (DRAWS,)
    zeros = np.zeros(shape, dtype=np.int64)
    return in_deviations(one, np.asarray(one.mechanism(zeros, one.sensitivity, SystemBits()), dtype=np.float64))


def largest_scale(noise: Floats, error: float) -> float:
    """Return a bound above the standard deviation of normal numbers; it is too low with probability ``error``."""
    return math.sqrt(float((noise * noise).sum()) / chi2.ppf(error, noise.size))


def is_normal(noise: Floats, one: Use, error: float) -> bool:
    """Return whether draws look normal, whatever their scale; a normal sample is refused with probability ``error``.

    The scale is estimated from the same draws, which makes the distance smaller: the test refuses more seldom.
    """
    if _stated(one) < _COARSE or noise.size < 100:
        return True
    scaled = np.sort(noise / math.sqrt((noise * noise).mean()))
    steps = np.arange(len(scaled) + 1) / len(scaled)
    cdf = norm.cdf(scaled)
    distance = max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()) - 1 / _stated(one)
    return bool(kstwo.sf(max(distance, 0.0), len(scaled)) > error)


class Laws:
    """What many fresh draws tell about each kind of Gaussian noise, drawn once for all that ask.

    All answers together are wrong with probability at most ``error``: the k-th new kind gets 6/(pi k)^2 of it.
    """

    def __init__(self, error: float) -> None:
        self._error, self._known = error, dict[Any, tuple[float, bool]]()

    def of(self, one: Use) -> tuple[float, bool]:
        """Return a bound above the scale of the noise, in parts of the promised one, and whether it is normal."""
        size = one.value.shape[-1] if isinstance(one.mechanism, SymmetricGaussian) else 1
        kind = one.label, one.mechanism, one.sensitivity, size
        if kind not in self._known:
            error = self._error * 6 / (math.pi * (len(self._known) + 1)) ** 2
            noise = fresh_noise(one)
            self._known[kind] = largest_scale(noise, error / 2), is_normal(noise, one, error / 2)
        return self._known[kind]


def related_noises(noises: Sequence[tuple[str, Floats]], error: float) -> list[str]:
    """Return which of several noises, each with a name, are not independent, in words."""
    pairs = [
        (a, b, x[: min(len(x), len(y))], y[: min(len(x), len(y))])
        for (a, x), (b, y) in combinations(noises, 2)
        if min(len(x), len(y)) >= _LEAST_IN_COMMON
    ]
    found = []
    for a, b, x, y in pairs:
        correlation = float(x @ y / math.sqrt((x @ x) * (y @ y)))
        if abs(correlation) >= 1 - 1e-12 or _unlikely(correlation, len(x), error / len(pairs)):
            found.append(f"the noise of {a} and that of {b} are related (correlation {correlation:.3f})")
    return found


def repeated_numbers(uses: Sequence[Use], error: float) -> list[str]:
    """Return in words which kinds of Gaussian noise have entries that are 0 or the same up to the sign.

    Independent noise is named with probability at most ``error``: no rounded number has a probability above 0.4/s at
    the standard deviation s, so a draw is 0, or one of two is the other up to the sign, with at most 0.8/s.
    """
    kinds = dict[str, list[Use]]()
    for use in uses:
        if isinstance(use.mechanism, Gaussian):
            kinds.setdefault(use.label, []).append(use)
    found = []
    for label, some in kinds.items():
        noises = [np.ravel(np.asarray(use.noisy, dtype=np.int64) - use.value) for use in some]
        sizes = np.abs(np.concatenate(noises)[:_MOST_COMPARED])
        n, spread = len(sizes), min(map(_stated, some))
        if n * (n + 1) / 2 * 0.8 / spread > error / len(kinds):
            continue  # so many numbers on so coarse a grid may well have some in common
        others = n - len(np.unique(sizes[sizes > 0])) - int((sizes == 0).sum())
        if others or not sizes.all():
            found.append(
                f"of {n} entries of {label!r}, {int((sizes == 0).sum())} had no noise and {others} that of another one"
            )
    return found


def _unlikely(correlation: float, n: int, error: float) -> bool:
    """Return whether independent normal numbers have such a correlation at most with probability ``error``."""
    # the square has a Beta(1/2, (n - 1)/2) distribution where neither mean is taken off
    return bool(betainc((n - 1) / 2, 0.5, 1 - correlation**2) < error)


def coin_of(uses: Sequence[Use], others: Sequence[Use], *, error: float, seconds: float) -> Coin:
    """Return the most telling coin that draws of a mechanism that is not Gaussian show, at both of its values.

    The event is chosen on a first half of the draws, its probabilities are bounded on the second. A search that was
    given its values in parts comes as its parts. So many draws are made as fit in the time.
    """
    one = uses[0]
    values = [
        np.concatenate([use.value for use in part]) if len(part) > 1 else part[0].value for part in (uses, others)
    ]
    mechanism = one.mechanism
    if isinstance(mechanism, OpenSearch):
        mechanism = mechanism.mechanism
    draws = _drawn(mechanism, values, one.sensitivity, seconds)
    if mechanism.selects:
        scores = _scores_of_choices(*(np.array(part, dtype=np.int64) for part in draws))
    else:
        scores = [_scores(mechanism, np.array(part, dtype=np.float64), *values) for part in draws]
    half = len(draws[0]) // 2
    cuts = np.unique(np.quantile(np.concatenate([part[:half] for part in scores]), np.linspace(0, 1, 41)))

    def count(cut: float, part: slice) -> tuple[int, int]:
        return int((scores[0][part] > cut).sum()), int((scores[1][part] > cut).sum())

    def telling(cut: float) -> float:
        coin = Coin.seen(count(cut, slice(half)), (half, half), error)
        return float(coin.often / coin.seldom if coin.often < 0.5 else (1 - coin.seldom) / max(1 - coin.often, 1e-300))

    best = max(cuts, key=telling)
    coin = Coin.seen(count(best, slice(half, None)), (half, half), error)
    return coin if coin.often > coin.seldom else Coin(0.5, 0.5)


def _drawn(mechanism: Mechanism, values: list[Any], sensitivity: Sensitivity, seconds: float) -> list[list[Any]]:
    """Return as many draws at each value as fit in the time, and no fewer than a few hundred."""
    bits, end = SystemBits(), time.monotonic() + seconds
    draws: list[list[Any]] = [[], []]
    while len(draws[0]) < DRAWS and (len(draws[0]) < LEAST_DRAWS or time.monotonic() < end):
        for found, value in zip(draws, values, strict=True):
            found += [mechanism(value, sensitivity, bits) for _ in range(LEAST_DRAWS)]
    return draws


def _scores_of_choices(one: Integers, other: Integers) -> list[Floats]:
    """Return how much more often each chosen index was chosen on one data set, as the first half of the draws shows."""
    n = int(max(one.max(), other.max())) + 1
    counts = [np.bincount(part[: len(part) // 2], minlength=n) for part in (one, other)]
    ratio = (counts[0] + 1.0) / (counts[1] + 1.0)
    return [ratio[part] for part in (one, other)]


def _scores(mechanism: Mechanism, draws: Floats, value: Any, other: Any) -> Floats:
    """Return how much farther each draw is from the other value than from its own, in the norm of the noise."""
    order = 1 if isinstance(mechanism, Laplace) else 2
    flat = draws.reshape(len(draws), -1)
    away = [np.linalg.norm(flat - np.ravel(to), ord=order, axis=1) for to in (value, other)]
    scores: Floats = away[1] - away[0]
    return scores
