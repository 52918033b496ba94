"""Features: a public map of the fields of a raw table to columns of numbers in [-1, 1], each row on its own.

A quantity becomes a linear term and hat functions: hat j is 1 at knot j, 0 at its neighbours and beyond, and linear in
between, so that a weighted sum of hats is a curve through the weights. A category becomes one indicator per value. An
entry without a value has an indicator of its own, and zeros elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats, Integers
from .fields import Bags, FrameChunk, Named
from .schema import Schema

NOTHING = -1
"""The column of a slot that a row leaves empty."""

MOST_SLOTS = 2**23
"""Places for the words of a block: every row has as many as the row with the most words. Larger blocks are halved."""


class FieldFeatures(ABC):
    """The features of one field. ``at`` is its position among the fields, ``label`` its name."""

    at: int
    label: str

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What the features are called, in order."""

    @abstractmethod
    def entries(self, values: Any) -> tuple[Integers, Floats]:
        """Return for each row, in slots, which features may not be zero, in order, and what they are.

        A slot that is not needed has the column ``NOTHING``, or the entry 0.
        """

    def matrix(self, values: Any) -> Floats:
        """Return the features of each row, one column per feature."""
        placed, numbers = self.entries(values)
        held = placed != NOTHING
        full = np.zeros((len(placed), len(self.names)))
        full[np.nonzero(held)[0], placed[held]] += numbers[held]
        return full


@dataclass(frozen=True, eq=False)
class QuantityFeatures(FieldFeatures):
    """A linear term, hats, and indicators of zero and of a missing number.

    The linear term is ``(x - centre) / width`` of x clipped to [low, high]. ``knots`` are two or more numbers in order,
    or none: then there are no hats.
    """

    at: int
    label: str
    low: float
    high: float
    centre: float
    knots: Floats = field(default_factory=lambda: np.zeros(0))
    zero: bool = False
    missing: bool = False

    @cached_property
    def width(self) -> float:
        """The length that becomes 1."""
        return max(self.high - self.centre, self.centre - self.low) or 1.0

    @cached_property
    def names(self) -> tuple[str, ...]:
        hats = tuple(f"{self.label} near {knot}" for knot in _told_apart(self.knots))
        zero, missing = (f"{self.label} = 0",) * self.zero, (f"{self.label} missing",) * self.missing
        return (self.label, *hats, *zero, *missing)

    def entries(self, values: Floats) -> tuple[Integers, Floats]:
        n, k = len(values), len(self.knots)
        absent = np.isnan(values)
        x = np.where(absent, self.centre, values)
        columns, entries = [np.zeros(n, dtype=np.int64)], [(np.clip(x, self.low, self.high) - self.centre) / self.width]
        if k:
            x = np.clip(x, self.knots[0], self.knots[-1])
            left = np.minimum(np.searchsorted(self.knots, x, side="right") - 1, k - 2)
            right = (x - self.knots[left]) / (self.knots[left + 1] - self.knots[left])
            columns += [1 + left, 2 + left]
            entries += [1 - right, right]
        for part in entries:
            part[absent] = 0.0
        for held, which in ((self.zero, values == 0), (self.missing, absent)):
            if held:
                columns.append(np.full(n, len(self.names) - 1 - (self.missing and which is not absent)))
                entries.append(which.astype(np.float64))
        return np.stack(columns, axis=1), np.stack(entries, axis=1)


def _told_apart(numbers: Floats) -> list[str]:
    """Return numbers with as many digits as it takes to tell them apart, six at least."""
    digits = 6
    while len({f"{number:.{digits}g}" for number in numbers}) < len(numbers):
        digits += 1
    return [f"{number:.{digits}g}" for number in numbers]


@dataclass(frozen=True, eq=False)
class CategoryFeatures(FieldFeatures):
    """An indicator of each of the values in ``values``, of any other one, and of none.

    ``codes`` are the codes of these values in a public list; None where values come by name.
    """

    at: int
    label: str
    values: tuple[str, ...]
    codes: tuple[int, ...] | None = None
    other: bool = False
    missing: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        other, missing = (f"{self.label} other",) * self.other, (f"{self.label} missing",) * self.missing
        return (*(f"{self.label} = {value}" for value in self.values), *other, *missing)

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {key: i for i, key in enumerate(self.values if self.codes is None else self.codes)}

    def entries(self, values: Any) -> tuple[Integers, Floats]:
        k = len(self.values)
        other, missing = k if self.other else NOTHING, k + self.other if self.missing else NOTHING
        codes = values.codes if isinstance(values, Named) else values
        keys: Sequence[Any] = values.keys if isinstance(values, Named) else range(int(codes.max(initial=-1)) + 1)
        # codes of OTHER and MISSING, -2 and -1, count from the end
        place = np.array([*(self._places.get(key, other) for key in keys), other, missing], dtype=np.int64)
        placed = place[codes][:, None]
        return placed, (placed != NOTHING).astype(np.float64)


