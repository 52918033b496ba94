"""Which private fits a fit of any estimator makes: where their number comes from, and what is known of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    check_cv,
)

from ..data import Facts, Unknown, schema_of
from ..estimators.classifier import PrivateClassifier
from ..pipelines import check_pipeline
from ..privacy.units import ROW, unit_of
from .fit_sums import All, Fits, OneFit, Times, promising

_FOLDS = (KFold, RepeatedKFold, StratifiedKFold, RepeatedStratifiedKFold)
_COUNTED = (LeaveOneOut, LeavePOut, LeaveOneGroupOut, LeavePGroupsOut)  # as many splits as there are rows, or groups


@dataclass
class Notes:
    """What is noticed on the way.

    ``leaks`` are sentences about what is published without noise. ``bounded``: no theorem is missing for the fits
    together. ``exact``: the number of fits is known, and not only a bound of it. ``folds_are_public``: folds follow
    from the number of rows.
    """

    leaks: dict[str, None] = field(default_factory=dict)
    bounded: bool = True
    exact: bool = True
    folds_are_public: bool = True

    def leak(self, sentence: str) -> None:
        """Remember a sentence."""
        self.leaks[sentence] = None

    def no_bound(self, sentence: str) -> None:
        """Remember why no (epsilon, delta) covers the fits."""
        self.leak(sentence)
        self.bounded = False


@dataclass(frozen=True)
class Known:
    """What is public about the data of a fit: the smallest and the largest number that there may be, or None.

    ``data`` are X, y and groups of the call, as far as they are given, for splitters. ``table`` is X where the fit sees
    its columns as they are. ``apart`` says that each row is there once, in a place that is public.
    """

    rows: tuple[int, int] | None
    columns: tuple[int, int] | None
    classes: tuple[int, int] | None
    outputs: int | None
    data: tuple[Any, Any, Any] = (None, None, None)
    table: Any = None
    apart: bool = True

    def need(self, name: str, owner: str, why: str) -> Any:
        """Return a fact; raise ValueError if nobody told it."""
        found = getattr(self, name)
        if found is None:
            parameter = {"rows": "n_rows", "columns": "n_features", "classes": "n_classes", "outputs": "n_outputs"}[
                name
            ]
            source = "X" if name in ("rows", "columns") else "y"
            raise ValueError(f"the number of fits of {owner} depends on {why}: give {parameter}, or {source}")
        return found

    def few_rows(self) -> Known:
        """Return the facts of a part of the rows, however small."""
        return replace(self, rows=self.rows and (1, self.rows[1]), classes=self.classes and (2, self.classes[1]))

    def with_columns(self, least: int, most: int) -> Known:
        """Return the facts of data whose columns a step in front has chosen or made."""
        return replace(self, columns=(max(1, least), max(1, most)), table=None)

    def chosen_columns(self) -> Known:
        """Return the facts of some of the columns."""
        return replace(self, columns=self.columns and (1, self.columns[1]), table=None)

    def binary(self) -> Known:
        """Return the facts of the same rows with two labels."""
        return replace(self, classes=(2, 2), outputs=1)

    def one_output(self) -> Known:
        """Return the facts of the same rows with one of the columns of labels."""
        return replace(self, outputs=1, classes=self.classes and (2, self.classes[1]))


Reader = Callable[[Any, Known, Notes], Fits]
READERS = dict[type, Reader]()
"""What is known, by the exact type: a subclass may fit more."""


def reads(*kinds: type) -> Callable[[Reader], Reader]:
    """Declare that a function tells which fits a fit of these classes makes."""

    def declare(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return declare


def fits_of(estimator: Any, known: Known, notes: Notes) -> Fits:
    """Return the private fits that one fit of an estimator makes; raise ValueError where that is not known."""
    if is_private(estimator):
        return _leaf(estimator, known)
    if not holds_private(estimator):
        if is_classifier(estimator) or is_regressor(estimator):
            notes.leak(
                f"{type(estimator).__name__} is fitted without privacy: what it learns are un-noised facts about rows."
            )
        else:
            for found in check_pipeline(estimator).refused:
                if found.verdict != "unknown":
                    notes.leak(f"The step {found.kind} {found.why}.")
        return All()
    reader = READERS.get(type(estimator))
    if reader is None:
        given = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        names = ", ".join(sorted(kind.__name__ for kind in READERS))
        raise ValueError(
            f"{given} holds a private estimator, and how often it fits it is not known. Known are dpsk's own "
            f"estimators and these classes (not their subclasses): {names}"
        )
    return reader(estimator, known, notes)


def is_private(estimator: Any) -> bool:
    """Return whether this is an estimator of dpsk whose fit has a budget of its own."""
    return not isinstance(estimator, type) and (
        isinstance(estimator, PrivateClassifier) or hasattr(estimator, "budget_of_fit")
    )


def holds_private(thing: Any) -> bool:
    """Return whether a private estimator is somewhere in this object or its parameters."""
    if isinstance(thing, type):
        return issubclass(thing, PrivateClassifier)
    if is_private(thing):
        return True
    if isinstance(thing, BaseEstimator):
        return any(holds_private(value) for value in thing.get_params(deep=False).values())
    if isinstance(thing, dict):
        return any(holds_private(value) for value in thing.values())
    return isinstance(thing, list | tuple) and any(holds_private(value) for value in thing)


def inner(estimator: Any) -> Any:
    """Return what a meta-estimator fits copies of; its parameter had another name in earlier versions."""
    found = getattr(estimator, "estimator", None)
    return getattr(estimator, "base_estimator", None) if found is None else found


def members(named: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield those of some named estimators that are fitted."""
    for _, member, *_ in named:
        if member is not None and not isinstance(member, str):  # "drop", "passthrough"
            yield member


