"""Who has one vote each in a score: every row, or every person, whose rows share it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ..data import Chunks
from ..data.persons import Persons
from ..estimators.classifier import PrivateClassifier
from ..estimators.grouping import FindKeys, apart, without_ids
from ..estimators.validation import require_one_per_row
from ..privacy.units import ROW, unit_of
from ..requirements import require_name
from .judging import is_search

FindPersons: TypeAlias = Callable[[int], Persons | None]


@dataclass(frozen=True)
class Voters:
    """Where ids are: in a column of the table, or in an array. Without ids each row has its own vote.

    ``kept`` says that the model was fitted with the column, and takes it out of a table by itself.
    """

    column: Any = None
    groups: Any = None
    kept: bool = False

    @classmethod
    def of(cls, estimator: Any, X: Any, groups: Any, column: Any) -> "Voters":
        """Return who votes on a fitted model; of the table only the names of its columns are looked at.

        Without ids they are the units of the model, if the table has its column of ids. Raises ValueError if it has
        not: nobody who fits a model for persons expects a score that protects single rows.
        """
        if column is not None:
            require_name("group_column", column)
        own, front, unit = _ids_of(estimator)
        if own is not None and groups is None and column is None:
            there = isinstance(X, Chunks) or without_ids(X, own) is not X
            column = own if there else None
        if column is None and groups is None and unit != ROW:
            raise ValueError(
                f"this model protects each {unit} with all rows, but nothing says whose rows are to be scored, so the "
                "score would protect single rows. Give the ids, groups=... or group_column=...; if no "
                f"{unit} has more than one of these rows, groups=np.arange(len(y))"
            )
        kept = front and column is not None and column == own
        if kept and isinstance(X, Chunks):
            raise ValueError(
                f"group_column={column!r} cannot be taken out of chunks for a pipeline whose first steps want it: give "
                "the ids of the rows as groups"
            )
        return cls(column, groups, kept)

    @property
    def unit(self) -> str:
        """The unit of protection."""
        return unit_of(self.column, grouped=self.groups is not None)

    def apart(self, X: Any) -> tuple[Any, FindPersons]:
        """Return the table as a model sees it, and what finds the persons of so many rows once it was read."""
        rest, keys = apart(X, self.column, self.groups)
        source = "groups" if self.column is None else f"group_column={self.column!r}"
        return X if self.kept else rest, partial(_persons, keys, source)


def _persons(keys: FindKeys | None, source: str, n_rows: int) -> Persons | None:
    if keys is None:
        return None
    found = keys(None)
    require_one_per_row(source, len(found), n_rows)
    return Persons.of(found)


def _ids_of(estimator: Any) -> tuple[Any, bool, str]:
    """Return the column of ids that a fitted model takes out itself, whether steps in front want it, and its unit."""
    front = False
    while not isinstance(estimator, PrivateClassifier):
        if isinstance(estimator, Pipeline):
            front, estimator = front or len(estimator.steps) > 1, estimator.steps[-1][1]
        elif is_search(estimator):
            estimator = estimator.best_estimator_
        else:
            return None, False, _unit_within(estimator)
    return estimator.group_column, front, _unit_of(estimator)


def _unit_within(estimator: Any) -> str:
    """Return the unit that another model reports, or that of a model of dpsk which it was built from or asks."""
    if not isinstance(estimator, BaseEstimator):
        return ROW
    reported = getattr(getattr(estimator, "privacy_spent_", None), "unit", ROW)
    parts = [part for part in estimator.get_params().values() if isinstance(part, BaseEstimator)]
    units = [str(reported), *(_ids_of(part)[2] for part in parts)]
    return next((unit for unit in units if unit != ROW), ROW)


def _unit_of(model: PrivateClassifier) -> str:
    report = getattr(model, "privacy_spent_", None)
    return unit_of(model.group_column, grouped=False) if report is None else str(report.unit)
