"""Kinds of columns: how the entries of a column are read, and which fields they become.

A kind is public. It is declared, or follows from the type of a column; it never depends on entries. Each entry is read
on its own, and one that cannot be read as its kind counts as missing, without a warning.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..requirements import checked, integer, require_fields, require_number
from .entries import DAY, HOUR, Distinct, Entries, Plain, key, plain
from .fields import MISSING, OTHER, Bags, Codes, Field, Found, Listed, Named, Quantity, Values, Words

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HOURS = tuple(f"{hour:02d}" for hour in range(24))
_PARTS = ("time", "month", "weekday", "hour")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Kind(ABC):
    """Base of the kinds of columns. ``forms`` are the forms of entries (see ``dpsk.data.frames``) that it can read."""

    forms: ClassVar[frozenset[str]]

    @property
    def word(self) -> str:
        """The kind in a word or two, for reports."""
        return type(self).__name__.lower()

    def __post_init__(self) -> None:
        require_fields(self)

    @abstractmethod
    def fields(self, name: str, column: int) -> tuple[Field, ...]:
        """Return the fields that a column with this name and position becomes."""

    @abstractmethod
    def read(self, entries: Entries) -> tuple[Values, ...]:
        """Return the values of each field."""


def _require_end(name: str, value: Any) -> None:
    try:
        require_number(name, value, -np.inf)
    except ValueError as error:
        raise ValueError(f"{error}, or None where no bound is known") from None
    if not abs(value) < 2.0**400:
        raise ValueError(f"{name}={value!r} must lie between -2**400 and 2**400")


@dataclass(frozen=True)
class Number(Kind):
    """A column of numbers. Text is read as a number where it is one; everything else is missing.

    Parameters
    ----------
    low, high : float or None
        Public bounds of the column. Values beyond count as the bound. None where no bound is known.

    Examples
    --------
    >>> from dpsk import Number
    >>> Number(0, 120)
    Number(low=0, high=120)
    """

    low: float | None = checked(None, _require_end)
    high: float | None = checked(None, _require_end)

    forms = frozenset({"number", "bool", "text", "span"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"low={self.low!r} must be below high={self.high!r}")

    def fields(self, name: str, column: int) -> tuple[Field, ...]:
        low, high = (None if end is None else float(end) for end in (self.low, self.high))
        return (Quantity(name, column, low, high),)

    def read(self, entries: Entries) -> tuple[Values, ...]:
        return (entries.numbers(),)


def _require_values(name: str, value: Any) -> None:
    ordered = isinstance(value, Sequence | np.ndarray) or hasattr(value, "tolist")
    if isinstance(value, str | bytes) or not ordered or not list(value):
        raise ValueError(f"{name}={value!r} must be None or a list of all values that may occur")
    known = dict[str, Any]()
    for one in value:
        entry = plain(one)
        if entry is None:
            raise ValueError(
                f"{name} has {one!r}, which counts as missing and is no category: leave it out, missing entries have a "
                "place of their own"
            )
        if key(entry) in known:
            raise ValueError(
                f"{name} has {known[key(entry)]!r} and {one!r}, which are the same category {key(entry)!r}: keep one"
            )
        known[key(entry)] = one


@dataclass(frozen=True)
class Categories(Kind):
    """A column of categories: text, codes, or anything else that is one of few values.

    Values are compared by their names: 1, 1.0, True and "1" are one category; the text "True" is another one. With
    neither ``values`` nor ``buckets``, the values are discovered with noise, and that takes a part of delta: a category
    of few rows is not found.

    Parameters
    ----------
    values : list or None
        All values that may occur, where these are public; others count as one more category.
    buckets : int or None
        Into how many buckets values are sorted by a public hash of their names. Nothing is spent on discovering them.

    Examples
    --------
    >>> from dpsk import Categories
    >>> Categories(["never", "once", "often"])
    Categories(values=('never', 'once', 'often'), buckets=None)
    """

    values: Sequence[Any] | None = checked(None, _require_values)
    buckets: int | None = integer(None, 2)

    forms = frozenset({"number", "bool", "text", "span", "moment"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is not None:
            if self.buckets is not None:
                raise ValueError(f"values and buckets={self.buckets!r} cannot be combined: leave one of them out")
            object.__setattr__(self, "values", tuple(self.values))

    @property
    def word(self) -> str:
        if self.values is not None:
            return "categories from a public list"
        return "categories to be discovered" if self.buckets is None else "hashed categories"

    def fields(self, name: str, column: int) -> tuple[Field, ...]:
        if self.values is not None:
            return (Listed(name, column, tuple(map(str, self.values))),)
        if self.buckets is not None:
            return (Listed(name, column, tuple(f"bucket {bucket}" for bucket in range(self.buckets))),)
        return (Found(name, column),)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {key(plain(value)): k for k, value in enumerate(self.values or ())}  # type: ignore[arg-type]

    def read(self, entries: Entries) -> tuple[Values, ...]:
        found = entries.distinct()
        names = list(map(key, found.values))
        if self.values is not None:
            return (_codes(found, [self._positions.get(name, OTHER) for name in names]),)
        if self.buckets is not None:
            return (_codes(found, [bucket_of(name, self.buckets) for name in names]),)
        keys = sorted(set(names))
        place = {name: k for k, name in enumerate(keys)}
        return (Named(_codes(found, [place[name] for name in names]), keys),)


def _codes(found: Distinct, of_values: list[int]) -> Codes:
    codes: Codes = np.array([*of_values, MISSING], np.int32)[found.codes]  # the code of missing entries is -1
    return codes


def bucket_of(name: str, buckets: int) -> int:
    """Return the bucket of a text, the same everywhere and always."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % buckets


