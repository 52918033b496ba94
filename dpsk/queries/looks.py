"""What is counted of a raw table: magnitudes of its numbers, then one joint histogram of all its fields.

In each field a row lies in one cell, or in none. So a row adds to k fields a vector whose l2 norm is at most sqrt(k),
however many cells a field has. Cells that are public are all released. Values that are not public are released where
their noisy count reaches a threshold: a value of a single row does not, but for a probability that was paid for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..data.fields import MISSING, OTHER, Field, Found, FrameChunk, Listed, Quantity, Words
from ..data.grid import octaves
from ..data.private import NoisyQuery, Query
from ..data.rows import Rows
from ..mechanisms.additive import Gaussian, Laplace, noise_scale
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers
from ..privacy.costs import Cost, DiscoveryCost
from ..privacy.discovery import Discovery
from ..privacy.neighbours import Adjacency

_BITS = 16
_ONE = 2**_BITS
"""What a row adds to its cell, in steps of the grid: so fine that the scale of the noise hardly rounds."""
_NAMES_AT_ONCE = 2**20  # about how many values of rows are counted by name in one pass
_QUARTERS = np.array([2.0**-0.75, 2.0**-0.5, 2.0**-0.25, 1.0])  # upper ends within (1/2, 1]


def joint_sensitivity(most: Sequence[int], adjacency: str) -> Sensitivity:
    """Return how far a row moves counts in steps, if it adds at most ``most`` in all to the cells of each field.

    A row lies in one cell of a field, or is spread over several with the squares of its parts adding up to at most 1. A
    replaced row leaves its cells and enters others.
    """
    parts = Adjacency(adjacency).parts
    l2 = math.nextafter(math.sqrt(parts * len(most)), math.inf) * _ONE
    return Sensitivity(l1=parts * sum(most) * _ONE, l2=l2, linf=_ONE, monotone=Adjacency(adjacency).monotone)


def most_of(field: Field) -> int:
    """Return a bound on what a row adds to all cells of a field together. Each of m words adds 1/sqrt(m)."""
    return math.isqrt(field.buckets - 1) + 1 if isinstance(field, Words) else 1


class SignedMagnitudes(Query):
    """Counts of numbers by sign and quarter octave, from 2^-20 to 2^40, with cells for 0 and for none; a line each.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.12)
    A leaving row lowers one count of each line by 1, a replaced row moves 1 from one cell of each line to another.
    """

    label = "magnitudes"
    unit = 2.0**-_BITS
    lowest, highest = -20, 40
    ends = np.append(2.0**lowest, np.multiply.outer(np.ldexp(1.0, np.arange(lowest, highest) + 1), _QUARTERS))
    """The upper ends of the cells of positive numbers. Smaller numbers count in the first, larger ones in the last."""

    def __init__(self, fields: Sequence[int]) -> None:
        self.fields = tuple(fields)

    @classmethod
    def edges(cls) -> Floats:
        """Return the ends of the cells of numbers, in order; that of 0 is between two edges of 0."""
        return np.concatenate([-cls.ends[::-1], [0.0, 0.0], cls.ends])

    def sensitivity(self, adjacency: str) -> Sensitivity:
        return joint_sensitivity([1] * len(self.fields), adjacency)

    def __call__(self, chunk: FrameChunk) -> Integers:
        side = len(self.ends)
        counts = np.zeros((len(self.fields), 2 * side + 2), dtype=np.int64)
        for line, field in zip(counts, self.fields, strict=True):
            x = chunk.values[field]
            line[-1] = np.count_nonzero(np.isnan(x))
            x = x[~np.isnan(x)]
            mantissa, exponent = octaves(np.abs(x))
            cell = 4 * (exponent.astype(np.int64) - 1 - self.lowest) + np.searchsorted(_QUARTERS, mantissa) + 1
            cell = np.where(x == 0, -1, np.clip(cell, 0, side - 1))
            line[:-1] = np.bincount(np.where(x < 0, side - 1 - cell, side + 1 + cell), minlength=2 * side + 1)
        steps: Integers = counts * _ONE
        return steps


@dataclass(frozen=True, eq=False)
class FieldCounts:
    """The noisy counts of one field: of its cells, which have ``names`` where they were discovered, and of the rest."""

    cells: Floats
    names: tuple[str, ...] = ()
    zero: float = 0.0
    other: float = 0.0
    missing: float = 0.0


class JointHistogram(NoisyQuery):
    """Counts of the rows in the cells of several fields at once, with the noise of a mechanism.

    ``edges`` are the ends of the cells of each quantity, in order; what lies beyond counts as in the first or last, and
    0 has a cell of its own. A row with m words adds 1/sqrt(m) to each of their buckets.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.13 and 4.12)
    Where all values are public, the guarantee is that of the mechanism. A discovery adds its ``failure`` to delta: the
    probability that a value of one row alone reaches the threshold, in any field.
    """

    label = "joint histogram"

    def __init__(
        self,
        fields: Mapping[int, Field],
        edges: Mapping[int, Floats],
        *,
        mechanism: Gaussian | Laplace,
        adjacency: str,
        discovery: Discovery | None = None,
    ) -> None:
        self.fields, self.edges, self.mechanism = dict(fields), dict(edges), mechanism
        self.adjacency, self.discovery = Adjacency(adjacency), discovery
        self.sensitivity = joint_sensitivity(list(map(most_of, fields.values())), adjacency)
        self._found = [at for at, field in self.fields.items() if isinstance(field, Found)]
        if len(self._found) != (0 if discovery is None else discovery.columns):
            raise ValueError(f"{len(self._found)} fields have values that are not public, but discovery={discovery!r}")

    @property
    def cost(self) -> Cost:
        if self.discovery is None:
            return self.mechanism.cost
        if not isinstance(self.mechanism, Gaussian):
            raise TypeError(f"values are discovered with Gaussian noise, not with {type(self.mechanism).__name__}")
        return DiscoveryCost(self.mechanism.mu, self.discovery)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a count, in rows."""
        if isinstance(self.mechanism, Laplace):
            return float(math.sqrt(2) * self.sensitivity.l1 / self.mechanism.epsilon / _ONE)
        return float(self.sensitivity.l2 / self.mechanism.mu / _ONE)

    def check(self, rows: Rows) -> None:
        self.mechanism.check(self.sensitivity)
        if self.discovery is not None and _ONE / self._sigma() > self.discovery.shift:
            raise ValueError(f"one row moves counts by {1 / self.noise:.3g} standard deviations: {self.discovery!r}")

    def _sigma(self) -> int:
        return noise_scale(self.sensitivity.l2, self.mechanism.mu) if isinstance(self.mechanism, Gaussian) else 0

    @cached_property
    def _threshold(self) -> int:
        """The noisy count in steps from which on a value is released."""
        if self.discovery is None:
            raise ValueError("values are released by name with a discovery only")
        return self.discovery.threshold(_ONE, self._sigma())

    def _noisy(self, counts: Integers, bits: Bits) -> Integers:
        noisy: Integers = self.mechanism(counts, self.sensitivity, bits)
        return noisy

    def __call__(self, rows: Rows, bits: Bits) -> dict[int, FieldCounts]:
        shards = max(1, -(-rows.n_rows * len(self._found) // _NAMES_AT_ONCE))
        tally = _counted(rows, _Count(self.fields, self.edges, shards, 0))
        released = {}
        for at, field in self.fields.items():
            released[at] = _by_kind(field, self._noisy(tally.counts[at], bits) / _ONE)
        for shard in range(shards if self._found else 0):
            if shard:
                tally = _counted(rows, _Count({at: self.fields[at] for at in self._found}, {}, shards, shard))
            for at in self._found:
                names, counts = self._reached(tally.named[at], bits)
                known = released[at]
                released[at] = replace(known, cells=np.append(known.cells, counts), names=(*known.names, *names))
        return released | {at: _in_order(released[at]) for at in self._found}

    def _reached(self, named: Mapping[str, int], bits: Bits) -> tuple[list[str], Floats]:
        """Return the values that reach the threshold, and their noisy counts. Noise is drawn for all, in order."""
        names = sorted(named)
        noisy = self._noisy(np.array([named[name] for name in names], dtype=np.int64) * _ONE, bits)
        seen = np.flatnonzero(noisy >= self._threshold)
        return [names[i] for i in seen], noisy[seen] / _ONE


def _by_kind(field: Field, noisy: Floats) -> FieldCounts:
    """Return the counts of the public cells of a field, which come in the order of :func:`_cells`."""
    if isinstance(field, Quantity):
        return FieldCounts(noisy[:-2], zero=float(noisy[-2]), missing=float(noisy[-1]))
    if isinstance(field, Listed):
        return FieldCounts(noisy[:-2], field.labels, other=float(noisy[-2]), missing=float(noisy[-1]))
    if isinstance(field, Found):
        return FieldCounts(noisy[:-1], missing=float(noisy[-1]))
    return FieldCounts(noisy)


def _in_order(counts: FieldCounts) -> FieldCounts:
    """Return the counts with discovered names in their order, whatever passes they were found in."""
    order = sorted(range(len(counts.names)), key=counts.names.__getitem__)
    return replace(counts, cells=counts.cells[order], names=tuple(counts.names[i] for i in order))


class Tally:
    """Counts of some rows: public cells by field, in steps of the grid, and values by name. Sums start from 0."""

    def __init__(self, counts: dict[int, Integers], named: dict[int, dict[str, int]]) -> None:
        self.counts, self.named = counts, named

    def __radd__(self, zero: int) -> Tally:
        """Return a copy, to which others can be added: what was counted may be added again, where a worker was lost."""
        return Tally(
            {at: zero + counts for at, counts in self.counts.items()}, {at: dict(n) for at, n in self.named.items()}
        )

    def __add__(self, other: Tally | int) -> Tally:
        """Add the counts of other rows to these, and return them: to copy long lists of names would take long.

        0 is the sum of no rows, as a thread has that came too late.
        """
        if isinstance(other, int):
            return self
        for at, counts in other.counts.items():
            self.counts[at] += counts
        for at, named in other.named.items():
            mine = self.named[at]
            for name, count in named.items():
                mine[name] = mine.get(name, 0) + count
        return self


@dataclass(frozen=True, eq=False)
class _Count:
    """Counts the rows of a chunk; of values that are not public only those in one of several public ``shards``."""

    fields: Mapping[int, Field]
    edges: Mapping[int, Floats]
    shards: int
    shard: int

    def __call__(self, chunk: FrameChunk) -> Tally:
        counts, named = {}, {}
        for at, field in self.fields.items():
            values = chunk.values[at]
            counts[at] = _cells(field, values, self.edges.get(at))
            if isinstance(field, Found):
                named[at] = self._by_name(values)
        return Tally(counts, named)

    def _by_name(self, values: Any) -> dict[str, int]:
        occur = np.bincount(values.codes[values.codes >= 0], minlength=len(values.keys))
        here = occur if self.shards == 1 else occur * (values.marks % self.shards == self.shard)
        return {values.keys[i]: int(here[i]) for i in np.flatnonzero(here)}


def _counted(rows: Rows, count: _Count) -> Tally:
    tally: Any = rows.total(cast(Any, count))
    return cast(Tally, tally)


def _cells(field: Field, values: Any, edges: Any) -> Integers:
    """Return the counts of the public cells of a field, in steps of the grid."""
    if isinstance(field, Words):
        sizes = np.diff(values.starts)
        weight = np.repeat(np.trunc(_ONE / np.sqrt(np.maximum(sizes, 1))), sizes)
        return np.bincount(values.buckets, weight, minlength=field.buckets).astype(np.int64)
    if isinstance(field, Quantity):
        n_cells = len(edges) - 1
        cell = np.searchsorted(edges[1:-1], values)  # an end belongs to the bin below it; NaN comes last
        cell[values == 0] = n_cells
        cell[np.isnan(values)] = n_cells + 1
    elif isinstance(field, Listed):
        n_cells = len(field.labels)
        cell = np.where(values == OTHER, n_cells, np.where(values == MISSING, n_cells + 1, values))
    else:
        n_cells, cell = -1, np.zeros(np.count_nonzero(values.codes == MISSING), dtype=np.int64)
    counts: Integers = np.bincount(cell, minlength=n_cells + 2).astype(np.int64) * _ONE
    return counts
