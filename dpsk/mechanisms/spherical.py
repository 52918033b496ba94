"""Spherical noise for pure output perturbation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..privacy.costs import PureCost
from .base import Mechanism, Sensitivity, bounded, positive
from .exact import Floats, Integers, words
from .randomness import Bits

__all__ = ["NormGamma"]


@dataclass(frozen=True)
class NormGamma(Mechanism):
    """Noise with density proportional to exp(-epsilon * ||z||_2 / l2 sensitivity).

    Formal guarantees
    -----------------
    epsilon-DP by the triangle inequality (Chaudhuri, Monteleoni & Sarwate 2011). The norm is Gamma distributed
    with shape d and scale l2/epsilon, the direction uniform.

    Unlike all other mechanisms here it is *not* exact on a grid: norm and direction are computed in floating point
    (53 bits), and no exact sampler is known to us. Prefer Gaussian noise where a positive delta is acceptable.
    """

    epsilon: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)

    @property
    def cost(self) -> PureCost:
        return PureCost(self.epsilon)

    def check(self, sensitivity: Sensitivity) -> None:
        bounded("l2", sensitivity.l2)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Floats:
        self.check(sensitivity)
        size = value.size
        direction = ndtri(_open_uniform(size, bits))
        # a Gamma(d, 1) variable is the sum of d exponentials
        norm = -np.log(_open_uniform(size, bits)).sum() * (sensitivity.l2 / self.epsilon)
        noise: Floats = direction * (norm / np.linalg.norm(direction))
        noisy: Floats = value + noise.reshape(value.shape)
        return noisy


def _open_uniform(n: int, bits: Bits) -> Floats:
    """Return n uniform numbers strictly between 0 and 1."""
    return ((words(n, bits) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
