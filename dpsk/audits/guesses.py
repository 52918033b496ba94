"""Right guesses of fair coins: how probable a promise allows them to be, and what they prove.

Each of ``coins`` units of a data set is there in one of two versions, which a fair coin decides. An attacker sees the
release, picks ``made`` of the coins and guesses them (Steinke, Nasr & Jagielski 2023). The number of guesses is fixed
before anything is seen; which coins are guessed may depend on the release in any way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from ..mechanisms.samplers import Floats
from .coins import Profile

_SAFE = 1 + 1e-9  # more than the rounding of logarithms of binomial probabilities


@dataclass(frozen=True)
class Guesses:
    """So many guesses were right, of those that were made about so many coins.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 17.8)
    A mechanism that is (epsilon, delta)-DP, if the version of one unit changes, reaches ``right`` with at most
    :meth:`probability`, and some mechanism with exactly that. The formula of the paper for delta > 0 is larger
    wherever an audit refutes.
    """

    right: int
    made: int
    coins: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.coins:
            raise ValueError(
                f"right={self.right!r}, made={self.made!r}, coins={self.coins!r}: no more guesses can be right than "
                "were made, and each coin is guessed once"
            )

    def probability(self, epsilon: float, delta: float = 0.0) -> float:
        """Return the largest probability of at least so many right guesses under (epsilon, delta)-DP."""
        pure, slope = self._lines(np.array([epsilon], dtype=np.float64))
        return min(1.0, float(pure[0] + slope[0] * delta))

    def profile(self, error: float) -> Profile:
        """Return the delta that a promise needs at each epsilon, so that what was seen has probability ``error``.

        Formal guarantee
        ----------------
        (docs/guarantees.md, 17.9)
        A true promise lies below this profile at some epsilon with probability at most ``error``: all epsilons are
        tested at once with the same event, so nothing has to be corrected.
        """

        def needed(epsilon: Floats) -> Floats:
            pure, slope = self._lines(np.atleast_1d(np.asarray(epsilon, dtype=np.float64)))
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(slope > 0, np.clip((error - pure) / slope, 0.0, 1.0), 0.0)

        return needed

    def _lines(self, epsilon: Floats) -> tuple[Floats, Floats]:
        """Return the probability under randomised response, and what each unit of delta adds to it."""
        right, wrong, made = self.right, self.made - self.right, self.made
        if right == 0:
            return np.ones(len(epsilon)), np.zeros(len(epsilon))
        no = expit(-epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_pure, log_rest = binom.logcdf(wrong, made, no), binom.logsf(wrong, made, no)
            log_one = binom.logpmf(wrong, made, no)
            # too small for a float: at most the geometric series that begins with the two largest terms
            series = log_one - np.log1p(-np.exp(epsilon) * wrong / (right + 1))
            log_pure = np.where(np.isneginf(log_pure), series, log_pure)
            log_slope = log_pure + log_rest - log_one + np.log(self.coins / right)
        return np.minimum(1.0, np.exp(log_pure) * _SAFE), np.exp(log_slope) * _SAFE


def together(profiles: Sequence[Profile]) -> Profile:
    """Return the profile of everything that was seen: at each epsilon the largest delta that something needs."""
    return lambda epsilon: np.max([profile(epsilon) for profile in profiles], axis=0)
