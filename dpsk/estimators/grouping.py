"""Whose rows are whose, as ``fit`` is told: by ``groups``, or by a column of ids that is taken out of the table."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..data import Chunks, DaskTable, Table, is_dask, per_block
from ..data.persons import Keys, Persons, keys_of
from ..data.schema import refuse_duplicates
from ..privacy.units import unit_of
from ..requirements import listed
from .validation import require_one_per_row

FindKeys: TypeAlias = Callable[[Table | None], Keys]
"""It returns the keys of the rows of a table that was opened; without one, those of rows that were read elsewhere."""


def without_ids(X: Any, column: Any) -> Any:
    """Return a table without its column of ids, if it has one, for a prediction."""
    names = None if column is None else _names(X)
    return _others(X, names, column) if names is not None and column in names else X


def apart(X: Any, column: Any, groups: Any) -> tuple[Any, FindKeys | None]:
    """Return a table without its column of ids, and what finds the keys of its rows; None if nobody asks for persons.

    Keys are found when the table was read, because chunks are read once.
    """
    if column is None:
        return X, None if groups is None else lambda _: _keys(groups)
    if groups is not None:
        raise ValueError(f"group_column={column!r} and groups cannot be combined: leave one of them out")
    if isinstance(X, Chunks):
        return _chunks_apart(X, column)
    if is_dask(X):
        return _dask_apart(X, column)
    rest, ids = _taken_out(X, column)
    return rest, lambda _: keys_of(ids, _called(column))


def set_persons(table: Table, find_keys: FindKeys, column: Any) -> None:
    """Make the persons of its rows the units of a table; raise ValueError unless there are two of them."""
    keys = find_keys(table)
    require_one_per_row("groups" if column is None else _called(column), len(keys), table.facts.n_rows)
    unit, persons = unit_of(column, grouped=True), Persons.of(keys)
    require_two(persons, unit)
    most = table.facts.n_rows - persons.n + 1  # every other person has a row
    table.persons = persons
    table.facts = replace(table.facts, n_rows=persons.n, unit=unit, weighted=True, most_rows=most)


def require_two(persons: Persons, unit: str) -> None:
    """Raise ValueError for fewer than two persons; their number is public."""
    if persons.n < 2:
        raise ValueError(
            f"Found array with {persons.n} {unit}(s) while a minimum of 2 is required: all rows have the same id. Give "
            "ids that are numbers, text, dates or bytes. Others, such as tuples, count as missing, and all missing ids "
            f"are one {unit}"
        )


def _chunks_apart(chunks: Chunks, column: Any) -> tuple[Chunks, FindKeys]:
    found = list[Keys]()

    def read() -> Iterator[tuple[Any, Any]]:
        for X, y in chunks:
            rest, keys = _with_keys(X, column)
            found.append(keys)
            yield rest, y

    return Chunks(read), lambda _: np.concatenate(found)


def _dask_apart(X: Any, column: Any) -> tuple[Any, FindKeys]:
    rest, ids = _taken_out(X, column)
    keys_of(ids._meta, _called(column))  # or its error, which follows from the type

    def find(table: Table | None) -> Keys:
        if table is None:
            return _keys(ids)
        if not isinstance(table, DaskTable):
            raise TypeError(f"a Dask collection was opened as {type(table).__name__}")
        return table.identify(X, partial(_with_keys, column=column))

    return rest, find


def _called(column: Any) -> str:
    return f"group_column={column!r}"


def _with_keys(X: Any, column: Any) -> tuple[Any, Keys]:
    """Return a table in memory without its column of ids, and their keys."""
    rest, ids = _taken_out(X, column)
    return rest, keys_of(ids, _called(column))


def _taken_out(X: Any, column: Any) -> tuple[Any, Any]:
    """Return a table without its column of ids, and the column."""
    names = _names(X)
    if names is None:
        raise ValueError(
            f"group_column={column!r} is the name of a column, but the columns of X have no names: give a DataFrame, "
            "or the ids of the rows to fit as groups"
        )
    refuse_duplicates(names)
    if column not in names:
        raise ValueError(f"group_column={column!r} names no column of X, which has {listed(map(repr, names))}")
    if len(names) == 1:
        raise ValueError(f"group_column={column!r} is the only column of X: a model needs one feature at least")
    return _others(X, names, column), X[column]


def _names(X: Any) -> list[Any] | None:
    """Return the names of the columns of a table of any library, None if they have none."""
    if hasattr(type(X), "column_names"):  # of pyarrow, whose columns are arrays
        return list(X.column_names)
    return list(X.columns) if hasattr(type(X), "columns") else None


def _others(X: Any, names: list[Any], column: Any) -> Any:
    names = [name for name in names if name != column]
    return X.select(names) if hasattr(type(X), "column_names") else X[names]


def _keys(groups: Any) -> Keys:
    """Return the keys of rows in the order of ``groups``; those of a Dask collection have no ids with them."""
    if not is_dask(groups):
        return keys_of(groups)
    if getattr(groups, "ndim", None) != 1 or not hasattr(groups, "to_delayed"):
        raise ValueError("groups must be a Dask array or Series with one dimension, of one entry per row")
    keys_of(getattr(groups, "_meta", groups))  # or its error, which follows from the type
    return np.concatenate(per_block(keys_of, groups))
