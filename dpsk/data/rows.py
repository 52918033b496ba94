"""Rows: the data on exact grids, in chunks. Dense, sparse and memory-mapped data differ here and nowhere else.

A backend provides public facts (``n_rows``, ``n_features``, ``n_parameters``) and ``total(kernel)``, the sum over
chunks of what the kernel returns. Kernels return integers, so sums are the same for every order, blocking and storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..mechanisms.exact import Floats, Integers
from .grid import CHUNK_ROWS, UNIT_BITS

__all__ = ["ArrayRows", "Chunk", "Kernel", "Line", "Rows"]

Labels: TypeAlias = NDArray[Any]
Matrix: TypeAlias = Any  # a dense array or a CSR matrix: what both sides of the products below accept

_GRID = 2.0**-UNIT_BITS
_LARGEST_ENTRY, _LARGEST_SCORE = 2.0**500, 2.0**100  # beyond, clipped: products and squares of these are finite
_MAX_ROWS = 2**26  # a row adds at most 2^(2*UNIT_BITS) to a sum of 64-bit integers
_BLOCK_ROWS = 4096  # rows rounded at a time: they stay in cache
_SPARSE_DENSITY = 0.3  # below this CSR (12 bytes an entry) is smaller and faster than dense columns (8 bytes)


@dataclass(frozen=True, eq=False)
class Line:
    """Points ``start + multiple * step`` on one grid, and whether scores may be moved along it without rounding."""

    start: Floats
    step: Floats
    multiples: Floats
    points: Floats
    exact: bool


@dataclass
class Memory:
    """The products of one chunk at the points asked for last. They never leave the chunk."""

    line: Line | None = None
    start: Floats | None = None
    step: Floats | None = None

    def recall(self, w: Floats) -> Floats | None:
        """Return the products at ``w`` if they follow from the last line without rounding."""
        if self.line is None or self.start is None or self.step is None or self.line.points.shape[1:] != w.shape:
            return None
        found = np.flatnonzero((self.line.points == w).reshape(len(self.line.points), -1).all(axis=1))
        if found.size == 0:
            return None
        multiple = self.line.multiples[found[0]]
        if multiple == 0:
            return self.start
        return self.start + multiple * self.step if self.line.exact else None


@dataclass
class Chunk:
    """Some rows: row i is ``scale[i] * (units[i], constant[i])``, with the label ``y[i]``.

    Units lie on the grid of :mod:`dpsk.data.grid`. ``norm`` holds the l2 norms of (units, constant), never rounded
    down, and 1 for a row of zeros. ``constant`` is the intercept column, None where no intercept is fitted.
    """

    units: Matrix
    constant: Floats | None
    scale: Floats
    norm: Floats
    y: Labels
    n_classes: int | None
    memory: Memory = field(default_factory=Memory)

    def __len__(self) -> int:
        return len(self.scale)

    def take(self, indices: Integers) -> Chunk:
        """Return a chunk of these rows, without memory."""
        constant = None if self.constant is None else self.constant[indices]
        scale, norm, y = self.scale[indices], self.norm[indices], self.y[indices]
        return Chunk(self.units[indices], constant, scale, norm, y, self.n_classes)

    def scores(self, w: Floats) -> Floats:
        """Return x.w for every row, the same bits on every storage. ``w`` must be on the weight grid."""
        recalled = self.memory.recall(w)
        return self._scaled(self._product(w) if recalled is None else recalled)

    def scores_along(self, line: Line) -> tuple[Floats, Floats]:
        """Return the scores at the start of a line and their change per step; remember both."""
        start = self.memory.recall(line.start)
        start = self._product(line.start) if start is None else start
        step = self._product(line.step)
        self.memory.line, self.memory.start, self.memory.step = line, start, step
        return self._scaled(start), self._scaled(step)

    def total(self, residuals: Floats) -> Integers:
        """Return ``sum_i residuals[i] * (units[i], constant[i])`` in multiples of 2^-UNIT_BITS, exactly.

        ``residuals`` hold integers with ``|residuals[i]| * norm[i] <= 2^UNIT_BITS``.
        """
        sums = self.units.T @ residuals
        if self.constant is not None:
            sums = np.concatenate([sums, (self.constant @ residuals)[None]])
        total: Integers = (sums * 2.0**UNIT_BITS).astype(np.int64)
        return total

    def _product(self, w: Floats) -> Floats:
        columns = () if self.n_classes is None else (self.n_classes,)
        expected = (self.units.shape[1] + (self.constant is not None), *columns)
        if w.shape != expected:
            raise ValueError(f"weights have shape {w.shape}, but these data need {expected}")
        # columns first: the scores of one class lie side by side
        product: Floats = np.asfortranarray(self.units @ (w if self.constant is None else w[:-1]))
        if self.constant is not None:
            product += np.multiply.outer(w[-1], self.constant).T
        return product

    def _scaled(self, product: Floats) -> Floats:
        scale = self.scale if product.ndim == 1 else self.scale[:, None]
        return np.clip(scale * product, -_LARGEST_SCORE, _LARGEST_SCORE)


Kernel: TypeAlias = Callable[[Chunk], Integers]


class Rows(Protocol):
    """What a backend has to provide."""

    @property
    def n_rows(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_parameters(self) -> int:
        """Return the rows of a weight array: n_features, and one more with an intercept."""

    def total(self, kernel: Kernel) -> Integers:
        """Return the sum of ``kernel(chunk)`` over all chunks."""

    def subset(self, indices: Integers) -> Rows:
        """Return some of the rows, by their public position."""


class ChunkRows:
    """Rows that exist as chunks. ``chunks`` returns them for one pass."""

    def __init__(self, chunks: Callable[[], Iterable[Chunk]], n_rows: int, n_features: int, n_parameters: int) -> None:
        self._chunks = chunks
        self.n_rows, self.n_features, self.n_parameters = n_rows, n_features, n_parameters

    def total(self, kernel: Kernel) -> Integers:
        sums: Any = 0
        for chunk in self._chunks():
            sums = sums + kernel(chunk)
        total: Integers = sums
        return total

    def subset(self, indices: Integers) -> ChunkRows:
        indices = np.sort(indices)
        taken, start = [], 0
        for chunk in self._chunks():
            first, last = np.searchsorted(indices, [start, start + len(chunk)])
            if last > first:
                taken.append(chunk.take(indices[first:last] - start))
            start += len(chunk)
        return ChunkRows(lambda: taken, len(indices), self.n_features, self.n_parameters)


class ArrayRows(ChunkRows):
    """Rows of a NumPy array, a memory-mapped array or a SciPy sparse matrix.

    In memory, one rounded copy is kept (CSR where that is smaller). A memory-mapped array is rounded block by block in
    every pass and never copied.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        Finite values.
    y : array of shape (n_rows,)
        -1/+1, or class numbers 0..n_classes-1.
    n_classes : int or None
        Public number of classes; None for labels -1/+1.
    fit_intercept : bool
        Whether a column of ones is appended.
    data_norm : float or None
        Public bound on the l2 norm of a row (without the intercept); longer rows are scaled down to it, each on
        its own.
    chunk_rows : int
        Rows per chunk, at most ``CHUNK_ROWS``.
    """

    def __init__(
        self,
        X: Matrix,
        y: Labels,
        *,
        n_classes: int | None = None,
        fit_intercept: bool = True,
        data_norm: float | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        y = np.array(y)
        if X.ndim != 2 or y.shape != (X.shape[0],):
            raise ValueError("X must have two dimensions, y one, and both as many rows")
        allowed = (-1, 1) if n_classes is None else range(n_classes)
        if not np.isin(y, allowed).all():
            raise ValueError(f"y must hold {'-1 and 1' if n_classes is None else f'0..{n_classes - 1}'} only")
        y = y.astype(np.float64 if n_classes is None else np.intp)
        y.flags.writeable = False
        if not 1 <= X.shape[0] <= _MAX_ROWS:
            raise ValueError(f"X has {X.shape[0]} rows; between 1 and {_MAX_ROWS} are supported")
        if not 1 <= chunk_rows <= CHUNK_ROWS:
            raise ValueError(f"chunk_rows={chunk_rows!r} must lie between 1 and {CHUNK_ROWS}")
        if data_norm is not None and not 0 < data_norm < _LARGEST_ENTRY:
            raise ValueError(f"data_norm={data_norm!r} must be None or a positive finite number")
        n_rows, n_features = X.shape
        self._fit_intercept, self._data_norm, self._n_classes = fit_intercept, data_norm, n_classes
        mapped = isinstance(X, np.memmap)
        if sp.issparse(X):
            X = X.tocsr()
        elif not mapped and np.count_nonzero(X) < _SPARSE_DENSITY * X.size:
            X = _compressed(X)
        bounds = range(0, n_rows, min(chunk_rows, _BLOCK_ROWS) if mapped else chunk_rows)
        parts = [slice(a, min(a + bounds.step, n_rows)) for a in bounds]
        if mapped:
            for rows in parts:
                _require_finite(X[rows])
            memories = [Memory() for _ in parts]

            def chunks() -> Iterable[Chunk]:
                return (self._chunk(X[rows], y[rows], m) for rows, m in zip(parts, memories, strict=True))
        else:
            held = [self._chunk(X[rows], y[rows], Memory()) for rows in parts]

            def chunks() -> Iterable[Chunk]:
                return held

        super().__init__(chunks, n_rows, n_features, n_features + fit_intercept)

    @np.errstate(all="ignore")  # whether some row under- or overflows is nobody's business
    def _chunk(self, X: Matrix, y: Labels, memory: Memory) -> Chunk:
        if sp.issparse(X):
            units, scale, norm2 = self._sparse_units(X)
        else:
            units, scale, norm2 = self._dense_units(X)
        constant = None
        if self._fit_intercept:
            constant = np.trunc(2.0**UNIT_BITS / scale) * _GRID
            norm2 = norm2 + constant * constant
        # 2^-40 covers the rounding of the integer sum, of the constant's square and of the root
        norm = np.where(norm2 > 0, np.sqrt(norm2) * (1 + 2.0**-40), 1.0)
        return Chunk(units, constant, scale, norm, y, self._n_classes, memory)

    def _row_scale(self, largest: Floats) -> Floats:
        """Return the power of two at or above each row's largest magnitude (and 1 for the intercept)."""
        mantissa, exponent = np.frexp(largest)
        exponent = np.where(largest > 0, exponent - (mantissa == 0.5), 0)
        floor = 0 if self._fit_intercept else -500
        return np.ldexp(1.0, np.maximum(exponent, floor))

    def _dense_units(self, X: Matrix) -> tuple[Matrix, Floats, Floats]:
        n, d = X.shape
        units = np.empty((n, d), order="F")
        scale, norm2 = np.empty(n), np.empty(n)
        for a in range(0, n, _BLOCK_ROWS):
            rows = slice(a, min(a + _BLOCK_ROWS, n))
            x = np.array(X[rows], dtype=np.float64, order="C")
            _require_finite(x)
            np.clip(x, -_LARGEST_ENTRY, _LARGEST_ENTRY, out=x)
            scale[rows] = self._row_scale(np.abs(x).max(axis=1, initial=0.0))
            if self._data_norm is not None:
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
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        units = sp.csr_matrix((X.data.astype(np.float64), X.indices, X.indptr), X.shape)  # only values are copied
        _require_finite(units.data)
        np.clip(units.data, -_LARGEST_ENTRY, _LARGEST_ENTRY, out=units.data)
        counts = np.diff(units.indptr)

        def sum_of_squares(steps: Floats) -> Floats:
            squares = steps.astype(np.int64)
            squares *= squares
            ones = np.ones(units.shape[1], dtype=np.int64)
            sums = sp.csr_matrix((squares, units.indices, units.indptr), units.shape) @ ones
            norm2: Floats = sums * _GRID**2
            return norm2

        def row_scale() -> Floats:
            return self._row_scale(abs(units).max(axis=1).toarray().ravel())

        scale = row_scale()
        if self._data_norm is not None:
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
        bound = np.inf if self._data_norm is None else self._data_norm
        norm = np.maximum(scale * np.sqrt(norm2), bound)
        return np.where(norm > bound, bound * (1 - 2.0**-30) / norm, 1.0)


def _sum_of_squares(steps: Floats) -> Floats:
    """Return the squared norm of each row of integers, in units: summed as integers, so that no order matters."""
    integers = steps.astype(np.int64)
    squares: Floats = np.einsum("ij,ij->i", integers, integers) * _GRID**2
    return squares


def _compressed(X: NDArray[Any]) -> Matrix:
    """Return a dense array as CSR, block by block: several times faster than SciPy on columns-first arrays."""
    n, d = X.shape
    values, columns, counts = [], [], []
    for a in range(0, n, _BLOCK_ROWS):
        x = np.ascontiguousarray(X[a : a + _BLOCK_ROWS])
        found = np.flatnonzero(x)
        values.append(x.ravel()[found].astype(np.float64))
        columns.append((found % d).astype(np.int32))
        counts.append(np.count_nonzero(x, axis=1))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return sp.csr_matrix((np.concatenate(values), np.concatenate(columns), indptr), (n, d))


def _require_finite(x: NDArray[Any]) -> None:
    if not np.isfinite(x).all():
        raise ValueError("X contains NaN or infinity: impute or drop such rows before fitting (finiteness is public)")
