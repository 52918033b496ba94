"""Folds: every row, or every person with all rows, is held out once. Lots decide when; no value has a say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..data.persons import Keys, Persons
from ..mechanisms import Bits
from ..mechanisms.samplers import Integers, words


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of each row, one of 0, ..., n - 1.

    Rows are dealt out like cards: of n rows that follow one another one goes into each fold, by lot. The fold of a
    person is a keyed hash of its id. So it does not depend on the ids of others, nor on how many there are.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 16.6)
    A fold is a function of bits that were drawn without a look at the data, and of the place of the row or the id of
    the person. So each of them is missing from exactly one of n training sets.
    """

    n: int
    of_rows: NDArray[np.int32]
    key: bytes = b""
    """The key of the hash of ids; empty where rows are dealt."""

    @classmethod
    def dealt(cls, n: int, n_rows: int, bits: Bits) -> Folds:
        """Return the folds of so many rows: their sizes differ by 1 at most."""
        hands = words(-(-n_rows // n) * n, bits).reshape(-1, n)
        return cls(n, hands.argsort(axis=1).ravel()[:n_rows].astype(np.int32))

    @classmethod
    def of_persons(cls, n: int, keys: Keys, bits: Bits) -> Folds:
        """Return the folds of rows with the ids that have these keys."""
        folds = cls(n, np.zeros(0, np.int32), bits.take(16))
        return replace(folds, of_rows=folds.of(keys))

    def of(self, keys: Keys) -> NDArray[np.int32]:
        """Return the folds of rows by their ids alone."""
        persons = Persons.of(keys)
        one = np.empty(persons.n, dtype=np.intp)
        one[persons.codes] = np.arange(len(keys))
        folds = [self._of_one(key.tobytes()) for key in keys[one]]
        of_rows: NDArray[np.int32] = np.array(folds, dtype=np.int32)[persons.codes]
        return of_rows

    def _of_one(self, key: bytes) -> int:
        return int.from_bytes(blake2b(key, digest_size=16, key=self.key).digest(), "little") % self.n


@dataclass(frozen=True, eq=False)
class Share:
    """The rows of one fold (``held``), or those of all others."""

    folds: Folds
    fold: int
    held: bool

    def part(self, rows: slice) -> Share:
        """Return what this is among some neighbouring rows."""
        return replace(self, folds=replace(self.folds, of_rows=self.folds.of_rows[rows]))

    def rows(self, keys: Keys | None = None) -> Integers:
        """Return the positions of its rows; ``keys`` are those of the ids if rows may be in another order by now."""
        of_rows = self.folds.of_rows if keys is None else self.folds.of(keys)
        return np.flatnonzero((of_rows == self.fold) == self.held)
