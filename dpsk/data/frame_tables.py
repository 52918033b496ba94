"""Raw tables: rows of fields as they were read, and the rows on grids that features make of them.

A table is read once, block by block. Blocks are cut by public numbers of rows. They stay in memory, or in a temporary
file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Integers
from .arrays import require_rows
from .fields import Bags, Field, Found, FrameChunk, Named, Values, Words
from .labels import as_labels
from .row_map import PublicShape, RowMap
from .rows import ChunkRows, Labels, Matrix, Part, Rows
from .schema import Schema
from .stored import Scratch, StoredRows, rounded
from .tables import Table


@dataclass(frozen=True, eq=False)
class Blocks:
    """The rows of a raw table that was read, in parts that become FrameChunks, and the number of its columns."""

    parts: Sequence[Part]
    n_columns: int
    on_disk: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(map(len, self.parts))

    def raw(self) -> ChunkRows:
        """Return the rows as they were read: their chunks are FrameChunks."""
        return ChunkRows(lambda: self.parts, raw_shape(self.n_rows, self.n_columns))

    def on_grid(self, y: Labels, how: RowMap) -> Rows:
        """Return the features of the rows on the grid, with these labels."""
        if self.on_disk:
            return StoredRows(self._features(how), y, how, on_disk=True)
        held, width = [], 0
        for start, rows in rounded(self._features(how), y, how):
            width = rows.n_features
            for chunk in rows._chunks():
                chunk.first += start
                held.append(chunk)
        return ChunkRows(lambda: held, how.of_shape(len(y), width))

    def _features(self, how: RowMap) -> Iterator[Matrix]:
        return (how.features.transform(part.load()) for part in self.parts)  # type: ignore[attr-defined]


def raw_shape(n_rows: int, n_columns: int) -> PublicShape:
    """Return what is public about so many raw rows."""
    return PublicShape(n_rows, n_columns, n_columns, (1.0, math.sqrt(n_columns)))


def in_memory(schema: Schema, tables: Iterable[Any]) -> Blocks:
    """Read tables that follow one another and keep what was read in memory."""
    return Blocks([chunk for X in tables for chunk in schema.blocks(X)], len(schema.names))


def on_disk(schema: Schema, tables: Iterable[Any]) -> Blocks:
    """Read tables that follow one another, each once, and keep what was read in a temporary file."""
    lengths = list[int]()
    with Scratch() as scratch:
        for X in tables:
            for chunk in schema.blocks(X):
                lengths.append(len(chunk))
                for array in _arrays(chunk):
                    scratch.write(array)
        kept = scratch.read()
    per_chunk = len(kept) // max(1, len(lengths))
    parts = [_InFile(schema.fields, kept[k * per_chunk :][:per_chunk], n) for k, n in enumerate(lengths)]
    return Blocks(parts, len(schema.names), on_disk=True)


def _arrays(chunk: FrameChunk) -> Iterator[NDArray[Any]]:
    """Yield what has to be kept of a chunk: as many arrays for each chunk of a table."""
    for values in chunk.values:
        if isinstance(values, Named):
            texts = [key.encode("utf-8", "surrogatepass") for key in values.keys]
            yield values.codes
            yield np.frombuffer(b"".join(texts), np.uint8)
            yield np.cumsum([0, *map(len, texts)])
        elif isinstance(values, Bags):
            yield values.starts
            yield values.buckets
        else:
            yield values


@dataclass(frozen=True, eq=False)
class _InFile:
    """A chunk whose arrays lie in a file."""

    fields: tuple[Field, ...]
    kept: list[NDArray[Any]]
    n_rows: int

    sparse = True

    def __len__(self) -> int:
        return self.n_rows

    def load(self) -> FrameChunk:
        arrays = iter(self.kept)
        return FrameChunk(self.fields, tuple(_values(field, arrays) for field in self.fields), self.n_rows)

    def take(self, indices: Integers) -> FrameChunk:
        return self.load().take(indices)


def _values(field: Field, arrays: Iterator[NDArray[Any]]) -> Values:
    first = next(arrays)
    if isinstance(field, Words):
        return Bags(first, next(arrays))
    if not isinstance(field, Found):
        return first
    text, ends = next(arrays).tobytes(), next(arrays).tolist()
    return Named(first, [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(ends)])


class FrameTable(Table):
    """A raw table that was read, and its labels."""

    def __init__(self, schema: Schema, blocks: Blocks, y: Any, classes: Any = None) -> None:
        require_rows(len(y))
        super().__init__((len(y), len(schema.names)), np.unique(y), classes, schema=schema)
        self._blocks, self._labels = blocks, as_labels(self.classes, y)

    def raw(self) -> ChunkRows:
        return self._blocks.raw()

    def rows(self, how: RowMap) -> Rows:
        return self._blocks.on_grid(self._labels, how)
