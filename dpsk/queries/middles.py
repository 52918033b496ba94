"""The sums of how far entries are from being -1, 0 or 1."""

import math

import numpy as np

from ..data.grid import UNIT_BITS
from ..data.private import Query
from ..data.rows import Chunk
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Integers
from ..privacy.neighbours import Adjacency
from .moments import second_sums

_BLOCK_ENTRIES = 2**15


class Middles(Query):
    """The sums over rows of |x| - x^2 by column, each row scaled down to l2 norm ``clip``.

    For rows of placed columns that are neither centred nor scaled, without an intercept: entries in [-1, 1]. |x| - x^2
    is 0 where x is -1, 0 or 1, and at most 1/4. So columns of categories add nothing to the norm of a row.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.16)
    A row that leaves moves the sum by at most ``clip``, and no entry of it up. A row that is replaced moves it by at
    most sqrt(2) times as much, since no row adds a negative number.
    """

    label = "middles"
    weighed = True
    scale = 2.0
    """The scale of the rows that this query is for: their units are at most 1/2."""

    def __init__(self, n_features: int, *, clip: float) -> None:
        if not clip > 0:
            raise ValueError(f"clip={clip!r} must be positive")
        self.n_features, self.clip = n_features, float(np.clip(clip, 2.0**-20, 0.25 * np.sqrt(n_features)))
        self.unit = self.scale * 2.0 ** (-2 * UNIT_BITS)

    def sensitivity(self, adjacency: str) -> Sensitivity:
        one = self.clip / self.unit
        l2 = np.nextafter(one * math.sqrt(Adjacency(adjacency).parts), np.inf)
        l1 = np.nextafter(l2 * math.sqrt(self.n_features), np.inf)
        return Sensitivity(l1=l1, l2=l2, linf=one, monotone=Adjacency(adjacency).monotone)

    def __call__(self, chunk: Chunk) -> Integers:
        if chunk.constant is not None or chunk.offset is not None or not (chunk.scale == self.scale).all():
            raise ValueError("middles are taken of placed columns: neither centred nor scaled, without an intercept")
        if chunk.units.shape[1] != self.n_features:
            raise ValueError(f"middles were asked for {self.n_features} columns, but the rows have others")
        rows = max(1, _BLOCK_ENTRIES // self.n_features)
        if isinstance(chunk.units, np.ndarray) and len(chunk) > rows:  # a few rows at a time: they stay in cache
            parts = (self(chunk.part(slice(a, a + rows))) for a in range(0, len(chunk), rows))
            total: Integers = sum(parts, start=np.zeros(1, dtype=np.int64))
            return total
        middles, norm = second_sums(chunk.units, np.ones(self.n_features, dtype=bool), self.scale)
        limit = self.clip * (1 - 2.0**-30) / self.scale * 2.0**UNIT_BITS / norm
        made = Chunk(middles, None, chunk.scale, norm, chunk.y, chunk.n_classes, weights=chunk.weights)
        return made.weighed(np.trunc(np.minimum(2.0**UNIT_BITS, limit)))
