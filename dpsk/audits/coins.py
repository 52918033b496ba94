"""Exact bounds on the probability of heads, from counts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import beta

from ..mechanisms.samplers import Floats

Profile: TypeAlias = Callable[[Floats], Floats]
"""For each epsilon >= 0, the delta that two distributions need at least, in both directions."""


def least(heads: int, tosses: int, error: float) -> float:
    """Return a bound below the probability of heads; it is too high with probability at most ``error``.

    Formal guarantee: Clopper & Pearson (1934); docs/guarantees.md, 17.1.
    """
    return float(beta.ppf(error, heads, tosses - heads + 1)) if heads else 0.0


def most(heads: int, tosses: int, error: float) -> float:
    """Return a bound above the probability of heads; it is too low with probability at most ``error``."""
    return float(beta.ppf(1 - error, heads + 1, tosses - heads)) if heads < tosses else 1.0


@dataclass(frozen=True)
class Coin:
    """An event that has at least probability ``often`` on one data set, and at most ``seldom`` on the other."""

    often: float
    seldom: float

    @classmethod
    def seen(cls, counts: tuple[int, int], tosses: tuple[int, int], error: float) -> "Coin":
        """Return the bounds that counts of the event on both data sets prove, both but with probability ``error``."""
        return cls(least(counts[0], tosses[0], error / 2), most(counts[1], tosses[1], error / 2))

    def delta(self, epsilon: Floats) -> Floats:
        """Return the delta that promises need at each epsilon to allow this event and its complement."""
        grown = np.exp(np.minimum(np.asarray(epsilon, dtype=np.float64), 700.0))
        event, rest = self.often - grown * self.seldom, (1 - self.seldom) - grown * (1 - self.often)
        return np.maximum(np.maximum(event, rest), 0.0)
