"""Counts: how long rows are, where the entries of each column lie, and how many rows succeed."""

from abc import abstractmethod
from typing import Any

import numpy as np

from ..data.grid import octaves
from ..data.private import Query
from ..data.rows import Chunk, RawChunk
from ..data.weights import counts, in_parts
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from ..privacy.neighbours import Adjacency

_WEIGHT_BITS, _COUNT_BITS = 16, 20
_QUARTERS = np.array([2.0**-0.75, 2.0**-0.5, 2.0**-0.25, 1.0])  # upper ends within (1/2, 1]


class RowNorms(Query):
    """Counts of rows by norm, in quarter octaves: bin k holds norms in (``norms[k-1]``, ``norms[k]``].

    The ends count what lies beyond. A row in the user's units has as norm the root of its number of non-zero entries.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.5)
    A leaving row lowers one count by 1; a replaced row moves 1 from one bin to another.
    """

    label = "row norms"
    weighed = True
    unit = 1.0
    lowest, highest = -64, 64
    norms = np.append(2.0**lowest, np.multiply.outer(np.ldexp(1.0, np.arange(lowest, highest) + 1), _QUARTERS))

    def sensitivity(self, adjacency: str) -> Sensitivity:
        if Adjacency(adjacency) is Adjacency.REPLACE:
            return Sensitivity(l1=2, l2=np.nextafter(np.sqrt(2), 2), linf=1)
        return Sensitivity(l1=1, l2=1, linf=1, monotone=True)

    def __call__(self, chunk: Chunk | RawChunk) -> Integers:
        mantissa, exponent = octaves(chunk.norms)
        quarter = np.searchsorted(_QUARTERS, mantissa)
        bins = 4 * (exponent.astype(np.int64) - 1 - self.lowest) + quarter + 1
        bins[chunk.norms == 0] = 0
        return counts(np.clip(bins, 0, len(self.norms) - 1), chunk.weights, len(self.norms))


class EntryCounts(Query):
    """Counts of the non-zero entries of each column by bin. A row with more than ``entries`` entries weighs less.

    A row with m non-zero entries counts each as min(1, sqrt(entries / m)); with ``norm="l1"``, for noise that is scaled
    to l1 norms, as min(1, entries / m).

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.6)
    A leaving row moves the counts by at most sqrt(entries) in l2, by ``sqrt(entries * n_features)`` in l1 (by
    ``entries`` with ``norm="l1"``), and each by at most 1. A replaced row: sqrt(2) times as much in l2, twice in l1.
    """

    unit = 2.0**-_WEIGHT_BITS
    n_bins: int
    weighed = True

    def __init__(self, n_features: int, entries: float, *, norm: str = "l2") -> None:
        if not entries > 0:
            raise ValueError(f"entries={entries!r} must be positive")
        if norm not in ("l1", "l2"):
            raise ValueError(f"norm={norm!r} must be 'l1' or 'l2'")
        self.n_features, self.entries, self.norm = n_features, min(float(entries), float(n_features)), norm

    @abstractmethod
    def bins(self, values: Floats, columns: Integers) -> Integers:
        """Return the bin of each non-zero entry: 0 to n_bins - 1."""

    def sensitivity(self, adjacency: str) -> Sensitivity:
        size = np.sqrt(self.entries) * 2**_WEIGHT_BITS * (1 + 2.0**-50)
        one = 2**_WEIGHT_BITS
        l1 = size * np.sqrt(self.entries if self.norm == "l1" else self.n_features) * (1 + 2.0**-50)
        if Adjacency(adjacency) is Adjacency.REPLACE:
            return Sensitivity(l1=2 * l1, l2=np.nextafter(np.sqrt(2) * size, np.inf), linf=one)
        return Sensitivity(l1=l1, l2=size, linf=one, monotone=True)

    def __call__(self, chunk: RawChunk) -> Integers:
        if not isinstance(chunk, RawChunk) or chunk.n_features != self.n_features:
            raise ValueError(
                f"{self.label} are counted of {self.n_features} columns in the user's units, and no others"
            )
        weight = np.minimum(1.0, self.entries * (1 - 2.0**-40) / np.maximum(chunk.counts, 1))
        if self.norm == "l2":
            weight = np.sqrt(weight)
        weight = np.trunc(weight * 2**_WEIGHT_BITS)
        cells = np.clip(self.bins(chunk.values, chunk.columns), 0, self.n_bins - 1)
        cells += chunk.columns.astype(np.int64) * self.n_bins
        size = self.n_features * self.n_bins
        if chunk.weights is not None:
            weighed = np.bincount(cells, np.repeat(weight * chunk.weights, chunk.counts), minlength=size)
            return in_parts(weighed.astype(np.int64)).reshape(2, self.n_features, self.n_bins)
        if len(weight) and weight.min() == weight.max():  # as where no entry is zero: several times faster
            found: Any = np.bincount(cells, minlength=size) * weight[0]
        else:
            found = np.bincount(cells, np.repeat(weight, chunk.counts), minlength=size)
        in_bins: Integers = found.astype(np.int64).reshape(self.n_features, self.n_bins)
        return in_bins


