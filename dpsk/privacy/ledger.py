"""The budget of one fit: a cap fixed beforehand, and the ledger that records and enforces it."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import NoReturn

from . import conversions
from .costs import Cost, DiscoveryCost
from .currencies import ZCDP, Currency, PureDP
from .discovery import INSTEAD
from .rounding import above, below
from .units import ROW, as_unit


class BudgetExhausted(ValueError):
    """The budget is too small for a release. Nothing was drawn, and the message says nothing about the data."""


@dataclass(frozen=True)
class Release:
    """``count`` releases with this label, each at ``cost`` in the ledger's currency."""

    label: str
    count: int
    cost: float


@dataclass(frozen=True)
class Recorded:
    """Where a fit is recorded: the id of its entry and the identity of the durable ledger; None where it is not."""

    entry: str | None = None
    ledger: str | None = None


@dataclass(frozen=True)
class Budget:
    """The guarantee promised before a fit: (epsilon, delta), and the limit that buys it in one currency.

    Build one with :meth:`of` or :meth:`from_rho`.
    """

    epsilon: float
    delta: float
    currency: Currency
    limit: float

    def __post_init__(self) -> None:
        if not self.currency.delta(self.limit, self.epsilon) <= self.delta:
            raise ValueError(
                f"{self.limit!r} {self.currency.name} does not guarantee ({self.epsilon!r}, {self.delta!r}): "
                "use Budget.of or Budget.from_rho"
            )

    @classmethod
    def of(cls, epsilon: float, delta: float, *, currency: Currency | None = None, conversion: str = "exact") -> Budget:
        """Return the budget that guarantees (epsilon, delta), kept in ``currency``.

        Without a currency: zCDP, or pure epsilon when ``delta`` is 0. ``conversion="paper"`` uses the smaller rho of
        Lee & Kifer (2018) and is for zCDP only.
        """
        _require_positive("epsilon", epsilon)
        if not _is_number(delta) or not 0 <= delta < 1:
            raise ValueError(f"delta={delta!r} must lie in [0, 1); choose it well below 1/(number of rows)")
        epsilon, delta = _python_number(epsilon), _python_number(delta)
        if currency is None:
            currency = ZCDP() if delta > 0 else PureDP()
        if conversion == "exact":
            limit = currency.limit(epsilon, delta)
        elif conversion == "paper" and isinstance(currency, ZCDP) and delta > 0:
            limit = conversions.paper_rho(epsilon, delta)
        elif conversion == "paper":
            raise ValueError("conversion='paper' is defined for a budget kept in rho with delta > 0; use 'exact'")
        else:
            raise ValueError(f"conversion={conversion!r} must be 'exact' or 'paper'")
        return cls(float(epsilon), float(delta), currency, limit)

    @classmethod
    def from_rho(cls, rho: float, delta: float) -> Budget:
        """Return the budget of rho-zCDP, with the epsilon it guarantees at ``delta``."""
        _require_positive("rho", rho)
        if not _is_number(delta) or not 0 < delta < 1:
            raise ValueError(f"delta={delta!r} must lie strictly between 0 and 1 to state the epsilon of rho={rho!r}")
        rho, delta, currency = float(rho), float(delta), ZCDP()
        return cls(currency.epsilon(rho, delta), delta, currency, rho)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:  # a whole number that no float can hold
        return False
    return True


def _python_number(value: float) -> float:
    """Return a NumPy number as a Python one: arithmetic in a narrow type would round."""
    number: float = getattr(value, "item", lambda: value)()
    return number


def _require_positive(name: str, value: float) -> None:
    if not _is_number(value) or not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}={value!r} must be a positive finite number")


_NOWHERE = Recorded()


