"""Noise added to every entry of a vector of integers, exactly."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..privacy.costs import GaussianCost
from ..privacy.ledger import BudgetExhausted
from .mechanism import Mechanism, PureMechanism, Sensitivity
from .randomness import Bits
from .samplers import MAX_SCALE, Floats, Integers, discrete_laplace
from .staircase import rounded_gaussian


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
class _GaussianNoise(Mechanism):
    """A mechanism whose strength is its mu."""

    mu: float
    norm = "l2"

    @property
    def cost(self) -> GaussianCost:
        return GaussianCost(self.mu)


@dataclass(frozen=True)
class Gaussian(_GaussianNoise):
    """The Gaussian mechanism on the integer grid: N(0, sigma^2), sigma >= (l2 sensitivity)/mu, rounded per entry.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.3)
    mu-GDP (Dong, Roth & Su 2022) and (mu^2/2)-zCDP (Bun & Steinke 2016) for every l2 sensitivity. The value is a vector
    of integers, so this is exactly the continuous Gaussian mechanism, rounded.
    """

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        noise_scale(sensitivity.l2, self.mu)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Integers:
        self.check(sensitivity)
        noise = rounded_gaussian(noise_scale(sensitivity.l2, self.mu), value.size, bits)
        return value + noise.reshape(value.shape)


@dataclass(frozen=True)
class SymmetricGaussian(_GaussianNoise):
    """The Gaussian mechanism for symmetric matrices: one in the last two axes, or several, each with its own noise.

    It releases the symmetric part with noise of variance sigma^2 on the diagonal and sigma^2/2 off it, the same on both
    sides: N(0, sigma^2) in every direction of the space of symmetric matrices, sigma >= (l2 sensitivity)/mu.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.4)
    mu-GDP for the l2 (Frobenius) sensitivity. Off the diagonal A_jk + A_kj gets noise of standard deviation
    sqrt(2) sigma, rounded up to an integer, and is halved.
    """

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
    epsilon-DP (Ghosh, Roughgarden & Sundararajan 2012).
    """

    norm = "l1"

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        noise_scale(sensitivity.l1, self.epsilon)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Integers:
        self.check(sensitivity)
        noise = discrete_laplace(noise_scale(sensitivity.l1, self.epsilon), value.size, bits)
        return value + noise.reshape(value.shape)
