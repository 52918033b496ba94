"""Accounting by privacy loss distributions, for noise and numbers of steps that are fixed in advance.

The optional dependency dp-accounting (``pip install "dpsk[pld]"``) makes the convolutions and rounds privacy losses up.
The epsilon is 7 to 10 % smaller than that of a Renyi bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .amplification import Sampling, best_order
from .costs import Cost, GaussianCost
from .currencies import require_single_row
from .rounding import down, up


@dataclass(frozen=True)
class PlannedSteps:
    """A currency for equal Gaussian releases, one per Poisson batch: what adds up is their number.

    Formal guarantee: the ledger takes only the planned release, at the price of 1. Its privacy loss distribution on a
    Poisson sample, for rows that leave, composed ``limit`` times, bounds every run that stops at or before that (Zhu,
    Dong & Wang 2022; Doroshenko et al. 2022; docs/guarantees.md, 2.8).
    """

    rate: float
    noise_multiplier: float
    interval: float = 1e-4
    """Privacy losses are rounded up to multiples of this."""

    @property
    def name(self) -> str:
        return f"steps of noise {self.noise_multiplier:.4g} at rate {self.rate:g}"

    @classmethod
    @lru_cache(maxsize=64)
    def plan(cls, rate: float, steps: int, epsilon: float, delta: float) -> PlannedSteps:
        """Return the plan with the least noise (to 0.01 %) of which ``steps`` steps are (epsilon, delta)-DP."""
        require_dp_accounting()
        interval = max(1e-5, 2e-4 * epsilon)

        def enough(noise: float) -> bool:
            return cls(rate, noise, interval).delta(steps, epsilon) <= delta

        # what a Renyi bound asks for is enough, and not by much too much
        sampling = Sampling(rate)
        currency = best_order(sampling, _one_gaussian, steps, epsilon, delta)
        renyi = high = 1 / sampling.strongest(_one_gaussian, currency.limit(epsilon, delta) / steps, currency)
        while not enough(high):  # by its rounding, if at all
            high *= 1.01
            if high > 1.1 * renyi:
                raise ValueError(
                    f"delta={delta!r} is too small for privacy loss distributions, which cut tails off: use "
                    "accountant='rdp'"
                )
        low = 0.9 * high
        while enough(low):
            low, high = 0.9 * low, low
        while high > 1.0001 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return cls(rate, high, interval)

    def price(self, cost: Cost) -> float:
        planned = Sampling(self.rate).cost(_one_gaussian(1 / self.noise_multiplier))
        return 1.0 if cost == planned else math.inf

    def limit(self, epsilon: float, delta: float) -> float:
        low, high = 0, 1
        while self.delta(high, epsilon) <= delta and high < 2**40:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.delta(middle, epsilon) <= delta else (low, middle)
        return float(low)

    def epsilon(self, limit: float, delta: float) -> float:
        left = down(delta) - _lost(limit)
        return up(float(_composed(self, math.ceil(limit)).get_epsilon_for_delta(left))) if left > 0 else math.inf

    def delta(self, limit: float, epsilon: float) -> float:
        found = float(_composed(self, math.ceil(limit)).get_delta_for_epsilon(epsilon))
        return min(1.0, up(max(0.0, found) + _lost(limit)))

    def rho(self, limit: float) -> None:
        return None

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        require_single_row(size, "a number of sampled steps", "sampling_rate=1.0")
        return self.epsilon(limit, delta)


def _lost(steps: float) -> float:
    """Return how much too small Fourier transforms may make a delta: some roundings for every factor of a power.

    Without this correction deltas of exact Gaussians were too small by up to 1.1e-12 at 100,000 steps (tests), or even
    negative.
    """
    return math.ceil(steps) * 2.0**-50


def _one_gaussian(mu: float) -> list[GaussianCost]:
    return [GaussianCost(mu)]


@lru_cache(maxsize=8)
def _composed(plan: PlannedSteps, steps: int) -> Any:
    losses = require_dp_accounting()
    one = losses.from_gaussian_mechanism(
        down(plan.noise_multiplier),
        sampling_prob=plan.rate,
        value_discretization_interval=plan.interval,
        use_connect_dots=True,
    )
    return one.self_compose(steps) if steps > 1 else one


def require_dp_accounting() -> Any:
    """Return dp-accounting's module of privacy loss distributions; if it is missing raise ImportError with a remedy."""
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError as error:
        raise ImportError(
            "accountant='pld' needs dp-accounting: pip install \"dpsk[pld]\", or use accountant='rdp'"
        ) from error
    return privacy_loss_distribution
