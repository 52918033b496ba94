"""Rows: the data on exact grids, in chunks, and the interface of a backend. :mod:`dpsk.data.arrays` has backends.

A backend provides public facts (``public``) and ``total(kernel)``, the sum over chunks of what the kernel returns.
Kernels return integers, so sums are the same for every order, blocking and storage.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats, Integers
from .grid import UNIT_BITS
from .persons import Persons
from .row_map import PublicShape
from .weights import MOST_ROWS, Weights, joined, products

Labels: TypeAlias = NDArray[Any]
Matrix: TypeAlias = Any  # a dense array or a CSR matrix: what both sides of the products below accept

_LARGEST_SCORE = 2.0**100  # beyond, clipped: products and squares of these are finite
_WORTH_THREADS = 2**20  # entries of all rows from which on threads save more time than they take


@dataclass(frozen=True, eq=False)
class Line:
    """Points ``start + multiple * step`` on one grid, and whether scores may be moved along it without rounding."""

    start: Floats
    step: Floats
    multiples: Floats
    points: Floats
    exact: bool

    def __reduce__(self) -> Any:
        """Return what is sent to workers: two points. A worker computes the others from these, with the same bits."""
        return _line, (self.start, self.step, self.multiples, self.exact)


def _line(start: Floats, step: Floats, multiples: Floats, exact: bool) -> Line:
    return Line(start, step, multiples, start + np.multiply.outer(multiples, step), exact)


@dataclass
class Memory:
    """The products of one chunk at the last points. They never leave the chunk."""

    # weights and products there; the line that starts there and the products along its step, if there is one
    _kept: tuple[Floats, Floats, Line | None, Floats | None] | None = None  # one value: threads may share a chunk

    def keep(self, line: Line, start: Floats, step: Floats | None = None) -> None:
        """Remember the products at the start of a line and along its step."""
        self._kept = line.start, start, line, step

    def keep_point(self, w: Floats, product: Floats) -> None:
        """Remember the products at ``w``, an array that does not change any more."""
        self._kept = w, product, None, None

    def recall_step(self, step: Floats) -> Floats | None:
        """Return the products along ``step`` if it is the one of the last line."""
        kept = self._kept
        return kept[3] if kept is not None and kept[2] is not None and _equal(kept[2].step, step) else None

    def recall(self, w: Floats) -> Floats | None:
        """Return the products at ``w`` if the last line gives them without rounding."""
        if self._kept is None:
            return None
        at, start, line, step = self._kept
        if _equal(at, w):
            return start
        if line is None or step is None or not line.exact or line.points.shape[1:] != w.shape:
            return None
        found = np.flatnonzero((line.points == w).reshape(len(line.points), -1).all(axis=1))
        return start + line.multiples[found[0]] * step if found.size else None


def _equal(a: Floats, b: Floats) -> bool:
    """Return whether two arrays are equal. Different weights mostly differ in the last number, which is fast to see."""
    return a is b or (a.shape == b.shape and a.item(-1) == b.item(-1) and np.array_equal(a, b))


@dataclass
class Chunk:
    """Some rows: row i is ``scale[i] * (units[i] - offset, constant[i])``, with the label ``y[i]``.

    Units and offset lie on the grid of :mod:`dpsk.data.grid`. ``norm`` holds the l2 norms of (units - offset,
    constant), never rounded down and never 0. ``constant`` is the intercept column, None where no intercept is fitted;
    ``offset`` is the same for all rows, None where it is zero or was subtracted already. ``first`` is the position of
    the first row among all rows, for kernels that know something about each; chunks of a subset have none: -1.
    ``weights`` are what rows count, in steps of 2^-SHARE_BITS; None where each counts fully.
    """

    units: Matrix
    constant: Floats | None
    scale: Floats
    norm: Floats
    y: Labels
    n_classes: int | None
    memory: Memory = field(default_factory=Memory)
    offset: Floats | None = None
    first: int = -1
    weights: Floats | None = None

    def __post_init__(self) -> None:
        self.largest_scale = float(self.scale.max(initial=0.0))
        self._limits: tuple[float, Floats] | None = None
        self.transposed = self.units.T  # shares the values; a new one costs a sparse product of a few hundred rows

    def __len__(self) -> int:
        return len(self.scale)

    def load(self) -> Chunk:
        """Return the chunk itself: it is in memory."""
        return self

    def part(self, rows: slice) -> Chunk:
        """Return a chunk of neighbours, without memory: a view of dense rows, which costs nothing."""
        constant, weights = (None if some is None else some[rows] for some in (self.constant, self.weights))
        units, scale, norm, y = self.units[rows], self.scale[rows], self.norm[rows], self.y[rows]
        return Chunk(units, constant, scale, norm, y, self.n_classes, offset=self.offset, weights=weights)

    def take(self, indices: Integers) -> Chunk:
        """Return a chunk of these rows, without memory."""
        if sp.issparse(self.units) or not self.units.flags.f_contiguous:
            units = self.units[indices] if sp.issparse(self.units) else self.units.take(indices, axis=0)
        else:  # column by column: NumPy would turn all rows into a copy that lies row by row first
            units = self.units.T.take(indices, axis=1).T
        scale, norm, y, *others = np.ascontiguousarray(self._facts.take(indices, axis=0).T)
        constant = None if self.constant is None else others[0]
        weights = None if self.weights is None else others[-1]
        y = y.astype(self.y.dtype)
        return Chunk(units, constant, scale, norm, y, self.n_classes, offset=self.offset, weights=weights)

    @cached_property
    def _facts(self) -> Floats:
        """Scale, norm and other numbers of each row, next to each other: a draw of rows reads memory once."""
        others = [some for some in (self.constant, self.weights) if some is not None]
        return np.stack([self.scale, self.norm, self.y, *others], axis=1)

    @staticmethod
    def joined(parts: list[Chunk]) -> Chunk:
        """Return a chunk of the rows of all parts, without memory."""
        one = parts[0]
        if any(part.sparse != one.sparse for part in parts):  # of sparse ones the offset is not subtracted yet
            raise ValueError("dense and sparse rows cannot be joined")
        units = [part.units for part in parts]
        constants = [part.constant for part in parts if part.constant is not None]
        weights = [part.weights for part in parts if part.weights is not None]
        return Chunk(
            sp.vstack(units, format="csr") if one.sparse else np.concatenate(units),
            np.concatenate(constants) if constants else None,
            np.concatenate([part.scale for part in parts]),
            np.concatenate([part.norm for part in parts]),
            np.concatenate([part.y for part in parts]),
            one.n_classes,
            offset=one.offset,
            weights=np.concatenate(weights) if weights else None,
        )

    @property
    def sparse(self) -> bool:
        """Whether the units are a CSR matrix."""
        return bool(sp.issparse(self.units))

    @property
    def norms(self) -> Floats:
        """The l2 norm of every row."""
        return self.scale * self.norm

    def dense(self, rows: slice) -> Floats:
        """Return a copy of some rows of (units - offset, constant)."""
        units = self.units[rows].toarray() if sp.issparse(self.units) else self.units[rows]
        shape = len(units), units.shape[1] + (self.constant is not None)
        dense = np.empty(shape, order="C" if units.flags.c_contiguous else "F")  # as it lies: twice as fast
        np.subtract(units, 0.0 if self.offset is None else self.offset, out=dense[:, : units.shape[1]])
        if self.constant is not None:
            dense[:, -1] = self.constant[rows]
        return dense

    def scores(self, w: Floats) -> Floats:
        """Return x.w for every row, the same bits on every storage. ``w`` must be on the weight grid."""
        product = self.memory.recall(w)
        if product is None:
            product = self._product(w)
            self.memory.keep_point(w.copy() if w.flags.writeable else w, product)
        return self._scaled(product, w)

    def scores_along(self, line: Line) -> tuple[Floats, Floats]:
        """Return the scores at the start of a line and their change per step; remember both."""
        start, step = self.products_along(line)
        return self._scaled(start, line.start), self._scaled(step, line.step)

    def products_along(self, line: Line) -> tuple[Floats, Floats]:
        """Return the same without the scales of the rows: exact for rows of any size."""
        start = self.memory.recall(line.start)
        start = self._product(line.start) if start is None else start
        step = self.memory.recall_step(line.step)
        step = self._product(line.step) if step is None else step
        self.memory.keep(line, start, step)
        return start, step

    def total(self, residuals: Floats) -> Integers:
        """Return ``sum_i residuals[i] * (units[i] - offset, constant[i])`` in multiples of 2^-UNIT_BITS, exactly.

        ``residuals`` hold integers of at most 2^UNIT_BITS, or of at most ``2^UNIT_BITS / norm[i]``.
        """
        sums = self.transposed @ residuals
        if self.offset is not None:
            sums -= np.multiply.outer(self.offset, residuals.sum(axis=0))
        if self.constant is not None:
            sums = np.concatenate([sums, (self.constant @ residuals)[None]])
        total: Integers = (sums * 2.0**UNIT_BITS).astype(np.int64)
        return total

    def weighed(self, residuals: Floats) -> Integers:
        """Return :meth:`total` with each row times its weight, in two parts; plainly if rows have no weights."""
        if self.weights is None:
            return self.total(residuals)
        if len(self) > MOST_ROWS:
            raise ValueError(f"{len(self)} rows with weights cannot be added at a time: at most {MOST_ROWS} can")
        high, low = products(residuals, self.weights)
        return joined(self.total(high), self.total(low))

    def _product(self, w: Floats) -> Floats:
        columns = () if self.n_classes is None else (self.n_classes,)
        expected = (self.units.shape[1] + (self.constant is not None), *columns)
        if w.shape != expected:
            raise ValueError(f"weights have shape {w.shape}, but these data need {expected}")
        # columns first: the scores of one class lie side by side
        slopes = w if self.constant is None else w[:-1]
        product: Floats
        if w.ndim == 1 or self.sparse:
            product = np.asfortranarray(self.units @ slopes)
        else:
            product = (slopes.T @ self.transposed).T
        one, shift = self._one_constant, None if self.offset is None else -(self.offset @ slopes)
        if one is not None:
            shift = w[-1] * one if shift is None else shift + w[-1] * one
        if shift is not None:
            product += shift
        if self.constant is not None and one is None:
            product += np.multiply.outer(w[-1], self.constant).T
        return product

    @cached_property
    def _one_constant(self) -> float | None:
        """The intercept column's entry, if it is the same in all rows."""
        return None if self.constant is None else _one_value(self.constant)

    @cached_property
    def one_scale(self) -> float | None:
        """The scale, if it is the same for all rows."""
        return _one_value(self.scale)

    def limits(self, bound: float) -> Floats:
        """Return ``bound / norm`` for every row. They are remembered: solvers ask for the same ones in every pass."""
        if self._limits is None or self._limits[0] != bound:
            self._limits = bound, bound / self.norm  # one value: threads may share a chunk
        return self._limits[1]

    def _scaled(self, product: Floats, w: Floats) -> Floats:
        scale = self.scale if self.one_scale is None else self.one_scale
        scores: Floats = (scale if product.ndim == 1 or isinstance(scale, float) else scale[:, None]) * product
        if 2 * self.largest_scale * np.abs(w).sum() >= _LARGEST_SCORE:  # a unit less its offset is at most 2
            np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE, out=scores)
        return scores


