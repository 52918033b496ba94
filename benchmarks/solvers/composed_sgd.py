"""Noisy stochastic gradient descent under the accounting of its time: SGD-Adv and SGD-MA."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ..inside import (
    SGD,
    Budget,
    BudgetExhausted,
    GaussianCost,
    Linear,
    LinearEncoding,
    LossNamed,
    NumericClassifier,
    Plan,
    Sampling,
    conversions,
    l2_of,
    require_single_row,
    with_parameters_of,
)

__all__ = ["SGDMA", "AdvancedComposition", "EqualSteps", "MomentsAccountant", "SGDAdv"]


@dataclass(frozen=True)
class EqualSteps:
    """A currency for equal Gaussian releases, one per Poisson batch: what adds up is their number.

    Formal guarantee: the ledger takes only the planned release, at the price of 1, and stopping before the last one is
    post-processing. ``delta`` is what subclasses prove of ``limit`` of them. Neighbours: a row leaves.
    """

    rate: float
    noise_multiplier: float

    @property
    def name(self) -> str:
        return f"steps of noise {self.noise_multiplier:.4g} at rate {self.rate:.4g}"

    def price(self, cost) -> float:
        return 1.0 if cost == Sampling(self.rate).cost([GaussianCost(1 / self.noise_multiplier)]) else math.inf

    def delta(self, limit: float, epsilon: float) -> float:
        raise NotImplementedError

    def epsilon(self, limit: float, delta: float) -> float:
        return conversions.smallest_epsilon(lambda epsilon: self.delta(limit, epsilon), delta, 1.0)

    def limit(self, epsilon: float, delta: float) -> float:
        return float(math.floor(conversions.largest_within(lambda steps: self.delta(steps, epsilon), delta)))

    def rho(self, limit: float) -> None:
        return None

    def epsilon_for_group(self, limit: float, delta: float, size: int) -> float:
        require_single_row(size, "a number of sampled steps", "sampling_rate=1.0")
        return self.epsilon(limit, delta)

    @classmethod
    @lru_cache(maxsize=256)
    def plan(cls, rate: float, steps: int, epsilon: float, delta: float) -> EqualSteps:
        """Return the plan with the least noise (to 0.1 %) of which ``steps`` steps are (epsilon, delta)-DP."""

        def enough(noise: float) -> bool:
            return cls(rate, noise).delta(steps, epsilon) <= delta

        low, high = 0.1, 1.0
        while not enough(high):
            low, high = high, 2 * high
            if high > 1e9:
                raise BudgetExhausted(
                    f"no noise makes {steps} steps ({epsilon!r}, {delta!r})-DP by {cls.__name__}: raise epsilon"
                )
        while high > 1.001 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return cls(rate, high)


class AdvancedComposition(EqualSteps):
    """Advanced composition of amplified releases, as SGD-Adv uses it (Bassily, Smith & Thakurta 2014).

    Theorems. A Gaussian release with noise multiplier s is (a, g(a))-DP for every a, g the exact profile (Balle & Wang
    2018). On a Poisson sample at rate q it is (b, q g(a))-DP with b = log(1 + q (e^a - 1)) (Balle, Barthe & Gaboardi
    2018). T adaptive (b, d)-DP releases are (sqrt(2 T log(1/d')) b + T b (e^b - 1), T d + d')-DP for every d' (Dwork,
    Rothblum & Vadhan 2010). The best of a grid of a is taken; each is a proof.
    """

    def delta(self, limit: float, epsilon: float) -> float:
        best = 1.0
        for a in np.geomspace(1e-4, 20, 200):
            b = math.log1p(self.rate * math.expm1(a))
            left = epsilon - limit * b * math.expm1(b)
            if left > 0:
                slack = math.exp(-((left / b) ** 2) / (2 * limit))
                each = self.rate * conversions.gaussian_delta(float(a), 1 / self.noise_multiplier)
                best = min(best, limit * each + slack)
        return best * (1 + 1e-9)


class MomentsAccountant(EqualSteps):
    """The moments accountant of Abadi et al. (2016): moments of the privacy loss up to the 32nd, and Markov's bound.

    Theorem. The l-th log moment of one release is l D(l + 1), D its Renyi divergence (Mironov, Talwar & Zhang 2019 for
    Poisson samples); those of adaptive releases add up; delta = min over l of exp(T l D(l + 1) - l epsilon). With 32
    moments no epsilon below log(1/delta)/32 can be promised, whatever the noise: 0.576 at delta = 1e-8.
    """

    moments = tuple(range(1, 33))

    def delta(self, limit: float, epsilon: float) -> float:
        step = Sampling(self.rate).cost([GaussianCost(1 / self.noise_multiplier)])
        exponents = (moment * (limit * step.rdp(moment + 1) - epsilon) for moment in self.moments)
        return math.exp(min(0.0, min(exponents))) * (1 + 1e-9)


class AllMoments(MomentsAccountant):
    """The same with moments far beyond the 32nd, which small epsilons need."""

    moments = (*range(1, 33), *(int(32 * 1.15**i) for i in range(1, 42)))


class _ComposedSGD(NumericClassifier):
    """DP-SGD on batches of sqrt(n) rows on average; subclasses say how they add up."""

    loss: str = "log_loss"
    alpha: float = 1e-3
    steps: int = 500
    learning_rate: float = 1.0
    gradient_clip: float = 1.0
    average: float = 0.5

    _currency_type: ClassVar[type[EqualSteps]]

    def _plan(self, facts):
        whole = Budget.of(self.epsilon, self.delta)  # or its error
        plan = self._currency_type.plan(1 / math.sqrt(facts.n_rows), self.steps, whole.epsilon, whole.delta)
        return Plan(
            with_parameters_of(self, SGD, sampling=Sampling(plan.rate), noise_multiplier=plan.noise_multiplier),
            Linear(LossNamed(self.loss), l2_of(self)),
            with_parameters_of(self, LinearEncoding, row_major=True),
            Budget(whole.epsilon, whole.delta, plan, float(self.steps)),
        )


class SGDAdv(_ComposedSGD):
    """SGD-Adv: (epsilon, delta)-DP by amplification and advanced composition (:class:`AdvancedComposition`).

    Bassily, Smith & Thakurta (2014) with batches instead of single rows, as in Lee & Kifer (2018).
    """

    _currency_type = AdvancedComposition


class SGDMA(_ComposedSGD):
    """SGD-MA: (epsilon, delta)-DP by the moments accountant (:class:`MomentsAccountant`; Abadi et al. 2016).

    ``all_moments=True`` goes beyond the 32 moments of its time, without which a small epsilon cannot be promised.
    """

    all_moments: bool = False

    @property
    def _currency_type(self):
        return AllMoments if self.all_moments else MomentsAccountant
