"""The price of one release, in every currency.

Every mechanism has one of these costs. A new mechanism of a family below needs no change here. A new family is one
more class with the same five members (see :class:`Cost`). Proofs: docs/guarantees.md, 4.3 to 4.12.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np

from . import conversions
from .discovery import Discovery
from .rounding import LEAST, MARGIN, above


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
        """Renyi divergence of this order; it must always be the same number, since prices are remembered."""

    def dominating_rdp(self, order: float) -> float:
        """Renyi divergence of two distributions that dominate the release and that an involution swaps.

        ``inf`` where no such pair is known. :func:`dpsk.privacy.amplification.poisson_rdp` uses it.
        """

    def delta(self, epsilon: float) -> float:
        """A delta for which the release is (epsilon, delta)-DP."""


def positive(name: str, value: float) -> float:
    """Return ``value`` as a Python float, in which no price is too low; raise ValueError unless positive and finite."""
    if not (isinstance(value, int | float | np.floating | np.integer) and value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}={value!r} must be a positive finite number")
    return float(value)


def sum_above(*epsilons: float) -> float:
    """Return the sum of these epsilons, rounded up if no float holds it."""
    return above(sum(map(Fraction, epsilons), Fraction(0))) if max(epsilons) < math.inf else math.inf


def positive_integer(name: str, value: Any) -> int:
    """Return ``value`` as a Python int; raise ValueError unless it is an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r} must be an integer >= 1")
    return int(value)


class _Gaussian:
    """What follows from a mu of Gaussian DP."""

    mu: float
    epsilon = math.inf

    @property
    def rho(self) -> float:
        # D_a of two Gaussians mu standard deviations apart is a*mu**2/2 (Bun & Steinke 2016).
        return max(self.mu * self.mu / 2, LEAST)

    def rdp(self, order: float) -> float:
        return order * self.rho

    def dominating_rdp(self, order: float) -> float:
        return order * self.rho  # two Gaussians

    def delta(self, epsilon: float) -> float:
        return conversions.gaussian_delta(epsilon, self.mu)


@dataclass(frozen=True)
class GaussianCost(_Gaussian):
    """A mu-GDP release: Gaussian noise with standard deviation (l2 sensitivity)/mu."""

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive("mu", self.mu))


class _Pure:
    """What follows from an epsilon with delta = 0."""

    epsilon: float

    @property
    def rho(self) -> float:
        return conversions.pure_rho(self.epsilon)

    @property
    def mu(self) -> float:
        return conversions.pure_mu(self.epsilon)

    def rdp(self, order: float) -> float:
        return conversions.pure_rdp(order, self.epsilon)

    def dominating_rdp(self, order: float) -> float:
        return conversions.pure_rdp(order, self.epsilon)  # randomised response (Kairouz, Oh & Viswanath 2015)

    def delta(self, epsilon: float) -> float:
        return conversions.pure_delta(epsilon, self.epsilon)


@dataclass(frozen=True)
class PureCost(_Pure):
    """An epsilon-DP release with delta = 0."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))


@dataclass(frozen=True)
class BoundedRangeCost(_Pure):
    """An eta-bounded-range release, for instance the exponential mechanism; it is eta-DP as well."""

    eta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", positive("eta", self.eta))

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return self.eta

    @property
    def rho(self) -> float:
        return conversions.bounded_range_rho(self.eta)

    @property
    def mu(self) -> float:
        return conversions.bounded_range_mu(self.eta)

    def rdp(self, order: float) -> float:
        return min(order * self.rho, super().rdp(order))


@dataclass(frozen=True)
class _ThresholdCost:
    """Above-threshold over at most ``length`` queries.

    ``threshold`` and ``query`` are the sensitivity over the scale (standard deviation) of the two noises.
    """

    threshold: float
    query: float
    length: int

    def __post_init__(self) -> None:
        for name in ("threshold", "query"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "length", positive_integer("length", self.length))


@dataclass(frozen=True)
class LaplaceThresholdCost(_Pure, _ThresholdCost):
    """Above-threshold with (discrete) Laplace noise: (threshold + 2 * query)-DP, over at most ``length`` queries.

    The pure cost is classical (Dwork & Roth 2014) and independent of the length. :meth:`rdp` is the best of three
    bounds: that of pure DP; a shift of the threshold, given which every outcome changes by a factor of at most e^(2
    query) (Zhu & Wang 2020); all queries answered one by one. On a coarse grid discrete Laplace noise is randomised
    response, so nothing sharper than pure DP holds for a part. Theorem 2 of Chen & Lee (2020) would be sharper; its
    proof has a gap (docs/departures.md).
    """

    @cached_property  # asked for at every order of a plan
    def epsilon(self) -> float:  # type: ignore[override]
        return sum_above(self.threshold, self.query, self.query)

    def rdp(self, order: float) -> float:
        return min(
            super().rdp(order),
            conversions.pure_rdp(order, self.threshold) + 2 * self.query,
            self.length * conversions.pure_rdp(order, self.query),
        )


@dataclass(frozen=True)
class GaussianThresholdCost(_Gaussian, _ThresholdCost):
    """Above-threshold with Gaussian noise, over at most ``length`` queries.

    One query compares one Gaussian of both variances with 0. More queries never cost more than to answer all of them
    with the query noise alone, which is ``sqrt(length) * query``-GDP. :meth:`rdp` also has the coupling bound, with
    log(length + 1)/(order - 1). Theorem 3 of Chen & Lee (2020), without a term that grows with the length, is false.
    """

    @property
    def mu(self) -> float:  # type: ignore[override]
        if self.length == 1:
            return max(1 / math.hypot(1 / self.threshold, 1 / self.query), LEAST)
        return max(math.sqrt(self.length) * self.query, LEAST)

    def rdp(self, order: float) -> float:
        shift = self.threshold * self.threshold / 2 + 2 * self.query * self.query
        return min(super().rdp(order), order * shift + math.log(self.length + 1) / (order - 1))


@dataclass(frozen=True)
class DiscoveryCost:
    """Noisy counts that show values which nobody listed beforehand: Gaussian DP, unless a value of one row shows.

    It is mu-GDP for no mu, since such a value shows with a positive probability. So it has a price in one currency
    only: a :class:`~dpsk.privacy.GaussianDP` that was made for this discovery. ``counts_mu`` is what all counts of the
    look cost together if every value was known: sqrt(columns of the look) * shift, and sqrt(2) times as much for rows
    that are replaced (docs/guarantees.md, 4.12).
    """

    counts_mu: float
    discovery: Discovery
    epsilon = rho = mu = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts_mu", positive("counts_mu", self.counts_mu))
        least = math.sqrt(self.discovery.columns) * self.discovery.shift
        if self.counts_mu < least * (1 - MARGIN):
            raise ValueError(
                f"counts_mu={self.counts_mu!r} is too low: the counts of {self.discovery.columns} columns cost at "
                f"least {least!r}"
            )

    def rdp(self, order: float) -> float:
        del order
        return math.inf

    dominating_rdp = rdp

    def delta(self, epsilon: float) -> float:
        return conversions.gaussian_delta(epsilon, self.counts_mu, self.discovery.failure)
