"""The schema of a raw table: the names of its columns, and of what kind each is. Both are public."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from ..requirements import listed
from .fields import Field, FrameChunk
from .frames import Frame, frame_of
from .kinds import Categories, Date, Kind, Number

ROWS_AT_A_TIME = 2**14
"""Rows that are read, counted and put on the grid at a time. It is public, and so is where tables are cut."""


@dataclass(frozen=True)
class Schema:
    """Names and kinds of the columns of a raw table. A column of kind None is left out.

    ``named`` says whether the names are those of a frame; columns of arrays are called x0, x1 and so on.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind | None, ...]
    named: bool = True

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields that the columns become, in order."""
        return tuple(field for column, name, kind in self._columns for field in kind.fields(name, column))

    @property
    def _columns(self) -> Iterator[tuple[int, str, Kind]]:
        for column, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True)):
            if kind is not None:
                yield column, name, kind

    @property
    def words(self) -> tuple[tuple[str, str], ...]:
        """The name of each column, and its kind in a word."""
        return tuple(
            (name, "left out" if kind is None else kind.word) for name, kind in zip(self.names, self.kinds, strict=True)
        )

    def read(self, X: Any) -> FrameChunk:
        """Return the values of all rows of a table in memory, whose columns are those of the schema, in their order."""
        return self._read(self._frame(X))

    def blocks(self, X: Any) -> Iterator[FrameChunk]:
        """Yield the values of some thousand rows at a time."""
        frame = self._frame(X)
        for start in range(0, frame.shape[0], ROWS_AT_A_TIME):
            yield self._read(frame.rows(slice(start, start + ROWS_AT_A_TIME)))

    def _frame(self, X: Any) -> Frame:
        frame = frame_of(X)
        if frame.shape[1] != len(self.names):
            raise ValueError(f"X has {frame.shape[1]} columns, but the schema has {len(self.names)}")
        if self.named and frame.names is not None and tuple(map(str, frame.names)) != self.names:
            raise ValueError(
                f"X has the columns {listed(map(repr, frame.names))}, but those of the schema are, in this order, "
                f"{listed(map(repr, self.names))}"
            )
        return frame

    def _read(self, frame: Frame) -> FrameChunk:
        values = [value for column, _, kind in self._columns for value in kind.read(frame.entries(column))]
        return FrameChunk(self.fields, tuple(values), frame.shape[0])


def require_columns(name: str, columns: Any) -> None:
    """Raise ValueError unless ``columns`` is ``"auto"`` or a dict of kinds by names of columns."""
    if isinstance(columns, str) and columns == "auto":
        return
    if not isinstance(columns, Mapping):
        raise ValueError(
            f"{name}={columns!r} must be 'auto' or a dict of kinds by names of columns, such as "
            "{'age': Number(0, 120), 'job': Categories()}"
        )
    for column, kind in columns.items():
        if not (kind is None or isinstance(kind, Kind) or (isinstance(kind, str) and kind == "auto")):
            raise ValueError(
                f"{name}[{column!r}]={kind!r} must be Number(), Categories(), Text() or Date(), 'auto' for what its "
                "type says, or None to leave the column out"
            )


def schema_of(X: Any, columns: Any = "auto", *, declared: bool = False) -> Schema:
    """Return the schema of a table: kinds from ``columns``, or from the types of its columns where these say nothing.

    Rows in a list have no types: their columns are numbers, unless they are declared. ``declared`` asks for every
    column to be in ``columns``, for tables whose types may depend on rows.
    """
    require_columns("columns", columns)
    frame = frame_of(X)
    if not frame.shape[1]:
        raise ValueError(f"Found array with 0 feature(s) (shape={frame.shape}) while a minimum of 1 is required.")
    names = tuple(range(frame.shape[1])) if frame.names is None else frame.names
    refuse_duplicates(names)
    asked: dict[Any, Any] = {} if isinstance(columns, str) else dict(columns)
    if frame.names is None:
        asked = {_position(name): kind for name, kind in asked.items()}
    _require_known(asked, names)
    shown = tuple(f"x{name}" if frame.names is None else str(name) for name in names)
    if declared:
        _require_declared(asked, names)
    kinds = tuple(_kind_of(frame, k, shown[k], asked.get(name, "auto"), declared) for k, name in enumerate(names))
    if all(kind is None for kind in kinds):
        raise ValueError("columns leaves out every column of X: keep one at least")
    schema = Schema(shown, kinds, frame.names is not None)
    twice = _twice(field.name for field in schema.fields)
    if twice:
        raise ValueError(f"several columns of X would become {listed(map(repr, twice))}: rename the columns")
    return schema


def refuse_duplicates(names: Any) -> None:
    """Raise ValueError if two columns have one name."""
    twice = _twice(names)
    if twice:
        raise ValueError(f"X has several columns with the name {listed(map(repr, twice))}: rename or drop them")


def _twice(names: Any) -> list[Any]:
    return [name for name, count in Counter(names).items() if count > 1]


def _position(name: Any) -> Any:
    """Return the position of a column without a name: 3 for 3 and for "x3"."""
    digits = name[1:] if isinstance(name, str) and name.startswith("x") else ""
    return int(digits) if digits.isdecimal() else name


def _require_known(asked: dict[Any, Any], names: tuple[Any, ...]) -> None:
    unknown = [name for name in asked if name not in names]
    if not unknown:
        return
    text = {str(name): name for name in names}
    close = [repr(text[near]) for name in unknown for near in get_close_matches(str(name), text, 1)]
    hint = f" Did you mean {listed(close)}?" if close else f" X has {listed(map(repr, names))}."
    raise ValueError(f"columns names {listed(map(repr, unknown))}, which X does not have.{hint}")


def _require_declared(asked: dict[Any, Any], names: tuple[Any, ...]) -> None:
    missing = [name for name in names if asked.get(name, "auto") == "auto"]
    if missing:
        example = ", ".join(f"{name!r}: Number()" for name in missing[:2])
        raise ValueError(
            f"columns has no kind for {listed(map(repr, missing))}. Types of chunks may depend on their rows, so every "
            f"column of Chunks must be declared: columns={{{example}, ...}}, with Number(), Categories(), Text() or "
            "Date(), or None to leave one out"
        )


def _kind_of(frame: Frame, column: int, name: str, asked: Kind | str | None, declared: bool) -> Kind | None:
    """Return the kind of a column; raise ValueError if its type says that it cannot be read so.

    Where types may depend on rows (``declared``), as those of a chunk, they say nothing.
    """
    if asked is None or (declared and isinstance(asked, Kind)):
        return asked
    if asked == "auto" and not frame.typed:
        return Number()
    form, type_name = frame.form(column)
    if isinstance(asked, Kind):
        if form not in asked.forms:
            raise ValueError(
                f"column {name!r} is of type {type_name}, which {type(asked).__name__} cannot read: change its type "
                f"or kind, or leave it out with columns={{{name!r}: None}}"
            )
        return asked
    if form is None:
        raise ValueError(
            f"column {name!r} is of type {type_name}, of which no kind of column follows"
            f"{'. Complex data not supported' if 'complex' in type_name else ''}: turn it into numbers, text or dates, "
            f"or leave it out with columns={{{name!r}: None}}"
        )
    kinds = {"bool": Categories([False, True]), "text": Categories(), "moment": Date()}
    return kinds.get(form, Number())
