"""Spherical noise for pure output perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..privacy.ledger import BudgetExhausted
from .base import PureMechanism, Sensitivity
from .exact import Floats, Integers, words
from .randomness import Bits

__all__ = ["NormGamma"]

_MAX_BITS = 56


@dataclass(frozen=True)
class NormGamma(PureMechanism):
    """Noise with density proportional to exp(-epsilon * ||z||_2 / l2 sensitivity).

    Formal guarantees
    -----------------
    epsilon-DP by the triangle inequality (Chaudhuri, Monteleoni & Sarwate 2011). The norm is Gamma distributed
    with shape d and scale l2/epsilon, the direction uniform.

    Unlike all other mechanisms here it is *not* drawn exactly: norm and direction are computed in floating point (53
    bits), and no exact sampler is known to us. The noisy value is rounded to the grid, which is post-processing and
    leaves no trailing digits to read the value from; with noise of millions of grid units what is left of the error is
    of the order of 2^-50. Prefer Gaussian noise where a positive delta is acceptable.
    """

    norm = "l2"

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        if not sensitivity.l2 / self.epsilon * math.prod(shape or ()) < 2.0**_MAX_BITS:
            raise BudgetExhausted(
                f"epsilon={self.epsilon!r} at an l2 sensitivity of {sensitivity.l2!r} needs noise beyond 2**62 grid "
                "units: spend more on this release (a larger epsilon, or fewer releases)"
            )

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Integers:
        self.check(sensitivity, value.shape)
        size = value.size
        direction = ndtri(_open_uniform(size, bits))
        # a Gamma(d, 1) variable is the sum of d exponentials, each below 37
        length = -np.log(_open_uniform(size, bits)).sum() * (sensitivity.l2 / self.epsilon)
        noise = np.rint(direction * (length / np.linalg.norm(direction))).astype(np.int64)
        noisy: Integers = value + noise.reshape(value.shape)
        return noisy


def _open_uniform(n: int, bits: Bits) -> Floats:
    """Return n uniform numbers strictly between 0 and 1."""
    return ((words(n, bits) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