def seeded(estimator: Any) -> Any:
    """Return a copy of an estimator as an ensemble prepares it that gives seeds to its members."""
    names = estimator.get_params(deep=True)
    seeds = {name: 0 for name in names if name == "random_state" or name.endswith("__random_state")}
    return clone(estimator).set_params(**seeds)


@dataclass(frozen=True)
class Folds:
    """Training sets of a cross-validation: how many, from how many any row is absent, and what is known of each."""

    splits: int
    missing: int
    known: Known

    def of(self, part: Fits) -> Fits:
        """Return these fits on every training set."""
        return Times(part, self.splits, self.missing)


def folds_of(cv: Any, known: Known, notes: Notes, *, classifier: bool) -> Folds:
    """Return the training sets that ``cv`` makes of data."""
    if isinstance(cv, Iterator):
        raise ValueError("cv is an iterator, which can be read only once: give a list of splits")
    labels = np.array([[0, 1], [1, 1]]) if (known.outputs or 1) > 1 else np.array([0, 1])
    splitter = check_cv(cv, labels, classifier=classifier)
    _require_once(splitter, notes)
    splits = int(splitter.get_n_splits(*known.data))
    if isinstance(splitter, _COUNTED) and known.rows is not None:
        notes.exact &= known.rows[0] == known.rows[1]
    # in how many training sets each row is certain to be absent: these folds look at no data
    missing = {KFold: 1, RepeatedKFold: getattr(splitter, "n_repeats", 1)}.get(type(splitter), 0) * known.apart
    notes.folds_are_public &= missing > 0
    part = known.few_rows()
    if type(splitter) in _FOLDS and known.rows:
        part = replace(part, rows=(max(1, known.rows[0] // 2), known.rows[1]))
    return Folds(splits, missing, part)


def _require_once(splitter: Any, notes: Notes) -> None:
    """Refuse listed splits in which a row is twice in a training set; name splitters of which nobody knows that."""
    listed = getattr(splitter, "cv", None) if type(splitter).__name__ == "_CVIterableWrapper" else None
    for train, _ in listed or ():
        if len(np.unique(train)) < len(train) and np.asarray(train).dtype != bool:
            raise ValueError(
                "a training set in cv holds a row more than once, and its fit promises less for this row than its "
                "epsilon: list every row once"
            )
    if listed is None and not type(splitter).__module__.startswith("sklearn."):
        notes.leak(
            f"{type(splitter).__name__} is not known here: if it puts a row into a training set more than once, fits "
            "promise less for this row than their epsilon."
        )


def _unit(model: Any, groups: Any) -> str:
    """Return the unit of a fit whose caller has these groups: it gets them if it asks for them."""
    asked = get_config()["enable_metadata_routing"] and model.get_metadata_routing().fit.requests.get("groups")
    return unit_of(promising(model).group_column, grouped=groups is not None and bool(asked))


def _leaf(model: Any, known: Known) -> OneFit:
    unit = _unit(model, known.data[2])
    if known.rows is None or known.columns is None or known.classes is None:
        return OneFit.of(model, [Unknown()], unit)
    columns = getattr(model, "columns", None)
    if columns is not None and known.table is None:
        return OneFit.of(model, [Unknown()], unit)
    schema = None if columns is None else schema_of(known.table, columns)
    least = known.rows[0] if unit == ROW else 1  # half of the rows may be those of one person
    narrow = known.columns[0] - (promising(model).group_column is not None)  # the ids are no feature
    facts: list[Facts | Unknown] = [
        Facts(n, d, k, schema=schema, unit=unit)
        for k in sorted(set(known.classes))
        for n in sorted({least, known.rows[1]})
        for d in sorted({max(1, narrow), known.columns[1]})
    ]
    return OneFit.of(model, facts, unit)