@dataclass(frozen=True)
class Text(Kind):
    """A column of free text: each row becomes the set of its words, sorted into buckets by a public hash.

    Words are runs of letters and digits, in lower case. No word is learned from the data, so nothing is spent on them.

    Parameters
    ----------
    buckets : int
        Number of buckets. Words that share one cannot be told apart.

    Examples
    --------
    >>> from dpsk import Text
    >>> Text(buckets=64)
    Text(buckets=64)
    """

    buckets: int = integer(256, 2)

    forms = frozenset({"number", "bool", "text"})

    def fields(self, name: str, column: int) -> tuple[Field, ...]:
        return (Words(name, column, self.buckets),)

    def read(self, entries: Entries) -> tuple[Values, ...]:
        found = entries.distinct()
        known = dict[str, int]()
        bags = [self._bag(value, known) for value in found.values]
        bags.append([])
        starts = np.zeros(len(found.codes) + 1, np.int64)
        np.cumsum(np.array([len(bag) for bag in bags], np.int64)[found.codes], out=starts[1:])
        buckets = [bucket for code in found.codes.tolist() for bucket in bags[code]]
        return (Bags(starts, np.array(buckets, np.int32)),)

    def _bag(self, value: Plain, known: dict[str, int]) -> list[int]:
        words = set(_WORD.findall(key(value).lower()))
        for word in words - known.keys():
            known[word] = bucket_of(word, self.buckets)
        return sorted({known[word] for word in words})


def _require_format(name: str, value: Any) -> None:
    moment = datetime(2001, 2, 3, 4, 5, 6)
    try:
        good = datetime.strptime(moment.strftime(value), value).date() == moment.date()
    except Exception:  # strptime raises many kinds of errors
        good = False
    if not good:
        raise ValueError(
            f"{name}={value!r} must be None, for dates such as 2001-02-03 or 2001-02-03T04:05:06, or a format of "
            "datetime.strptime with year, month and day, such as '%d.%m.%Y'"
        )


def _require_parts(name: str, value: Any) -> None:
    listed = isinstance(value, tuple | list) and value
    if not listed or not all(part in _PARTS for part in value) or len(set(value)) < len(value):
        raise ValueError(f"{name}={value!r} must list some of {', '.join(map(repr, _PARTS))}, each once")


@dataclass(frozen=True)
class Date(Kind):
    """A column of dates, or of dates with a time of day. Times with a zone are read in UTC.

    Parameters
    ----------
    format : str or None
        How text is read, in the language of ``datetime.strptime``; None for ISO 8601, such as ``2001-02-03``.
    parts : tuple of {"time", "month", "weekday", "hour"}
        What a date becomes. "time" is a number, in days since 1970-01-01; the others are categories.

    Examples
    --------
    >>> from dpsk import Date
    >>> Date("%d.%m.%Y", parts=("time", "month"))
    Date(format='%d.%m.%Y', parts=('time', 'month'))
    """

    format: str | None = checked(None, _require_format)
    parts: Sequence[str] = checked(("time", "month", "weekday"), _require_parts)

    forms = frozenset({"text", "moment"})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", tuple(self.parts))

    def fields(self, name: str, column: int) -> tuple[Field, ...]:
        labels = {"month": _MONTHS, "weekday": _WEEKDAYS, "hour": _HOURS}
        return tuple(
            Quantity(f"{name}.{part}", column) if part == "time" else Listed(f"{name}.{part}", column, labels[part])
            for part in self.parts
        )

    def read(self, entries: Entries) -> tuple[Values, ...]:
        moments, missing = entries.moments(self._parse)
        made = {"time": _days, "month": _month, "weekday": _weekday, "hour": _hour}
        return tuple(_without(made[part](moments), missing) for part in self.parts)

    def _parse(self, text: str) -> datetime:
        text = text.strip()
        return datetime.fromisoformat(text) if self.format is None else datetime.strptime(text, self.format)


def _days(moments: NDArray[np.int64]) -> NDArray[Any]:
    return moments / DAY


def _month(moments: NDArray[np.int64]) -> NDArray[Any]:
    months = (moments // DAY).astype("datetime64[D]").astype("datetime64[M]")
    return months.view(np.int64) % 12


def _weekday(moments: NDArray[np.int64]) -> NDArray[Any]:
    return (moments // DAY + 3) % 7  # 1970-01-01 was a Thursday


def _hour(moments: NDArray[np.int64]) -> NDArray[Any]:
    return moments // HOUR % 24


def _without(values: NDArray[Any], missing: NDArray[np.bool_]) -> Values:
    if values.dtype == np.float64:
        values[missing] = np.nan
        return values
    codes: Codes = values.astype(np.int32)
    codes[missing] = MISSING
    return codes
