"""Entries of one column of a frame, and what they are as numbers, as moments, and as names of categories.

Each entry is read on its own: what it becomes depends on this entry alone. What cannot be read is missing. Nothing here
raises or warns because of an entry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats, Integers
from .fields import MISSING
from .grid import LARGEST_ENTRY

Plain: TypeAlias = str | int | float | datetime
Parse: TypeAlias = Callable[[str], datetime]

DAY, HOUR = 86_400_000_000, 3_600_000_000  # in microseconds
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
_MULTIPLES = {"W": 7 * DAY, "D": DAY, "h": HOUR, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
_PARTS = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_LATEST = 2**62  # microseconds; beyond, clipped
_LONGEST_INTEGER = 2_000  # bits; Python may be told to refuse to write longer ones in decimals


class Entries(ABC):
    """The entries of one column, in order."""

    @abstractmethod
    def numbers(self) -> Floats:
        """Return them as numbers of magnitudes up to 2^500; NaN is missing."""

    @abstractmethod
    def distinct(self) -> Distinct:
        """Return their different values, and which of them each entry is."""

    @abstractmethod
    def moments(self, parse: Parse) -> tuple[Integers, NDArray[np.bool_]]:
        """Return them in microseconds since 1970, and which are missing; ``parse`` reads text, or raises."""


@dataclass(frozen=True, eq=False)
class Numbers(Entries):
    """Numbers of any type of NumPy. ``missing`` marks those that are not there, besides NaN."""

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    def numbers(self) -> Floats:
        with np.errstate(all="ignore"):
            numbers = _in_range(self.values.astype(np.float64))
        if self.missing is not None:
            numbers[self.missing] = np.nan
        return numbers

    def distinct(self) -> Distinct:
        there = self.values == self.values
        if self.missing is not None:
            there &= ~self.missing
        return _distinct_of(self.values, there, lambda value: _plain(value))

    def moments(self, parse: Parse) -> tuple[Integers, NDArray[np.bool_]]:
        return np.zeros(len(self.values), np.int64), np.ones(len(self.values), np.bool_)


@dataclass(frozen=True, eq=False)
class Moments(Entries):
    """Microseconds since 1970, and which entries are missing. ``aware``: they are in UTC, not in some local time."""

    microseconds: Integers
    missing: NDArray[np.bool_]
    aware: bool = False

    def numbers(self) -> Floats:
        return np.full(len(self.missing), np.nan)

    def distinct(self) -> Distinct:
        start = _EPOCH.replace(tzinfo=UTC) if self.aware else _EPOCH
        return _distinct_of(
            self.microseconds, ~self.missing, lambda value: _plain(start + timedelta(microseconds=int(value)))
        )

    def moments(self, parse: Parse) -> tuple[Integers, NDArray[np.bool_]]:
        return self.microseconds, self.missing


@dataclass(frozen=True, eq=False)
class Distinct(Entries):
    """Entry i is ``values[codes[i]]``, or missing if its code is ``MISSING``. Each value occurs."""

    codes: NDArray[Any]
    values: Sequence[Plain]

    def numbers(self) -> Floats:
        numbers: Floats = _in_range(np.array([*map(_number, self.values), np.nan]))[self.codes]
        return numbers

    def distinct(self) -> Distinct:
        return self

    def moments(self, parse: Parse) -> tuple[Integers, NDArray[np.bool_]]:
        found = [*(_moment(value, parse) for value in self.values), None]
        microseconds = np.array([0 if moment is None else moment for moment in found], np.int64)
        missing = np.array([moment is None for moment in found])
        return microseconds[self.codes], missing[self.codes]


def _in_range(numbers: Floats) -> Floats:
    """Return numbers that are not too large; there is one zero."""
    clipped: Floats = np.clip(numbers, -LARGEST_ENTRY, LARGEST_ENTRY)
    return clipped + 0.0


def distinct(entries: Sequence[Any]) -> Distinct:
    """Return entries of any types as few different values. Equal ones count as one, as 1 and True."""
    book = _Book()
    with np.errstate(all="ignore"):
        if not set(map(type, entries)) <= _SAFE:
            entries = list(map(plain, entries))
        codes = np.fromiter(map(book.__getitem__, entries), np.int64, len(entries))
    return Distinct(codes, list(book.values_found))


def of_codes(codes: NDArray[Any], values: Any) -> Distinct:
    """Return entries that came as codes of values, of which some may not occur; negative codes are missing."""
    used, places = np.unique(codes, return_inverse=True)
    found = distinct([None if code < 0 else values[code] for code in used.tolist()])
    return Distinct(found.codes[places], found.values)


_SAFE = {str, int, float, bool, type(None)}  # equality and hashes of these cannot fail


class _Book(dict[Any, int]):
    """The code of each entry that was looked up."""

    def __init__(self) -> None:
        self.values_found: dict[Plain, int] = {}

    def __missing__(self, entry: Any) -> int:
        value = plain(entry)
        code = MISSING if value is None else self.values_found.setdefault(value, len(self.values_found))
        self[entry] = code
        return code


def _distinct_of(values: NDArray[Any], there: NDArray[np.bool_], read: Callable[[Any], Plain | None]) -> Distinct:
    """Return the different values of an array, where it has some."""
    used, places = np.unique(values[there], return_inverse=True)
    codes = np.full(len(values), MISSING, np.int64)
    found = distinct([_quietly(read, value) for value in used])
    codes[there] = found.codes[places]
    return Distinct(codes, found.values)


def plain(entry: Any) -> Plain | None:
    """Return an entry as one of four types, None where it has no value. Lengths of time are days, times are hours.

    Entries that are equal for Python become equal, so it does not matter which of them occurs first.
    """
    return entry if type(entry) is str else _quietly(_plain, entry)


def _quietly(read: Callable[[Any], Any], entry: Any) -> Any:
    try:
        return read(entry)
    except (KeyboardInterrupt, GeneratorExit):  # of the user
        raise
    except BaseException:  # whatever an object does that somebody put into a table
        return None


def _plain(entry: Any) -> Plain | None:
    if isinstance(entry, str):
        return str.__str__(entry)
    if isinstance(entry, np.datetime64 | np.timedelta64):  # before integers: NumPy counts lengths of time among them
        return _of_numpy_time(entry)
    if isinstance(entry, int | float | np.integer | np.floating | np.bool_):
        return _of_number(entry)
    if isinstance(entry, bytes):
        return bytes.__repr__(entry)
    if isinstance(entry, Decimal):
        return _of_decimal(entry)
    if isinstance(entry, date):
        return None if entry != entry else _of_date(entry)
    if isinstance(entry, timedelta):
        return _some(float(entry // _MICROSECOND) / DAY)
    if isinstance(entry, time):
        since = timedelta(hours=entry.hour, minutes=entry.minute, seconds=entry.second, microseconds=entry.microsecond)
        return float(since // _MICROSECOND) / HOUR
    of_pandas = type(entry).__module__.split(".")[0] == "pandas" and type(entry).__name__ in ("Interval", "Period")
    return str(entry) if of_pandas or isinstance(entry, UUID) else None


def _of_number(entry: Any) -> int | float | None:
    """Return an integer or a float. Classes that derive from those of Python are not asked: Python may warn of them."""
    if isinstance(entry, int):
        return int.__int__(entry)
    if isinstance(entry, np.integer | np.bool_):
        return int(entry)
    return _some(float.__float__(entry) if isinstance(entry, float) else float(entry))


def _some(number: float) -> float | None:
    return number + 0.0 if number == number else None  # one zero


def _of_decimal(entry: Decimal) -> Plain | None:
    """Return an integer or a float where one is equal, or else the digits."""
    if entry.is_nan():
        return None
    if entry.is_finite() and entry.adjusted() > 400:  # as an integer it may fill the memory
        return str(entry)
    number = float(entry)
    if entry == number:
        return number + 0.0
    if entry == entry.to_integral_value():
        return int(entry)
    return str(entry).rstrip("0") if "E" not in str(entry) else str(entry)


def _of_numpy_time(entry: Any) -> Plain | None:
    values = microseconds(np.array([entry]))
    if values.missing[0]:
        return None
    value = int(values.microseconds[0])
    return float(value) / DAY if isinstance(entry, np.timedelta64) else _EPOCH + timedelta(microseconds=value)


def _of_date(entry: date) -> datetime:
    """Return a date or a time without a zone, or in UTC."""
    if not isinstance(entry, datetime):
        return datetime(entry.year, entry.month, entry.day)
    zone = None if entry.utcoffset() is None else UTC
    if zone is not None:
        entry = entry.astimezone(zone)
    ymd_hms = entry.year, entry.month, entry.day, entry.hour, entry.minute, entry.second
    return datetime(*ymd_hms, entry.microsecond, zone)


def key(value: Plain) -> str:
    """Return the canonical name of a value as a category: ``"1"`` for 1, 1.0 and True."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _LONGEST_INTEGER else hex(value)
    if isinstance(value, float):
        return repr(value)
    midnight = value.tzinfo is None and value.time() == time()
    return str(value.date()) if midnight else str(value)