def _one_value(numbers: Floats) -> float | None:
    """Return the number that is in every place; None if there are different ones, or none."""
    if not len(numbers) or numbers[0] != numbers[-1] or not (numbers == numbers[0]).all():
        return None
    return float(numbers[0])


@dataclass
class RawChunk:
    """The non-zero entries of some rows, in the user's units: ``counts[i]`` of them in row i, row after row.

    ``weights`` are what rows count, in steps of 2^-SHARE_BITS; None where each counts fully.
    """

    values: Floats
    columns: Integers
    counts: Integers
    n_features: int
    weights: Floats | None = None

    sparse = True

    def __len__(self) -> int:
        return len(self.counts)

    def load(self) -> RawChunk:
        """Return the chunk itself: it is in memory."""
        return self

    def take(self, indices: Integers) -> RawChunk:
        """Return a chunk of these rows."""
        ends = np.cumsum(self.counts)
        entries = [np.arange(end - count, end) for end, count in zip(ends[indices], self.counts[indices], strict=True)]
        taken = np.concatenate(entries) if entries else np.zeros(0, dtype=np.int64)
        weights = None if self.weights is None else self.weights[indices]
        return RawChunk(self.values[taken], self.columns[taken], self.counts[indices], self.n_features, weights)

    def only(self, columns: Integers) -> RawChunk:
        """Return a chunk of some columns, in their order there."""
        place = np.full(self.n_features, -1)
        place[columns] = np.arange(len(columns))
        held = place[self.columns] >= 0
        counts = np.bincount(np.repeat(np.arange(len(self)), self.counts)[held], minlength=len(self))
        return RawChunk(self.values[held], place[self.columns[held]], counts, len(columns), self.weights)

    @staticmethod
    def joined(parts: list[RawChunk]) -> RawChunk:
        """Return a chunk of the rows of all parts."""
        values, columns, counts = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "columns", "counts")
        )
        weights = [part.weights for part in parts if part.weights is not None]
        return RawChunk(values, columns, counts, parts[0].n_features, np.concatenate(weights) if weights else None)

    @property
    def norms(self) -> Floats:
        """The l2 norm of every row's pattern: 1 where an entry is not zero."""
        return np.sqrt(self.counts)


