"""What an attacker can find out at most: errors of tests, guesses and beliefs that a privacy profile allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..mechanisms.samplers import Floats
from ..privacy.rounding import up

LARGEST = 300.0
"""An epsilon beyond which no test is held back: it is not looked at."""
_POINTS = 120
_FAINT = 1e-3  # of delta: how far down a profile is followed


@dataclass(frozen=True)
class Attacker:
    """Somebody who sees all that was released, and knows everything but whether one unit counted.

    Parameters
    ----------
    profile : tuple of (epsilon, delta)
        Guarantees that hold at the same time, by increasing epsilon.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 5.11 and 5.12)
    No test has smaller errors than :attr:`trade_off`, no guess is right more often than :meth:`right`, and no belief
    goes beyond :meth:`surest` more often than is said.
    """

    profile: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, delta_at: Callable[[float], float], epsilon: float) -> Attacker:
        """Return the attacker against a guarantee (epsilon, delta_at(epsilon)) with this profile."""
        last, least = epsilon, _FAINT * delta_at(epsilon)
        while least < delta_at(last) and last < 4 * epsilon:
            last *= 1.1
        epsilons = {*np.linspace(0.0, min(last, LARGEST), _POINTS).tolist(), min(epsilon, LARGEST)}
        return cls(tuple((one, min(1.0, delta_at(one))) for one in sorted(epsilons)))

    @cached_property
    def _hull(self) -> tuple[Floats, Floats]:
        """The lowest convex curve of delta by factor e^epsilon, from 0 to the factor from where on it stays.

        Points with a factor below 1 are those of the pair in the other order.
        """
        points = [(0.0, 1.0)]
        for epsilon, delta in self.profile:
            if epsilon <= LARGEST:
                less = math.exp(-epsilon)
                points += [(math.exp(epsilon), delta), (less, 1 - less * (1 - delta))]
        hull: list[tuple[float, float]] = []
        for x, y in sorted(points):
            while len(hull) > 1:
                (x0, y0), (x1, y1) = hull[-2:]
                if (x1 - x0) * (y - y0) > (y1 - y0) * (x - x0):
                    break
                hull.pop()
            hull.append((x, y))
        factors, deltas = np.array(hull).T
        kept = int(deltas.argmin()) + 1
        return factors[:kept], deltas[:kept]

    @cached_property
    def trade_off(self) -> Floats:
        """The corners of the curve of least misses (second column) by false alarms (first column)."""
        factors, deltas = self._hull
        alarms = np.append(-np.diff(deltas) / np.diff(factors), 0.0)  # where the line of each factor meets the next
        corners = np.column_stack([alarms, 1 - deltas - factors * alarms])[::-1]
        inside: Floats = np.clip(corners, 0.0, 1.0)
        return inside

    def delta(self, epsilon: float) -> float:
        """Return the least delta at another epsilon that follows from the profile."""
        return min(1.0, up(float(np.interp(math.exp(min(epsilon, LARGEST)), *self._hull))))

    def right(self, before: float) -> float:
        """Return how often a guess is right at most, if the unit counts with the probability ``before``."""
        less = min(before, 1 - before)
        return min(1.0, up(1 - less + less * self.delta(math.log((1 - less) / less))))

    def surest(self, before: float, exception: float) -> float:
        """Return how sure the attacker is at most, after being sure to the degree ``before``.

        This holds but for outcomes that have together at most the probability ``exception``, whether or not the unit
        counts. Where the profile says nothing of the kind, it is 1.
        """
        losses = [
            epsilon - (math.log1p(-delta / exception) if delta else 0.0)
            for epsilon, delta in self.profile
            if delta < exception or delta == 0
        ]
        if not losses:
            return 1.0
        return min(1.0, up(1 / (1 + (1 - before) / before * math.exp(-up(min(losses))))))