@dataclass(frozen=True, eq=False)
class WordFeatures(FieldFeatures):
    """Hashed words: 1/sqrt(m) in the bucket of each of the m words of a row. ``buckets`` are those that are kept."""

    at: int
    label: str
    buckets: tuple[int, ...]
    n_buckets: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.label} bucket {bucket}" for bucket in self.buckets)

    def entries(self, values: Any) -> tuple[Integers, Floats]:
        sizes = np.diff(values.starts)
        place = np.full(self.n_buckets, NOTHING)
        place[list(self.buckets)] = np.arange(len(self.buckets))
        n_slots = int(sizes.max(initial=0))
        row, slot = np.repeat(np.arange(len(sizes)), sizes), np.arange(len(values.buckets))
        slot = slot - np.repeat(values.starts[:-1], sizes) + values.starts[0]
        placed, numbers = np.full((len(sizes), n_slots), NOTHING), np.zeros((len(sizes), n_slots))
        placed[row, slot] = place[values.buckets]
        numbers[row, slot] = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes)
        return placed, numbers


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """What was released of the features of all fields.

    ``mean`` has the mean of each feature. ``products`` has for each field the means of the products of two of its
    features, as a matrix; of categories and words only the means of squares, since the others follow. A fit multiplies
    the features with ``scale``; ``centred`` says whether it has an intercept.
    """

    mean: Floats
    products: tuple[Floats, ...]
    scale: Floats
    centred: bool


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """The features of all fields of a raw table with this schema, one after the other.

    ``moments`` is what was released of them, None where nothing was.
    """

    schema: Schema
    parts: tuple[FieldFeatures, ...]
    moments: FeatureMoments | None = None

    def __repr__(self) -> str:
        return f"<{self.n_features} features of {len(self.schema.names)} columns>"

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the features of each part begin, and where the last ones end."""
        return np.cumsum([0, *(len(part.names) for part in self.parts)])

    @property
    def n_features(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the features are called, in order. A name that was given before gets a number."""
        names: list[str] = []
        given = set[str]()
        for name in (name for part in self.parts for name in part.names):
            free = chain([name], (f"{name} ({number})" for number in count(2)))
            names.append(next(one for one in free if one not in given))
            given.add(names[-1])
        return tuple(names)

    def mean_products(self, part: int) -> Floats:
        """Return the released means of the products of two features of a field; they have to be there."""
        if self.moments is None:
            raise ValueError("nothing was released of these features")
        held = self.moments.products[part]
        if held.ndim == 2:
            return held
        mean = self.moments.mean[self.starts[part] : self.starts[part + 1]]
        # a row has one category at most, and words as if they came independently of one another
        products: Floats = np.multiply.outer(mean, mean) * isinstance(self.parts[part], WordFeatures)
        np.fill_diagonal(products, held)
        return products

    def transform(self, chunk: FrameChunk) -> Any:
        """Return the features of some rows as CSR: in each row the entries that are not zero, in order."""
        if len(chunk) > 1 and len(chunk) * _longest(chunk) > MOST_SLOTS:  # one long text must not fill the memory
            middle = len(chunk) // 2
            halves = np.arange(middle), np.arange(middle, len(chunk))
            return sp.vstack([self.transform(chunk.take(half)) for half in halves], "csr")
        placed, numbers = [], []
        for part, start in zip(self.parts, self.starts[:-1], strict=True):
            columns, entries = part.entries(chunk.values[part.at])
            placed.append(np.where(columns == NOTHING, NOTHING, columns + start))
            numbers.append(entries)
        columns, entries = np.concatenate(placed, axis=1), np.concatenate(numbers, axis=1)
        held = (columns != NOTHING) & (entries != 0)
        ends = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
        return sp.csr_matrix((entries[held], columns[held].astype(np.int32), ends), (len(chunk), self.n_features))


def _longest(chunk: FrameChunk) -> int:
    """Return how many words rows have at most, summed over the fields."""
    return sum(int(np.diff(values.starts).max(initial=0)) for values in chunk.values if isinstance(values, Bags))
