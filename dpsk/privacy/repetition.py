"""The cost of a search: something private runs a secret, random number of times, and only the best run is shown.

A *run* Q is repeated K times, independently, with a random K. The whole outcome of the run with the highest score is
shown (ties are decided at random), or "nothing" if K is 0. The guarantee of Q covers everything in an outcome, score
and parameters included (Liu & Talwar 2019; Papernot & Steinke 2022). Proofs: docs/guarantees.md, 11.1 to 11.4.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import conversions
from .currencies import needs_delta, require_single_row
from .ledger import Budget
from .rounding import above, below, down, up

_POINTS = 60
"""At how many points the profile of a run is bounded for Poisson, closer to each other at small epsilon."""
_NEAREST = 1e-12
"""Below it (r/R)^c has no digits left. A bound at a smaller epsilon gives no inequality of its own."""
_EXPONENT = 700.0
"""Beyond it e^epsilon is no float. A bound at a larger epsilon is left out, which costs, and never leaks."""

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Within:
    """The bound that a run has to keep: (epsilon, delta)-differential privacy."""

    epsilon: float
    delta: float

    def holds(self, budget: Budget) -> bool:
        """Return whether this budget promises as much."""
        return budget.currency.delta(budget.limit, self.epsilon) <= self.delta


class Law(ABC):
    """The distribution of the number of runs K."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expected number of runs."""

    @abstractmethod
    def delta(self, bounds: tuple[Within, ...], epsilon: float) -> float:
        """Return delta(epsilon) of the best of K runs that keep these bounds: the theorem. 1 where none applies."""

    def pure(self, bounds: tuple[Within, ...]) -> float:
        """Return the epsilon above which :meth:`delta` does not fall any more; inf where there is none."""
        del bounds
        return math.inf

    @abstractmethod
    def plan(self, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> tuple[Within, ...]:
        """Return bounds under which the best of K runs is (epsilon, delta)-DP, chosen for the largest budget of a run.

        ``budget_of(epsilon, delta)`` is the budget of a typical run with this promise; any choice is sound.
        """

    @abstractmethod
    def start(self, bounds: tuple[Within, ...], epsilon: float, delta: float) -> tuple[float, float]:
        """Return the (epsilon, delta) at which to begin to look for the budget of a run, given those of the search."""


@dataclass(frozen=True)
class TruncatedNegativeBinomial(Law):
    """K is at least 1, with P(K = k) proportional to (1 - gamma)^k * prod (l + eta)/(l + 1) over l from 1 to k - 1.

    Parameters
    ----------
    eta : float, default=1.0
        Above -1. 1 is the geometric distribution, 0 the logarithmic one. The smaller eta, the less a search costs, and
        the more often it consists of very few runs.
    gamma : float, default=0.05
        From 1e-4 to 0.999: the smaller, the more runs. With eta = 1 the mean is 1/gamma.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 11.2)
    Let runs be (a, b)-DP with (1 - gamma) b <= gamma (e^a - 1), and (e, d)-DP. Then the best of K is
    (e + (1 + eta) a, d * E K)-DP (by the route of Koskela, Redberg & Wang 2024). b = 0 gives the (2 + eta) e of pure DP
    (Papernot & Steinke 2022).
    """

    eta: float = 1.0
    gamma: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", _number("eta", self.eta))
        object.__setattr__(self, "gamma", _number("gamma", self.gamma))
        if not -1 < self.eta <= 100:
            raise ValueError(f"eta={self.eta!r} must lie in (-1, 100]: 1 is geometric, 0 logarithmic")
        if not 1e-4 <= self.gamma <= 0.999:
            raise ValueError(
                f"gamma={self.gamma!r} must lie in [1e-4, 0.999]: the mean number of runs grows like 1/gamma, and with "
                "gamma near 1 there is nearly always one run only"
            )

    @property
    def mean(self) -> float:
        odds, log = (1 - self.gamma) / self.gamma, -math.log(self.gamma)
        x = self.eta * log  # the mean is odds/log * x/(1 - e^-x), by its series where x is small
        return odds / log * (1 + x / 2 + x * x / 12 if abs(x) < 1e-4 else x / -math.expm1(-x))

    def _leak(self, epsilon: float) -> float:
        """Return the largest b that may go with a = epsilon."""
        return min(1.0, down(self.gamma / (1 - self.gamma) * math.expm1(min(epsilon, _EXPONENT))))

    def delta(self, bounds: tuple[Within, ...], epsilon: float) -> float:
        far, near = bounds
        if near.delta > self._leak(near.epsilon):
            return 1.0
        rest, lost = conversions.pure_delta(epsilon, self.pure(bounds)), min(1.0, far.delta * self.mean)
        # (pure, lost)-DP: dominated by leaking all with chance lost, and pure DP otherwise (Kairouz et al. 2015)
        return min(1.0, up(lost + (1 - lost) * rest)) if lost + rest > 0 else 0.0

    def pure(self, bounds: tuple[Within, ...]) -> float:
        far, near = bounds[0].epsilon, bounds[1].epsilon
        if max(far, near) == math.inf:
            return math.inf
        return above(Fraction(far) + (1 + Fraction(self.eta)) * Fraction(near))

    def start(self, bounds: tuple[Within, ...], epsilon: float, delta: float) -> tuple[float, float]:
        return bounds[0].epsilon, bounds[0].delta

    def plan(self, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> tuple[Within, ...]:
        """As :meth:`Law.plan`: a is as small as the guarantee of a run allows, so that e is as large as possible."""
        part = down(down(delta / self.mean))

        def bounds(a: float) -> tuple[Within, Within]:
            rest = below(max(Fraction(0), Fraction(epsilon) - (1 + Fraction(self.eta)) * Fraction(a)))
            return Within(down(rest), part), Within(a, self._leak(a))  # down: so that a search for epsilon ends below

        def enough(a: float) -> bool:
            far, near = bounds(a)
            return near.holds(budget_of(far.epsilon, far.delta))

        largest = epsilon / (1 + self.eta)
        low, high = 0.0, 0.5 * largest
        while not enough(high):
            low, high = high, (high + largest) / 2
            if high > (1 - 1e-6) * largest:
                raise ValueError(
                    f"epsilon={epsilon!r} is too little for a search with {self!r}: raise epsilon, or use a larger "
                    "gamma or a smaller eta"
                )
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return bounds(high)


@dataclass(frozen=True)
class Poisson(Law):
    """K is Poisson. If K is 0, which has probability exp(-mean), the search shows nothing.

    Parameters
    ----------
    mean : float, default=10.0
        The expected number of runs.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 11.3)
    Let runs be (a, b)-DP, p and q the distributions of a run under two neighbours, H(r) the integral of max(0, p - r
    q), c = 1/(e^a - 1), R = e^(e - mean b + a), and psi(r) = (1 - e^-a) r^(1 + c) R^-c. Then the hockey-stick
    divergence of the best of K at e is at most

        mean * integral from 0 to R of psi''(r) H(r) dr.

    The bounds that a run keeps give lines above H. The best (a, b) among them is taken.
    """

    mean: float = 10.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _number("mean", self.mean))
        if not 0 < self.mean <= 1e4:
            raise ValueError(f"mean={self.mean!r} must lie in (0, 10000]")

    def delta(self, bounds: tuple[Within, ...], epsilon: float) -> float:
        points, bounds = {0.0: 1.0}, tuple(bound for bound in bounds if bound.epsilon <= _EXPONENT)
        for bound in bounds:
            # a little to the right of where they belong: the profile falls
            ratio = math.exp(-bound.epsilon)
            points[ratio * (1 + 2.0**-50)] = up(-math.expm1(-bound.epsilon) + ratio * bound.delta)
            points[1 / ratio * (1 + 2.0**-50)] = bound.delta
        r, h = np.array(sorted(points)), np.array([points[ratio] for ratio in sorted(points)])
        return min([1.0, *(self._from(near, r, h, epsilon) for near in bounds if near.epsilon >= _NEAREST)])

    def _from(self, near: Within, r: Floats, h: Floats, epsilon: float) -> float:
        """Return the bound that goes with one (a, b), from points (r, h) above the profile of a run."""
        a, c = near.epsilon, 1 / math.expm1(near.epsilon)
        log_end = epsilon - self.mean * near.delta + a - 2.0**-50 * (epsilon + self.mean + a)
        if log_end <= 0:
            return 1.0
        end = math.exp(min(log_end, _EXPONENT))
        last = float(np.interp(end, r, h))  # constant beyond the last point, and so up to R where ``end`` is less
        inside = r < end
        r, h = np.append(r[inside], end), np.append(h[inside], last)
        with np.errstate(divide="ignore"):
            log_r = np.log(r)
        value = -math.expm1(-a) * r * np.exp(c * (log_r - log_end))  # psi = (1 - e^-a) r (r/R)^c
        # by parts, on each line: psi' h between its ends, less its steepness times psi; psi' is 0 at 0 and 1 at R
        steepness = np.diff(h) / np.diff(r)
        off = 2.0**-45 * (1 + c) * (1 + log_end + np.minimum(np.abs(log_r), 1e3)) * value  # more than the values are
        total = last - float(steepness @ np.diff(value)) + float(np.abs(steepness) @ (off[1:] + off[:-1]))
        return up(self.mean * total)

    def start(self, bounds: tuple[Within, ...], epsilon: float, delta: float) -> tuple[float, float]:
        return epsilon, self._part(delta)

    def _part(self, delta: float) -> float:
        return delta / max(1.0, self.mean)

    def plan(self, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> tuple[Within, ...]:
        """As :meth:`Law.plan`: bounds from the privacy profile of the largest run that the search can afford."""
        needs_delta("a Poisson number of runs", epsilon, delta)
        at = [min(epsilon, _EXPONENT) * (i / _POINTS) ** 2 for i in range(_POINTS + 1)]

        def bounds(of_a_run: float) -> tuple[Within, ...]:
            budget = budget_of(of_a_run, self._part(delta))
            return tuple(Within(u, budget.currency.delta(budget.limit, u)) for u in at)

        error = f"epsilon={epsilon!r} is too little for a search with {self!r}: raise epsilon"
        return bounds(_largest(lambda of_a_run: self.delta(bounds(of_a_run), epsilon) <= delta, epsilon, error))


def _largest(fits: Callable[[float], bool], upper: float, error: str) -> float:
    """Return the largest number below ``upper`` that fits, to a millionth; raise ValueError if only tiny ones do."""
    low, high = 0.5 * upper, upper
    while not fits(low):
        low, high = 0.5 * low, low
        if low < 1e-6 * upper:
            raise ValueError(error)
    while high > low * (1 + 1e-6):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name}={value!r} must be a finite number")
    return float(value)


@dataclass(frozen=True)
class BestOfCost:
    """The best of K runs that keep these bounds, as one release."""

    law: Law
    bounds: tuple[Within, ...]
    epsilon = rho = mu = math.inf

    def rdp(self, order: float) -> float:
        del order
        return math.inf  # no bound on moments follows

    dominating_rdp = rdp

    def delta(self, epsilon: float) -> float:
        return self.law.delta(self.bounds, epsilon)


@dataclass(frozen=True)
class BestOf:
    """A currency for one search. It counts searches, and the limit is one, because the theorem is for one search.

    Formal guarantee: that of the law of K (:meth:`Law.delta`), for runs that keep the bounds, whatever they are
    otherwise: runs of different hyper-parameters are one mechanism that draws these first, and a mixture of mechanisms
    that keep a bound keeps it (docs/guarantees.md, 11.4).
    """

    law: Law
    bounds: tuple[Within, ...]
    name = "searches"

    @classmethod
    def budget(cls, law: Law, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> Budget:
        """Return the budget of one search with this promise."""
        Budget.of(epsilon, delta)  # or its error
        bounds = law.plan(float(epsilon), float(delta), budget_of)
        return Budget(float(epsilon), float(delta), cls(law, bounds), 1.0)

    @property
    def cost(self) -> BestOfCost:
        """The one release that has a price."""
        return BestOfCost(self.law, self.bounds)

    def covers(self, *budgets: Budget) -> bool:
        """Return whether a run, or a part of one, with any of these budgets keeps the bounds."""
        return all(bound.holds(budget) for bound in self.bounds for budget in budgets)

    def strongest(self, budgets_of: Callable[[float], Sequence[Budget]], upper: float) -> float:
        """Return the largest epsilon up to ``upper``, to a millionth, whose budgets are all covered."""
        if self.covers(*budgets_of(upper)):
            return upper
        error = f"no epsilon keeps the bounds of a run of {self.law!r}: raise epsilon, or make fewer"
        return _largest(lambda epsilon: self.covers(*budgets_of(epsilon)), upper, error)

    def price(self, cost: object) -> float:
        return 1.0 if cost == self.cost else math.inf

    def limit(self, epsilon: float, delta: float) -> float:
        if self.delta(1.0, epsilon) > delta:
            raise ValueError(f"no plan for this search guarantees ({epsilon!r}, {delta!r}): raise epsilon or delta")
        return 1.0

    def epsilon(self, limit: float, delta: float) -> float:
        if delta <= 0:  # pure runs: their own epsilons add up, and nothing is lost
            pure = self.law.pure(self.bounds)
            return pure if pure < math.inf and self.delta(limit, pure) <= 0 else math.inf
        if limit > 1:
            return math.inf
        return conversions.smallest_epsilon(lambda e: self.delta(limit, e), delta, 1.0)

    def delta(self, limit: float, epsilon: float) -> float:
        return self.law.delta(self.bounds, epsilon) if limit <= 1 else 1.0

    def rho(self, limit: float) -> None:
        return None

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        require_single_row(size, "a search", "a fit without one")
        return self.epsilon(limit, delta)
