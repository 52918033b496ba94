"""Raw tables: rows of fields as they were read, and the rows on grids that features make of them.

A table is read once, block by block. Blocks are cut by public numbers of rows. They stay in memory, or in a temporary
file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Integers
from .arrays import ArrayRows, require_rows
from .dask import Block, DaskRows, DaskTable
from .features import Features
from .fields import Bags, Field, Found, FrameChunk, Named, StoredKeys, Values, Words
from .frames import frame_of
from .labels import as_labels
from .row_map import PublicShape, RowMap
from .rows import Chunk, ChunkRows, Matrix
from .schema import Schema
from .stored import Scratch, StoredRows, rounded
from .tables import Table
from .weights import Weights


@dataclass(frozen=True, eq=False)
class Blocks:
    """The rows of a raw table that was read, in parts that become FrameChunks, and the number of its columns."""

    parts: Sequence[FrameChunk | _InFile]
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return sum(map(len, self.parts)), self.n_columns

    def raw(self, weights: Weights | None = None) -> ChunkRows:
        """Return the rows as they were read: their chunks are FrameChunks. ``weights`` are those of all rows."""
        n_rows, n_columns = self.shape
        if weights is None:
            return ChunkRows(lambda: self.parts, _raw_shape(n_rows, n_columns))
        ends = np.cumsum([0, *map(len, self.parts)])
        places = zip(self.parts, pairwise(ends), strict=True)
        parts = [replace(part, weights=weights.steps[start:end]) for part, (start, end) in places]
        return ChunkRows(lambda: parts, _raw_shape(n_rows, n_columns), weights)

    def features(self, how: RowMap) -> Iterator[Matrix]:
        """Yield the features of the rows, some thousand rows at a time."""
        features = features_of(how)
        return (features.transform(part.load()) for part in self.parts)


def features_of(how: RowMap) -> Features:
    """Return the features of a map of raw tables."""
    if how.features is None:
        raise ValueError("a raw table needs a RowMap with features")
    return how.features


def _raw_shape(n_rows: int, n_columns: int, *, weighted: bool = False) -> PublicShape:
    """Return what is public about so many raw rows, or units."""
    return PublicShape(n_rows, n_columns, n_columns, (1.0, math.sqrt(n_columns)), weighted=weighted)


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
    return Blocks(parts, len(schema.names))


def _arrays(chunk: FrameChunk) -> Iterator[NDArray[Any]]:
    """Yield what has to be kept of a chunk: as many arrays for each chunk of a table."""
    for values in chunk.values:
        if isinstance(values, Named):
            yield values.codes
            yield from StoredKeys.of(values.keys).arrays()
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
    weights: NDArray[Any] | None = None

    sparse = True

    def __len__(self) -> int:
        return self.n_rows

    def load(self) -> FrameChunk:
        arrays = iter(self.kept)
        values = tuple(_values(field, arrays) for field in self.fields)
        return FrameChunk(self.fields, values, self.n_rows, self.weights)

    def take(self, indices: Integers) -> FrameChunk:
        return self.load().take(indices)


def _values(field: Field, arrays: Iterator[NDArray[Any]]) -> Values:
    first = next(arrays)
    if isinstance(field, Words):
        return Bags(first, next(arrays))
    if not isinstance(field, Found):
        return first
    return Named(first, StoredKeys(next(arrays), next(arrays), next(arrays)))


class FrameTable(Table):
    """A raw table in memory, or in a temporary file, and its labels."""

    def __init__(self, schema: Schema, blocks: Blocks, y: Any, classes: Any = None, *, on_disk: bool = False) -> None:
        require_rows(len(y))
        super().__init__(blocks.shape, np.unique(y), classes, schema=schema)
        self._blocks, self._labels, self._on_disk = blocks, as_labels(self.classes, y), on_disk

    def raw(self) -> ChunkRows:
        return self._blocks.raw(self._of_persons())

    def rows(self, how: RowMap) -> ChunkRows:
        """Return the features of the rows on their grid; a block is forgotten when it was rounded."""
        features, weights = self._blocks.features(how), self._weights(self._labels, how)
        if self._on_disk or how.waves is not None:  # in single precision waves take half the memory
            return StoredRows(features, self._labels, how, weights, on_disk=self._on_disk)
        held, width = list[Chunk](), 0
        for start, rows in rounded(features, self._labels, how, weights):
            width = rows.n_features - how.n_added
            for chunk in rows._chunks():
                chunk.first += start
                held.append(chunk)
        return ChunkRows(lambda: held, how.of_shape(len(self._labels), width), weights)

    def outcomes(self, how: RowMap) -> ArrayRows:
        return self._outcomes(self._labels, how)


@dataclass(frozen=True, eq=False)
class UnreadBlock:
    """A block of a Dask collection, which is read where it is when its rows are needed."""

    schema: Schema
    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return frame_of(self.X).shape

    def read(self) -> Blocks:
        """Return its rows."""
        return in_memory(self.schema, [self.X])


class DaskFrameTable(DaskTable):
    """A Dask DataFrame, or a Dask array, as a raw table. ``check`` returns an UnreadBlock and labels for a block."""

    def raw(self) -> DaskRows:
        weighted = self.persons is not None
        return self._made(_raw_rows_of_block, _raw_shape(self.facts.n_rows, self.facts.n_features, weighted=weighted))

    def rows(self, how: RowMap) -> DaskRows:
        width = features_of(how).n_features
        return self._on_grid(_grid_rows_of_block, width, how)


def _raw_rows_of_block(block: Block, X: Any, y: Any) -> ChunkRows:
    unread: UnreadBlock
    unread, _, of_persons = block.read(X, y)
    return unread.read().raw(of_persons)


def _grid_rows_of_block(block: Block, X: Any, y: Any, classes: Any, how: RowMap) -> StoredRows:
    unread, y, of_persons = block.read(X, y)
    labels = as_labels(classes, y)
    weights = block.weights(labels, how, of_persons)
    return StoredRows(unread.read().features(how), labels, how, weights, on_disk=False)
