"""Spherical noise for pure output perturbation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from .base import PureMechanism, Sensitivity
from .exact import Floats, Integers, words
from .randomness import Bits

__all__ = ["NormGamma"]


@dataclass(frozen=True)
class NormGamma(PureMechanism):
    """Noise with density proportional to exp(-epsilon * ||z||_2 / l2 sensitivity).

    Formal guarantees
    -----------------
    epsilon-DP by the triangle inequality (Chaudhuri, Monteleoni & Sarwate 2011). The norm is Gamma distributed
    with shape d and scale l2/epsilon, the direction uniform.

    Unlike all other mechanisms here it is *not* exact on a grid: norm and direction are computed in floating point
    (53 bits), and no exact sampler is known to us. Prefer Gaussian noise where a positive delta is acceptable.
    """

    norm = "l2"

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        if not sensitivity.l2 / self.epsilon < 2.0**500:
            raise ValueError(f"epsilon={self.epsilon!r} is too small for an l2 sensitivity of {sensitivity.l2!r}")

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Floats:
        self.check(sensitivity)
        size = value.size
        direction = ndtri(_open_uniform(size, bits))
        # a Gamma(d, 1) variable is the sum of d exponentials
        length = -np.log(_open_uniform(size, bits)).sum() * (sensitivity.l2 / self.epsilon)
        noise: Floats = direction * (length / np.linalg.norm(direction))
        noisy: Floats = value + noise.reshape(value.shape)
        return noisy


def _open_uniform(n: int, bits: Bits) -> Floats:
    """Return n uniform numbers strictly between 0 and 1."""
    return ((words(n, bits) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
