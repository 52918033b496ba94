"""The cost of objective perturbation, and the currency in which such a release adds up with Gaussian releases.

The method: minimise a sum of convex losses plus ``lam/2 * ||w||^2 + b.w`` with a Gaussian b, and release the minimiser.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from scipy.special import log_ndtr

from . import conversions
from .costs import Cost, positive, positive_integer
from .currencies import needs_delta, require_single_row
from .rounding import LEAST, up

PLANNED = 0.6  # of the limit, that minima cost at least: all that may come before them takes less than the rest


@dataclass(frozen=True)
class PerturbedMinimaCost:
    """``n_minima`` minimisers released together, each of its own perturbed objective over the same rows.

    Parameters
    ----------
    strength : float
        The largest change of a gradient between neighbours, divided by the standard deviation of b. For several minima
        it is the root of the sum of squares.
    shift : float
        mu of the Gaussian noise that covers the distance between the released points and the minimisers.
    log_determinant : float
        The sum over minima of log(1 + beta/lam): ``beta`` bounds ||Hessian|| of one row, ``lam`` is the penalty.
    n_minima : int
        How many minimisers, with equal shares of ``strength``.
    replaced : bool
        Whether neighbours replace a row, rather than that one leaves.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 9.2 to 9.5)
    Each row's loss must be phi(x.w) with phi and x fixed by the row, phi convex, phi' Lipschitz and of one sign, and b
    independent of all that came before. Then

        delta(epsilon) <= sum over corners c of  dG(epsilon - log_determinant; mu_c),

    where dG is the profile of Gaussian DP, and a corner chooses for each minimum one of the Gaussian losses that bound
    the change of b: none or the whole strength, and for a replaced row also either of its gradients, at half the
    strength. Every mu_c^2 includes the square of the shift. (Chaudhuri, Monteleoni & Sarwate 2011; Kifer, Smith &
    Thakurta 2012; close to Redberg, Koskela & Wang 2023.)
    """

    strength: float
    shift: float
    log_determinant: float
    n_minima: int = 1
    replaced: bool = False
    epsilon = rho = mu = math.inf
    """At small orders the determinant costs more than any multiple of the order."""

    def __post_init__(self) -> None:
        for name in ("strength", "shift", "log_determinant"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "n_minima", positive_integer("n_minima", self.n_minima))

    @property
    def mu_squared(self) -> float:
        """The Gaussian part: of b and of the noise of the release."""
        return max(self.strength**2 + self.shift**2, LEAST)

    def rdp(self, order: float) -> float:
        """Return the Renyi divergence: the moments of max(0, A) in closed form; of the sum over corners if replaced."""
        a, s = order, self.strength / math.sqrt(self.n_minima)
        peak = (a * s) * ((a - 1) * s) / 2
        if self.replaced:
            moments = np.logaddexp.reduce([0.0, math.log(2) + peak / 4, peak])
        else:
            moments = np.logaddexp(log_ndtr(-s / 2), peak + log_ndtr((a - 0.5) * s))
        moments = float(moments) + 2.0**-50  # the rounding of a logarithm near 0
        return up(self.log_determinant + self.n_minima * moments / (a - 1) + (a * self.shift) * self.shift / 2)

    def dominating_rdp(self, order: float) -> float:
        return math.inf

    def delta(self, epsilon: float) -> float:
        return _delta(epsilon, self.mu_squared, self.strength**2, self.log_determinant, self.n_minima, self.replaced)


def _delta(epsilon: float, limit: float, least: float, log_determinant: float, n_minima: int, replaced: bool) -> float:
    """Return the sum over corners. A minimum whose A does not count takes its part of ``least`` off ``limit``."""
    left = epsilon - log_determinant
    if not left >= 0:
        return 1.0
    total = 0.0
    for quarters, count in _corners(n_minima, replaced):
        missing = quarters / (4 * n_minima) * least
        kept = max(limit - missing, 0.0) + limit * 2.0**-50  # the rounding of a difference
        total += count * conversions.gaussian_delta(left, math.sqrt(kept))
    return min(1.0, up(total))


@lru_cache(maxsize=64)
def _corners(n_minima: int, replaced: bool) -> list[tuple[int, float]]:
    """Return numbers of quarters of a minimum's squared strength, and how many corners lack each of these numbers."""
    one = [1.0, 0.0, 0.0, 2.0, 1.0] if replaced else [1.0, 0.0, 0.0, 0.0, 1.0]
    counts = np.ones(1)
    for _ in range(n_minima):
        counts = np.convolve(counts, one)
    return [(quarters, float(count)) for quarters, count in enumerate(counts) if count]


@dataclass(frozen=True)
class ObjectiveDP:
    """Prices are mu squared, and once in a run the minima of perturbed objectives may be bought.

    Parameters
    ----------
    log_determinant : float
        The part of epsilon that is set aside for determinants.
    least : float
        The least squared strength that the minima are bought at: more than half of the limit, so that they are bought
        at most once.
    n_minima, replaced : int, bool
        As in :class:`PerturbedMinimaCost`.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 9.6)
    The sum over corners of :class:`PerturbedMinimaCost`, each for the limit less what the corner misses, bounds delta
    for every choice of prices, by the filter theorem of Gaussian DP (Smith & Thakurta 2022; Koskela, Tobaben & Honkela
    2023).
    """

    log_determinant: float
    least: float
    n_minima: int = 1
    replaced: bool = False
    name = "mu**2 beside a determinant"

    @classmethod
    def plan(cls, epsilon: float, delta: float, log_determinant: float, n_minima: int, *, replaced: bool) -> Self:
        """Return the currency for this promise; minima have to cost ``PLANNED`` of the limit at least."""
        needs_delta(cls.name, epsilon, delta)
        if not epsilon <= 1e9:
            raise ValueError(
                f"epsilon={epsilon!r} is too large for objective perturbation: use epsilon=inf for no privacy"
            )
        if not 0 < log_determinant < epsilon:
            raise ValueError(f"log_determinant={log_determinant!r} must lie strictly between 0 and epsilon={epsilon!r}")

        def delta_of(limit: float) -> float:
            return _delta(epsilon, limit, PLANNED * limit, log_determinant, n_minima, replaced)

        limit = conversions.largest_within(delta_of, delta)
        return cls(log_determinant, PLANNED * limit, n_minima, replaced)

    def price(self, cost: Cost) -> float:
        if not isinstance(cost, PerturbedMinimaCost):
            return cost.mu * cost.mu
        planned = (
            cost.log_determinant <= self.log_determinant
            and cost.strength**2 >= self.least
            and (cost.n_minima, cost.replaced) == (self.n_minima, self.replaced)
        )
        return cost.mu_squared if planned else math.inf

    def limit(self, epsilon: float, delta: float) -> float:
        needs_delta(self.name, epsilon, delta)
        return conversions.largest_within(lambda limit: self.delta(limit, epsilon), delta)

    def epsilon(self, limit: float, delta: float) -> float:
        if delta <= 0 or 2 * self.least <= limit:
            return math.inf
        return conversions.smallest_epsilon(lambda e: self.delta(limit, e), delta, self.log_determinant + limit + 1)

    def delta(self, limit: float, epsilon: float) -> float:
        if 2 * self.least <= limit:
            return 1.0  # the minima could be bought twice
        return _delta(epsilon, limit, self.least, self.log_determinant, self.n_minima, self.replaced)

    def rho(self, limit: float) -> None:
        return None

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        require_single_row(size, "objective perturbation", "solver='gradient-descent'")
        return self.epsilon(limit, delta)
