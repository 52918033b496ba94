"""Rows on a Dask cluster, or on Dask's threads: they are rounded where they are, and only sums travel.

Each block of a Dask array or DataFrame becomes :class:`~dpsk.data.stored.StoredRows` in a worker's memory, with what it
remembers of its rows. A pass sends a kernel to every block and adds the sums up as a tree. Noise is drawn by whoever
called. A block that is lost with its worker is read, rounded and summed again by another: sums of integers are the
same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats, Integers
from .arrays import ArrayRows, RawRows, require_rows
from .labels import all_labels, as_labels
from .persons import Persons
from .row_map import PublicShape, RowMap
from .rows import Kernel, Labels, Matrix, Rows
from .schema import Schema
from .stored import StoredRows
from .tables import Table, outcome_rows
from .weights import Weights, steps_of

_FAN_IN = 16  # sums that one task adds up

Check = Callable[[Any, Any], tuple[Matrix, Labels]]


def is_dask(X: Any) -> bool:
    """Return whether this is a collection of Dask, which its type tells; Dask need not be installed."""
    return hasattr(type(X), "__dask_graph__")


def require_table(X: Any) -> None:
    """Raise ValueError unless this collection is one of rows and columns."""
    ndim = getattr(X, "ndim", None)  # of a delayed object, one more delayed object
    if not isinstance(ndim, int) or ndim != 2 or not hasattr(X, "to_delayed"):
        raise ValueError(
            f"X is a Dask collection ({type(X).__name__}), but no Dask array or DataFrame with two dimensions: make it "
            "one, with dask.array.from_delayed for instance"
        )


class DaskRows(Rows):
    """Rows of which every part is a delayed backend that its worker keeps."""

    shared = False

    def __init__(
        self, parts: Sequence[Any], lengths: Sequence[int], public: PublicShape, persons: Persons | None = None
    ) -> None:
        import dask

        self._parts, self._lengths, self.persons = dask.persist(*parts), lengths, persons
        self.public = replace(public, by_person=public.by_person or persons is not None)

    def total(self, kernel: Kernel) -> Integers:
        sums = [_task(_total, part, kernel) for part in self._parts]
        while len(sums) > 1:
            sums = [_task(sum, sums[a : a + _FAN_IN]) for a in range(0, len(sums), _FAN_IN)]
        total: Integers = sums[0].compute()
        return total

    def rows_at(self, indices: Integers, n_units: int) -> DaskRows:
        starts = np.concatenate([[0], np.cumsum(self._lengths)])
        indices = np.sort(indices)
        cuts = np.searchsorted(indices, starts)
        parts, lengths = [], []
        for k, part in enumerate(self._parts):
            chosen = indices[cuts[k] : cuts[k + 1]] - starts[k]
            if len(chosen) or (k == 0 and not len(indices)):  # a part without rows still knows the shape of its sums
                parts.append(_task(_subset, part, chosen.astype(np.uint32)))
                lengths.append(len(chosen))
        return DaskRows(parts, lengths, replace(self.public, n_rows=n_units))


@dataclass(frozen=True, eq=False)
class Own:
    """What the rows of one block weigh by themselves: as rows of persons, and by the weights that were given."""

    of_persons: NDArray[np.int32] | None
    given: Floats | None

    def weights(self, labels: Labels, how: RowMap) -> Weights | None:
        """Return their weights under this map."""
        steps = steps_of(labels, how, self.of_persons, self.given)
        return None if steps is None else Weights(steps)

    def as_rows_of_persons(self) -> Weights | None:
        """Return the weights that they have as rows of persons alone."""
        return None if self.of_persons is None else Weights(self.of_persons)


class DaskTable(Table):
    """A Dask array or DataFrame, and its labels.

    ``check`` returns rows and labels of a block as arrays, or raises ValueError. All blocks are checked at once, before
    anything else; problems are returned rather than raised, because Dask logs what a failing task was given.
    """

    def __init__(self, X: Any, y: Any, check: Check, classes: Any = None, schema: Schema | None = None) -> None:
        import dask

        pairs = list(zip(*_aligned(X, y), strict=True))
        facts = dask.compute(*(_task(_facts, check, *pair) for pair in pairs))
        for k, fact in enumerate(facts):
            if isinstance(fact, str):
                raise ValueError(f"{fact} (in block {k} of {len(pairs)})")
        widths = {shape[1] for shape, _ in facts}
        if len(widths) > 1:
            raise ValueError(f"blocks of X have different numbers of columns: {sorted(widths)}")
        full = [(pair, shape) for pair, (shape, _) in zip(pairs, facts, strict=True) if shape[0]]
        self._check, self._pairs, self._shapes = check, [pair for pair, _ in full], [shape for _, shape in full]
        n_rows = sum(n for n, _ in self._shapes)
        require_rows(n_rows)
        seen = np.unique(all_labels([labels for (n, _), labels in facts if n]))
        super().__init__((n_rows, widths.pop()), seen, classes, remote=True, schema=schema)

    def raw(self) -> DaskRows:
        n, d = self.facts.n_rows, self.facts.n_features
        weighted = self.persons is not None
        return self._made(_raw_rows, PublicShape(n, d, d, (1.0, math.sqrt(d)), weighted=weighted))

    def rows(self, how: RowMap) -> DaskRows:
        return self._on_grid(_grid_rows, self.facts.n_features, how)

    def outcomes(self, how: RowMap) -> DaskRows:
        return self._on_grid(_outcome_rows, 1, replace(how, fit_intercept=False, columns=None, features=None))

    def _on_grid(self, make: Callable[..., Any], width: int, how: RowMap) -> DaskRows:
        """Return rows that are made of labelled blocks, of so many columns."""
        weighted = self.persons is not None or how.class_shares is not None or how.weight_bound is not None
        public = replace(how.of_shape(self.facts.n_rows, width), weighted=weighted)
        return self._made(make, public, self.classes, how)

    def _made(self, make: Callable[..., Any], public: PublicShape, *how: Any) -> DaskRows:
        lengths = [n for n, _ in self._shapes]
        ends = np.cumsum([0, *lengths])
        of_persons = None if self.persons is None else self.persons.weights
        parts = []
        for k, (pair, shape) in enumerate(zip(self._pairs, self._shapes, strict=True)):
            here = slice(ends[k], ends[k + 1])
            own = Own(
                None if of_persons is None else of_persons[here],
                None if self.sample_weight is None else self.sample_weight[here],
            )
            parts.append(_task(make, self._check, *pair, shape, own, *how))
        return DaskRows(parts, lengths, public, self.persons)


def map_rows(function: Callable[[Any], Any], X: Any, columns: int | None, dtype: Any) -> Any:
    """Return a Dask array of what ``function`` makes of each block: a number per row, or so many ``columns``."""
    import dask.array as da

    lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * X.npartitions
    shapes = [(n,) if columns is None else (n, columns) for n in lengths]
    blocks = [_task(function, block) for block in _blocks(X)]
    made = [da.from_delayed(block, shape, dtype=dtype) for block, shape in zip(blocks, shapes, strict=True)]
    return da.concatenate(made, allow_unknown_chunksizes=True)


def per_block(function: Callable[[Any], Any], X: Any) -> list[Any]:
    """Return what ``function`` makes of each block, where the block is; raise ValueError for the first problem."""
    import dask

    blocks = _blocks(X)
    made: tuple[Any, ...] = dask.compute(*(_task(_tried, function, block) for block in blocks))
    for k, found in enumerate(made):
        if isinstance(found, str):
            raise ValueError(f"{found} (in block {k} of {len(blocks)})")
    return list(made)


def _tried(function: Callable[[Any], Any], block: Any) -> Any:
    try:
        return function(block)
    except (ValueError, TypeError) as problem:  # returned, because Dask logs what a failing task was given
        return str(problem)


def _task(function: Callable[..., Any], *arguments: Any) -> Any:
    from dask import delayed

    return delayed(function, pure=False, traverse=False)(*arguments)


def _blocks(X: Any) -> list[Any]:
    is_array = hasattr(X, "chunks")
    if is_array and len(X.chunks) == 2 and len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})  # whole rows
    # optimised, two columns of a file may be cut differently
    return list(np.ravel(X.to_delayed(optimize_graph=is_array)))


def _aligned(X: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """Return the blocks of X and y, cut at the same rows as far as can be told."""
    import dask.array as da

    known = X.chunks[0] if hasattr(X, "chunks") and not np.isnan(X.chunks[0]).any() else None
    if not is_dask(y) and known is not None:
        y = np.asarray(y)
        if y.ndim == 1:
            y = da.from_array(y, chunks=-1)
    if not is_dask(y) or getattr(y, "ndim", 0) != 1:
        raise ValueError("y must be a Dask array or Series with one dimension, cut at the same rows as X")
    if known is not None and hasattr(y, "chunks") and not np.isnan(y.chunks[0]).any():
        if sum(known) != len(y):
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[sum(known), len(y)]}")
        y = y.rechunk((known,))
    blocks = _blocks(X), _blocks(y)
    if len(blocks[0]) != len(blocks[1]):
        raise ValueError(
            f"X has {len(blocks[0])} blocks and y {len(blocks[1])}, and where they are cut is not known: take both "
            "from one DataFrame, or call compute_chunk_sizes() on both first"
        )
    return blocks


def _facts(check: Check, X: Any, y: Any) -> tuple[tuple[int, int], NDArray[Any]] | str:
    try:
        X, y = check(X, y)
    except (ValueError, TypeError) as problem:
        return str(problem)
    return X.shape, np.unique(y)


def checked_block(check: Check, X: Any, y: Any, shape: tuple[int, int]) -> tuple[Matrix, Labels]:
    """Return a block that was checked once more; raise ValueError if its shape has changed."""
    X, y = check(X, y)
    if X.shape != shape:
        raise ValueError(
            f"a block of X had the shape {shape} and now has {X.shape}: its source must give the same rows every time"
        )
    return X, y


def _raw_rows(check: Check, X: Any, y: Any, shape: tuple[int, int], own: Own) -> RawRows:
    return RawRows(checked_block(check, X, y, shape)[0], weights=own.as_rows_of_persons())


def _grid_rows(check: Check, X: Any, y: Any, shape: tuple[int, int], own: Own, classes: Any, how: RowMap) -> StoredRows:
    X, y = checked_block(check, X, y, shape)
    labels = as_labels(classes, y)
    return StoredRows([X], labels, how, own.weights(labels, how), on_disk=False)


def _outcome_rows(
    check: Check, X: Any, y: Any, shape: tuple[int, int], own: Own, classes: Any, how: RowMap
) -> ArrayRows:
    labels = as_labels(classes, checked_block(check, X, y, shape)[1])
    return outcome_rows(labels, how, own.weights(labels, how))


def _total(rows: Any, kernel: Kernel) -> Integers:
    with np.errstate(all="ignore"):  # whether some row overflows is nobody's business
        total: Integers = rows.total(kernel)
    return total


def _subset(rows: Any, indices: Any) -> Any:
    return rows.subset(indices.astype(np.int64))