Kernel: TypeAlias = Callable[[Any], Integers]


class Rows(ABC):
    """What a backend has to provide."""

    public: PublicShape

    persons: Persons | None = None
    """Whose rows they are; None where each row is protected by itself."""

    @property
    def n_rows(self) -> int:
        """The number of units: of rows, or of persons, whose rows count as much as one row together."""
        return self.public.n_rows

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self.public.n_features

    @property
    def n_parameters(self) -> int:
        """The rows of a weight array: the columns, and one more with an intercept."""
        return self.public.n_parameters

    shared = True
    """Whether kernels run in this process, so that they may share arrays with whoever made them."""

    @abstractmethod
    def total(self, kernel: Kernel) -> Integers:
        """Return the sum of ``kernel(chunk)`` over all chunks, visited in any order and by any number of threads."""

    def subset(self, units: Integers) -> Rows:
        """Return some rows by their public position, or all rows of some persons by their number."""
        self._require_undivided()
        return self.rows_at(units if self.persons is None else self.persons.rows_of(units), len(units))

    def _require_undivided(self) -> None:
        if self.public.by_person and self.persons is None:
            raise ValueError("some rows of these persons were chosen before, and whose they are is not kept")

    @abstractmethod
    def rows_at(self, indices: Integers, n_units: int) -> Rows:
        """Return the rows at some positions, which belong to so many units."""


