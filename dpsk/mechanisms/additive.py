"""Noise added to every entry of a vector of integers, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..privacy.costs import GaussianCost
from ..privacy.ledger import BudgetExhausted
from .mechanism import Mechanism, PureMechanism, Sensitivity
from .randomness import Bits
from .samplers import MAX_SCALE, Floats, Integers, discrete_laplace, rounded_gaussian


def noise_scale(sensitivity: float, strength: float) -> int:
    """Return the smallest integer >= sensitivity/strength, or raise if it does not fit on the grid.

    If the noise does not fit, the budget is too small for this release, so the error is BudgetExhausted. Rounding up
    only adds noise: the release then costs a little less than the price that is charged.
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
    (docs/guarantees.md, 4.3)
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
class SymmetricGaussian(Mechanism):
    """The Gaussian mechanism for symmetric matrices: one in the last two axes, or several, each with its own noise.

    It releases the symmetric part with noise of variance sigma^2 on the diagonal and sigma^2/2 off it, the same on both
    sides: N(0, sigma^2) in every direction of the space of symmetric matrices, sigma >= (l2 sensitivity)/mu.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.4)
    Replacing A by (A + A^T)/2 is an orthogonal projection, so neighbours' matrices stay within the l2 (Frobenius)
    sensitivity. The map of a symmetric S to the vector of S_jj and sqrt(2) S_jk, j < k, keeps that norm; N(0, sigma^2)
    in each of its entries is the Gaussian mechanism, mu-GDP. What is released is computed from that vector: S_jj,
    rounded, and sqrt(2) times an entry: 2 S_jk = A_jk + A_kj with noise of standard deviation sqrt(2) sigma, rounded
    and halved. Both are integers before the noise, so rounding the noise is rounding what it was added to. sqrt(2)
    sigma is rounded up to an integer, which adds noise to these entries.
    """

    mu: float
    norm = "l2"

    @property
    def cost(self) -> GaussianCost:
        return GaussianCost(self.mu)

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        if shape is not None and (len(shape) < 2 or shape[-1] != shape[-2]):
            raise ValueError(f"SymmetricGaussian is for square matrices, but the value has shape {shape}")
        _two_scales(sensitivity.l2, self.mu)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Floats:
        self.check(sensitivity, value.shape)
        on, off = _two_scales(sensitivity.l2, self.mu)
        j, k = np.triu_indices(value.shape[-1], 1)
        upper = value[..., j, k] + value[..., k, j]
        noisy = np.zeros(value.shape)
        noisy[..., j, k] = (upper + rounded_gaussian(off, upper.size, bits).reshape(upper.shape)) / 2
        noisy += np.swapaxes(noisy, -1, -2)
        diagonal = np.diagonal(value, axis1=-2, axis2=-1)
        at = np.arange(value.shape[-1])
        noisy[..., at, at] = diagonal + rounded_gaussian(on, diagonal.size, bits).reshape(diagonal.shape)
        return noisy


def _two_scales(sensitivity: float, mu: float) -> tuple[int, int]:
    """Return the smallest integers that are at least sigma = sensitivity/mu, and sqrt(2) times that integer."""
    noise_scale(2 * sensitivity, mu)  # or its error: both have to fit
    sigma = noise_scale(sensitivity, mu)
    return sigma, math.isqrt(2 * sigma * sigma - 1) + 1


@dataclass(frozen=True)
class Laplace(PureMechanism):
    """The Laplace mechanism on the integer grid: discrete Laplace noise of scale >= (l1 sensitivity)/epsilon.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.5)
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
