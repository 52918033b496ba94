"""Released counts as evidence: estimates of parts and means, each with two intervals."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats
from .inversion import Noise, Of, Statistic, Tails, binomial_tails, bounded_tails, interval, normal_tails, reach
from .release import Level

_FOR_TRIALS = 0.1  # of the error: that there are more trials than assumed

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Estimate:
    """A number that was computed from noisy counts.

    Parameters
    ----------
    value : float
        The estimate.
    interval : pair of floats
        Where the number lies in the *population*, if these rows (or persons) are an independent random sample of it: it
        allows for the noise and for the sampling.
    interval_on_rows : pair of floats
        Where the number lies on *these rows* (or persons): it allows for the noise only.
    """

    value: float
    interval: tuple[float, float]
    interval_on_rows: tuple[float, float]

    def __float__(self) -> float:
        return self.value

    def __round__(self, digits: int | None = None) -> float:
        return round(self.value, digits)

    def __repr__(self) -> str:
        return f"Estimate({self})"

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        low, high = self.interval
        return f"{self.value:{spec}} ({low:{spec}} to {high:{spec}})"

    def __str__(self) -> str:
        return format(self)


@dataclass(frozen=True)
class Sample:
    """What is assumed of the held-out units: a number of them, and whether each is one row.

    The vote of a person is the mean over its rows. Its law is not known, so a bound takes the place of binomial tails
    (docs/guarantees.md, 13.4). ``lost`` is how much all votes together may have been counted too low.
    """

    n: int
    single: bool
    lost: float

    def tails(self, trials: float, theta: float, size: float = 1.0) -> Tails:
        """Return how far ``size`` times a centred number of successes lies from 0, in so many trials at most."""
        trials = min(max(trials, 1.0), float(self.n))
        return (binomial_tails if self.single else bounded_tails)(trials, theta, size)


@dataclass(frozen=True)
class Evidence:
    """Noisy counts, consistent ones of the same shape, and how often intervals may miss.

    ``level`` holds the counts as they were released: their noise has a known law. ``counts`` are not negative and add
    up to the number of units: estimates are taken from them.
    """

    level: Level
    counts: Floats
    sample: Sample
    error: float

    def total(self, cells: Mask) -> float:
        """Return the estimate of how many units are in these cells."""
        return float(self.counts[cells].sum())

    def most(self, cells: Mask, error: float) -> float:
        """Return how many units are in these cells at most."""
        noisy = float(self.level.counts[cells].sum())
        return noisy + reach(self.level.scale, int(cells.sum()), error) + self.sample.lost

    def part(
        self,
        value: float,
        low: tuple[Mask, Mask],
        high: tuple[Mask, Mask] | None = None,
        *,
        error: float | None = None,
        of: Callable[[float], float] = float,
    ) -> Estimate:
        """Return what part hits are of hits and misses, or a rising function ``of`` it.

        ``low`` and ``high`` are the cells of hits and of misses for the lower and for the upper end, where they differ.
        """
        high, error = low if high is None else high, self.error if error is None else error
        most = max(self.most(hits | misses, _FOR_TRIALS * error) for hits, misses in (low, high))

        def statistic(cells: tuple[Mask, Mask], sign: int, trials: float | None) -> Of:
            (there, gone), slack = (float(self.level.counts[some].sum()) for some in cells), sign * self.sample.lost
            times = np.array([float(some.sum()) for some in cells])

            def at(theta: float) -> Statistic:
                noise = Noise(self.level.scale * np.array([1 - theta, theta]), times)
                rows = None if trials is None else self.sample.tails(trials, theta)
                return Statistic((1 - theta) * there - theta * gone + slack, noise, rows)

            return at

        sampled = interval(statistic(low, -1, most), statistic(high, 1, most), (1 - _FOR_TRIALS) * error, (0.0, 1.0))
        here = interval(statistic(low, -1, None), statistic(high, 1, None), error)
        return estimate(of(float(np.clip(value, 0.0, 1.0))), sampled, here, of)

    def mean(self, value: float, low: Floats, high: Floats, largest: float, *, error: float | None = None) -> Estimate:
        """Return the mean of something that lies between ``low`` and ``high`` in each cell, and in [0, largest]."""
        error = self.error if error is None else error

        squares = np.maximum(high, low) ** 2
        noise = Noise.of(squares.ravel() * self.level.scale).reach(_FOR_TRIALS * error)
        most = float((squares * self.level.counts).sum()) + noise + largest**2 * (1 + self.sample.lost)

        def deviation(theta: float) -> float:
            """Return a standard deviation of the sum, as if there were one more unit with the largest value."""
            return math.sqrt(max(most - self.sample.n * theta**2, largest**2))

        def statistic(values: Floats, sign: int, *, sampled: bool) -> Of:
            def at(theta: float) -> Statistic:
                weights, rows = values - theta, normal_tails(deviation(theta)) if sampled else None
                value = float((weights * self.level.counts).sum()) + sign * largest * self.sample.lost
                return Statistic(value, Noise.of(weights.ravel() * self.level.scale), rows)

            return at

        ends = 0.0, largest
        kept = (1 - _FOR_TRIALS) * error
        sampled = interval(statistic(low, -1, sampled=True), statistic(high, 1, sampled=True), kept, ends)
        here = interval(statistic(low, -1, sampled=False), statistic(high, 1, sampled=False), error, ends)
        return estimate(float(np.clip(value, 0.0, largest)), sampled, here)


def estimate(
    value: float,
    sampled: tuple[float, float],
    here: tuple[float, float],
    of: Callable[[float], float] = float,
) -> Estimate:
    """Return an estimate. Intervals are widened to contain it: it may know of other levels than they do."""
    (low, high), (least, most) = map(of, here), map(of, sampled)
    return Estimate(value, (min(least, value), max(most, value)), (min(low, value), max(high, value)))