class Ledger:
    """Append-only record and privacy filter of one budget.

    Formal guarantee: whatever prices are asked for, adaptively, the recorded sum never exceeds ``budget.limit``; by the
    filter theorem of the currency (:mod:`dpsk.privacy.currencies`) all releases together then keep the budget's
    (epsilon, delta). Sums are exact rational numbers: nothing is lost in adding up. (A price itself is a float, correct
    to about 1e-16.) A discovery is accepted once. (docs/guarantees.md, 2.6 and 14.7)
    """

    def __init__(self, budget: Budget, *, unit: str = ROW, recorded: Recorded = _NOWHERE) -> None:
        if not (budget.limit > 0 and math.isfinite(budget.limit)):
            raise ValueError(f"a budget of {budget.limit!r} {budget.currency.name} must be positive and finite")
        self._budget, self._unit, self._recorded = budget, as_unit(unit), recorded
        self._limit = Fraction(budget.limit)
        self._charged = self._held = Fraction(0)
        self._failure = 0.0
        self._releases: dict[tuple[str, float], int] = {}
        self._turn = 0
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def budget(self) -> Budget:
        """The guarantee, fixed when the ledger was opened."""
        return self._budget

    @property
    def unit(self) -> str:
        """What the guarantee protects: "row", or the name of the persons whose rows are protected together."""
        return self._unit

    @property
    def recorded(self) -> Recorded:
        """The entry of the durable ledger that this budget was set aside in, if there is one."""
        return self._recorded

    @property
    def charged(self) -> float:
        """What was charged so far, rounded up."""
        return above(self._charged)

    @property
    def failure(self) -> float:
        """The part of delta that the discovery took, 0 as long as there was none."""
        return self._failure

    @property
    def remaining(self) -> float:
        """What is left and not held back, rounded down: a price of exactly this much still fits."""
        return below(self._limit - self._charged - self._held)

    @property
    def turn(self) -> int:
        """The number of accepted charges. A batch or search can be used only until the next charge is accepted."""
        return self._turn

    @property
    def releases(self) -> tuple[Release, ...]:
        """What was charged, in the order in which each kind of release first happened."""
        with self._lock:
            return tuple(Release(label, count, cost) for (label, cost), count in self._releases.items())

    def portion(self, parts: float) -> float:
        """Return the price of one of ``parts`` equal portions of the whole budget, rounded down."""
        if not (parts >= 1 and math.isfinite(parts)):
            raise ValueError(f"parts={parts!r} must be a finite number >= 1")
        exact = Fraction(int(parts)) if parts == int(parts) else Fraction(float(parts))
        return below(self._limit / exact)

    def charge(self, cost: Cost, label: str, times: int = 1) -> int:
        """Record ``times`` releases of this cost, or raise :class:`BudgetExhausted` and record nothing.

        Returns the new :attr:`turn`. This is the only place where prices are multiplied and added.
        """
        if isinstance(times, bool) or not isinstance(times, int) or times < 1:
            raise ValueError(f"times={times!r} must be a positive integer")
        self.require_own_process()
        with self._lock:
            price = self._price(cost, label, times)
            total = times * Fraction(price)
            if self._closed:
                raise RuntimeError(f"{label!r} came after the fit ended: its ledger is closed, nothing was released")
            if self._charged + self._held + total > self._limit:
                raise BudgetExhausted(
                    f"{label!r} asks for {above(total):.6g} {self.budget.currency.name}, but "
                    f"{self.remaining:.6g} of {self.budget.limit:.6g} is left; raise epsilon or ask for fewer releases"
                )
            self._charged += total
            if isinstance(cost, DiscoveryCost):
                self._failure = cost.discovery.failure
            self._turn += 1
            key = (label, price)
            self._releases[key] = self._releases.get(key, 0) + times
            return self._turn

    @contextmanager
    def holding_back(self, price: float) -> Iterator[None]:
        """Keep a part of what is left from every charge, as long as this lasts; raise if there is not so much.

        Formal guarantee: no charge inside goes beyond the limit less this part (docs/guarantees.md, 2.11).
        """
        held = Fraction(price)
        with self._lock:
            if not 0 <= held <= self._limit - self._charged - self._held:
                raise BudgetExhausted(f"{price:.6g} cannot be held back of the {self.remaining:.6g} that is left")
            self._held += held
        try:
            yield
        finally:
            with self._lock:
                self._held -= held

    def _price(self, cost: Cost, label: str, times: int) -> float:
        """Return the price of one release; raise ValueError if it has none, or is a second discovery."""
        price, discovers = self._budget.currency.price(cost), isinstance(cost, DiscoveryCost)
        if not (price > 0 and math.isfinite(price)):
            remedy = f"{type(cost).__name__} may have no price in this currency"
            if discovers:
                remedy = f"A discovery needs a budget kept in GaussianDP that was made for it. Without one, {INSTEAD}"
            raise ValueError(
                f"{label!r} costs {price!r} {self._budget.currency.name}: a price must be positive and finite. {remedy}"
            )
        if discovers and (times > 1 or self._failure):
            raise ValueError(
                f"{label!r} is one discovery more than the one that a budget pays for: discover the values of all "
                "columns in one look"
            )
        return price

    def close(self) -> float:
        """Refuse every later charge, and return what was charged, rounded up: from now on it is final."""
        with self._lock:
            self._closed = True
            return self.charged

    def require_own_process(self) -> None:
        """Raise RuntimeError in a forked copy."""
        if self._process != os.getpid():
            raise RuntimeError("this ledger belongs to the process that opened it: a forked copy is a second budget")

    def __repr__(self) -> str:
        name, limit = self.budget.currency.name, self.budget.limit
        return f"Ledger(charged={self.charged:.6g}, limit={limit:.6g}, currency={name})"

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError("a live ledger cannot be copied or pickled: a copy would be a second budget")

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy
