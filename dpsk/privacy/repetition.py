"""What it costs to run something private a secret, random number of times and to show only the best.

A *run* Q is drawn independently, as often as a random number K says, and what comes out is the whole outcome of the
run with the highest score (ties are broken by lot), or nothing where K is 0. Everything that the outcome holds, score
and parameters included, is covered by what Q guarantees (Liu & Talwar 2019; Papernot & Steinke 2022).

Notation of the proofs below: p and q are the distributions of Q under two neighbours; T_p(y) is the chance that a run
beats the outcome y under p, ties by lot, and F_p = 1 - T_p; f is the generating function of K, f(s) = E s^K. The best
of K runs has the density p(y) f'(F_p(y)), because E K F^(K-1) = f'(F).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from . import conversions
from .currencies import Currency, needs_delta, single_row_only
from .ledger import Budget

__all__ = ["BestOf", "BestOfCost", "Bound", "Law", "Poisson", "Renyi", "TruncatedNegativeBinomial", "Within"]

_UP = 1 + 1e-12
"""More than floats lose on the way; always applied to the safe side."""


@dataclass(frozen=True)
class Within:
    """What a run has to keep: (epsilon, delta)-differential privacy."""

    epsilon: float
    delta: float

    def holds(self, budget: Budget) -> bool:
        """Return whether this budget promises as much."""
        return budget.currency.delta(budget.limit, self.epsilon) <= self.delta


@dataclass(frozen=True)
class Renyi:
    """What a run has to keep: a Renyi divergence of this order."""

    order: float
    divergence: float

    def holds(self, budget: Budget) -> bool:
        """Return whether this budget promises as much."""
        rho = budget.currency.rho(budget.limit)
        return rho is not None and self.order * rho <= self.divergence


Bound = Within | Renyi


class Law(ABC):
    """The distribution of the number of runs K."""

    may_be_none: ClassVar[bool]
    """Whether K may be 0."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expected number of runs."""

    @abstractmethod
    def require(self, currency: Currency) -> None:
        """Raise ValueError if runs whose budget is kept in this currency have nothing that the theorem could use."""

    @abstractmethod
    def delta(self, bounds: tuple[Bound, ...], epsilon: float) -> float:
        """Return delta(epsilon) of the best of K runs that keep these bounds: the theorem. 1 where none applies."""

    @abstractmethod
    def plan(self, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> tuple[Bound, ...]:
        """Return bounds under which the best of K runs is (epsilon, delta)-DP, chosen for the largest budget of a run.

        ``budget_of(epsilon, delta)`` is the budget of a typical run with this promise; any choice is sound.
        """

    def start(self, bounds: tuple[Bound, ...], epsilon: float, delta: float) -> tuple[float, float]:
        """Return the (epsilon, delta) from which on to look for the budget of a run; the search has those given."""
        del bounds
        return epsilon, delta


@dataclass(frozen=True)
class TruncatedNegativeBinomial(Law):
    """K is at least 1, with P(K = k) proportional to (1 - gamma)^k * prod (l + eta)/(l + 1) over l from 1 to k - 1.

    Parameters
    ----------
    eta : float, default=1.0
        Above -1. 1 is the geometric distribution, 0 the logarithmic one. The smaller eta, the less a search costs, and
        the more often it consists of very few runs.
    gamma : float, default=0.1
        In (0, 1): the smaller, the more runs. With eta = 1 the mean is 1/gamma.

    Formal guarantee
    ----------------
    Let runs be (a, b)-DP with (1 - gamma) b <= gamma (e^a - 1), and (e, d)-DP. Then the best of K is
    (e + (1 + eta) a, d * E K)-DP. *Proof.* f'(s) = f'(1) ((1 - (1 - gamma) s)/gamma)^-(1 + eta), which grows with s,
    and f'(1) = E K. Whichever outcomes y beats are an event, so T_q <= e^a T_p + b, hence

        1 - (1 - gamma) F_q = gamma + (1 - gamma) T_q <= e^a (gamma + (1 - gamma) T_p) = e^a (1 - (1 - gamma) F_p),

    that is f'(F_p) <= e^((1 + eta) a) f'(F_q). So the hockey-stick divergence at e + (1 + eta) a is at most the
    integral of f'(F_p) max(0, p - e^e q) <= E K * d. QED. This is the route of Koskela, Redberg & Wang (2024); b = 0
    gives the (2 + eta) e of pure DP (Papernot & Steinke 2022), whose Renyi bound is looser where d > 0 (tests,
    benchmarks/results/search.md).
    """

    eta: float = 1.0
    gamma: float = 0.1
    may_be_none = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", _number("eta", self.eta))
        object.__setattr__(self, "gamma", _number("gamma", self.gamma))
        if not -1 < self.eta <= 100:
            raise ValueError(f"eta={self.eta!r} must lie in (-1, 100]: 1 is geometric, 0 logarithmic")
        if not 1e-4 <= self.gamma < 1:
            raise ValueError(f"gamma={self.gamma!r} must lie in [1e-4, 1): the mean number of runs grows like 1/gamma")

    @property
    def mean(self) -> float:
        odds, log = (1 - self.gamma) / self.gamma, -math.log(self.gamma)
        return odds / log if self.eta == 0 else odds * self.eta / -math.expm1(-self.eta * log)

    def require(self, currency: Currency) -> None:
        """Every currency has what is needed: two points of its profile."""

    def _leak(self, epsilon: float) -> float:
        """Return the largest b that may go with a = epsilon."""
        return min(1.0, self.gamma / (1 - self.gamma) * math.expm1(min(epsilon, 700.0)))

    def delta(self, bounds: tuple[Bound, ...], epsilon: float) -> float:
        far, near = bounds
        if not isinstance(far, Within) or not isinstance(near, Within) or near.delta > self._leak(near.epsilon):
            return 1.0
        pure, lost = far.epsilon + (1 + self.eta) * near.epsilon, far.delta * self.mean
        # (pure, lost)-DP: dominated by leaking all with chance lost, and pure DP otherwise (Kairouz et al. 2015)
        return min(1.0, lost + (1 - min(1.0, lost)) * conversions.pure_delta(epsilon, pure))

    def start(self, bounds: tuple[Bound, ...], epsilon: float, delta: float) -> tuple[float, float]:
        far = bounds[0]
        return (far.epsilon, far.delta) if isinstance(far, Within) else (epsilon, delta)

    def plan(self, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> tuple[Bound, ...]:
        """As :meth:`Law.plan`: with a as small as a run's own guarantee at a allows, e is as large as can be."""
        part = delta / (self.mean * _UP)

        def bounds(a: float) -> tuple[Within, Within]:
            return (Within((epsilon - (1 + self.eta) * a) / _UP, part), Within(a, self._leak(a) / _UP))

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
    """K is Poisson, and nothing comes out where it is 0, with a chance of exp(-mean).

    Parameters
    ----------
    mean : float, default=10.0
        The expected number of runs.

    Formal guarantee
    ----------------
    Let runs have a Renyi divergence of at most r at order alpha and be (a, b)-DP with (alpha - 1) e^a <= alpha. Then
    the best of K has at that order at most log(e^-mean + mean * e^((alpha - 1)(r + mean * b)))/(alpha - 1). *Proof.*
    f'(s) = mean * e^(mean (s - 1)). The moment of the best is that of "nothing", e^-mean under both neighbours, plus
    the integral of p^alpha q^(1 - alpha) mean * e^(mean (-alpha T_p + (alpha - 1) T_q)). By T_q <= e^a T_p + b the last
    exponent is at most mean * (alpha - 1) b. QED. (Papernot & Steinke 2022, Theorem 6, is this without e^-mean; for a
    mean below 1 that says less than 0 of runs which reveal nothing.)
    """

    mean: float = 10.0
    may_be_none = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _number("mean", self.mean))
        if not 0 < self.mean <= 1e4:
            raise ValueError(f"mean={self.mean!r} must lie in (0, 10000]")

    def require(self, currency: Currency) -> None:
        if currency.rho(1.0) is None:
            raise ValueError(
                f"n_iter_distribution={self!r} needs runs whose budget is kept in rho or mu**2, not in "
                f"{currency.name}: use TruncatedNegativeBinomial, or an estimator on all rows that has a rho"
            )

    def _divergence(self, order: float, of_a_run: float, leak: float) -> float:
        excess = order - 1
        log = math.log(self.mean) + excess * (of_a_run + self.mean * leak)
        return (max(log, -self.mean) + math.log1p(math.exp(-abs(log + self.mean)))) / excess

    def delta(self, bounds: tuple[Bound, ...], epsilon: float) -> float:
        moment, near = bounds
        if not isinstance(moment, Renyi) or not isinstance(near, Within):
            return 1.0
        if (moment.order - 1) * math.exp(near.epsilon) > moment.order:
            return 1.0
        divergence = self._divergence(moment.order, moment.divergence, near.delta)
        return conversions.rdp_delta([moment.order], [divergence * _UP], epsilon)

    def plan(self, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> tuple[Bound, ...]:
        """As :meth:`Law.plan`, by trying orders; for runs whose budget is kept in rho or mu**2."""
        currency = budget_of(epsilon, delta).currency
        self.require(currency)

        def bounds(order: float, limit: float) -> tuple[Renyi, Within]:
            near = math.log1p(1 / (order - 1)) / _UP
            return (
                Renyi(order, order * float(currency.rho(limit) or 0) * _UP),
                Within(near, currency.delta(limit, near) * _UP),
            )

        def largest(order: float) -> float:
            def lost(limit: float) -> float:
                return self.delta(bounds(order, limit), epsilon)

            if lost(1e-140) >= delta:
                return 0.0
            low, high = 1e-140, 1.0
            while lost(high) <= delta:
                low, high = high, 4 * high
            while high > low * (1 + 1e-6):
                middle = math.sqrt(low * high)
                low, high = (middle, high) if lost(middle) <= delta else (low, middle)
            return low

        orders = [1 + 2 ** (i / 4) for i in range(-16, 57)]
        limit, order = max((largest(order), order) for order in orders)
        if not limit:
            raise ValueError(f"epsilon={epsilon!r} is too little for a search with {self!r}: raise epsilon")
        return bounds(order, limit)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name}={value!r} must be a finite number")
    return float(value)


@dataclass(frozen=True)
class BestOfCost:
    """The best of K runs that keep these bounds, as one release."""

    law: Law
    bounds: tuple[Bound, ...]
    epsilon = rho = mu = math.inf

    def rdp(self, order: float) -> float:
        del order
        return math.inf  # of one order only at best, and the null output is not dominated by a known pair

    dominating_rdp = rdp

    def delta(self, epsilon: float) -> float:
        return self.law.delta(self.bounds, epsilon)


@dataclass(frozen=True)
class BestOf:
    """A currency for one search: what adds up is the number of searches, and one is the most there is a theorem for.

    Formal guarantee: that of the law of K (:meth:`Law.delta`), for runs that keep the bounds, whatever they are
    otherwise: runs of different hyper-parameters are one mechanism that draws these first, and a mixture of mechanisms
    that keep a bound keeps it.
    """

    law: Law
    bounds: tuple[Bound, ...]
    name = "searches"

    @classmethod
    def budget(cls, law: Law, epsilon: float, delta: float, budget_of: Callable[[float, float], Budget]) -> Budget:
        """Return the budget of one search with this promise."""
        needs_delta(cls.name, delta)
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
        for budget in budgets_of(upper):
            self.law.require(budget.currency)
        if self.covers(*budgets_of(upper)):
            return upper
        low, high = upper / 2, upper
        while not self.covers(*budgets_of(low)):
            low, high = low / 2, low
            if low < 1e-6 * upper:
                raise ValueError(f"no epsilon keeps what a search with {self.law!r} asks of a run")
        while high > low * (1 + 1e-6):
            middle = (low + high) / 2
            low, high = (middle, high) if self.covers(*budgets_of(middle)) else (low, middle)
        return low

    def price(self, cost: object) -> float:
        return 1.0 if cost == self.cost else math.inf

    def limit(self, epsilon: float, delta: float) -> float:
        if self.delta(1.0, epsilon) > delta:
            raise ValueError(f"these searches do not guarantee ({epsilon!r}, {delta!r})")
        return 1.0

    def epsilon(self, limit: float, delta: float) -> float:
        if delta <= 0 or limit > 1:
            return math.inf
        return conversions.smallest_epsilon(lambda e: self.delta(limit, e), delta, 1.0)

    def delta(self, limit: float, epsilon: float) -> float:
        return self.law.delta(self.bounds, epsilon) if limit <= 1 else 1.0

    def rho(self, limit: float) -> None:
        return None

    def for_group(self, limit: float, size: int) -> float:
        return single_row_only(limit, size, "a search", "a fit without one")
