"""Weights of rows: what each counts, and exact sums of integers that are multiplied by them.

A row counts k times 2^-SHARE_BITS, with an integer k from 0 to 2^SHARE_BITS. A query computes the same integers v for
it as if it counted fully. So what the rows of a person add up to lies in the convex hull of what single rows may add,
as long as their k add up to at most 2^SHARE_BITS (docs/guarantees.md, 15.1). Sums of k v may need more than 64 bits:
they are carried in two parts, of which the lower one is below 2^SHARE_BITS for each chunk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from .grid import SHARE_BITS, UNIT_BITS
from .persons import Persons
from .row_map import RowMap

ONE = 2**SHARE_BITS
"""The weight of a row that counts fully."""

MOST_ROWS = 2 ** (53 - SHARE_BITS - UNIT_BITS)
"""How many rows are added at a time: lower parts are below ONE, and are multiplied by units."""


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of some rows in steps of 2^-SHARE_BITS, and whose rows they are, None where each stands for itself.

    Those of a person, or of a row that stands for itself, add up to at most 1.
    """

    steps: NDArray[np.int32]
    persons: Persons | None = None

    @property
    def n_units(self) -> int:
        """The number of persons, or of rows that stand for themselves: all weights add up to at most that."""
        return len(self.steps) if self.persons is None else self.persons.n

    def of(self, rows: slice) -> Floats:
        """Return the weights of some rows as floats, as chunks keep them."""
        return self.steps[rows].astype(np.float64)

    def part(self, rows: slice) -> Weights:
        """Return the weights of a block of rows, whose persons may have others elsewhere."""
        return Weights(self.steps[rows])


@np.errstate(all="ignore")  # whether some weight underflows is nobody's business
def steps_of(
    labels: NDArray[Any], how: RowMap, of_persons: NDArray[np.int32] | None, own: Floats | None
) -> NDArray[np.int32] | None:
    """Return the weights of rows: the product of up to three factors, rounded down, or None if there is none.

    ``of_persons`` are the steps that they have as rows of persons. Classes and rows have weights of their ``own`` where
    the map says so.
    """
    if how.class_shares is None and how.weight_bound is None:
        return of_persons
    part = np.ones(len(labels))
    if how.class_shares is not None:
        codes = labels if how.n_classes is not None else (labels > 0).astype(np.intp)
        part = np.array(how.class_shares)[codes]
    if how.weight_bound is not None and own is not None:
        part = part * (np.clip(own, 0.0, how.weight_bound) / how.weight_bound)
    steps: NDArray[np.int32] = np.floor((ONE if of_persons is None else of_persons) * part).astype(np.int32)
    return steps


def products(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return integers times the weights of their rows, in two parts: high * 2^SHARE_BITS + low."""
    product = values * (weights if values.ndim == 1 else weights[:, None])
    high = np.floor(product * (1 / ONE))
    return high, product - high * ONE


def in_parts(sums: Integers) -> Integers:
    """Return sums of weighted integers in two parts."""
    return np.stack([sums >> SHARE_BITS, sums & (ONE - 1)])


def joined(high: Integers, low: Integers) -> Integers:
    """Return the two parts of a sum, of the sums of :func:`products`."""
    return np.stack([high + (low >> SHARE_BITS), low & (ONE - 1)])


def counts(bins: Integers, weights: Floats | None, n_bins: int, bits: int = 0) -> Integers:
    """Return the number of rows in each bin in multiples of 2^-bits, or the sums of their weights in two parts."""
    if weights is None:
        return np.bincount(bins, minlength=n_bins).astype(np.int64) << bits
    return in_parts(np.bincount(bins, weights, minlength=n_bins).astype(np.int64) << bits)


def kept_bits(sensitivity: Sensitivity) -> int:
    """Return by how many bits the grid of a weighted sum is finer than that of its query.

    They are so many that one row can move an entry by 2^20 steps or more. Then rounding the sum hardly matters.
    """
    if not math.isfinite(sensitivity.linf):
        return 0
    return min(SHARE_BITS, max(0, SHARE_BITS - math.floor(math.log2(sensitivity.linf))))


def on_finer_grid(parts: Integers, bits: int) -> Integers:
    """Return a sum in two parts as one, on a grid that is finer by so many bits, rounded down."""
    high, low = parts
    whole: Integers = (high << bits) + (low >> (SHARE_BITS - bits))
    return whole


def finer_sensitivity(sensitivity: Sensitivity, bits: int, size: int) -> Sensitivity:
    """Return the sensitivity of :func:`on_finer_grid`, for so many entries: rounding moves each by less than 1."""
    scale, rounded = 2.0**bits, bits < SHARE_BITS
    return Sensitivity(
        l1=math.nextafter(sensitivity.l1 * scale + rounded * size, math.inf),
        l2=math.nextafter(sensitivity.l2 * scale + rounded * math.sqrt(size) * (1 + 2.0**-50), math.inf),
        linf=sensitivity.linf * scale + rounded,
        monotone=sensitivity.monotone,
    )
