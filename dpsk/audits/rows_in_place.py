"""Rows of a table of any kind, read and put in the place of others: arrays, sparse matrices, frames."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mechanisms.samplers import Floats

NEW_CATEGORY = "a category that nobody knows"
_MOST_SPARSE = 32

NUMBER, WHOLE, TEXT, OTHER = "number", "whole number", "text", "other"


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table: their kinds and types, numbers as floats, and one ordinary row."""

    kinds: tuple[str, ...]
    types: tuple[Any, ...]
    numbers: Floats  # a column for each, zeros where it holds no numbers
    ordinary: tuple[Any, ...]
    table: Any
    sparse: bool = False
    takes_missing: bool = False

    @property
    def rows(self) -> int:
        return len(self.numbers)

    @property
    def largest(self) -> float:
        """The largest entry of all; 1 if there is none."""
        found = np.abs(self.numbers[np.isfinite(self.numbers)]).max(initial=0.0)
        return float(found) or 1.0

    @property
    def has_floats(self) -> bool:
        return NUMBER in self.kinds

    @property
    def has_numbers(self) -> bool:
        return NUMBER in self.kinds or WHOLE in self.kinds

    def beside(self, place: int) -> Columns:
        """Return the columns with another ordinary row."""
        return replace(self, ordinary=tuple(entries_of(self.table, place)))

    def separating(self, of_class: Any) -> Floats:
        """Return the sign of each column in which the rows of a class differ from others; few signs if sparse."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # means of no rows
            gap = np.nanmean(self.numbers[of_class], axis=0) - np.nanmean(self.numbers[~of_class], axis=0)
        gap = np.nan_to_num(gap, posinf=0.0, neginf=0.0)
        signs = np.where(gap < 0, -1.0, 1.0)
        if self.sparse:
            signs[np.argsort(-np.abs(gap), kind="stable")[_MOST_SPARSE:]] = 0.0
        return signs

    def corner(self, signs: Floats) -> tuple[Any, ...]:
        """Return a row with the largest or the smallest entry of each column."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # columns without a number
            ends = np.where(signs > 0, np.nanmax(self.numbers, axis=0), np.nanmin(self.numbers, axis=0))
        return self._row(np.where(signs == 0, 0.0, np.nan_to_num(ends, posinf=1e300, neginf=-1e300)))

    def filled(self, signs: Floats, size: float) -> tuple[Any, ...]:
        """Return a row whose numbers all have this size."""
        return self._row(signs * size)

    def with_new_category(self) -> tuple[Any, ...] | None:
        """Return an ordinary row with a new category in all columns of text; None if there are none."""
        if TEXT not in self.kinds:
            return None
        pairs = zip(self.ordinary, self.kinds, strict=True)
        return tuple(NEW_CATEGORY if kind == TEXT else entry for entry, kind in pairs)

    def with_missing(self) -> tuple[Any, ...] | None:
        """Return an ordinary row with missing entries; None unless the table has columns of objects or text."""
        if not self.takes_missing:
            return None
        missing = {TEXT: None, NUMBER: np.nan}
        return tuple(missing.get(kind, entry) for entry, kind in zip(self.ordinary, self.kinds, strict=True))

    def _row(self, numbers: Floats) -> tuple[Any, ...]:
        """Return the ordinary row with other numbers, as their types take them."""
        made = zip(self.ordinary, self.kinds, self.types, numbers, strict=True)
        return tuple(_as_type(entry, kind, of_type, float(number)) for entry, kind, of_type, number in made)


