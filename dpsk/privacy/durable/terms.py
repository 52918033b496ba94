"""The terms of a durable ledger, fixed when it is created, and the amount that a fit counts for under them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

from .. import conversions
from ..costs import PureCost
from ..currencies import ZCDP, Currency, GaussianDP, PureDP
from ..discovery import INSTEAD, SMALLEST_FAILURE
from ..ledger import Budget
from ..neighbours import Adjacency
from ..units import ROW, as_unit, require_same_unit

CURRENCIES: dict[str, Currency | None] = {"basic": None, ZCDP.name: ZCDP(), GaussianDP.name: GaussianDP()}
"""What a durable ledger can be kept in; "basic" adds up epsilons and deltas of whole fits."""


def decimal(value: float) -> Fraction:
    """Return the shortest decimal number that gives this float: the number that a person typed.

    So ten fits of 0.1 fill a ledger of 1, although ten floats of 0.1 do not add up to 1. The decimal number and the
    float differ by less than one part in 2^53, the accuracy to which prices are known.
    """
    return Fraction(repr(float(value)))


def float_below(value: Fraction) -> float:
    """Return a float that counts as at most ``value``: asking for exactly this much fits."""
    nearest = float(value)
    while decimal(nearest) > value:
        nearest = math.nextafter(nearest, -math.inf)
    return nearest


def float_above(value: Fraction) -> float:
    """Return a float that counts as at least ``value``."""
    nearest = float(value)
    while decimal(nearest) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


@dataclass(frozen=True)
class Amount:
    """An exact amount: epsilon and delta under basic composition, otherwise rho or mu**2.

    Beside mu**2, delta is that of discoveries of values alone; beside rho there is none.
    """

    main: Fraction
    delta: Fraction

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.main + other.main, self.delta + other.delta)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.main - other.main, self.delta - other.delta)

    def fits_into(self, limit: Amount) -> bool:
        return self.main <= limit.main and self.delta <= limit.delta


NOTHING = Amount(Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Spend:
    """One fit, or one private score, as a ledger recorded it.

    ``reserved`` was reserved before the data were touched. ``counted`` is what counts now: all of it if the fit is
    "open" (it runs, or it crashed), the final amount if it is "closed", nothing if it is "returned" (it ended before
    anything was drawn) or not private.

    ``id`` is a random name, which the report of the fit carries as ``entry``. ``parameters`` are those of the
    estimator, or the arguments of the score, without ``ledger`` and ``verbose``; of ``random_state`` they tell only
    whether it was given. ``who`` and ``note`` are what somebody said. A fit that an older version recorded has no
    parameters (None).
    """

    number: int
    label: str
    datasets: tuple[str, ...]
    private: bool
    epsilon: float
    delta: float
    reserved: dict[str, float]
    counted: dict[str, float]
    state: str
    started: str
    ended: str | None
    id: str = ""
    parameters: dict[str, Any] | None = None
    who: str = ""
    note: str = ""


@dataclass(frozen=True)
class Terms:
    """What was fixed when a ledger was created.

    Formal guarantee: a fit never counts for less than it guarantees. Under "basic" every budget counts as its (epsilon,
    delta), under "rho" or "mu**2" as the rho or mu**2 that its limit implies. A budget without a finite amount there is
    refused. Under "mu**2" the failures of discoveries add up as well, and stay within the reserve (docs/guarantees.md,
    12.1 and 12.9). All fits protect the same unit (docs/guarantees.md, 12.10).
    """

    epsilon: float
    delta: float
    currency: str
    limit: Amount
    adjacency: str
    disjoint: tuple[str, ...]
    allow_nonprivate: bool
    reserve: float = 0.0
    unit: str = ROW

    @classmethod
    def fixed(
        cls,
        *,
        epsilon: Any,
        delta: Any,
        currency: Any,
        adjacency: Any,
        disjoint: Any,
        allow_nonprivate: Any,
        reserve: Any = None,
        unit: Any = None,
    ) -> Terms:
        """Return the terms with these parameters, where None stands for the default; raise ValueError if one is bad."""
        for name, value in (("epsilon", epsilon), ("delta", delta)):
            if value is None:
                raise ValueError(f"a new ledger needs epsilon and delta, the budget of the data: {name} is missing")
            if isinstance(value, bool) or not isinstance(value, Real):
                raise ValueError(f"{name}={value!r} must be a number")
        epsilon, delta = float(epsilon), float(delta)
        currency = "basic" if currency is None else currency
        if currency not in CURRENCIES:
            raise ValueError(f"currency={currency!r} must be one of {', '.join(map(repr, CURRENCIES))}")
        adjacency = Adjacency("zero-out" if adjacency is None else adjacency).value
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise ValueError(f"epsilon={epsilon!r} must be a positive finite number")
        if not 0 <= delta < 1:
            raise ValueError(f"delta={delta!r} must lie in [0, 1); choose it well below 1/(number of rows)")
        reserve = _reserve(0 if reserve is None else reserve, currency, delta)
        limit = _limit(epsilon, delta, CURRENCIES[currency], reserve)
        names = () if disjoint is None else _different_names(disjoint)
        if allow_nonprivate not in (None, False, True):
            raise ValueError(f"allow_nonprivate={allow_nonprivate!r} must be True or False")
        unit = as_unit(ROW if unit is None else unit)
        return cls(epsilon, delta, currency, limit, adjacency, names, bool(allow_nonprivate), reserve, unit)

    def require(self, path: str, **given: Any) -> None:
        """Raise ValueError if a parameter that is given (not None) is not the one fixed in the ledger at ``path``."""
        for name, value in given.items():
            held = getattr(self, name)
            if name == "disjoint" and value is not None:
                value, held = sorted(value), sorted(held)
            if value is not None and value != held:
                raise ValueError(
                    f"{name}={value!r}, but the ledger {path!r} was created with {name}={held!r}, and that stays. "
                    f"Leave {name} out to open it, or create another ledger for other data"
                )

    def require_fit(self, label: str, adjacency: str, private: bool, unit: str = ROW) -> None:
        """Raise ValueError unless fits of this kind are taken."""
        require_same_unit(label, unit, self.unit)
        if adjacency != self.adjacency:
            raise ValueError(
                f"{label} has adjacency={adjacency!r}, but the ledger protects under {self.adjacency!r}: two different "
                "promises do not add up. Change one of them, or keep another ledger"
            )
        if not private and not self.allow_nonprivate:
            raise ValueError(
                f"{label} would not be private (random_state is given, or epsilon is infinite), and the ledger refuses "
                "such fits: they would void its guarantee. Leave random_state out, give a finite epsilon, or "
                "experiment with a ledger created with allow_nonprivate=True"
            )

    def require_datasets(self, names: tuple[str, ...]) -> None:
        """Raise ValueError unless these are names, and declared ones where data sets are disjoint."""
        for name in names:
            if not _is_name(name):
                raise ValueError(f"dataset={name!r} must be a name, a string that is not empty")
            if self.disjoint and name not in self.disjoint:
                raise ValueError(
                    f"dataset={name!r} is not one of the disjoint data sets that this ledger was created for: "
                    f"{', '.join(map(repr, self.disjoint))}"
                )

    def price(self, budget: Budget) -> Amount:
        """Return what a fit with this budget reserves; raise ValueError if it has no finite amount here."""
        kept_in = CURRENCIES[self.currency]
        if kept_in is None:
            return Amount(decimal(budget.epsilon), decimal(budget.delta))
        amount, failure = amount_in(budget, kept_in) or (math.inf, 0.0)
        if not (amount > 0 and math.isfinite(amount)):
            raise ValueError(
                f"this ledger is kept in {self.currency}, and a fit whose budget is kept in {_kind(budget)} has "
                f"no {self.currency}: use a ledger with currency='basic'{_instead(budget)}"
            )
        if decimal(failure) > self.limit.delta:
            raise ValueError(
                f"this fit discovers values and takes {failure:g} of delta for that, but the ledger has a reserve of "
                f"{self.reserve:g} for discoveries: create a ledger with reserve=..., a part of its delta, or use one "
                f"with currency='basic', or {INSTEAD}"
            )
        return Amount(decimal(amount), decimal(failure))

    def settled(self, budget: Budget, charged: float, failure: float) -> Amount:
        """Return what a fit that ended after charging this much of its budget, and this failure, counts as."""
        if type(budget.currency) is type(CURRENCIES[self.currency]) and 0 < charged <= budget.limit:
            return Amount(decimal(charged), decimal(failure))
        return self.price(budget)

    def remedy(self, amount: Amount, left: Amount) -> str:
        """Return what helps, as the end of a message, where the reserve for discoveries is what is used up."""
        if self.reserve and amount.main <= left.main:
            return f". The reserve of delta for discoveries is used up: {INSTEAD}"
        return ""

    def as_dict(self, amount: Amount) -> dict[str, float]:
        """Return an amount as numbers by name, never rounded up."""
        if self.currency == "basic":
            return {"epsilon": float_below(amount.main), "delta": float_below(amount.delta)}
        discoveries = {"delta": float_below(amount.delta)} if self.reserve else {}
        return {self.currency: float_below(amount.main)} | discoveries

    def words(self, amount: Amount) -> str:
        """Return an amount in words."""
        return " and ".join(f"{name} {value:.9g}" for name, value in self.as_dict(amount).items())


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name.strip())


def _different_names(disjoint: Any) -> tuple[str, ...]:
    if isinstance(disjoint, str) or not all(_is_name(name) for name in disjoint):
        raise ValueError(f"disjoint={disjoint!r} must be None or a list of names of data sets without common rows")
    names = tuple(disjoint)
    if len(set(names)) < len(names) or len(names) == 1:
        raise ValueError(f"disjoint={disjoint!r} must hold two or more different names")
    return names


def amount_in(budget: Budget, kept_in: Currency) -> tuple[float, float] | None:
    """Return the amount of a whole budget in a currency and the failure of its discovery; None where it has none."""
    if isinstance(budget.currency, GaussianDP) and isinstance(kept_in, GaussianDP):
        return budget.limit, budget.currency.failure
    if budget.currency == kept_in:
        return budget.limit, 0.0
    if kept_in == ZCDP():
        rho = budget.currency.rho(budget.limit)
        return None if rho is None else (rho, 0.0)
    if budget.currency == PureDP():
        return kept_in.price(PureCost(budget.limit)), 0.0
    return None


def epsilon_of(currency: Currency, amount: float, failure: float, delta: float) -> float:
    """Return the epsilon that an amount guarantees at ``delta`` if discoveries fail with this probability together."""
    if failure:  # only mu**2 has discoveries
        return conversions.gaussian_epsilon(delta, math.sqrt(amount), failure)
    return currency.epsilon(amount, delta)


def _limit(epsilon: float, delta: float, kept_in: Currency | None, reserve: float) -> Amount:
    """Return the limit that guarantees (epsilon, delta) in a currency, None for "basic"."""
    if kept_in is None:
        return Amount(decimal(epsilon), decimal(delta))
    if reserve:
        return Amount(decimal(conversions.gaussian_square(epsilon, delta, reserve)), decimal(reserve))
    return Amount(decimal(kept_in.limit(epsilon, delta)), Fraction(0))


def _kind(budget: Budget) -> str:
    return f"{budget.currency.name} with a discovery of values" if _discovers(budget) else budget.currency.name


def _instead(budget: Budget) -> str:
    return f", or {INSTEAD}" if _discovers(budget) else ""


def _discovers(budget: Budget) -> bool:
    return isinstance(budget.currency, GaussianDP) and budget.currency.discovery is not None


def _reserve(value: Any, currency: str, delta: float) -> float:
    """Return the part of delta that is for discoveries; raise ValueError if there cannot be one."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"reserve={value!r} must be a number")
    reserve = float(value)
    if reserve and currency != GaussianDP.name:
        raise ValueError(
            f"reserve={reserve!r} is for a ledger with currency='mu**2'. With currency={currency!r} leave it out: "
            "'basic' takes discoveries as they are, and 'rho' takes none"
        )
    if reserve != 0 and not SMALLEST_FAILURE <= reserve < delta:
        raise ValueError(f"reserve={reserve!r} must lie between 0 and delta={delta!r}, which it is a part of")
    return reserve
