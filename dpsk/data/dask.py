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
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats, Integers
from .arrays import ArrayRows, RawRows, require_rows
from .labels import all_labels, as_labels
from .persons import Keys, Persons, mark_of
from .row_map import PublicShape, RowMap
from .rows import Kernel, Labels, Matrix, Rows
from .schema import Schema
from .stored import StoredRows
from .tables import Table, outcome_rows
from .weights import Weights, steps_of

_FAN_IN = 16  # sums that one task adds up
_SAME_ROWS = "its source must give the same rows"

Check = Callable[[Any, Any], tuple[Matrix, Labels]]
Apart = Callable[[Any], tuple[Any, Keys]]


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


@dataclass(frozen=True, eq=False)
class Members:
    """The persons with rows in one part: their numbers, which rise, and how many rows each has there."""

    numbers: NDArray[np.int32]
    counts: Integers


class DaskRows(Rows):
    """Rows of which every part is a delayed backend that its worker keeps. ``members`` are the persons of each part.

    A batch of persons is chosen by their numbers, and never by positions of rows: a part that is lost and read again
    may have its rows in another order.
    """

    shared = False

    def __init__(
        self,
        parts: Sequence[Any],
        lengths: Sequence[int],
        public: PublicShape,
        persons: Persons | None = None,
        members: Sequence[Members] = (),
    ) -> None:
        import dask

        self._parts, self._lengths = dask.persist(*parts), lengths
        self.persons, self._members = persons, members
        self.public = replace(public, by_person=public.by_person or persons is not None)

    def total(self, kernel: Kernel) -> Integers:
        sums = [_task(_total, part, kernel) for part in self._parts]
        while len(sums) > 1:
            sums = [_task(sum, sums[a : a + _FAN_IN]) for a in range(0, len(sums), _FAN_IN)]
        total: Integers = sums[0].compute()
        return total

    def subset(self, units: Integers) -> DaskRows:
        self._require_undivided()
        if self.persons is None:
            return self.rows_at(units, len(units))
        drawn = np.zeros(self.persons.n, dtype=bool)
        drawn[units] = True
        chosen = [np.flatnonzero(drawn[part.numbers]) for part in self._members]
        lengths = [int(part.counts[some].sum()) for part, some in zip(self._members, chosen, strict=True)]
        return self._batch(chosen, lengths, len(units))

    def rows_at(self, indices: Integers, n_units: int) -> DaskRows:
        starts = np.concatenate([[0], np.cumsum(self._lengths)])
        indices = np.sort(indices)
        cuts = np.searchsorted(indices, starts)
        chosen = [indices[cuts[k] : cuts[k + 1]] - starts[k] for k in range(len(self._parts))]
        return self._batch(chosen, list(map(len, chosen)), n_units)

    def _batch(self, chosen: Sequence[Integers], lengths: Sequence[int], n_units: int) -> DaskRows:
        """Return the rows of some units of each part, which are so many rows."""
        full = [k for k, some in enumerate(chosen) if len(some)] or [0]  # without rows it still knows its shape
        parts = [_task(_subset, self._parts[k], chosen[k].astype(np.uint32)) for k in full]
        return DaskRows(parts, [lengths[k] for k in full], replace(self.public, n_rows=n_units))