def columns_of(X: Any) -> tuple[Any, Columns]:
    """Return a table, ready for new categories if it has text, and its columns."""
    if not (hasattr(X, "shape") and hasattr(X, "dtype" if sp.issparse(X) else "__getitem__")):
        X = np.asarray(X)
    if len(X.shape) != 2 or not X.shape[0]:
        raise ValueError(f"X of shape {X.shape} is no table of rows and columns: give a two-dimensional one with rows")
    if sp.issparse(X):
        X, dense = X.tocsr(), X.toarray().astype(np.float64)
        kinds: list[str] = [_kind_of_type(X.dtype)] * X.shape[1]
        return X, Columns(tuple(kinds), (X.dtype,) * X.shape[1], dense, tuple(entries_of(X, 0)), X, sparse=True)
    if hasattr(X, "iloc"):
        X = _ready_for_a_category(X)
    columns = [_plain(column) for column in _arrays(X)]
    objects = any(column.dtype.kind in "OUST" for column in columns)
    kinds = [_kind(column) for column in columns]
    types = [column.dtype for column in columns]
    numbers = np.zeros(X.shape)
    for j, kind in enumerate(kinds):
        if kind in (NUMBER, WHOLE):
            numbers[:, j] = columns[j].astype(np.float64)
    return X, Columns(tuple(kinds), tuple(types), numbers, tuple(entries_of(X, 0)), X, takes_missing=objects)


def entries_of(X: Any, place: int) -> list[Any]:
    """Return the entries of one row."""
    if sp.issparse(X):
        return list(X.tocsr()[[place]].toarray().ravel())
    if hasattr(X, "iloc"):
        return [X.iloc[place, j] for j in range(X.shape[1])]
    return list(X.row(place)) if hasattr(X, "row") else list(X[place])


def with_rows(X: Any, rows: Sequence[Sequence[Any]], places: Sequence[int]) -> Any:
    """Return the table with other rows in some places, stored as before."""
    if sp.issparse(X):
        before = sp.vstack([X.tocsr(), sp.csr_matrix(np.array(rows, dtype=X.dtype))], "csr")
        order = np.arange(X.shape[0])
        order[np.asarray(places)] = X.shape[0] + np.arange(len(rows))
        return before[order]
    if hasattr(X, "iloc"):
        X = X.copy()
        for place, row in zip(places, rows, strict=True):
            for j, entry in enumerate(row):
                X.iloc[place, j] = entry
        return X
    if hasattr(X, "with_columns"):  # polars
        lists = {name: X[name].to_list() for name in X.columns}
        for place, row in zip(places, rows, strict=True):
            for name, entry in zip(X.columns, row, strict=True):
                lists[name][place] = entry
        return type(X)(lists, schema=X.schema)
    X = X.copy()
    for place, row in zip(places, rows, strict=True):
        X[place] = row
    return X


def _ready_for_a_category(X: Any) -> Any:
    """Return a frame of pandas whose categorical columns know the new category: what they may hold is public."""
    changed = {}
    for name in X.columns:
        column = X[name]
        if hasattr(getattr(column, "dtype", None), "categories") and column.dtype.categories.dtype.kind in "OUT":
            changed[name] = column.cat.add_categories([NEW_CATEGORY])
    return X.assign(**changed) if changed else X


def _arrays(X: Any) -> list[Any]:
    """Return the columns of a table as arrays."""
    if hasattr(X, "iloc"):
        return [X.iloc[:, j].to_numpy() for j in range(X.shape[1])]
    if hasattr(X, "with_columns"):
        return [X[name].to_numpy() for name in X.columns]
    return list(np.asarray(X).T)


def _plain(column: Any) -> Any:
    """Return a column of objects that are numbers as an array of numbers; others as they are."""
    if column.dtype.kind == "O" and all(isinstance(one, int | float) and not isinstance(one, bool) for one in column):
        return np.array(column.tolist())
    return column


def _kind(column: Any) -> str:
    if column.dtype.kind in "OUST":
        return TEXT if any(isinstance(entry, str) for entry in column) else OTHER
    return _kind_of_type(column.dtype)


def _kind_of_type(of_type: Any) -> str:
    return {"f": NUMBER, "i": WHOLE, "u": WHOLE}.get(of_type.kind, OTHER)


def _as_type(entry: Any, kind: str, of_type: Any, number: float) -> Any:
    if kind == WHOLE:
        ends = np.iinfo(of_type)
        return int(min(max(round(number), int(ends.min)), int(ends.max)))
    if kind == NUMBER:
        most = float(np.finfo(of_type).max) / 4
        return min(max(number, -most), most)
    return entry
