"""Rows of arrays. Only this module knows whether data are dense, sparse or memory-mapped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats, Integers
from .grid import CENTRED_CHUNK_ROWS, CHUNK_ROWS, LARGEST_ENTRY, SHORTEST_NORM, UNIT_BITS, octaves
from .row_map import ColumnGrid, PublicShape, RowMap
from .rows import Chunk, ChunkRows, Labels, Matrix, Memory, RawChunk
from .sparse import one_per_place
from .weights import MOST_ROWS, Weights

_Order: TypeAlias = Literal["C", "F"]
_GRID = 2.0**-UNIT_BITS
_MAX_ROWS = 2**26  # a row adds at most 2^(2*UNIT_BITS) to a sum of 64-bit integers
_FLOAT_COLUMNS = 2 ** (53 - 2 * UNIT_BITS) // 4  # squares of so many entries, rounded up, add up exactly in floats
_MAX_COLUMNS = 2**26  # an entry adds at most 2^(2*UNIT_BITS) to the squared norm of its row, in 64-bit integers
_BLOCK_ROWS = 4096  # rows worked on at a time, fewer of many columns:
_BLOCK_ENTRIES = 2**15  # what is made of them stays in cache
_CHUNK_ENTRIES = 2**20  # about as many stay in a larger cache from one product to the next
_LONGEST: int = MOST_ROWS  # of a chunk or block, so that rows with weights can be added too
_NARROW_ENTRIES = 2**19  # of longer chunks of few columns: what is done once per chunk takes as long there as sums
_COUNTED_ROWS, _COUNTED_ENTRIES = 128, 2**22  # of many columns, whose counts are as long as a hundred rows of them
_FEWEST_ROWS = 1024  # of a chunk: fewer take longer to get at than to sum
_SPARSE_DENSITY = 0.3  # below this CSR (12 bytes an entry) is smaller and faster than dense columns (8 bytes)


class ArrayRows(ChunkRows):
    """Rows of a NumPy array, a memory-mapped array or a SciPy sparse matrix.

    In memory, one rounded copy is kept (CSR where that is smaller). A memory-mapped array is rounded block by block in
    every pass and never copied.

    The values of ``X`` are finite; all but those of a Compact are checked. ``y`` holds -1/+1, or class numbers
    0..n_classes-1. ``chunk_rows`` is the number of rows per chunk, at most ``CHUNK_ROWS``; None for as many as are
    summed fastest.
    """

    def __init__(
        self,
        X: Matrix,
        y: Labels,
        how: RowMap | None = None,
        weights: Weights | None = None,
        *,
        chunk_rows: int | None = None,
    ) -> None:
        self._how = how = how or RowMap()
        self._order: _Order = "C" if how.row_major else "F"
        y = _checked_labels(X, y, how.n_classes)
        largest = CHUNK_ROWS if weights is None else MOST_ROWS
        if chunk_rows is not None and not 1 <= chunk_rows <= largest:
            raise ValueError(f"chunk_rows={chunk_rows!r} must lie between 1 and {largest}")
        n_rows, n_features = X.shape
        require_rows(n_rows)
        _require_few_columns(n_features + how.n_added)
        mapped = isinstance(X, np.memmap)
        X = X if mapped else Compact.of(X).matrix
        most = _chunk_rows(X, how) if chunk_rows is None else chunk_rows
        if mapped:
            most = min(most, _BLOCK_ROWS)
        elif how.grid is not None and sp.issparse(X):  # centring is subtracted after the product
            most = min(most, CENTRED_CHUNK_ROWS)
        parts = [(rows, Memory()) for rows in _slices(n_rows, most)]

        def chunks() -> Iterator[Chunk]:
            for rows, memory in parts:
                yield self._chunk(X[rows], y[rows], memory, rows, weights)

        if mapped:
            for rows, _ in parts:
                _finite(X[rows])
            super().__init__(chunks, how.of_shape(n_rows, n_features), weights)
        else:
            held = list(chunks())
            super().__init__(lambda: held, how.of_shape(n_rows, n_features), weights)

    @np.errstate(all="ignore")  # whether some row under- or overflows is nobody's business
    def _chunk(self, X: Matrix, y: Labels, memory: Memory, rows: slice, weights: Weights | None) -> Chunk:
        offset, shortest = None, 0.0
        if self._how.grid is not None:
            units, scale, norm2, offset = _units_of_columns(self._how.grid, X, self._order)
            shortest = SHORTEST_NORM
        elif sp.issparse(X):
            units, scale, norm2 = self._sparse_units(X)
        else:
            units, scale, norm2 = self._dense_units(X)
        constant = None
        if self._how.fit_intercept:
            constant = np.trunc(2.0**UNIT_BITS / scale) * _GRID
            norm2 = norm2 + constant * constant
        # 2^-40 covers the rounding of the integer sum, of the constant's square and of the root
        norm = np.where(norm2 > 0, np.sqrt(norm2) * (1 + 2.0**-40), 1.0)
        norm, counted = np.maximum(norm, shortest), weights.of(rows) if weights else None
        return Chunk(units, constant, scale, norm, y, self._how.n_classes, memory, offset, rows.start, counted)

    def _row_scale(self, largest: Floats) -> Floats:
        """Return the power of two at or above each row's largest magnitude (and 1 for the intercept)."""
        _, exponent = octaves(largest)
        floor = 0 if self._how.fit_intercept else -500
        return np.ldexp(1.0, np.maximum(exponent, floor))

    def _dense_units(self, X: Matrix) -> tuple[Matrix, Floats, Floats]:
        n, d = X.shape
        units = np.empty((n, d), order=self._order)
        scale, norm2 = np.empty(n), np.empty(n)
        for rows in _slices(n, _few_rows(d)):
            x = _finite(np.array(X[rows], dtype=np.float64, order="C"))
            np.clip(x, -LARGEST_ENTRY, LARGEST_ENTRY, out=x)
            scale[rows] = self._row_scale(np.abs(x).max(axis=1, initial=0.0))
            if self._how.data_norm is not None:
                grown = np.ceil(np.abs(x) * (2.0**UNIT_BITS / scale[rows])[:, None])
                x *= self._shrink(scale[rows], _sum_of_squares(grown))[:, None]
                scale[rows] = self._row_scale(np.abs(x).max(axis=1, initial=0.0))
            x *= (2.0**UNIT_BITS / scale[rows])[:, None]
            np.trunc(x, out=x)
            norm2[rows] = _sum_of_squares(x)
            x *= _GRID
            units[rows] = x
        return units, scale, norm2

    def _sparse_units(self, X: Matrix) -> tuple[Matrix, Floats, Floats]:
        units = _own_values(X)
        np.clip(units.data, -LARGEST_ENTRY, LARGEST_ENTRY, out=units.data)
        counts = np.diff(units.indptr)

        def sum_of_squares(steps: Floats) -> Floats:
            squares = steps.astype(np.int64)
            squares *= squares
            return _row_sums(squares, units).astype(np.float64) * _GRID**2

        def row_scale() -> Floats:
            return self._row_scale(abs(units).max(axis=1).toarray().ravel())

        scale = row_scale()
        if self._how.data_norm is not None:
            grown = np.ceil(np.abs(units.data) * np.repeat(2.0**UNIT_BITS / scale, counts))
            units.data *= np.repeat(self._shrink(scale, sum_of_squares(grown)), counts)
            scale = row_scale()
        units.data *= np.repeat(2.0**UNIT_BITS / scale, counts)
        np.trunc(units.data, out=units.data)
        norm2 = sum_of_squares(units.data)
        units.data *= _GRID
        return units, scale, norm2

    def _shrink(self, scale: Floats, norm2: Floats) -> Floats:
        """Return the factors that bring rows with these (rounded up) unit norms within ``data_norm``."""
        bound = np.inf if self._how.data_norm is None else self._how.data_norm
        norm = np.maximum(scale * np.sqrt(norm2), bound)
        return np.where(norm > bound, bound * (1 - 2.0**-30) / norm, 1.0)


