"""Intervals by inverting tests: all values under which what was released is not unlikely.

A number that is asked for, theta, has a statistic ``T(theta)``, computed from released counts. At the true theta it is
noise of a known law, plus what the rows happen to be if they are a random sample. A theta stays in the interval if
neither so large nor so small a T has a probability below half of the error (docs/guarantees.md, 13.6).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import rel_entr
from scipy.stats import binom, norm

from ..mechanisms.samplers import Floats

_PLACES = 2048  # of the law of noise
_WIDE = 20.0  # standard deviations to either side: beyond lies less than 1e-12 of a sum of Laplace noise
_STEPS = 24  # halvings: ends are right to 1e-7 of the range

Tail: TypeAlias = Callable[[Floats], Floats]
"""Bounds on the chance that what rows happen to be moves a statistic by so much, or by more."""


def noise_law(scales: Floats) -> tuple[Floats, Floats]:
    """Return values and chances of a sum of independent Laplace variables with these scales.

    Each is taken as discrete, on one grid of a fiftieth of the standard deviation of the sum. A grid that coarse makes
    tails a little heavier, never lighter.
    """
    scales = np.abs(scales)
    deviation = math.sqrt(2 * float((scales**2).sum()))
    if deviation == 0:
        return np.zeros(1), np.ones(1)
    step = 2 * _WIDE * deviation / _PLACES
    ratio = np.exp(-step / np.maximum(scales[scales > 0], 1e-300))
    angle = 2 * np.pi * np.arange(_PLACES // 2 + 1) / _PLACES
    transforms = (1 - ratio[:, None]) ** 2 / (1 - 2 * ratio[:, None] * np.cos(angle) + ratio[:, None] ** 2)
    chances = np.maximum(np.fft.fftshift(np.fft.irfft(transforms.prod(axis=0), _PLACES)), 0.0)
    values: Floats = np.linspace(-_PLACES / 2, _PLACES / 2 - 1, _PLACES) * step
    return values, chances / chances.sum()


def reach(scales: Floats, error: float) -> float:
    """Return what a sum of Laplace variables exceeds with probability ``error`` at most."""
    values, chances = noise_law(scales)
    above = np.cumsum(chances[::-1])[::-1]
    return float(values[min(int(np.searchsorted(-above, -error)), len(values) - 1)])


@dataclass(frozen=True)
class Statistic:
    """``T(theta)``, the scales of the noise in it, and how much its rows happen to move it.

    ``up`` bounds the chance that rows move it up by so much or more, ``down`` that they move it down; None: not at all.
    """

    value: float
    scales: Floats
    up: Tail | None = None
    down: Tail | None = None

    def chance_above(self) -> float:
        """Return the chance of so large a statistic, or a larger one."""
        return _chance(self.value, self.scales, self.up)

    def chance_below(self) -> float:
        """Return the chance of so small a statistic, or a smaller one."""
        return _chance(-self.value, self.scales, self.down)


def _chance(value: float, scales: Floats, tail: Tail | None) -> float:
    values, chances = noise_law(scales)
    if tail is None:
        return float(chances[values >= value - 1e-9 * max(1.0, abs(value))].sum())
    return float(chances @ np.minimum(tail(value - values), 1.0))


Of: TypeAlias = Callable[[float], Statistic]
"""The statistic of each theta, which falls as theta rises."""


def interval(low: Of, high: Of, error: float, ends: tuple[float, float] = (0.0, 1.0)) -> tuple[float, float]:
    """Return the interval of theta.

    ``low`` gives the statistic for the lower end, and ``high`` for the upper one. The two differ where counts do not
    tell all: the first is then as small and the second as large as it may be.
    """
    lower = _crossing(lambda theta: low(theta).chance_above() > error / 2, *ends)
    upper = _crossing(lambda theta: high(theta).chance_below() > error / 2, *reversed(ends))
    return (lower, upper) if lower <= upper else ((lower + upper) / 2,) * 2


def _crossing(possible: Callable[[float], Any], far: float, near: float) -> float:
    """Return where ``possible`` begins on the way from ``far`` to ``near``, on the far side of it."""
    if possible(far):
        return far
    for _ in range(_STEPS):
        middle = (far + near) / 2
        if possible(middle):
            near = middle
        else:
            far = middle
    return far


def binomial_tails(trials: float, theta: float, size: float = 1.0) -> tuple[Tail, Tail]:
    """Return the tails of ``size * (Binomial(trials, theta) - trials * theta)``, up and down."""
    n = max(0, math.ceil(trials))
    mean = n * theta

    def up(t: Floats) -> Floats:
        chances: Floats = binom.sf(np.ceil(t / size + mean - 1e-9) - 1, n, theta)
        return chances

    def down(t: Floats) -> Floats:
        chances: Floats = binom.cdf(np.floor(mean - t / size + 1e-9), n, theta)
        return chances

    return up, down


def bounded_tails(n: float, theta: float, size: float = 1.0) -> tuple[Tail, Tail]:
    """Return bounds on the tails of ``size`` times a sum of ``n`` independent numbers of mean 0 in [-theta, 1 - theta].

    A bound of Hoeffding (1963): nothing else is known of their law.
    """

    def tail(t: Floats, mean: float) -> Floats:
        far = np.clip(mean + np.maximum(t, 0.0) / (size * n), 0.0, 1.0)
        bound = np.exp(-n * (rel_entr(far, mean) + rel_entr(1 - far, 1 - mean)))
        chances: Floats = np.where(t <= 0, 1.0, np.where(t > size * n * (1 - mean) * (1 + 1e-12), 0.0, bound))
        return chances

    return (lambda t: tail(t, theta)), (lambda t: tail(t, 1 - theta))


def normal_tails(deviation: float) -> tuple[Tail, Tail]:
    """Return the tails of a normal variable, up and down."""

    def tail(t: Floats) -> Floats:
        chances: Floats = norm.sf(t / max(deviation, 1e-300))
        return chances

    return tail, tail
