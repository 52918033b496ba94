"""Amplification by sampling: a release costs less if it sees only a secret random part of the rows.

All releases from one batch are priced *together*: the sum of separate prices would be too low. Theorems and proofs:
docs/guarantees.md, 7.1 to 7.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from . import conversions
from .costs import Cost, sum_above
from .currencies import Currency, RenyiDP
from .rounding import LEAST

SCHEMES = ("poisson", "without-replacement")


def _rounded_up(value: float, order: float = 2) -> float:
    """Cover the rounding of gammaln, which grows with the order, and of the rate."""
    return max(value * (1 + 1e-10 + 1e-13 * order), LEAST)


_MANY = 2**17
"""At this order and beyond sampling earns nothing: the sums would be too long."""

Curve = Callable[[int], float]


def _log_choose(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return k = 2..order and the logarithms of C(order, k)."""
    k = np.arange(2, order + 1)
    return k, gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)


def _log_binomial(order: int, rate: float) -> np.ndarray:
    """Return log P(Binomial(order, rate) = k) for k = 2..order."""
    k, choose = _log_choose(order)
    log_pmf: np.ndarray = choose + k * math.log(rate) + (order - k) * math.log1p(-rate)
    return log_pmf


def _moments(order: int, curve: Curve) -> np.ndarray:
    """Return (k - 1) * curve(k), the logarithms of moments, for k = 2..order."""
    return np.array([(k - 1) * curve(k) for k in range(2, order + 1)])


def _from_excess(log_terms: np.ndarray, order: int) -> float:
    """Return log(1 + sum(exp(log_terms))) / (order - 1)."""
    return _rounded_up(float(np.logaddexp(0.0, logsumexp(log_terms))) / (order - 1), order)


def _log_expm1(x: np.ndarray) -> np.ndarray:
    """Return log(exp(x) - 1) for x >= 0."""
    with np.errstate(divide="ignore"):
        result: np.ndarray = x + np.log(-np.expm1(-x))
    return result


def poisson_rdp(order: int, rate: float, curve: Curve) -> float:
    """Return the Renyi divergence of a release on a Poisson sample, where a *symmetric pair* dominates the release.

    For each row kept independently with probability ``rate``, neighbours that differ by one row that leaves, and
    integer orders (Zhu, Dong & Wang 2022; Mironov, Talwar & Zhang 2019). Some pair (P, Q) must dominate the release,
    and an involution that preserves the base measure must swap P and Q. Pairs of Gaussians, randomised response and
    products of these have one, so adaptive compositions of Gaussian and pure mechanisms are covered jointly.
    """
    if rate == 1:
        return curve(order)
    return _from_excess(_log_binomial(order, rate) + _log_expm1(_moments(order, curve)), order)


def poisson_general_rdp(order: int, rate: float, curve: Curve) -> float:
    """Return the Renyi divergence on a Poisson sample of *any* release with this curve.

    Theorem (Zhu & Wang 2019, general upper bound; Lemma 4 of Chen & Lee 2020): as :func:`poisson_rdp`, with a factor
    of 3 on the terms of order 3 and above.
    """
    if rate == 1:
        return curve(order)
    moments = _moments(order, curve)
    # sum over k of P(k) * (factor * e^moment - 1): the 1s complete the binomial sum to 1
    log_terms = np.concatenate([_log_expm1(moments[:1]), moments[1:] + np.log(3 - np.exp(-moments[1:]))])
    return _from_excess(_log_binomial(order, rate) + log_terms, order)


def without_replacement_rdp(order: int, rate: float, curve: Curve, epsilon: float = math.inf) -> float:
    """Return the Renyi divergence on a sample without replacement of a release with this *replace-one* curve.

    Theorem (Wang, Balle & Kasiviswanathan 2019), for integer orders; ``epsilon`` is the pure cost of the release, inf
    if it has none. It needs the curve of replaced rows even where neighbours differ by a row that leaves: another row
    takes its place in the sample.
    """
    if rate == 1:
        return curve(order)
    k, choose = _log_choose(order)
    moments = _moments(order, curve)
    log_terms = choose + k * math.log(rate) + moments
    log_base = math.log(math.expm1(min(epsilon, 700.0))) if epsilon > 0 else -math.inf
    log_terms += np.minimum(math.log(2), k * log_base)
    log_terms[0] = min(log_terms[0], choose[0] + 2 * math.log(rate) + math.log(4) + _log_expm1(moments[:1])[0])
    return _from_excess(log_terms, order)


def sampled_epsilon(rate: float, epsilon: float) -> float:
    """Return the pure epsilon of an epsilon-DP release on a sample: log(1 + rate * (e^epsilon - 1)).

    Holds for Poisson samples and rows that leave, and without replacement for rows that are replaced (Balle, Barthe &
    Gaboardi 2018).
    """
    if rate == 1 or epsilon > 700:
        return epsilon
    return min(epsilon, _rounded_up(math.log1p(rate * math.expm1(epsilon))))