def _units_of_columns(grid: ColumnGrid, X: Matrix, order: _Order) -> tuple[Matrix, Floats, Floats, Floats | None]:
    """Return units, scale and squared norms of rows, and the offset where it is not subtracted yet."""
    scale = np.full(X.shape[0], grid.scale)
    if not sp.issparse(X):
        units, norm2 = _dense_units_of_columns(grid, X, order)
        return units, scale, norm2, None
    units = _own_values(X) if grid.waves is None else grid.waves.beside(_own_values(X))
    if not sp.issparse(units):
        units, norm2 = _dense_units_of_columns(grid, units, order)
        return units, scale, norm2, None
    at = units.indices
    units.data = np.trunc(grid.columns.place(units.data, at) * grid.steps[at])
    offset = grid.offset.astype(np.int64)
    entries = units.data.astype(np.int64)
    entries *= entries - 2 * offset[at]  # what an entry adds to the squared norm of a row of -offset
    norm2 = (_row_sums(entries, units) + (offset * offset).sum()) * _GRID**2
    units.data *= _GRID
    return units, scale, norm2, grid.offset * _GRID if offset.any() else None


def _dense_units_of_columns(grid: ColumnGrid, X: Matrix, order: _Order) -> tuple[Matrix, Floats]:
    """Return units and squared norms of rows that have their waves already, or get them here."""
    n, width = len(X), len(grid.steps)
    units, norm2 = np.empty((n, width), order=order), np.empty(n)
    for rows in _slices(n, _few_rows(width)):
        x = _finite(np.array(X[rows], dtype=np.float64, order="C"))
        steps = grid.columns.place(x if grid.waves is None or x.shape[1] == width else grid.waves.beside(x))
        steps *= grid.steps
        np.trunc(steps, out=steps)
        steps -= grid.offset
        norm2[rows] = _sum_of_squares(steps)
        units[rows] = steps * _GRID
    return units, norm2


