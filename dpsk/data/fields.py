"""Fields: what a raw table is made of once it was read, whatever kind of frame it came in.

A column of a frame is one field, or several: a date is a time, a month and a day of the week. What a field is, is
public: it follows from names, from the types of columns and from declarations. In each field a row has one value, or
none: an entry that is missing, or that cannot be read, has the code ``MISSING``, or is NaN among numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Integers

MISSING, OTHER = -1, -2
"""Codes of entries without a value, and of values that a public list does not have."""

Codes: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class Field:
    """A field by its name, such as ``"age"`` or ``"seen.month"``, and the position of its column in the frame."""

    name: str
    column: int


@dataclass(frozen=True)
class Quantity(Field):
    """A number. ``low`` and ``high`` are public bounds, None where there are none. Its values: float64, NaN if missing,
    of magnitudes up to 2^500."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Listed(Field):
    """One of the values of a public list, by their labels. Its values: :data:`Codes`."""

    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found(Field):
    """A value that is not public: which values there are has to be discovered. Its values: :class:`Named`."""


@dataclass(frozen=True)
class Words(Field):
    """A set of hashed words, each in one of ``buckets``. Its values: :class:`Bags`."""

    buckets: int = 256


class StoredKeys(Sequence[str]):
    """Names that lie one after the other as UTF-8, in a file perhaps: each is read when it is asked for."""

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64], marks: NDArray[np.uint32]) -> None:
        self._text, self._ends, self.marks = text, ends, marks

    @classmethod
    def of(cls, keys: Sequence[str]) -> StoredKeys:
        """Return these names, stored."""
        texts = [_encoded(key) for key in keys]
        ends = np.cumsum([0, *map(len, texts)])
        marks = np.array([zlib.crc32(text) for text in texts], dtype=np.uint32)
        return cls(np.frombuffer(b"".join(texts), np.uint8), ends, marks)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return what the constructor takes."""
        return self._text, self._ends, self.marks

    def __len__(self) -> int:
        return len(self.marks)

    def __getitem__(self, place: Any) -> Any:
        return self._text[self._ends[place] : self._ends[place + 1]].tobytes().decode("utf-8", "surrogatepass")


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, eq=False)
class Named:
    """Values by name: row i has ``keys[codes[i]]``. ``keys`` are different and sorted, and each occurs."""

    codes: Codes
    keys: Sequence[str]

    @cached_property
    def marks(self) -> NDArray[np.uint32]:
        """A public number for each key, which is the same wherever the key occurs: names are counted in parts by it."""
        if isinstance(self.keys, StoredKeys):
            return self.keys.marks
        return np.array([zlib.crc32(_encoded(key)) for key in self.keys], dtype=np.uint32)

    def take(self, indices: Integers) -> Named:
        """Return the values of some rows."""
        return Named.of(self.codes[indices], self.keys)

    @staticmethod
    def of(codes: Codes, keys: Sequence[str]) -> Named:
        """Return values by name, without the keys that do not occur."""
        used, places = np.unique(codes, return_inverse=True)
        there = used >= 0
        renamed = np.where(there, np.cumsum(there) - 1, used).astype(np.int32)
        return Named(renamed[places], [keys[code] for code in used[there].tolist()])

    @staticmethod
    def joined(parts: Sequence[Named]) -> Named:
        """Return the values of all parts, row after row."""
        keys = sorted({key for part in parts for key in part.keys})
        place = {key: code for code, key in enumerate(keys)}
        codes = [np.array([*(place[key] for key in part.keys), MISSING], np.int32)[part.codes] for part in parts]
        return Named(np.concatenate(codes), keys)


@dataclass(frozen=True, eq=False)
class Bags:
    """Sets of buckets: row i has ``buckets[starts[i]:starts[i+1]]``, different and sorted. None is missing."""

    starts: NDArray[np.int64]
    buckets: Codes

    def take(self, indices: Integers) -> Bags:
        """Return the sets of some rows."""
        lengths = np.diff(self.starts)[indices]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[indices] - starts[:-1], lengths)
        return Bags(starts, self.buckets[places])

    @staticmethod
    def joined(parts: Sequence[Bags]) -> Bags:
        """Return the sets of all parts, row after row."""
        starts = np.cumsum(np.concatenate([[0], *(np.diff(part.starts) for part in parts)]))
        return Bags(starts, np.concatenate([part.buckets for part in parts]))


Values: TypeAlias = Any  # Floats, Codes, Named or Bags, as the field says


@dataclass(frozen=True, eq=False)
class FrameChunk:
    """Some rows of a raw table: for each field the values of all rows. Labels are not part of it.

    ``weights`` are what rows count as rows of persons, in steps of 2^-SHARE_BITS; None where each counts fully.
    """

    fields: tuple[Field, ...]
    values: tuple[Values, ...]
    n_rows: int
    weights: NDArray[Any] | None = None

    sparse = True  # one kind of part: see Part of dpsk.data.rows

    def __len__(self) -> int:
        return self.n_rows

    def load(self) -> FrameChunk:
        """Return the chunk itself: it is in memory."""
        return self

    def take(self, indices: Integers) -> FrameChunk:
        """Return a chunk of these rows."""
        values = tuple(v[indices] if isinstance(v, np.ndarray) else v.take(indices) for v in self.values)
        weights = None if self.weights is None else self.weights[indices]
        return FrameChunk(self.fields, values, len(indices), weights)

    @staticmethod
    def joined(parts: Sequence[FrameChunk]) -> FrameChunk:
        """Return a chunk of the rows of all parts."""
        columns = zip(*(part.values for part in parts), strict=True)
        values = [np.concatenate(c) if isinstance(c[0], np.ndarray) else type(c[0]).joined(c) for c in columns]
        weights = [part.weights for part in parts if part.weights is not None]
        n_rows = sum(map(len, parts))
        return FrameChunk(parts[0].fields, tuple(values), n_rows, np.concatenate(weights) if weights else None)
