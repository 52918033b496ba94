"""Waves: cosines and sines of random sums of columns, so that a linear model can follow curves (Rahimi & Recht 2007).

The map is public, and each row is mapped on its own. All steps are exact, so a row has the same waves in every storage,
beside all other rows, and on every platform: entries lie on the grid of units, sums of their products with frequencies
are exact, and cosines are looked up in a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mechanisms.samplers import Floats, Integers
from .columns import Columns
from .grid import UNIT_BITS, weights_on_grid

TABLE_BITS = 12
"""A turn has 2**TABLE_BITS parts, and the table a cosine for each. A phase is rounded to the nearest part."""

MOST_PAIRS, MOST_TURNS = 2**14, 2.0**30


@lru_cache(maxsize=1)
def cosines() -> Floats:
    """Return cos(2 pi k / 2^TABLE_BITS) for all k, each rounded to the grid of units.

    None lies so near to the middle between two numbers of the grid that two libraries could round it differently.
    """
    parts = 2**TABLE_BITS
    table = np.rint([math.cos(2 * math.pi * k / parts) * 2.0**UNIT_BITS for k in range(parts)])
    table = table * 2.0**-UNIT_BITS + 0.0  # one zero
    table.flags.writeable = False
    return table


@dataclass(frozen=True, eq=False, repr=False)
class Waves:
    """The map of a row to the cosines of some phases, then to their sines: numbers in [-1, 1] on the grid of units.

    Column ``at[j]`` of a table is placed by ``columns``, which has one entry for each of ``at``, and rounded to the
    grid of units. Then its centre is subtracted. ``turns[j, k]`` times this difference is a part of phase k, in turns.
    ``turns`` are rounded to a grid of their own.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 3.7)
    The waves of a row are a function of that row and of the map, bit for bit.
    """

    at: Integers
    columns: Columns
    turns: Floats

    def __post_init__(self) -> None:
        n_columns = len(self.columns.low)
        if len(self.at) != n_columns or self.turns.ndim != 2 or len(self.turns) != n_columns or not n_columns:
            raise ValueError("Waves need one entry of at, one of columns and one row of turns for each column")
        if not 1 <= self.n_pairs <= MOST_PAIRS:
            raise ValueError(f"Waves of {self.n_pairs} phases: between 1 and {MOST_PAIRS} are supported")
        if not np.abs(self.turns).sum(axis=0).max() <= MOST_TURNS:
            raise ValueError(f"turns of Waves must be finite, and those of a phase at most {MOST_TURNS:g} together")
        vars(self)["turns"] = weights_on_grid(self.turns, 2.0**-400)[0]  # not a finer one, on which they lie already
        self.turns.flags.writeable = False

    def __repr__(self) -> str:
        return f"<cosines and sines of {self.n_pairs} phases of {len(self.at)} columns>"

    @property
    def n_pairs(self) -> int:
        """The number of phases, each of which has a cosine and a sine."""
        return int(self.turns.shape[1])

    @property
    def n_columns(self) -> int:
        """The number of columns that are added to a table."""
        return 2 * self.n_pairs

    @property
    def centre(self) -> Floats:
        """The centre of each column, in steps of the grid."""
        centre = self.columns.centre
        if centre is None:
            return np.zeros(len(self.at))
        steps: Floats = np.rint(np.clip(centre, -1, 1) * 2.0**UNIT_BITS)
        return steps

    def of(self, X: Any) -> Floats:
        """Return the waves of some rows, which are finite: dense, or CSR with one entry per place."""
        x = X[:, self.at]
        steps = self.columns.place(np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float64))
        steps *= 2.0**UNIT_BITS
        np.rint(steps, out=steps)
        steps -= self.centre
        # sums of products are exact, so it does not matter in which order they are added
        entries = np.rint(steps @ (self.turns * 2.0 ** (TABLE_BITS - UNIT_BITS))).astype(np.int64)
        waves = np.empty((len(steps), self.n_columns))
        for half, lag in ((waves[:, : self.n_pairs], 0), (waves[:, self.n_pairs :], 2 ** (TABLE_BITS - 2))):
            half[:] = cosines()[(entries - lag) & (2**TABLE_BITS - 1)]
        return waves

    def makes_dense(self, n_features: int) -> bool:
        """Return whether sparse rows of so many columns become dense: if waves are a third of all columns or more."""
        return n_features <= 2 * self.n_columns

    def beside(self, X: Any) -> Any:
        """Return rows with their waves as further columns."""
        waves = self.of(X)
        if not sp.issparse(X):
            return np.concatenate([X, waves], axis=1)
        if self.makes_dense(X.shape[1]):
            return np.concatenate([X.toarray(), waves], axis=1)
        return sp.hstack([X, sp.csr_matrix(waves)], format="csr")
