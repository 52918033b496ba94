"""Persons: whose rows are whose. A person is protected with all of its rows.

An id is compared by its value, whatever type, library or chunk it comes in. To take two persons for one is safe: they
are protected together, and have the weight of one. To split a person is not: each half would be protected on its own.
So whatever two readers may see differently counts as one id:

* A number is its value as a float64. A type of fewer digits, such as float32, is refused: it may have lost some. Text
  that Python's ``float`` reads is that number, because a chunk of a file of numbers becomes text when one entry is
  none. Integers beyond 2^53 are one id with their neighbours: whoever has such ids writes a letter before them.
* The text "true" and "false", in any case, is 1 and 0, as the values are.
* Other text is its UTF-8, and bytes are the text that they spell, but for zeros at the end, which NumPy cuts off.
* A date is its microseconds, in UTC if it has a zone. Text that spells one by ISO 8601 is that date.
* An entry that is missing, blank, NaN or no value that can be read is the one id of all such entries.
"""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from struct import pack
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats, Integers
from .entries import Entries, Moments, Numbers, Plain, distinct, plain
from .frames import Column
from .grid import LARGEST_ENTRY, SHARE_BITS

Keys: TypeAlias = NDArray[np.uint64]
"""A key of two words per entry: the kind of a number or a date and its bits, or a digest of text."""

_MISSING, _NUMBER, _MOMENT = range(3)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
_FIRST, _LAST = ((end - _EPOCH) // _MICROSECOND for end in (datetime.min, datetime.max))
_WORDS = {"true": 1.0, "false": 0.0, "nan": np.nan, "inf": np.inf, "infinity": np.inf}
_LONGEST_WORD = max(map(len, _WORDS))
_QUOTED = ("b'", 'b"')
_ESCAPED = r"""\\[\\'"nrt]|\\x[0-9a-f]{2}"""
_BYTES = re.compile(rf"""b'(?:[ -&(-\[\]-~]|{_ESCAPED})*'|b"(?:[ !#-\[\]-~]|{_ESCAPED})*\"""")


@dataclass(frozen=True, eq=False)
class Persons:
    """The person of each row, by a number from 0 to ``n - 1``. Every person has a row."""

    codes: NDArray[np.int32]
    n: int

    @classmethod
    def of(cls, keys: Keys) -> Persons:
        """Return the persons of rows with these keys, numbered in the order of the keys."""
        order = _order(keys)
        ordered = keys[order]
        first = np.ones(len(keys), dtype=np.bool_)
        first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        codes = np.empty(len(keys), dtype=np.int32)
        codes[order] = np.cumsum(first) - 1
        return cls(codes, int(first.sum()))

    @cached_property
    def steps(self) -> NDArray[np.int32]:
        """The weight of a row of each person in steps of 2^-SHARE_BITS: those of all its rows add up to at most 1."""
        steps: NDArray[np.int32] = (2**SHARE_BITS // np.bincount(self.codes, minlength=self.n)).astype(np.int32)
        return steps

    @cached_property
    def weights(self) -> NDArray[np.int32]:
        """The weight of each row."""
        weights: NDArray[np.int32] = self.steps[self.codes]
        return weights

    def rows_of(self, chosen: Integers) -> Integers:
        """Return the positions of all rows of some persons, in order."""
        there = np.zeros(self.n, dtype=bool)
        there[chosen] = True
        return np.flatnonzero(there[self.codes])


def _order(keys: Keys) -> Integers:
    return np.lexsort((keys[:, 1], keys[:, 0]))


def mark_of(keys: Keys, *, ordered: bool) -> bytes:
    """Return a digest that other keys do not have; unless ``ordered``, the same keys have it in every order."""
    return blake2b((keys if ordered else keys[_order(keys)]).tobytes(), digest_size=16).digest()


def keys_of(ids: Any, name: str = "groups") -> Keys:
    """Return a key for each entry of a column of ids, of shape (n, 2); raise ValueError, with its name, if it is none.

    Entries have the same key if and only if they are one id, by the rules above, but for collisions of 128-bit digests,
    which merge two persons.
    """
    entries = _entries(Column(name, ids))
    _require_wide(name, entries)
    if str(getattr(getattr(ids, "dtype", None), "name", "")) == "category":
        _require_wide(name, Column(name, ids.dtype.categories).entries())
    if isinstance(entries, Numbers):
        return _of_numbers(entries.numbers())
    if isinstance(entries, Moments):
        return _of_moments(entries)
    found = entries.distinct()
    of_values = b"".join([*map(_key, found.values), bytes(16)])  # the code of missing entries is -1
    keys: Keys = np.frombuffer(of_values, np.uint64).reshape(-1, 2)[found.codes]
    return keys


def _entries(column: Column) -> Entries:
    if column.form is not None:
        return column.entries()
    if not column.of_bytes:
        hint = "ids are numbers, text, dates or bytes. Turn it into text"
        raise ValueError(f"{column.name} is of type {column.type_name}, but {hint}")
    return distinct([_spelled(entry) if isinstance(entry, bytes) else entry for entry in column.objects()])


def _require_wide(name: str, entries: Entries) -> None:
    """Raise ValueError for numbers of a type that cannot tell apart what integers and float64 can."""
    if isinstance(entries, Numbers) and entries.values.dtype.kind == "f" and entries.values.dtype.itemsize < 8:
        raise ValueError(
            f"{name} is of type {entries.values.dtype.name}, which has lost digits of large ids, so that a person may "
            "have another id where the type is another one: read ids as integers, float64 or text"
        )


def _of_numbers(numbers: Floats) -> Keys:
    keys = np.zeros((len(numbers), 2), np.uint64)
    there = numbers == numbers
    keys[there, 0], keys[there, 1] = _NUMBER, numbers[there].view(np.uint64)
    return keys


def _of_moments(moments: Moments) -> Keys:
    keys = np.zeros((len(moments.missing), 2), np.uint64)
    micros = moments.microseconds
    there = ~moments.missing & (micros >= _FIRST) & (micros <= _LAST)  # as far as Python has dates
    keys[there, 0], keys[there, 1] = _MOMENT, micros[there].astype(np.int64).view(np.uint64)
    return keys


def _key(value: Plain) -> bytes:
    if isinstance(value, str):
        value = _read(value)
    if isinstance(value, str):
        return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if isinstance(value, datetime):
        return pack("=Qq", _MOMENT, (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)
    number = _float(value)
    if number != number:
        return bytes(16)
    return pack("=Qd", _NUMBER, min(max(number, -LARGEST_ENTRY), LARGEST_ENTRY) + 0.0)


def _float(value: str | float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer
        return np.inf if value > 0 else -np.inf  # type: ignore[operator]


def _read(text: str) -> Plain:
    """Return the number or the date that a text spells, NaN if it is blank, or the text that counts."""
    text = text.rstrip("\0")
    while text[:2] in _QUOTED and _BYTES.fullmatch(text):  # so entries reads bytes, and str writes them
        text = _spelled(literal_eval(text)).rstrip("\0")
    bare = text.strip()
    if not bare:
        return np.nan
    if "A" <= bare[0] <= "z":  # only few words are numbers, and an error for each of the others takes time
        return _WORDS.get(bare.lower(), text) if len(bare) <= _LONGEST_WORD else text
    try:
        return _float(bare)
    except ValueError:
        pass
    try:
        moment = plain(datetime.fromisoformat(bare))
    except ValueError:
        return text
    return np.nan if moment is None else moment


def _spelled(value: bytes) -> str:
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return value.decode("utf-8", "surrogateescape")
