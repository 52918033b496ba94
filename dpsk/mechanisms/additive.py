"""Noise added to every entry of a vector of integers, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..privacy.costs import GaussianCost
from ..privacy.ledger import BudgetExhausted
from .base import Mechanism, PureMechanism, Sensitivity
from .exact import MAX_SCALE, Integers, discrete_laplace, rounded_gaussian
from .randomness import Bits

__all__ = ["Gaussian", "Laplace", "noise_scale"]


def noise_scale(sensitivity: float, strength: float) -> int:
    """Return the smallest integer >= sensitivity/strength, or raise if it does not fit on the grid.

    A strength that would need more buys nothing, so the error is that of an exhausted budget. Rounding up only adds
    noise: the release then costs a little less than what is charged.
    """
    sensitivity, strength = (x.item() if isinstance(x, np.generic) else x for x in (sensitivity, strength))
    scale = math.ceil(Fraction(sensitivity) / Fraction(strength))
    if scale > MAX_SCALE:
        raise BudgetExhausted(
            f"strength {strength!r} at sensitivity {sensitivity!r} needs noise beyond 2**56 grid units: "
            "spend more on this release (a larger epsilon, or fewer releases)"
        )
    return scale


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """The Gaussian mechanism on the integer grid: N(0, sigma^2), sigma >= (l2 sensitivity)/mu, rounded per entry.

    Formal guarantees
    -----------------
    The value is a vector of integers, so rounding the noise equals rounding the noisy value: this is post-processing
    of the continuous Gaussian mechanism, drawn exactly. It is mu-GDP (Dong, Roth & Su 2022) and (mu^2/2)-zCDP (Bun &
    Steinke 2016) for every value and every l2 sensitivity, adaptively composed or not.
    """

    mu: float
    norm = "l2"

    @property
    def cost(self) -> GaussianCost:
        return GaussianCost(self.mu)

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        noise_scale(sensitivity.l2, self.mu)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Integers:
        self.check(sensitivity)
        noise = rounded_gaussian(noise_scale(sensitivity.l2, self.mu), value.size, bits)
        return value + noise.reshape(value.shape)


@dataclass(frozen=True)
class Laplace(PureMechanism):
    """The Laplace mechanism on the integer grid: discrete Laplace noise of scale >= (l1 sensitivity)/epsilon.

    Formal guarantees
    -----------------
    P(k)/P(k + c) <= exp(|c|/scale) for discrete Laplace noise, so the ratio of two neighbouring output probabilities
    is at most exp(l1/scale) <= exp(epsilon): epsilon-DP (Ghosh, Roughgarden & Sundararajan 2012).
    """

    norm = "l1"

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        noise_scale(sensitivity.l1, self.epsilon)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Integers:
        self.check(sensitivity)
        noise = discrete_laplace(noise_scale(sensitivity.l1, self.epsilon), value.size, bits)
        return value + noise.reshape(value.shape)
