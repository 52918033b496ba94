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
_CELL_BITS = 10  # what is released is coarser than the noise's scale by so many bits less


@dataclass(frozen=True)
class NormGamma(PureMechanism):
    """Noise with density proportional to exp(-epsilon * ||z||_2 / l2 sensitivity).

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.11)
    epsilon-DP by the triangle inequality (Chaudhuri, Monteleoni & Sarwate 2011). The norm is Gamma distributed
    with shape d and scale l2/epsilon, the direction uniform.

    Unlike all other mechanisms here it is *not* drawn exactly: norm and direction are computed in floating point (53
    bits), and no exact sampler is known to us. The noisy value is rounded to cells of a thousandth of the noise's
    scale, which is post-processing and leaves no trailing digits to read the value from. What is left, not proved, are
    relative errors of a cell's chance of about 2^-40, and events of a chance of about 2^-50 that never happen. Prefer
    Gaussian noise where a positive delta is acceptable.
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
        scale = sensitivity.l2 / self.epsilon
        length = _exponential(size, bits).sum() * scale
        noise = np.rint(direction * (length / np.linalg.norm(direction))).astype(np.int64)
        noisy: Integers = value + noise.reshape(value.shape)
        cell = 1 << max(0, math.frexp(scale)[1] - _CELL_BITS)
        return (noisy + cell // 2) // cell * cell


def _exponential(n: int, bits: Bits) -> Floats:
    """Return n exponential numbers, with all digits also where they are large."""
    # u in (0, 1) by its leading zeros and what follows the first 1
    halvings = 53 - np.frexp((words(n, bits) >> np.uint64(11)).astype(np.float64))[1]
    exponential: Floats = halvings * math.log(2) - np.log((1 + _open_uniform(n, bits)) / 2)
    return exponential


def _open_uniform(n: int, bits: Bits) -> Floats:
    """Return n uniform numbers strictly between 0 and 1."""
    return ((words(n, bits) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