class RawRows(ChunkRows):
    """The entries of arrays as they are, without labels. Column ranges are found on them.

    ``blocks`` are dense, CSR or Compact, and follow one another. In every pass each of their parts is copied, and the
    copy is checked. ``weights`` are those of all rows.
    """

    def __init__(self, *blocks: Matrix | Compact, weights: Weights | None = None) -> None:
        n, d = sum(X.shape[0] for X in blocks), blocks[0].shape[1]
        _require_few_columns(d)
        parts, first = list[_RawPart](), 0
        for block in blocks:
            X = block.matrix if isinstance(block, Compact) else block
            X = X.tocsr() if sp.issparse(X) else X
            step = _counted_rows(X)
            for rows in _slices(X.shape[0], step):
                there = slice(first + rows.start, first + rows.stop)
                parts.append(_RawPart(X, rows, weights.of(there) if weights else None))
            first += X.shape[0]
        super().__init__(lambda: parts, PublicShape(n, d, d, (1.0, math.sqrt(d))), weights)


class _RawPart:
    """Some rows of an array, to be compressed when they are needed."""

    def __init__(self, X: Matrix, rows: slice, weights: Floats | None = None) -> None:
        self._X, self._rows, self._weights = X, rows, weights
        self.sparse = True  # as entries, whatever X is

    def __len__(self) -> int:
        return int(self._rows.stop - self._rows.start)

    def load(self) -> RawChunk:
        if sp.issparse(self._X):
            x = _own_values(self._X[self._rows])
            found = np.flatnonzero(x.data)  # sparse matrices may hold zeros
            before = np.searchsorted(found, x.indptr)
            return RawChunk(x.data[found], x.indices[found], np.diff(before), x.shape[1], self._weights)
        x = _finite(np.array(self._X[self._rows], order="C"))
        n, d = x.shape
        if np.count_nonzero(x) == x.size:
            columns = np.broadcast_to(np.arange(d), x.shape).ravel()
            return RawChunk(x.astype(np.float64).ravel(), columns, np.full(n, d), d, self._weights)
        return RawChunk(*_entries(x), d, self._weights)

    def take(self, indices: Integers) -> RawChunk:
        return self.load().take(indices)


def _checked_labels(X: Matrix, y: Labels, n_classes: int | None) -> Labels:
    """Return a copy of the labels that nobody can write to; raise ValueError unless each row has one that may occur."""
    y = np.array(y)
    if len(X.shape) != 2 or y.shape != (X.shape[0],):
        raise ValueError("X must have two dimensions, y one, and both as many rows")
    if not np.isin(y, (-1, 1) if n_classes is None else range(n_classes)).all():
        raise ValueError(f"y must hold {'-1 and 1' if n_classes is None else f'0..{n_classes - 1}'} only")
    y = y.astype(np.float64 if n_classes is None else np.intp)
    y.flags.writeable = False
    return y


@dataclass(frozen=True, eq=False)
class Compact:
    """Rows in memory whose values were checked to be finite: CSR if they are sparse or mostly zeros, or else as given.

    They are checked and compacted once. Nothing is copied, and whoever holds the array may write to it while it is
    fitted (another thread, or another process where it lies in a file). So each block is copied before it is counted or
    put on the grid, and the copy is checked: one NaN there would move a sum without bound.
    """

    matrix: Matrix

    @classmethod
    def of(cls, X: Matrix | Compact) -> Compact:
        """Return these rows, checked."""
        return X if isinstance(X, Compact) else cls.trusted(_finite(X))

    @classmethod
    def trusted(cls, X: Matrix) -> Compact:
        """Return rows that were checked already."""
        if sp.issparse(X):
            return cls(_canonical(X))
        mostly_zeros = np.count_nonzero(X) < _SPARSE_DENSITY * X.size
        return cls(_compressed(X) if mostly_zeros else X)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape  # type: ignore[no-any-return]


def blocks_of(X: Matrix) -> Iterator[slice]:
    """Yield slices of rows that are worked on at a time."""
    return _slices(X.shape[0], min(_chunk_rows(X), CENTRED_CHUNK_ROWS))


def _slices(n_rows: int, step: int) -> Iterator[slice]:
    """Yield slices of so many rows at a time."""
    return (slice(a, min(a + step, n_rows)) for a in range(0, n_rows, step))