@dataclass(frozen=True, eq=False, repr=False)  # Dask logs what a failing task was given
class Whose:
    """Whose rows those of one block are. Its persons are numbered in the order of their keys.

    ``steps`` is the weight of a row of each of them. Where the block holds ids, the person of a row is found by its
    key, whatever the order of the rows; ``mark`` tells that the keys are those that were seen first. Where it does not,
    ``places`` has the person of each row in the order of the first reading.
    """

    steps: NDArray[np.int32]
    places: NDArray[np.int32] | None
    mark: bytes = b""
    ordered: bool = False

    def weights(self, keys: Keys | None) -> Weights:
        """Return the weights of the rows as rows of persons; raise ValueError if their persons have changed."""
        if self.places is not None:
            persons = Persons(self.places, len(self.steps))
        elif keys is not None and mark_of(keys, ordered=self.ordered) == self.mark:
            persons = Persons.of(keys)
        else:
            order = " in the same order, as sample_weight is told by order," if self.ordered else ""
            raise ValueError(f"a block of X has other ids than before: {_SAME_ROWS}{order} every time")
        return Weights(self.steps[persons.codes], persons)


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """What is known of a block since it was checked, and how it is read.

    ``apart`` takes the ids out of it, where it holds them. ``given`` are weights of its rows, in their order.
    """

    check: Check
    shape: tuple[int, int]
    apart: Apart | None
    whose: Whose | None
    given: Floats | None

    def read(self, X: Any, y: Any) -> tuple[Any, Labels, Weights | None]:
        """Return rows, labels, and weights as rows of persons; raise ValueError if shape or persons have changed."""
        X, keys = (X, None) if self.apart is None else self.apart(X)
        X, y = self.check(X, y)
        if X.shape != self.shape:
            raise ValueError(f"a block of X had the shape {self.shape} and now has {X.shape}: {_SAME_ROWS} every time")
        return X, y, None if self.whose is None else self.whose.weights(keys)

    def weights(self, labels: Labels, how: RowMap, of_persons: Weights | None) -> Weights | None:
        """Return the weights of the rows under this map."""
        persons = None if of_persons is None else of_persons.persons
        steps = steps_of(labels, how, None if of_persons is None else of_persons.steps, self.given)
        return None if steps is None else Weights(steps, persons)


class DaskTable(Table):
    """A Dask array or DataFrame, and its labels.

    ``check`` returns rows and labels of a block as arrays, or raises ValueError. All blocks are checked at once, before
    anything else; problems are returned rather than raised, because Dask logs what a failing task was given.
    """

    _apart: Apart | None = None

    def __init__(self, X: Any, y: Any, check: Check, classes: Any = None, schema: Schema | None = None) -> None:
        import dask

        pairs = list(zip(*aligned(X, y), strict=True))
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
        return self._on_grid(
            _outcome_rows, 1, replace(how, fit_intercept=False, columns=None, features=None, waves=None)
        )

    def _on_grid(self, make: Callable[..., Any], width: int, how: RowMap) -> DaskRows:
        """Return rows that are made of labelled blocks, of so many columns."""
        weighted = self.persons is not None or how.class_shares is not None or how.weight_bound is not None
        public = replace(how.of_shape(self.facts.n_rows, width), weighted=weighted)
        return self._made(make, public, self.classes, how)

    def identify(self, X: Any, apart: Apart) -> Keys:
        """Take the rows from blocks of X from now on, which hold ids, and return the keys of all rows.

        ``apart`` returns a block without its ids, and their keys. The task that reads a block does that: two readings
        of a block may have their rows in different orders.
        """
        found = per_block(partial(_keys_in, apart), X)
        full = [(block, keys) for block, keys in zip(_blocks(X), found, strict=True) if len(keys)]
        if [len(keys) for _, keys in full] != [n for n, _ in self._shapes]:
            raise ValueError(f"the blocks of X have other numbers of rows than before: {_SAME_ROWS} every time")
        self._pairs = [(block, y) for (block, _), (_, y) in zip(full, self._pairs, strict=True)]
        self._apart = apart
        self._marks = {ordered: [mark_of(keys, ordered=ordered) for _, keys in full] for ordered in (False, True)}
        return np.concatenate([keys for _, keys in full])

    def _made(self, make: Callable[..., Any], public: PublicShape, *how: Any) -> DaskRows:
        lengths = [n for n, _ in self._shapes]
        ends = np.cumsum([0, *lengths])
        parts, members = [], list[Members]()
        for k, (pair, shape) in enumerate(zip(self._pairs, self._shapes, strict=True)):
            here, whose = slice(ends[k], ends[k + 1]), None
            given = None if self.sample_weight is None else self.sample_weight[here]
            if self.persons is not None:
                numbers, places, counts = np.unique(self.persons.codes[here], return_inverse=True, return_counts=True)
                members.append(Members(numbers, counts))
                whose = self._whose(k, self.persons.steps[numbers], places)
            parts.append(_task(make, Block(self._check, shape, self._apart, whose, given), *pair, *how))
        return DaskRows(parts, lengths, public, self.persons, members)

    def _whose(self, k: int, steps: NDArray[np.int32], places: Integers) -> Whose:
        if self._apart is None:
            return Whose(steps, places.astype(np.int32))
        ordered = self.sample_weight is not None
        return Whose(steps, None, self._marks[ordered][k], ordered)


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
    return of_each(function, _blocks(X))


