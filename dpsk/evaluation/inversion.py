"""Intervals by inverting tests: all values under which what was released is not unlikely.

A number that is asked for, theta, has a statistic ``T(theta)``, computed from released counts. At the true theta it is
noise of a known law, plus what the rows happen to be if they are a random sample. A theta stays in the interval if
neither so large nor so small a T has a probability below half of the error (docs/guarantees.md, 13.6).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import betainc, ndtr, ndtri, rel_entr

from ..mechanisms.samplers import Floats

_PLACES = 512  # of the law of noise
_WIDE = 12.0  # standard deviations to either side: beyond lies less than 1e-7 of a sum of Laplace noise
_NEAR = 4e-3  # of a standard deviation: ends are right to that, on the far side
_FAR = 10.0  # standard deviations beyond which one guess is as good as another
_STEPS = 25

Tail: TypeAlias = Callable[[Floats], Floats]
"""Bounds on the chance that what rows happen to be moves a statistic by so much, or by more."""


@dataclass(frozen=True)
class Tails:
    """The tails of what rows happen to be, up and down, and its standard deviation, roughly."""

    up: Tail
    down: Tail
    deviation: float


@dataclass(frozen=True)
class Noise:
    """A sum of independent Laplace variables: their scales, and how many there are of each."""

    scales: Floats
    times: Floats

    @classmethod
    def of(cls, scales: Floats) -> "Noise":
        """Return the sum of one variable of each scale."""
        return cls(np.abs(scales), np.ones(len(scales)))

    @property
    def deviation(self) -> float:
        return math.sqrt(2 * float(self.times @ self.scales**2))

    def law(self) -> tuple[Floats, Floats]:
        """Return values and chances of the sum.

        Each variable is taken as discrete, on one grid of about a twentieth of the standard deviation of the sum.
        """
        deviation = self.deviation
        if deviation == 0:
            return np.zeros(1), np.ones(1)
        step, there = 2 * _WIDE * deviation / _PLACES, self.times > 0
        ratio = np.exp(-step / np.maximum(self.scales[there], step / 700))[:, None]  # a smaller one adds nothing
        transforms = (1 - ratio) ** 2 / (1 - 2 * ratio * _COSINES + ratio**2)
        product = _IN_THE_MIDDLE * (transforms ** self.times[there, None]).prod(axis=0)
        chances = np.maximum(np.fft.irfft(product, _PLACES), 0.0)
        values: Floats = _GRID * step
        return values, chances / chances.sum()

    def reach(self, error: float) -> float:
        """Return what the sum exceeds with probability ``error`` at most."""
        values, chances = self.law()
        above = np.cumsum(chances[::-1])[::-1]
        return float(values[min(int(np.searchsorted(-above, -error)), len(values) - 1)])


_COSINES: Floats = np.cos(2 * np.pi * np.arange(_PLACES // 2 + 1) / _PLACES)
_IN_THE_MIDDLE = np.where(np.arange(_PLACES // 2 + 1) % 2, -1.0, 1.0)  # the transform of a shift by half the grid
_GRID: Floats = np.linspace(-_PLACES / 2, _PLACES / 2 - 1, _PLACES)


def reach(scale: float, times: float, error: float) -> float:
    """Return what a sum of so many Laplace variables of one scale exceeds with probability ``error`` at most."""
    return Noise(np.array([scale]), np.array([float(times)])).reach(error)


@dataclass(frozen=True)
class Statistic:
    """``T(theta)``, the noise in it, and how much its rows happen to move it; None: not at all."""

    value: float
    noise: Noise
    rows: Tails | None = None

    def chance_above(self) -> float:
        """Return the chance of so large a statistic, or a larger one."""
        return self._chance(self.value, None if self.rows is None else self.rows.up)

    def chance_below(self) -> float:
        """Return the chance of so small a statistic, or a smaller one."""
        return self._chance(-self.value, None if self.rows is None else self.rows.down)

    def deviations(self) -> float:
        """Return how many standard deviations it lies above 0, roughly."""
        far = math.hypot(self.noise.deviation, 0.0 if self.rows is None else self.rows.deviation)
        return self.value / far if far > 0 else math.copysign(math.inf, self.value) if self.value else 0.0

    def _chance(self, value: float, tail: Tail | None) -> float:
        values, chances = self.noise.law()
        if tail is not None:
            return float(chances @ np.minimum(tail(value - values), 1.0))
        if len(values) == 1:
            return float(value <= 1e-9)
        return float(np.interp(value, values, np.cumsum(chances[::-1])[::-1], left=1.0, right=0.0))


Of: TypeAlias = Callable[[float], Statistic]
"""The statistic of each theta, which falls as theta rises."""


def interval(low: Of, high: Of, error: float, ends: tuple[float, float] = (0.0, 1.0)) -> tuple[float, float]:
    """Return the interval of theta.

    ``low`` gives the statistic for the lower end, and ``high`` for the upper one. The two differ where counts do not
    tell all: the first is then as small and the second as large as it may be.
    """
    first, last = ends
    lower = _crossing(lambda x: low(x).chance_above(), lambda x: -low(x).deviations(), error / 2, first, last)
    upper = _crossing(lambda x: high(x).chance_below(), lambda x: high(x).deviations(), error / 2, last, first)
    return min(lower, upper), max(lower, upper)


Curve: TypeAlias = Callable[[float], float]


def _crossing(chance: Curve, rough: Curve, least: float, far: float, near: float) -> float:
    """Return where a chance exceeds ``least`` on the way from ``far`` to ``near``, on the far side of it.

    Chances are compared as places of a normal variable. ``rough`` is about that place and costs little: where it says
    that the crossing is, the exact chance tells how wrong it was.
    """
    wanted = float(ndtri(least))
    if chance(far) > least:
        return far
    aim = wanted
    for _ in range(_STEPS):
        theta = _passes(rough, aim, far, near)
        excess = float(ndtri(min(max(chance(theta), 1e-12), 1 - 1e-12))) - wanted
        if excess > 0:
            near = theta
        else:
            far = theta
            if excess > -_NEAR:
                break
        if abs(near - far) < 1e-7:
            break
        aim -= excess + _NEAR / 2
    return far


def _passes(curve: Curve, aim: float, far: float, near: float) -> float:
    """Return where a curve passes ``aim`` on the way from ``far``, where it is lower, to ``near``; or else the middle.

    By false position, where an end that stays weighs half as much each time, and values are cut off far away.
    """
    below, above, middle = _cut(curve(far) - aim), _cut(curve(near) - aim), (far + near) / 2
    if below >= 0 or above <= 0:
        return middle
    for _ in range(_STEPS):
        middle = far + (near - far) * below / (below - above)
        found = _cut(curve(middle) - aim)
        if abs(found) < _NEAR / 4:
            break
        if found > 0:
            near, above, below = middle, found, below / 2
        else:
            far, below, above = middle, found, above / 2
    return middle


def _cut(value: float) -> float:
    return min(max(value, -_FAR), _FAR)


def binomial_tails(trials: float, theta: float, size: float = 1.0) -> Tails:
    """Return the tails of ``size * (Binomial(trials, theta) - trials * theta)``."""
    n = max(1, math.ceil(trials))
    mean = n * theta

    def up(t: Floats) -> Floats:
        k = np.ceil(t / size + mean - 1e-9)  # so many successes or more
        chances: Floats = betainc(np.clip(k, 1, n), n + 1 - np.clip(k, 1, n), theta)
        return np.where(k < 1, 1.0, np.where(k > n, 0.0, chances))

    def down(t: Floats) -> Floats:
        k = np.floor(mean - t / size + 1e-9)  # so many or fewer
        within = np.clip(k, 0, n - 1)
        chances: Floats = betainc(n - within, within + 1, 1 - theta)
        return np.where(k < 0, 0.0, np.where(k >= n, 1.0, chances))

    return Tails(up, down, size * math.sqrt(mean * (1 - theta)))


def bounded_tails(n: float, theta: float, size: float = 1.0) -> Tails:
    """Return bounds on the tails of ``size`` times a sum of ``n`` independent numbers of mean 0 in [-theta, 1 - theta].

    A bound of Hoeffding (1963): nothing else is known of their law.
    """

    def tail(t: Floats, mean: float) -> Floats:
        far = np.clip(mean + np.maximum(t, 0.0) / (size * n), 0.0, 1.0)
        bound = np.exp(-n * (rel_entr(far, mean) + rel_entr(1 - far, 1 - mean)))
        chances: Floats = np.where(t <= 0, 1.0, np.where(t > size * n * (1 - mean) * (1 + 1e-12), 0.0, bound))
        return chances

    deviation = size * math.sqrt(n * theta * (1 - theta))
    return Tails(lambda t: tail(t, theta), lambda t: tail(t, 1 - theta), deviation)


def normal_tails(deviation: float) -> Tails:
    """Return the tails of a normal variable."""

    def tail(t: Floats) -> Floats:
        chances: Floats = ndtr(-t / max(deviation, 1e-300))
        return chances

    return Tails(tail, tail, deviation)
