"""Persons: whose rows are whose. A person is protected with all of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Integers
from .grid import SHARE_BITS


@dataclass(frozen=True, eq=False)
class Persons:
    """The person of each row, by a number from 0 to ``n - 1``. Every person has a row."""

    codes: NDArray[np.int32]
    n: int

    @cached_property
    def weights(self) -> NDArray[np.int32]:
        """The weight of each row in steps of 2^-SHARE_BITS: those of a person add up to at most 1."""
        counts = np.bincount(self.codes, minlength=self.n)
        weights: NDArray[np.int32] = (2**SHARE_BITS // counts).astype(np.int32)[self.codes]
        return weights

    def rows_of(self, chosen: Integers) -> Integers:
        """Return the positions of all rows of some persons, in order."""
        there = np.zeros(self.n, dtype=bool)
        there[chosen] = True
        return np.flatnonzero(there[self.codes])
