"""The currencies in which a budget can be kept: each says what adds up, and what the sum guarantees.

Each is valid for a filter: prices may be chosen during the run, as long as their sum never exceeds a limit that was
fixed before the run:

* :class:`ZCDP` (rho): Bun & Steinke (2016), Feldman & Zrnic (2021).
* :class:`GaussianDP` (mu squared): Smith & Thakurta (2022), Koskela, Tobaben & Honkela (2023).
* :class:`RenyiDP` (divergence at ONE order fixed in advance): Feldman & Zrnic (2021). The best of several orders
  chosen at the end is not a valid filter.
* :class:`PureDP` (epsilon): basic composition; the only one with delta = 0.

Proofs: docs/guarantees.md, 2.2 to 2.5, discoveries: docs/guarantees.md, 2.10; groups of rows: docs/guarantees.md, 1.4.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from . import conversions
from .costs import Cost, DiscoveryCost
from .discovery import Discovery
from .rounding import LEAST, above


class Currency(Protocol):
    """What adds up. ``limit`` below is an amount in this currency."""

    @property
    def name(self) -> str:
        """A short name for reports."""

    def price(self, cost: Cost) -> float:
        """Return what one release costs; ``inf`` where it cannot be bought in this currency."""

    def limit(self, epsilon: float, delta: float) -> float:
        """Return a limit that guarantees (epsilon, delta), the largest that the conversion proves."""

    def epsilon(self, limit: float, delta: float) -> float:
        """Return the epsilon that ``limit`` guarantees at ``delta``."""

    def delta(self, limit: float, epsilon: float) -> float:
        """Return the delta that ``limit`` guarantees at ``epsilon``."""

    def rho(self, limit: float) -> float | None:
        """Return the zCDP guarantee of ``limit``, None where there is none."""

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        """Return the epsilon that ``limit``, which is for one row, guarantees at ``delta`` for ``size`` rows together.

        Raise ValueError if no theorem says anything about groups.
        """


def needs_delta(name: str, epsilon: float, delta: float) -> None:
    """Raise ValueError unless ``delta`` is positive and below 1, and both are numbers that can be computed with."""
    if not 0 < delta < 1:
        raise ValueError(
            f"delta={delta!r} must lie strictly between 0 and 1 for a budget kept in {name}; "
            "delta = 0 needs output perturbation with pure noise: OutputPerturbationLogisticRegression or "
            "OutputPerturbationSVC"
        )
    conversions.require_stateable(epsilon, delta)


def require_single_row(size: int, what: str, instance: str) -> None:
    """Raise ValueError with the remedy if there is more than one row."""
    if size > 1:
        raise ValueError(
            f"{what} gives no statement for groups of rows; a budget kept in rho or mu**2 does, for instance with "
            f"{instance}"
        )


@dataclass(frozen=True)
class ZCDP:
    """Zero-concentrated differential privacy: prices are rho."""

    name = "rho"

    def price(self, cost: Cost) -> float:
        return cost.rho

    def limit(self, epsilon: float, delta: float) -> float:
        needs_delta(self.name, epsilon, delta)
        return conversions.zcdp_rho(epsilon, delta)

    def epsilon(self, limit: float, delta: float) -> float:
        return conversions.zcdp_epsilon(delta, limit) if delta > 0 else math.inf

    def delta(self, limit: float, epsilon: float) -> float:
        return conversions.zcdp_delta(epsilon, limit)

    def rho(self, limit: float) -> float:
        return limit

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        return self.epsilon(size * size * limit, delta)  # Bun & Steinke (2016), Proposition 27


@dataclass(frozen=True)
class GaussianDP:
    """Gaussian differential privacy: prices are mu squared.

    With a ``discovery`` the run may buy that one, once (:class:`~dpsk.privacy.Ledger`). Its counts have a price like
    any other, and its failure is a part of every delta, whether it is bought or not.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 2.3 and 2.10)
    delta(epsilon) is failure + (1 - failure) * (that of sqrt(limit)-GDP), with failure 0 without a discovery.
    """

    discovery: Discovery | None = None
    name = "mu**2"

    @property
    def failure(self) -> float:
        """The part of delta that is for the discovery."""
        return 0.0 if self.discovery is None else self.discovery.failure

    def price(self, cost: Cost) -> float:
        if isinstance(cost, DiscoveryCost):
            return max(cost.counts_mu * cost.counts_mu, LEAST) if cost.discovery == self.discovery else math.inf
        return max(cost.mu * cost.mu, LEAST)

    def limit(self, epsilon: float, delta: float) -> float:
        needs_delta(self.name, epsilon, delta)
        return conversions.gaussian_square(epsilon, delta, self.failure)

    def epsilon(self, limit: float, delta: float) -> float:
        return conversions.gaussian_epsilon(delta, math.sqrt(limit), self.failure) if delta > 0 else math.inf

    def delta(self, limit: float, epsilon: float) -> float:
        return conversions.gaussian_delta(epsilon, math.sqrt(limit), self.failure)

    def rho(self, limit: float) -> float | None:
        return limit / 2 if self.discovery is None else None  # mu-GDP is (mu^2/2)-zCDP

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        """As for every currency: k rows have k mu (Dong, Roth & Su 2022, Theorem 2.14) and show values more often."""
        failure = 0.0 if self.discovery is None else self.discovery.of_group(size)
        return conversions.gaussian_epsilon(delta, size * math.sqrt(limit), failure) if delta > 0 else math.inf


@dataclass(frozen=True)
class RenyiDP:
    """Renyi differential privacy at one order, fixed before the run: prices are the divergence at that order."""

    order: float

    def __post_init__(self) -> None:
        if not 1 < self.order < math.inf:
            raise ValueError(f"order={self.order!r} must be a finite number greater than 1")

    @property
    def name(self) -> str:
        return f"renyi({self.order:g})"

    def price(self, cost: Cost) -> float:
        return cost.rdp(self.order)

    def limit(self, epsilon: float, delta: float) -> float:
        needs_delta(self.name, epsilon, delta)
        if self.delta(0.0, epsilon) >= delta:
            raise ValueError(
                f"order={self.order!r} is too small to promise epsilon={epsilon!r} at delta={delta!r}: raise the order"
            )
        return conversions.largest_within(lambda limit: self.delta(limit, epsilon), delta)

    def epsilon(self, limit: float, delta: float) -> float:
        return conversions.rdp_epsilon([self.order], [limit], delta) if delta > 0 else math.inf

    def delta(self, limit: float, epsilon: float) -> float:
        return conversions.rdp_delta([self.order], [limit], epsilon)

    def rho(self, limit: float) -> None:
        return None

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        require_single_row(size, "a budget at one Renyi order", "sampling_rate=1.0")
        return self.epsilon(limit, delta)


@dataclass(frozen=True)
class PureDP:
    """Pure differential privacy: prices are epsilon."""

    name = "epsilon"

    def price(self, cost: Cost) -> float:
        return cost.epsilon

    def limit(self, epsilon: float, delta: float) -> float:
        del delta  # epsilon-DP is (epsilon, delta)-DP for every delta
        return epsilon

    def epsilon(self, limit: float, delta: float) -> float:
        return conversions.pure_epsilon(delta, limit)

    def delta(self, limit: float, epsilon: float) -> float:
        return conversions.pure_delta(epsilon, limit)

    def rho(self, limit: float) -> float:
        return conversions.pure_rho(limit)

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        return self.epsilon(above(size * Fraction(limit)), delta) if limit < math.inf else math.inf