def _chunk_rows(X: Matrix, how: RowMap | None = None) -> int:
    """Return how many rows are summed at a time, so that dense rows and the results for each row stay in cache."""
    how = how or RowMap()
    rows, n_columns = CENTRED_CHUNK_ROWS, X.shape[1]
    dense = not sp.issparse(X) or (how.waves is not None and how.waves.makes_dense(n_columns))
    entries = n_columns + how.n_added if dense else 0
    results = 2 * (how.n_classes or 1)
    while entries and rows < _LONGEST and 2 * rows * max(entries, results) <= _NARROW_ENTRIES:
        rows *= 2
    while rows > _FEWEST_ROWS and rows * max(entries, results) > _CHUNK_ENTRIES:
        rows //= 2
    return rows


def _few_rows(n_columns: int) -> int:
    """Return how many rows of so many columns are worked on at a time."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_ENTRIES // n_columns))


def _counted_rows(X: Matrix) -> int:
    """Return how many rows are counted at a time: so many that their entries outweigh the counts of each column."""
    n, d = map(int, X.shape)
    if not sp.issparse(X):
        return max(_few_rows(d), min(_COUNTED_ROWS, _CHUNK_ENTRIES // max(1, d)))
    in_memory = _COUNTED_ENTRIES * n // max(1, int(X.nnz))
    return max(_BLOCK_ROWS, min(d // 8, in_memory, _LONGEST))


def _own_values(X: Matrix) -> Matrix:
    """Return a CSR matrix in canonical form. Its float64 values are finite and a copy; the pattern may be shared."""
    X = one_per_place(X)
    return sp.csr_matrix((_finite(X.data.astype(np.float64)), X.indices, X.indptr), X.shape)


def _row_sums(entries: NDArray[np.int64], pattern: Matrix) -> NDArray[np.int64]:
    """Return the sum over each row of integers, one for each entry of ``pattern``."""
    ones = np.ones(pattern.shape[1], dtype=np.int64)
    sums: NDArray[np.int64] = sp.csr_matrix((entries, pattern.indices, pattern.indptr), pattern.shape) @ ones
    return sums


def _sum_of_squares(steps: Floats) -> Floats:
    """Return the squared norm of each row of integers, in units: exact, so that no order matters."""
    if steps.shape[1] > _FLOAT_COLUMNS:
        steps = steps.astype(np.int64)
    squares: Floats = np.einsum("ij,ij->i", steps, steps) * _GRID**2
    return squares


def _canonical(X: Matrix) -> Matrix:
    """Return a sparse matrix as CSR with one entry in each place, in order: else each pass would sort the entries."""
    X = X if X.format == "csr" else one_per_place(X)
    if X.has_canonical_format:
        return X
    return sp.vstack([one_per_place(X[rows]) for rows in _slices(X.shape[0], _BLOCK_ROWS)], format="csr")


def _compressed(X: NDArray[Any]) -> Matrix:
    """Return a dense array as CSR, block by block: several times faster than SciPy on columns-first arrays."""
    blocks = [_entries(np.ascontiguousarray(X[a : a + _BLOCK_ROWS])) for a in range(0, len(X), _BLOCK_ROWS)]
    values, columns, counts = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return sp.csr_matrix((values, columns, np.concatenate([[0], np.cumsum(counts)])), X.shape)


def _entries(x: NDArray[Any]) -> tuple[Floats, Any, Integers]:
    """Return the non-zero entries of rows that lie side by side, their columns, and how many each row has."""
    found = np.flatnonzero(x)
    columns = (found % x.shape[1]).astype(np.int32)
    return x.ravel()[found].astype(np.float64), columns, np.count_nonzero(x, axis=1)


def require_rows(n_rows: int) -> None:
    """Raise ValueError unless sums over so many rows, on all machines together, fit into 64-bit integers."""
    if not 1 <= n_rows <= _MAX_ROWS:
        raise ValueError(f"X has {n_rows} rows; between 1 and {_MAX_ROWS} are supported")


def _require_few_columns(n_features: int) -> None:
    if n_features > _MAX_COLUMNS:
        raise ValueError(f"X has {n_features} columns; at most {_MAX_COLUMNS} are supported")


def _finite(X: Matrix) -> Matrix:
    """Return X; raise ValueError unless all values are finite."""
    values = X.data if sp.issparse(X) else X
    step = max(1, _CHUNK_ENTRIES // max(1, values.shape[-1])) if values.ndim == 2 else _CHUNK_ENTRIES
    if not all(np.isfinite(values[a : a + step]).all() for a in range(0, len(values), step)):
        raise ValueError("X contains NaN or infinity: impute or drop such rows before fitting (finiteness is public)")
    return X
