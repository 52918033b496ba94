"""What a search or cross-validation will cost, before it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    RepeatedKFold,
    check_cv,
)
from sklearn.pipeline import Pipeline

from ..data import Facts, Unknown, UnknownFact, schema_of
from ..estimators.classifier import PrivateClassifier
from ..estimators.plan import budget_of_plan
from ..privacy import Budget, Currency, PrivacyLedger
from ..privacy.durable.store import as_ledger
from ..privacy.durable.terms import CURRENCIES, NOTHING, Amount, Terms, amount_in, decimal, epsilon_of, float_above
from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up
from ..privacy.units import ROW, several, unit_of

_ADVICE = {"PrivateSearchCV": ". A fit of a PrivateSearchCV costs its own epsilon and delta, whatever it holds"}


@dataclass(frozen=True)
class SearchCost:
    """The guarantee of all fits of a search together, and the budget that they need.

    Parameters
    ----------
    fits : int
        How many models are fitted: splits times candidates, and one more if the best is refitted.
    fits_on_a_row : int
        How many of them see any one row, or any row of one person, at most.
    epsilon, delta : float
        The guarantee of all fits together for one unit; inf where no theorem gives one, or a fit is not private.
    composition : str
        By which theorem: "basic", "rho" or "mu**2".
    needs, left : dict or None
        What the fits reserve in the ledger, and what it has left. A ledger counts every fit for every row.
    enough : bool or None
        Whether all fits go through.
    folds_are_public : bool
        Whether the folds follow from the number of rows alone. Stratified folds look at the labels; the guarantee then
        takes the fold of each row as public.
    adjacency : {"zero-out", "replace"}
        Which data sets are neighbours.
    unit : str
        What is protected: "row", or the persons whose rows are protected together.
    """

    fits: int
    fits_on_a_row: int
    epsilon: float
    delta: float
    composition: str
    needs: dict[str, float] | None
    left: dict[str, float] | None
    enough: bool | None
    folds_are_public: bool
    adjacency: str
    unit: str = ROW

    def statement(self) -> str:
        """Return the cost in words, and what the cost does not include."""
        said = [f"{self.fits} fits, of which {self.fits_on_a_row} see any one {self.unit}."]
        if self.epsilon == math.inf:
            said.append(
                f"No (epsilon, delta) at delta = {self.delta:g} covers them: a fit is not private, or delta is small."
            )
        else:
            said.append(
                f"Their models together are ({round_up(self.epsilon, 4)}, {round_up(self.delta, 3)})-differentially "
                f"private ({self.composition} composition), provided that every other step of a pipeline treats each "
                f"row by itself; two data sets are neighbours when "
                f"{Adjacency(self.adjacency).words(self.unit)}."
            )
        if self.unit != ROW:
            said.append(f"The numbers of {several(self.unit)} and of rows in each training set count as public.")
        if not self.folds_are_public:
            said.append(
                "That takes the fold of each row as public, although these folds may depend on labels or ids: KFold "
                "has folds that do not."
            )
        if self.enough is not None:
            needs, left = (_words(amount) for amount in (self.needs, self.left))
            enough = "enough" if self.enough else "NOT ENOUGH"
            said.append(f"The ledger has {left} left and they reserve {needs}: {enough}.")
        said.append(
            "The scores, and the choice of the best by them, are not included: they are un-noised facts about the "
            "held-out rows that nothing pays for. dpsk.private_score releases an accuracy that is paid for."
        )
        return " ".join(said)

    def __str__(self) -> str:
        return self.statement()


def search_cost(
    search: Any,
    X: Any = None,
    y: Any = None,
    groups: Any = None,
    *,
    cv: Any = None,
    delta: float | None = None,
    ledger: Any = None,
    n_rows: int | None = None,
    n_features: int | None = None,
    n_classes: int | None = None,
) -> SearchCost:
    """Return what the fits of a search cost together; nothing is fitted and no data are looked at.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 12.8 and 12.10)
    Epsilon and delta cover all models together, not un-noised scores or a choice by them. They come from sums of
    epsilon and delta, of rho (Bun & Steinke 2016) or of mu**2 (Dong, Roth & Su 2022). With k folds of ``KFold`` or
    ``RepeatedKFold`` k - 1 of k fits count for a row; with any other splitter all fits count. So does a refit. For
    persons all fits count: ``KFold`` may put rows of one into every fold, folds of ``GroupKFold`` depend on the others.

    Parameters
    ----------
    search : GridSearchCV, RandomizedSearchCV, or an estimator
        An estimator, one of dpsk's or a pipeline that ends in one, stands for a cross-validation of it with ``cv``.
    X, y, groups : optional
        For splitters that depend on them (``LeaveOneOut``, groups). X also for the columns of a raw table. With groups
        the unit is the person if fits get them too, by ``set_fit_request(groups=True)`` of the estimator and metadata
        routing. An estimator with ``group_column`` needs no groups.
    delta : float or None, default=None
        The delta of the guarantee. None: the sum of the deltas of the fits that see one row.
    ledger : PrivacyLedger, path or None, default=None
        The ledger to ask. None: the one of the estimator, if it has one.
    n_rows, n_features, n_classes : int or None, default=None
        Public facts about all of the data, for estimators whose rho or mu**2 depends on them: ``solver="auto"``, and
        objective perturbation. For persons n_rows is their number. Training sets hold half to all of the rows (or any
        number of persons); pipelines may leave fewer columns.
    """
    given: Any = delta
    if given is not None and not (isinstance(given, int | float) and 0 <= given < 1):
        raise ValueError(f"delta={delta!r} must be None or lie in [0, 1)")
    plan = _Plan.of(search, cv, X, y, groups, (n_rows, n_features, n_classes))
    model = plan.candidates[0].model  # all have the same ledger and adjacency
    epsilon, at_delta, composition = plan.guarantee(delta)
    needs, left, enough, unit = plan.asked(as_ledger(model.ledger if ledger is None else ledger))
    return SearchCost(
        fits=plan.splits * plan.tried + plan.refits,
        fits_on_a_row=plan.seen * plan.tried + plan.refits,
        epsilon=epsilon,
        delta=at_delta,
        composition=composition,
        needs=needs,
        left=left,
        enough=enough,
        folds_are_public=plan.folds_are_public,
        adjacency=model.adjacency,
        unit=unit,
    )


def _unit(model: PrivateClassifier, groups: Any) -> str:
    """Return the unit of the fits of a search that gets these groups. Its fits get them where they ask for them."""
    asked = get_config()["enable_metadata_routing"] and model.get_metadata_routing().fit.requests.get("groups")
    return unit_of(model.group_column, grouped=groups is not None and bool(asked))


def _facts(
    n_rows: int | None, n_features: int | None, n_classes: int | None, *, piped: bool, unit: str
) -> list[Facts | Unknown]:
    """Return the facts of the smallest and of the largest training set, as far as they are given.

    A training set may lack classes. With two of them a plan may be another one, so these come first. Where data come
    out of a pipeline (``piped``) its steps may have left a single column. Half of the rows may be those of one person.
    """
    if n_rows is None or n_features is None or n_classes is None:
        return [Unknown()]
    widths = {1, n_features} if piped else {n_features}
    least = max(1, n_rows // 2) if unit == ROW else 1
    return [Facts(n, d, k, unit=unit) for k in sorted({2, n_classes}) for n in (least, n_rows) for d in widths]


def _with_columns(model: PrivateClassifier, facts: list[Facts | Unknown], X: Any) -> list[Facts | Unknown]:
    """Return the facts with the kinds of the columns, where a fit depends on them: they follow from names and types."""
    if model.columns is None:
        return facts
    if X is None:
        return [Unknown()]
    schema = schema_of(X, model.columns)
    return [replace(known, schema=schema) if isinstance(known, Facts) else known for known in facts]


@dataclass(frozen=True)
class _Candidate:
    """A model that may be fitted, and the budget of a fit: None where it is not known before the data are seen."""

    model: PrivateClassifier
    budget: Budget | None
    private: bool

    @classmethod
    def of(cls, model: PrivateClassifier, facts: Sequence[Facts | Unknown]) -> _Candidate:
        if model.classes is not None:  # which no training set lacks
            most = facts[-1]
            facts = [known for known in facts if known is most or known.n_classes == most.n_classes]
        try:
            first, *others = [budget_of_plan(model, known) for known in facts]
        except UnknownFact:
            return cls(model, None, model.random_state is None)
        same = all(other == first for other in others)
        return cls(model, first if same else None, model.random_state is None and first is not None)

    def stated(self, name: str) -> Fraction:
        """Return epsilon or delta."""
        return decimal(float(getattr(self.budget or self.model, name)))

    def price(self, terms: Terms, unit: str) -> Amount:
        """Return what a ledger with these terms sets aside for a fit; raise ValueError if it refuses it."""
        terms.require_fit(type(self.model).__name__, self.model.adjacency, self.private, unit)
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
class _Plan:
    """``tried`` of the ``candidates`` on each of ``splits`` training sets, of which ``seen`` hold any one unit."""

    candidates: list[_Candidate]
    tried: int
    splits: int
    seen: int
    refits: int
    folds_are_public: bool
    unit: str

    @classmethod
    def of(cls, search: Any, cv: Any, X: Any, y: Any, groups: Any, sizes: tuple[int | None, ...]) -> _Plan:
        estimator, candidates, tried, refits = search, [dict[str, Any]()], 1, 0
        if type(search) in (GridSearchCV, RandomizedSearchCV):  # subclasses may fit more
            if cv is not None:
                raise ValueError("cv is for an estimator: a search has its own")
            estimator, cv, refits = search.estimator, search.cv, int(bool(search.refit))
            candidates, tried = _candidates(search)
        if isinstance(cv, Iterator):
            raise ValueError("cv is an iterator, which can be read only once: give a list of splits")
        models = [private_step(clone(estimator).set_params(**candidate)) for candidate in candidates]
        units = [_unit(model, groups) for model in models]
        for name, values in (
            ("adjacency", [model.adjacency for model in models]),
            ("ledger", [model.ledger for model in models]),
            ("the unit of protection", units),
        ):
            if any(value != values[0] for value in values):
                raise ValueError(f"the candidates differ in {name}, so their costs do not add up to one guarantee")
        piped, unit = isinstance(estimator, Pipeline), units[0]
        facts, shown = _facts(*sizes, piped=piped, unit=unit), None if piped else X
        found = [_Candidate.of(model, _with_columns(model, facts, shown)) for model in models]
        splitter = check_cv(cv, np.array([0, 1]), classifier=is_classifier(estimator))
        splits = int(splitter.get_n_splits(X, y, groups))
        # in how many training sets each row is certain to be missing: these folds look at no data
        missing = {KFold: 1, RepeatedKFold: getattr(splitter, "n_repeats", 1)}.get(type(splitter), 0)
        seen = splits - missing if unit == ROW else splits  # rows of one person may be in every fold
        return cls(found, tried, splits, seen, refits, missing > 0, unit)

    def total(self, amounts: Sequence[Fraction], times: int) -> Fraction:
        """Return the largest sum that the tried candidates, each so many times, and a refit of any can reach."""
        return times * sum(sorted(amounts)[-self.tried :], Fraction(0)) + self.refits * max(amounts)

    def guarantee(self, delta: float | None) -> tuple[float, float, str]:
        """Return epsilon, delta and the name of the theorem for all fits that see one unit."""
        if not all(candidate.private for candidate in self.candidates):
            return math.inf, 1.0 if delta is None else delta, "basic"
        summed, deltas = (
            float_above(self.total([candidate.stated(name) for candidate in self.candidates], self.seen))
            for name in ("epsilon", "delta")
        )
        delta = deltas if delta is None else delta
        found = [(summed if deltas <= delta else math.inf, "basic")]
        for name, currency in CURRENCIES.items():
            sums = None if currency is None or delta == 0 else self._sums(currency)
            if currency is not None and sums is not None:
                found.append((epsilon_of(currency, *sums, delta), name))
        epsilon, name = min(found)
        return epsilon, delta, name

    def _sums(self, currency: Currency) -> tuple[float, float] | None:
        """Return the sums of amounts and of failures of all fits that see one unit; None if a budget has no amount."""
        budgets = [candidate.budget for candidate in self.candidates]
        exact = [found for b in budgets if b is not None and (found := amount_in(b, currency)) is not None]
        if len(exact) < len(self.candidates):
            return None
        main, failure = (
            self.total([Fraction(amount) for amount in part], self.seen) for part in zip(*exact, strict=True)
        )
        return float_above(main), float_above(failure)

    def asked(self, ledger: PrivacyLedger | None) -> tuple[dict[str, float] | None, dict[str, float] | None, Any, str]:
        """Return what the fits need of a ledger, what it has, whether that is enough, and the unit that it protects."""
        if ledger is None:
            return None, None, None, self.unit
        terms, left = ledger.terms(), ledger.left()
        needs = self.reserved(terms)
        return terms.as_dict(needs), terms.as_dict(left), needs.fits_into(left), terms.unit

    def reserved(self, terms: Terms) -> Amount:
        """Return what a ledger with these terms sets aside for all fits; raise ValueError if it refuses one."""
        prices = [candidate.price(terms, self.unit) for candidate in self.candidates]
        return Amount(*(self.total([getattr(p, part) for p in prices], self.splits) for part in ("main", "delta")))


def _candidates(search: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the candidates that a search may try, and how many of them it will."""
    if isinstance(search, GridSearchCV):
        grid = list(ParameterGrid(search.param_grid))
        return grid, len(grid)
    given = search.param_distributions
    spaces = given if isinstance(given, list) else [given]
    if not any(hasattr(values, "rvs") for space in spaces for values in space.values()):
        grid = list(ParameterGrid(given))
        return grid, min(search.n_iter, len(grid))
    if isinstance(search.random_state, int):  # decides which candidates are tried, and nothing about the noise
        drawn = list(ParameterSampler(given, search.n_iter, random_state=search.random_state))
        return drawn, len(drawn)
    raise ValueError(
        "which candidates a RandomizedSearchCV draws from distributions is not known beforehand: give the search (not "
        "the estimator) an integer random_state, or lists instead of distributions"
    )


def private_step(estimator: Any) -> PrivateClassifier:
    """Return the one private estimator that a fit of this one fits once."""
    last = estimator
    while isinstance(last, Pipeline):
        last = last.steps[-1][1]
    nested: list[Any] = []
    if isinstance(last, PrivateClassifier):
        nested = [value for value in estimator.get_params().values() if isinstance(value, PrivateClassifier)]
    if not isinstance(last, PrivateClassifier) or len(nested) > (last is not estimator):
        given = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        raise ValueError(
            f"{given} is neither one of dpsk's classifiers nor a pipeline that ends in one and holds no other: what "
            f"one fit of it costs is not known{_ADVICE.get(given, '')}"
        )
    return last


def _words(amount: dict[str, float] | None) -> str:
    return " and ".join(f"{name} {value:.6g}" for name, value in (amount or {}).items())
