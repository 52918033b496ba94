"""What one release costs, in every currency.

A mechanism carries one of these values. A new mechanism that fits one of the families below edits nothing; a new
family is one more class with the same five members (see :class:`Cost`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from . import conversions

__all__ = ["BoundedRangeCost", "Cost", "GaussianCost", "PureCost"]


@runtime_checkable
class Cost(Protocol):
    """The price of one release. A currency in which it has no finite price is ``inf``."""

    @property
    def epsilon(self) -> float:
        """Pure epsilon."""

    @property
    def rho(self) -> float:
        """Zero-concentrated DP."""

    @property
    def mu(self) -> float:
        """Gaussian DP."""

    def rdp(self, order: float) -> float:
        """Renyi divergence of this order."""

    def delta(self, epsilon: float) -> float:
        """A delta for which the release is (epsilon, delta)-DP."""


def _positive(name: str, value: float) -> float:
    """Return ``value`` as a Python float: arithmetic in a narrow NumPy type would underprice it."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}={value!r} must be a positive finite number")
    return float(value)


@dataclass(frozen=True)
class GaussianCost:
    """A mu-GDP release: Gaussian noise with standard deviation (l2 sensitivity)/mu."""

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _positive("mu", self.mu))

    @property
    def epsilon(self) -> float:
        return math.inf

    @property
    def rho(self) -> float:
        # D_a of two Gaussians mu standard deviations apart is a*mu**2/2 (Bun & Steinke 2016).
        return self.mu * self.mu / 2

    def rdp(self, order: float) -> float:
        return order * self.rho

    def delta(self, epsilon: float) -> float:
        return conversions.gaussian_delta(epsilon, self.mu)


@dataclass(frozen=True)
class PureCost:
    """An epsilon-DP release with delta = 0."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))

    @property
    def rho(self) -> float:
        return conversions.pure_rho(self.epsilon)

    @property
    def mu(self) -> float:
        return conversions.pure_mu(self.epsilon)

    def rdp(self, order: float) -> float:
        return conversions.pure_rdp(order, self.epsilon)

    def delta(self, epsilon: float) -> float:
        return conversions.pure_delta(epsilon, self.epsilon)


@dataclass(frozen=True)
class BoundedRangeCost:
    """An eta-bounded-range release, for instance the exponential mechanism; it is eta-DP as well."""

    eta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", _positive("eta", self.eta))

    @property
    def epsilon(self) -> float:
        return self.eta

    @property
    def rho(self) -> float:
        return conversions.bounded_range_rho(self.eta)

    @property
    def mu(self) -> float:
        return conversions.bounded_range_mu(self.eta)

    def rdp(self, order: float) -> float:
        return min(order * self.rho, conversions.pure_rdp(order, self.eta))

    def delta(self, epsilon: float) -> float:
        return conversions.pure_delta(epsilon, self.eta)