def of_each(function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
    """Return the same of delayed blocks."""
    import dask

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


def picked(
    pick: Callable[..., tuple[Any, Any]], pairs: Sequence[tuple[Any, ...]], lengths: Sequence[int], X: Any, y: Any
) -> tuple[Any, Any]:
    """Return two collections, of the kinds of X and y, of what ``pick`` makes of each pair of blocks.

    ``pick(X, y, *more)`` gets a block of X, that of y, and what else is in its pair. It returns so many rows and their
    labels, in one task: they are of the same reading of the block.
    """
    made = [_task(pick, *pair) for pair in pairs]
    rows, labels = ([_task(itemgetter(k), part) for part in made] for k in (0, 1))
    return _collection(rows, lengths, X), _collection(labels, lengths, y)


def _collection(blocks: Sequence[Any], lengths: Sequence[int], like: Any) -> Any:
    """Return a collection of blocks of so many rows, of the kind of another one; of an array for a NumPy array."""
    if is_dask(like) and not hasattr(like, "chunks"):
        from dask.dataframe import from_delayed

        return from_delayed(blocks, meta=like._meta)
    import dask.array as da

    made = [(block, (n, *like.shape[1:])) for block, n in zip(blocks, lengths, strict=True)]
    meta = getattr(like, "_meta", None)
    return da.concatenate([da.from_delayed(block, shape, dtype=like.dtype, meta=meta) for block, shape in made])


def _keys_in(apart: Apart, block: Any) -> Keys:
    return apart(block)[1]


def _task(function: Callable[..., Any], *arguments: Any) -> Any:
    from dask import delayed

    return delayed(function, pure=False, traverse=False)(*arguments)


def _blocks(X: Any) -> list[Any]:
    is_array = hasattr(X, "chunks")
    if is_array and len(X.chunks) == 2 and len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})  # whole rows
    # optimised, two columns of a file may be cut differently
    return list(np.ravel(X.to_delayed(optimize_graph=is_array)))


def aligned(X: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """Return the delayed blocks of X and y, cut at the same rows as far as can be told."""
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


def _raw_rows(block: Block, X: Any, y: Any) -> RawRows:
    X, _, of_persons = block.read(X, y)
    return RawRows(X, weights=of_persons)


def _grid_rows(block: Block, X: Any, y: Any, classes: Any, how: RowMap) -> StoredRows:
    X, y, of_persons = block.read(X, y)
    labels = as_labels(classes, y)
    return StoredRows([X], labels, how, block.weights(labels, how, of_persons), on_disk=False)


def _outcome_rows(block: Block, X: Any, y: Any, classes: Any, how: RowMap) -> ArrayRows:
    _, y, of_persons = block.read(X, y)
    labels = as_labels(classes, y)
    return outcome_rows(labels, how, block.weights(labels, how, of_persons))


def _total(rows: Any, kernel: Kernel) -> Integers:
    with np.errstate(all="ignore"):  # whether some row overflows is nobody's business
        total: Integers = rows.total(kernel)
    return total


def _subset(rows: Any, indices: Any) -> Any:
    return rows.subset(indices.astype(np.int64))
