"""Scores of rows under a released linear model.

Predictions on private rows are counted and the count is released (:func:`dpsk.private_score`), so a row must not change
what another row gets. Matrix products do not keep that promise: their rounding depends on where a row stands, on
how rows are stored and on how many there are.

Formal guarantee
----------------
(docs/guarantees.md, 13.1)
A score depends on its row and on the model alone, bit for bit: products are added in the order of the columns, each
rounded to float64, then the constant. A sparse row may leave out its zeros: they change no sum but one of -0, which
becomes 0 when the constant is added.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mechanisms.samplers import Floats
from .arrays import ArrayRows, blocks_of
from .grid import LARGEST_ENTRY
from .row_map import RowMap
from .rows import Chunk, Matrix
from .sparse import one_per_place
from .waves import Waves

_ENTRIES = 2**16  # of rows that are worked on at a time: they stay in cache
_FEWEST_ROWS = 8  # a block of one row would be added in another order


def row_scores(
    X: Matrix,
    coef: Floats,
    intercept: Floats,
    ranges: Floats | None = None,
    data_norm: float | None = None,
    waves: Waves | None = None,
) -> Floats:
    """Return ``X @ coef.T + intercept``, shape (n, K), with every row judged by itself.

    ``X`` is a dense array or a sparse matrix of finite numbers. Its entries are clipped to ``ranges`` (lows and highs
    of the columns), or rows longer than ``data_norm`` are scaled down to it, as they were in ``fit``. ``waves`` are
    further columns of X, whose coefficients stand at the end of ``coef``.
    """
    if waves is not None:
        return _scores_with_waves(X, coef, intercept, ranges, waves)
    origin = np.zeros(coef.shape[1]) if ranges is None else np.clip(0.0, *ranges)  # what a zero counts as
    constant = intercept + np.array([math.fsum(w * origin) for w in coef])
    sums = _sparse_sums if sp.issparse(X) else _dense_sums
    scores = np.empty((X.shape[0], len(coef)))
    with np.errstate(all="ignore"):  # whether some row under- or overflows is nobody's business
        for rows, part in sums(X, coef, ranges, origin, data_norm):
            scores[rows] = part + constant
    return scores


def rows_on_grid(X: Matrix, how: RowMap) -> Iterator[Chunk]:
    """Yield rows on the grid on which they were fitted, some at a time: for models that are not linear.

    ``X`` is a dense array or a sparse matrix of finite numbers, with as many columns as ``how`` is for. The labels of
    the chunks mean nothing.
    """
    X = X.tocsr() if sp.issparse(X) else X
    for rows in blocks_of(X):
        block = X[rows]
        labels = np.ones(block.shape[0]) if how.n_classes is None else np.zeros(block.shape[0], dtype=np.intp)
        yield from ArrayRows(block, labels, how)._chunks()


def _scores_with_waves(X: Matrix, coef: Floats, intercept: Floats, ranges: Floats | None, waves: Waves) -> Floats:
    """Return scores of rows with their waves, made of a few rows at a time."""
    ends = np.ones((2, waves.n_columns)) * np.array([[-1.0], [1.0]])
    here = np.full((2, X.shape[1]), LARGEST_ENTRY) * np.array([[-1.0], [1.0]]) if ranges is None else ranges
    X, ranges, scores = (
        one_per_place(X) if sp.issparse(X) else X,
        np.hstack([here, ends]),
        np.empty((X.shape[0], len(coef))),
    )
    size = max(_FEWEST_ROWS, _ENTRIES // waves.n_columns)
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        with np.errstate(all="ignore"):  # as in row_scores
            together = waves.beside(X[rows])
        scores[rows] = row_scores(together, coef, intercept, ranges)
    return scores


def _dense_sums(
    X: Any, coef: Floats, ranges: Floats | None, origin: Floats, data_norm: float | None
) -> Iterator[tuple[slice, Floats]]:
    """Yield the sums of products of some rows, without the constant.

    A block holds the entries of one column next to each other. It never has less than eight rows (some may be unused),
    so that NumPy adds column to column for every number of rows.
    """
    n, d = X.shape
    size = max(_FEWEST_ROWS, min(n, _ENTRIES // d))

    def repeated(numbers: Floats) -> Floats:
        """Return a number per column, for all rows: NumPy is twice as fast as with one number for a whole column."""
        return np.repeat(numbers[:, None], size, axis=1)

    block, products = np.zeros((d, size)), np.empty((d, size))
    bounds = None if ranges is None else [repeated(bound) for bound in ranges]
    shift = origin[:, None] if origin.any() else None
    weights = [repeated(w) if len(coef) == 1 else w[:, None] for w in coef]
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        m = rows.stop - start
        block[:, :m] = X[rows].T
        if bounds is None:
            np.clip(block, -LARGEST_ENTRY, LARGEST_ENTRY, out=block)
        else:
            np.minimum(np.maximum(block, bounds[0], out=block), bounds[1], out=block)
        if shift is not None:
            np.subtract(block, shift, out=block)
        sums = np.empty((size, len(coef)))
        for k, w in enumerate(weights):
            np.multiply(block, w, out=products)
            sums[:, k] = np.add.reduce(products, axis=0)
        if data_norm is not None:
            np.multiply(block, block, out=products)
            sums *= _shrink(np.add.reduce(products, axis=0), data_norm)[:, None]
        yield rows, sums[:m]


def _sparse_sums(
    X: Any, coef: Floats, ranges: Floats | None, origin: Floats, data_norm: float | None
) -> Iterator[tuple[slice, Floats]]:
    """Yield the same of a sparse matrix: only its entries are added, in the order of the columns."""
    X = one_per_place(sp.csr_matrix(X, dtype=np.float64))
    by_column = np.ascontiguousarray(coef.T)
    for rows in _of_about(_ENTRIES, X.indptr):
        at = slice(X.indptr[rows.start], X.indptr[rows.stop])
        entries, columns, ends = X.data[at], X.indices[at], X.indptr[rows.start : rows.stop + 1] - at.start
        if ranges is None:
            entries = np.clip(entries, -LARGEST_ENTRY, LARGEST_ENTRY)
        else:
            low, high = (bound.take(columns) for bound in ranges)
            entries = np.minimum(np.maximum(entries, low, out=low), high, out=high)
        if origin.any():
            entries = entries - origin.take(columns)
        products = by_column.take(columns, axis=0)
        products *= entries[:, None]
        sums = _sums_of(products, ends)
        if data_norm is not None:
            sums *= _shrink(_sums_of((entries * entries)[:, None], ends)[:, 0], data_norm)[:, None]
        yield rows, sums


def _sums_of(products: Floats, ends: Any) -> Floats:
    """Return the sum of each row's products, one after the other.

    A product with 1 is exact, so it does not matter whether it is rounded before it is added.
    """
    pattern = (np.ones(len(products)), np.arange(len(products)), ends)
    sums: Floats = sp.csr_matrix(pattern, (len(ends) - 1, len(products))) @ products
    return sums


def _of_about(entries: int, indptr: Any) -> Iterator[slice]:
    """Yield slices of rows with about so many stored entries."""
    start, n = 0, len(indptr) - 1
    while start < n:
        stop = int(np.searchsorted(indptr, indptr[start] + entries, side="right")) - 1
        stop = min(n, max(start + 1, stop))
        yield slice(start, stop)
        start = stop


def _shrink(squares: Floats, data_norm: float) -> Floats:
    """Return the factors that bring rows with these squared norms down to ``data_norm``."""
    return data_norm / np.maximum(np.sqrt(squares), data_norm)