def _number(value: Plain) -> float:
    if isinstance(value, datetime):
        return np.nan
    try:
        return float(value)
    except OverflowError:  # an integer
        return np.inf if value > 0 else -np.inf  # type: ignore[operator]
    except ValueError:
        return np.nan


def _moment(value: Plain, parse: Parse) -> int | None:
    if isinstance(value, str):
        value = _quietly(lambda text: _of_date(parse(text)), value)
    if not isinstance(value, datetime):
        return None
    return (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND


def microseconds(values: NDArray[Any], *, aware: bool = False) -> Moments:
    """Return dates or lengths of time of NumPy in microseconds."""
    unit, count = np.datetime_data(values.dtype)
    return of_unit(values.astype(values.dtype.newbyteorder("=")).view(np.int64), np.isnat(values), unit, count, aware)


def of_unit(values: Integers, missing: NDArray[np.bool_], unit: str, count: int = 1, aware: bool = False) -> Moments:
    """Return integers that count multiples of a unit of time since 1970 in microseconds, rounded down."""
    if unit in ("Y", "M"):
        months = values if unit == "M" else np.clip(values, -(2**50), 2**50) * 12
        latest = 10**6 // count
        values = (np.clip(months, -latest, latest) * count).astype("datetime64[M]").astype("datetime64[D]")
        values, unit, count = values.view(np.int64), "D", 1
    if unit in _MULTIPLES:
        factor = _MULTIPLES[unit] * count
        made = np.clip(values, -(_LATEST // factor), _LATEST // factor) * factor
    elif unit in _PARTS:
        made = values * count // _PARTS[unit] if count > 1 else values // _PARTS[unit]
    else:  # NumPy's dates without a unit are all missing
        made = np.zeros(len(values), np.int64)
    return Moments(made, missing, aware)


def days(moments: Moments) -> Numbers:
    """Return lengths of time in days."""
    return Numbers(moments.microseconds / DAY, moments.missing)


def hours(moments: Moments) -> Numbers:
    """Return times of day in hours."""
    return Numbers(moments.microseconds / HOUR, moments.missing)