@dataclass(frozen=True)
class Sampling:
    """How a batch is drawn, and what its releases cost together.

    ``"poisson"`` keeps each row independently with probability ``rate`` and protects rows that leave.
    ``"without-replacement"`` draws rate * n rows, rounded down; releases on it must protect replaced rows. ``rate=1``
    is all rows, at the sum of the prices.
    """

    rate: float
    scheme: str = "poisson"

    def __post_init__(self) -> None:
        if not (isinstance(self.rate, int | float | np.floating) and 0 < self.rate <= 1):
            raise ValueError(f"rate={self.rate!r} must lie in (0, 1]")
        object.__setattr__(self, "rate", float(self.rate))
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme={self.scheme!r} must be one of {SCHEMES}")

    def cost(self, costs: Iterable[Cost]) -> BatchCost:
        """Return the cost of these releases on one batch."""
        return BatchCost(tuple(costs), self)

    def strongest(self, costs_of: Callable[[float], Iterable[Cost]], price: float, currency: Currency) -> float:
        """Return the largest strength whose releases on one batch cost at most ``price`` together."""
        return conversions.largest_within(lambda s: currency.price(self.cost(costs_of(s))), price)


@dataclass(frozen=True)
class BatchCost:
    """All releases from one batch, amplified together. All costs are fixed when the batch is bought.

    Formal guarantee: :meth:`rdp` is the smallest of what the theorems of this module give for the adaptive composition
    of ``costs``; where all of them are pure, so is the batch (docs/guarantees.md, 7.1 to 7.5).
    """

    costs: tuple[Cost, ...]
    sampling: Sampling

    def __post_init__(self) -> None:
        if not self.costs:
            raise ValueError("a batch needs at least one release")

    @property
    def epsilon(self) -> float:
        return sampled_epsilon(self.sampling.rate, sum_above(*(cost.epsilon for cost in self.costs)))

    @property
    def rho(self) -> float:
        whole = math.fsum(cost.rho for cost in self.costs)  # sampling never adds to a price: divergences are convex
        return min(whole, conversions.pure_rho(self.epsilon) if math.isfinite(self.epsilon) else math.inf)

    @property
    def mu(self) -> float:
        whole = max(math.hypot(*(cost.mu for cost in self.costs)), LEAST)
        return min(whole, conversions.pure_mu(self.epsilon) if math.isfinite(self.epsilon) else math.inf)

    def rdp(self, order: float) -> float:
        """Return the Renyi divergence; it grows with the order, so a fractional one is rounded up."""
        if order == math.inf:
            return self.epsilon
        return _batch_rdp(self, max(2, math.ceil(order)) if self.sampling.rate < 1 and order < _MANY else order)

    def dominating_rdp(self, order: float) -> float:
        # a sampled release is dominated by a pair that nothing swaps
        return self._total(order, dominating=True) if self.sampling.rate == 1 else math.inf

    def delta(self, epsilon: float) -> float:
        if math.isfinite(self.epsilon):
            return conversions.pure_delta(epsilon, self.epsilon)
        return conversions.rdp_delta(ORDERS, [self.rdp(order) for order in ORDERS], epsilon)

    def _total(self, order: float, *, dominating: bool = False) -> float:
        return math.fsum(cost.dominating_rdp(order) if dominating else cost.rdp(order) for cost in self.costs)


@lru_cache(maxsize=4096)
def _batch_rdp(batch: BatchCost, order: float) -> float:
    sampling, together = batch.sampling, batch._total
    whole = together(order)
    bounds = [whole]
    if math.isfinite(batch.epsilon):
        bounds.append(conversions.pure_rdp(order, batch.epsilon))
    if order >= _MANY:
        return min(bounds)
    if sampling.rate < 1 and sampling.scheme == "without-replacement":
        pure = sum_above(*(cost.epsilon for cost in batch.costs))
        bounds.append(without_replacement_rdp(int(order), sampling.rate, together, pure))
    elif sampling.rate < 1:
        pair = together(order, dominating=True)
        if math.isfinite(pair):
            curve = lambda k: together(k, dominating=True)  # noqa: E731
            bounds.append(poisson_rdp(int(order), sampling.rate, curve))
        if whole < pair / 2:  # otherwise its factor of 3 leaves it no chance
            bounds.append(poisson_general_rdp(int(order), sampling.rate, together))
    return min(bounds)


ORDERS = (*range(2, 33), *(int(32 * 1.15**i) for i in range(1, 42)))
"""Orders that a plan chooses from: 2 to about 9,900."""


def best_order(
    sampling: Sampling, costs_of: Callable[[float], Iterable[Cost]], times: float, epsilon: float, delta: float
) -> RenyiDP:
    """Return the currency in which ``times`` batches can be strongest within (epsilon, delta).

    ``costs_of(strength)`` returns the costs of the releases on one batch; they grow with the strength. The order is
    chosen *before* the run, from public facts only (docs/guarantees.md, 2.5).
    """
    if not (epsilon > 0 and 0 < delta < 1 and times >= 1):
        raise ValueError(f"epsilon={epsilon!r}, delta={delta!r}, times={times!r}: need > 0, within (0, 1), >= 1")
    best: RenyiDP | None = None
    strength = 0.0
    for order in ORDERS:
        currency = RenyiDP(order)
        try:
            price = currency.limit(epsilon, delta) / times
        except ValueError:  # no price at this order is small enough for (epsilon, delta)
            continue
        if best is None or currency.price(sampling.cost(costs_of(strength))) < price:
            best, strength = currency, sampling.strongest(costs_of, price, currency)
    if best is None:
        raise ValueError(f"epsilon={epsilon!r} with delta={delta!r} is too small for sampled batches: raise either")
    return best
