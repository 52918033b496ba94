"""The fits that a call will make, as a tree: a leaf is one fit, a branch adds, repeats or chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..data import Facts, Unknown, UnknownFact
from ..estimators.plan import budget_of_plan
from ..privacy import Budget
from ..privacy.durable.terms import NOTHING, Amount, Terms, decimal
from .private_step import private_step


def promising(model: Any) -> Any:
    """Return whose parameters say what a fit of this model protects: a search keeps the promise of its estimator."""
    return model if hasattr(model, "adjacency") else private_step(model.estimator)


class Fits(ABC):
    """Some fits, each with an amount that it costs."""

    @abstractmethod
    def total(self, amount: Callable[[OneFit], Fraction], *, spared: bool = False) -> Fraction:
        """Return the largest sum of amounts that these fits can reach.

        ``spared`` leaves out the fits whose training set lacks any one row: those that this row has to pay for remain.
        """

    @abstractmethod
    def leaves(self) -> Iterator[OneFit]:
        """Yield every fit that may be made, once."""


@dataclass(frozen=True)
class OneFit(Fits):
    """A fit of a private model, and its budget: None where it is not known before the data are seen."""

    model: Any
    budget: Budget | None
    private: bool
    unit: str

    @property
    def adjacency(self) -> str:
        """Which data sets are neighbours."""
        return str(promising(self.model).adjacency)

    @classmethod
    def of(cls, model: Any, facts: Sequence[Facts | Unknown], unit: str) -> OneFit:
        """Return a fit on data with one of these facts, of which the last has the most classes."""
        if hasattr(model, "budget_of_fit"):
            return cls(model, model.budget_of_fit(), model.random_state is None, unit)
        if model.classes is not None:  # which no training set lacks
            most = facts[-1]
            facts = [known for known in facts if known is most or known.n_classes == most.n_classes]
        try:
            first, *others = [budget_of_plan(model, known) for known in facts]
        except UnknownFact:
            return cls(model, None, model.random_state is None, unit)
        same = all(other == first for other in others)
        return cls(model, first if same else None, model.random_state is None and first is not None, unit)

    def total(self, amount: Callable[[OneFit], Fraction], *, spared: bool = False) -> Fraction:
        return amount(self)

    def leaves(self) -> Iterator[OneFit]:
        yield self

    def stated(self, name: str) -> Fraction:
        """Return epsilon or delta."""
        return decimal(float(getattr(self.budget or self.model, name)))

    def price(self, terms: Terms) -> Amount:
        """Return what a ledger with these terms sets aside for the fit; raise ValueError if it refuses it."""
        terms.require_fit(type(self.model).__name__, self.adjacency, self.private, self.unit)
        if not self.private:
            return NOTHING
        if self.budget is not None:
            return terms.price(self.budget)
        if terms.currency == "basic":
            return Amount(self.stated("epsilon"), self.stated("delta"))
        name = type(self.model).__name__
        if self.model.columns is not None:
            raise ValueError(
                f"what {name} costs in {terms.currency} depends on its columns, and where values are discovered on the "
                "rows of each fit: give X, n_rows, n_features and n_classes, and lists of all categories, or use a "
                "ledger with currency='basic'"
            )
        raise ValueError(
            f"what {name} costs in {terms.currency} depends on the numbers of rows, columns and classes: give n_rows, "
            "n_features and n_classes, or name a solver"
        )


@dataclass(frozen=True)
class All(Fits):
    """All of these fits."""

    parts: Sequence[Fits] = ()

    def total(self, amount: Callable[[OneFit], Fraction], *, spared: bool = False) -> Fraction:
        return sum((part.total(amount, spared=spared) for part in self.parts), Fraction(0))

    def leaves(self) -> Iterator[OneFit]:
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True)
class Times(Fits):
    """The same fits on several training sets, from ``missing`` of which any one row is certain to be absent."""

    part: Fits
    times: int
    missing: int = 0

    def total(self, amount: Callable[[OneFit], Fraction], *, spared: bool = False) -> Fraction:
        return (self.times - self.missing * spared) * self.part.total(amount, spared=spared)

    def leaves(self) -> Iterator[OneFit]:
        yield from self.part.leaves()


@dataclass(frozen=True)
class SomeOf(Fits):
    """So many of these fits: which of them is not known beforehand, so the dearest count."""

    parts: Sequence[Fits]
    tried: int

    def total(self, amount: Callable[[OneFit], Fraction], *, spared: bool = False) -> Fraction:
        totals = sorted(part.total(amount, spared=spared) for part in self.parts)
        return sum(totals[len(totals) - self.tried :], Fraction(0))

    def leaves(self) -> Iterator[OneFit]:
        for part in self.parts:
            yield from part.leaves()
