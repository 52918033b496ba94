"""What is counted of a raw table: magnitudes of its numbers, then one joint histogram of all its fields.

In each field a row lies in one cell, or in none. So a row adds to k fields a vector whose l2 norm is at most sqrt(k),
however many cells a field has. Cells that are public are all released. Values that are not public are released where
their noisy count reaches a threshold: a value of a single row does not, but for a probability that was paid for. The
rows of a person count as parts of one row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..data.fields import MISSING, OTHER, Field, Found, FrameChunk, Listed, Quantity, Words
from ..data.grid import SHARE_BITS, octaves
from ..data.private import NoisyQuery, Query
from ..data.rows import Rows
from ..data.weights import counts
from ..mechanisms.additive import Gaussian, Laplace, noise_scale
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers
from ..privacy.costs import Cost, DiscoveryCost
from ..privacy.discovery import Discovery
from ..privacy.neighbours import Adjacency

_BITS = 16
"""A row adds 2^_BITS steps of the grid to its cell: so fine that the scale of the noise hardly rounds. Rows of persons
add their weights in steps of 2^-SHARE_BITS, which is finer."""
_NAMES_AT_ONCE = 2**20  # about how many values of rows are counted by name in one pass
_QUARTERS = np.array([2.0**-0.75, 2.0**-0.5, 2.0**-0.25, 1.0])  # upper ends within (1/2, 1]


def joint_sensitivity(most: Sequence[int], adjacency: str, bits: int = _BITS) -> Sensitivity:
    """Return how far a row moves counts in steps of 2^-bits, if it adds at most ``most`` to the cells of each field.

    A row lies in one cell of a field, or is spread over several with the squares of its parts adding up to at most 1. A
    replaced row leaves its cells and enters others. The rows of a person together move counts no further than one row.
    """
    parts, one = Adjacency(adjacency).parts, 1 << bits
    l2 = math.nextafter(math.sqrt(parts * len(most)), math.inf) * one
    return Sensitivity(l1=parts * sum(most) * one, l2=l2, linf=one, monotone=Adjacency(adjacency).monotone)


def most_of(field: Field) -> int:
    """Return a bound on what a row adds to all cells of a field together. Each of m words adds 1/sqrt(m)."""
    return math.isqrt(field.buckets - 1) + 1 if isinstance(field, Words) else 1


class SignedMagnitudes(Query):
    """Counts of numbers by sign and quarter octave, from 2^-20 to 2^40, with cells for 0 and for none; a line each.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.12)
    A leaving row lowers one count of each line by 1, a replaced row moves 1 from one cell of each line to another. The
    rows of a person do so with weights that add up to at most 1.
    """

    label = "magnitudes"
    unit = 2.0**-_BITS
    weighed = True
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
        lines = [
            counts(self._cells(chunk.values[field]), chunk.weights, 2 * len(self.ends) + 2, _BITS)
            for field in self.fields
        ]
        stacked: Integers = np.stack(lines, axis=-2)
        return stacked

    def _cells(self, x: Floats) -> Integers:
        """Return the cell of each number in its line; the last is that of none."""
        side = len(self.ends)
        mantissa, exponent = octaves(np.abs(np.where(np.isnan(x), 0.0, x)))
        cell = 4 * (exponent.astype(np.int64) - 1 - self.lowest) + np.searchsorted(_QUARTERS, mantissa) + 1
        cell = np.where(x == 0, -1, np.clip(cell, 0, side - 1))
        signed = np.where(x < 0, side - 1 - cell, side + 1 + cell)
        cells: Integers = np.where(np.isnan(x), 2 * side + 1, signed)
        return cells


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
    0 has a cell of its own. A row with m words adds 1/sqrt(m) to each of their buckets. Rows ``of_persons``
    add their weights, or these times 1/sqrt(m).

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.13 and 4.12)
    Where all values are public, the guarantee is that of the mechanism. A discovery adds its ``failure`` to delta: the
    probability that a value of one row alone, or of one person, reaches the threshold, in any field.
    """

    label = "joint histogram"
    weighed = True

    def __init__(
        self,
        fields: Mapping[int, Field],
        edges: Mapping[int, Floats],
        *,
        mechanism: Gaussian | Laplace,
        adjacency: str,
        discovery: Discovery | None = None,
        of_persons: bool = False,
    ) -> None:
        self.fields, self.edges, self.mechanism = dict(fields), dict(edges), mechanism
        self.adjacency, self.discovery = Adjacency(adjacency), discovery
        self.of_persons, self._bits = of_persons, SHARE_BITS if of_persons else _BITS
        self.sensitivity = joint_sensitivity(list(map(most_of, fields.values())), adjacency, self._bits)
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
        """The standard deviation of the noise of a count, in rows or persons."""
        if isinstance(self.mechanism, Laplace):
            return float(math.sqrt(2) * self.sensitivity.l1 / self.mechanism.epsilon / self._one)
        return float(self.sensitivity.l2 / self.mechanism.mu / self._one)

    @property
    def _one(self) -> int:
        """How many steps a row counts that counts fully."""
        return 1 << self._bits

    def check(self, rows: Rows) -> None:
        self.mechanism.check(self.sensitivity)
        if rows.public.weighted != self.of_persons:
            raise ValueError(
                f"of_persons={self.of_persons!r}, but the rows have {'no ' if self.of_persons else ''}weights"
            )
        if self.discovery is None:
            return
        if self._one / self._sigma() > self.discovery.shift:
            raise ValueError(f"one row moves counts by {1 / self.noise:.3g} standard deviations: {self.discovery!r}")
        if self.of_persons and rows.persons is None:
            raise ValueError("values of persons are discovered in all rows, and not in some of them")
        most = _n_rows(rows) - rows.n_rows + 1
        if most > self.discovery.most:
            raise ValueError(f"one person can have up to {most} rows: {self.discovery!r}")

    def _sigma(self) -> int:
        return noise_scale(self.sensitivity.l2, self.mechanism.mu) if isinstance(self.mechanism, Gaussian) else 0

    @cached_property
    def _threshold(self) -> int:
        """The noisy count in steps from which on a value is released."""
        if self.discovery is None:
            raise ValueError("values are released by name with a discovery only")
        return self.discovery.threshold(self._one, self._sigma())

    def _noisy(self, counts: Integers, bits: Bits) -> Integers:
        noisy: Integers = self.mechanism(counts, self.sensitivity, bits)
        return noisy

    def __call__(self, rows: Rows, bits: Bits) -> dict[int, FieldCounts]:
        shards = max(1, -(-_n_rows(rows) * len(self._found) // _NAMES_AT_ONCE))
        tally = _counted(rows, _Count(self.fields, self.edges, self._bits, shards, 0))
        released = {}
        for at, field in self.fields.items():
            released[at] = _by_kind(field, self._noisy(tally.counts[at], bits) / self._one)
        for shard in range(shards if self._found else 0):
            if shard:
                found = {at: self.fields[at] for at in self._found}
                tally = _counted(rows, _Count(found, {}, self._bits, shards, shard))
            for at in self._found:
                names, counts = self._reached(tally.named[at], bits)
                known = released[at]
                released[at] = replace(known, cells=np.append(known.cells, counts), names=(*known.names, *names))
        return released | {at: _in_order(released[at]) for at in self._found}

    def _reached(self, named: Mapping[str, int], bits: Bits) -> tuple[list[str], Floats]:
        """Return the values that reach the threshold, and their noisy counts. Noise is drawn for all, in order."""
        names = sorted(named)
        noisy = self._noisy(np.array([named[name] for name in names], dtype=np.int64), bits)
        seen = np.flatnonzero(noisy >= self._threshold)
        return [names[i] for i in seen], noisy[seen] / self._one


def _n_rows(rows: Rows) -> int:
    """Return the number of rows, whoever they belong to."""
    return rows.n_rows if rows.persons is None else len(rows.persons.codes)


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
    """Counts of some rows in steps of the grid: public cells by field, and values by name. Sums start from 0."""

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
        for at, public in other.counts.items():
            self.counts[at] += public
        for at, named in other.named.items():
            mine = self.named[at]
            for name, count in named.items():
                mine[name] = mine.get(name, 0) + count
        return self


@dataclass(frozen=True, eq=False)
class _Count:
    """Counts the rows of a chunk in steps of 2^-bits; of values that are not public only those in one of several public
    ``shards``."""

    fields: Mapping[int, Field]
    edges: Mapping[int, Floats]
    bits: int
    shards: int
    shard: int

    def __call__(self, chunk: FrameChunk) -> Tally:
        public, named = {}, {}
        for at, field in self.fields.items():
            values = chunk.values[at]
            public[at] = self._public(field, values, self.edges.get(at), chunk.weights)
            if isinstance(field, Found):
                named[at] = self._by_name(values, chunk.weights)
        return Tally(public, named)

    def _public(self, field: Field, values: Any, edges: Any, weights: Any) -> Integers:
        """Return the counts of the public cells of a field."""
        if isinstance(field, Words):
            return self._words(values, field.buckets, weights)
        if isinstance(field, Quantity):
            n_cells = len(edges) - 1
            cell = np.searchsorted(edges[1:-1], values)  # an end belongs to the bin below it; NaN comes last
            cell[values == 0] = n_cells
            cell[np.isnan(values)] = n_cells + 1
        elif isinstance(field, Listed):
            n_cells = len(field.labels)
            cell = np.where(values == OTHER, n_cells, np.where(values == MISSING, n_cells + 1, values))
        else:
            n_cells, missing = -1, values.codes == MISSING
            cell, weights = np.zeros(np.count_nonzero(missing), dtype=np.int64), _of(weights, missing)
        return self._steps(cell, weights, n_cells + 2)

    def _words(self, bags: Any, buckets: int, weights: Any) -> Integers:
        sizes = np.diff(bags.starts)
        steps = 1 << self.bits if weights is None else weights
        parts = np.repeat(np.trunc(steps / np.sqrt(np.maximum(sizes, 1))), sizes)
        return np.bincount(bags.buckets, parts, minlength=buckets).astype(np.int64)

    def _by_name(self, values: Any, weights: Any) -> dict[str, int]:
        named = values.codes >= 0
        steps = self._steps(values.codes[named], _of(weights, named), len(values.keys))
        here = steps if self.shards == 1 else steps * (values.marks % self.shards == self.shard)
        return {values.keys[i]: int(here[i]) for i in np.flatnonzero(here)}

    def _steps(self, cells: Any, weights: Any, n_cells: int) -> Integers:
        """Return what the rows in each cell count together."""
        if weights is None:
            return np.bincount(cells, minlength=n_cells).astype(np.int64) << self.bits
        return np.bincount(cells, weights, minlength=n_cells).astype(np.int64)


def _of(weights: Any, chosen: Any) -> Any:
    """Return the weights of some rows."""
    return None if weights is None else weights[chosen]


def _counted(rows: Rows, count: _Count) -> Tally:
    tally: Any = rows.total(cast(Any, count))
    return cast(Tally, tally)