class Part(Protocol):
    """A chunk, or what one is made of when it is needed."""

    def __len__(self) -> int: ...

    @property
    def sparse(self) -> bool:
        """Return whether it holds rows as CSR: only parts of one kind can be joined."""

    def load(self) -> Any:
        """Return the chunk."""

    def take(self, indices: Integers) -> Part:
        """Return these rows."""


class ChunkRows(Rows):
    """Rows that exist as chunks, or in parts that become chunks. ``parts`` returns them for one pass.

    Where joblib is told to use several threads (``with joblib.parallel_config("threading", n_jobs=4)``), they share the
    chunks of a pass.
    """

    def __init__(
        self, parts: Callable[[], Iterable[Part]], public: PublicShape, weights: Weights | None = None
    ) -> None:
        self._parts, self.public = parts, public
        if weights is not None:  # the chunks have them
            self.persons = weights.persons
            by_person = weights.persons is not None
            self.public = replace(public, n_rows=weights.n_units, weighted=True, by_person=by_person)

    def _chunks(self) -> Iterator[Any]:
        return (part.load() for part in self._parts())

    def total(self, kernel: Kernel) -> Integers:
        parts, jobs = self._parts(), 1
        if self.n_rows * self.n_features >= _WORTH_THREADS:
            jobs = min(n_threads(), len(parts) if isinstance(parts, Sized) else self.n_rows)
        if jobs == 1:
            return _sum(kernel, parts)
        shared, errors = _Shared(parts), np.geterr()  # a thread starts with settings of its own
        with Parallel(n_jobs=jobs, backend="threading") as parallel:
            sums = parallel(delayed(_sum)(kernel, shared, errors) for _ in range(jobs))
        total: Integers = sum(sums)
        return total

    def rows_at(self, indices: Integers, n_units: int) -> ChunkRows:
        indices = np.sort(indices)
        parts: list[Any] = []
        start, longest = 0, {True: 0, False: 0}  # sparse or not: fewer centred rows are added at a time where they are
        for part in self._parts():
            first, last = np.searchsorted(indices, [start, start + len(part)])
            if last > first or not parts:  # a part without rows still knows the shape of its sums
                parts.append(part.take(indices[first:last] - start))
            start, longest[part.sparse] = start + len(part), max(longest[part.sparse], len(part))
        taken = list(_joined(parts, longest))
        return ChunkRows(lambda: taken, replace(self.public, n_rows=n_units))


def n_threads() -> int:
    """Return how many threads joblib is told to use: one, unless somebody asked for more."""
    jobs = int(effective_n_jobs(None))
    return 1 if jobs == 1 else min(jobs, int(cpu_count()))  # counting reads files, and every pass asks


class _Shared:
    """An iterator that several threads take from."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts, self._lock = iter(parts), threading.Lock()

    def __iter__(self) -> Iterator[Part]:
        return self

    def __next__(self) -> Part:
        with self._lock:
            return next(self._parts)


def _sum(kernel: Kernel, parts: Iterable[Part], errors: Any = None) -> Integers:
    with np.errstate(**(errors or {})):
        sums: Any = 0
        for part in parts:
            sums = sums + kernel(part.load())
    total: Integers = sums
    return total


def _joined(parts: list[Any], longest: dict[bool, int]) -> Iterator[Any]:
    """Yield chunks, sparse ones or others, of at most so many rows; short adjacent chunks of one kind are joined."""
    if len(parts) <= 8:
        yield from parts
        return
    group: list[Any] = []
    for part in parts:
        if group and (part.sparse != group[0].sparse or sum(map(len, group)) + len(part) > longest[part.sparse]):
            yield type(part).joined(group)
            group = []
        group.append(part)
    yield type(parts[0]).joined(group)