class Magnitudes(EntryCounts):
    """Entries by magnitude: bin k holds those in (2^(k-1+lowest), 2^(k+lowest)], the ends what lies beyond."""

    label = "magnitudes"
    lowest, highest = -40, 60
    n_bins = highest - lowest + 1

    def bins(self, values: Floats, columns: Integers) -> Integers:
        mantissa, exponent = np.frexp(values)
        # a power of two is the upper end of its octave
        bins: Integers = exponent.astype(np.int64) - (np.abs(mantissa) == 0.5) - self.lowest
        return bins


class Positions(EntryCounts):
    """Entries by position: ``n_bins`` even bins over [low, high] of each column, the ends taking what lies beyond."""

    label = "positions"
    n_bins = 64

    def __init__(self, n_features: int, entries: float, low: Floats, high: Floats, *, norm: str = "l2") -> None:
        super().__init__(n_features, entries, norm=norm)
        if not low.shape == high.shape == (n_features,) or not (np.isfinite(high - low) & (low <= high)).all():
            raise ValueError("low and high must hold one finite number per column, with low <= high")
        self.low, self.high = low, high
        self.width = np.where(high > low, high - low, 1.0)

    def bins(self, values: Floats, columns: Integers) -> Integers:
        low = self.low[columns]
        at = np.minimum(np.maximum(values, low), self.high[columns])
        at -= low
        at /= self.width[columns]
        at *= self.n_bins
        return at.astype(np.int64)  # never negative, so that this rounds down


class PositionsOfSome(Positions):
    """The same of some columns: entries of others are not looked at, and a row is as long as its entries in these."""

    label = "values"

    def __init__(self, n_features: int, columns: Integers, low: Floats, high: Floats, *, norm: str = "l2") -> None:
        super().__init__(len(columns), len(columns), low, high, norm=norm)
        self.columns, self.of = columns, n_features

    def __call__(self, chunk: RawChunk) -> Integers:
        if not isinstance(chunk, RawChunk) or chunk.n_features != self.of:
            raise ValueError(f"{self.label} are counted of {self.of} columns in the user's units, and no others")
        return super().__call__(chunk.only(self.columns))


class Successes(Query):
    """The number of rows whose one entry is not zero, on a grid so fine that the scale of its noise hardly rounds.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.8)
    A leaving row lowers the count by at most 1; a replaced one moves it by at most 1 either way.
    """

    label = "successes"
    weighed = True
    unit = 2.0**-_COUNT_BITS

    def sensitivity(self, adjacency: str) -> Sensitivity:
        one = 2**_COUNT_BITS
        return Sensitivity(l1=one, l2=one, linf=one, monotone=Adjacency(adjacency).monotone)

    def __call__(self, chunk: RawChunk) -> Integers:
        if not isinstance(chunk, RawChunk) or chunk.n_features != 1:
            raise ValueError(f"{self.label} are counted of one column in the user's units, and no others")
        right = np.flatnonzero(chunk.counts)
        weights = None if chunk.weights is None else chunk.weights[right]
        return counts(np.zeros(len(right), dtype=np.int64), weights, 1, _COUNT_BITS)
