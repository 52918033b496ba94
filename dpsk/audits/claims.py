"""What a fit promises about two data sets, and how much of it an attack has used up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..mechanisms.samplers import Floats
from ..privacy import PrivacySpent, conversions
from ..privacy.currencies import ZCDP, Currency, GaussianDP, PureDP
from .coins import Profile

_EPSILONS = np.concatenate([np.linspace(0, 1, 41), np.geomspace(1.05, 60, 80)])
"""Where profiles are compared; profiles fall, so what happens between two of them is bounded by both."""

Test: TypeAlias = Callable[[Profile], bool]
"""Whether a promise, given as its delta at each epsilon, is allowed by what was seen."""


@dataclass(frozen=True)
class Claim:
    """The promise of a fit: (epsilon, delta), and with a currency the delta for every other epsilon.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 17.2)
    What :meth:`least_epsilon` returns is a lower bound on the epsilon of every promise of this kind that is true, if
    the profile it was given lies below the one of the two data sets.
    """

    epsilon: float
    delta: float
    currency: Currency | None = None
    limit: float = math.nan

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < math.inf and 0 <= self.delta < 1):
            raise ValueError(
                f"epsilon={self.epsilon!r} and delta={self.delta!r} are no promise that an audit can test: epsilon has "
                "to be positive and finite, and delta must lie in [0, 1)"
            )

    @classmethod
    def of(cls, spent: Any) -> Claim:
        """Return the promise of a report of dpsk, or of anything that has an ``epsilon`` and perhaps a ``delta``."""
        if isinstance(spent, PrivacySpent):
            return cls(spent.epsilon, spent.delta, spent.currency, spent.limit)
        return cls(float(spent.epsilon), float(getattr(spent, "delta", 0.0) or 0.0))

    def delta_at(self, epsilon: Floats, size: int = 1) -> Floats:
        """Return the delta promised at each epsilon for data sets that differ in so many units."""
        return self._delta_at(self._amount, epsilon, size)

    def refuted_by(self, profile: Profile, size: int = 1, also: Test | None = None) -> bool:
        """Return whether these two data sets need more than what was promised."""
        return not self._allows(self._amount * (1 + 1e-9), profile, size, also)

    def least_epsilon(self, profile: Profile, size: int = 1, also: Test | None = None) -> float:
        """Return the smallest epsilon, at the delta of the claim, of a promise that allows the profile.

        It is the larger of two bounds: on epsilon if nothing but (epsilon, delta) is promised, and on the epsilon of
        promises in the same currency. ``also`` tells of a whole promise whether it is allowed; of two, it may not allow
        the smaller one only.
        """
        alone = replace(self, currency=None, limit=math.nan)._least(profile, size)
        return alone if self.currency is None and also is None else max(alone, self._least(profile, size, also))

    def _least(self, profile: Profile, size: int, also: Test | None = None) -> float:
        if self._allows(0.0, profile, size, also):
            return 0.0
        low, high = 0.0, self._amount
        while not self._allows(high, profile, size, also):
            low, high = high, 2 * high
            if high > 1e4 * self._amount:
                return math.inf
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self._allows(middle, profile, size, also) else (middle, high)
        return low if self.currency is None or low == 0 else float(self.currency.epsilon(low, self.delta))

    @property
    def _amount(self) -> float:
        return self.epsilon if self.currency is None else self.limit

    def _allows(self, amount: float, profile: Profile, size: int, also: Test | None = None) -> bool:
        # a pure promise has its corner at its own epsilon
        epsilons = np.append(_EPSILONS, size * amount) if isinstance(self.currency, PureDP | None) else _EPSILONS
        if not (profile(epsilons) <= self._delta_at(amount, epsilons, size)).all():
            return False
        return also is None or also(lambda epsilon: self._delta_at(amount, epsilon, size))

    def _delta_at(self, amount: float, epsilon: Floats, size: int) -> Floats:
        currency = self.currency
        if amount <= 0:
            failure = currency.failure if isinstance(currency, GaussianDP) else self.delta if currency is None else 0.0
            return np.full(np.shape(epsilon), size * failure)
        if size > 1 and isinstance(currency, GaussianDP) and currency.discovery is None:
            amount, size = size * size * amount, 1
        elif size > 1 and isinstance(currency, ZCDP):
            amount, size = size * size * amount, 1  # Bun & Steinke (2016), Proposition 27
        elif size > 1 and isinstance(currency, PureDP):
            amount, size = size * amount, 1
        if size == 1:
            return np.array([self._single(amount, float(one)) for one in np.atleast_1d(epsilon)])
        each = np.atleast_1d(epsilon) / size  # Dwork & Roth (2014), Theorem 2.2, one unit after the other
        steps = np.exp(np.minimum(np.outer(each, np.arange(size)), 700)).sum(axis=1)
        single = np.array([self._single(amount, float(one)) for one in each])
        deltas: Floats = np.minimum(1.0, steps * single)
        return deltas

    def _single(self, amount: float, epsilon: float) -> float:
        if self.currency is not None:
            return float(self.currency.delta(amount, epsilon))
        return float(self.delta + (1 - self.delta) * conversions.pure_delta(epsilon, amount))
