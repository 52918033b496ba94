"""The sums of columns and of their squares."""

import numpy as np

from ..data.grid import SHORTEST_NORM, UNIT_BITS
from ..data.private import Query
from ..data.rows import Chunk
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Integers
from ..privacy.neighbours import Adjacency

_BLOCK_ENTRIES = 2**15


class Moments(Query):
    """The sums over rows of (x, x^2), each row scaled down to joint l2 norm ``clip``.

    For rows of placed columns that are neither centred nor scaled, without an intercept: entries in [-1, 1].

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.7)
    A leaving row moves the sum by at most ``clip``, a replaced one by twice as much.
    """

    label = "moments"
    weighed = True
    scale = 2.0
    """The scale of the rows this is for: units are at most 1/2."""

    def __init__(self, n_features: int, *, clip: float) -> None:
        longest = np.sqrt(2.0 * n_features)  # no row is longer
        if not clip > 0:
            raise ValueError(f"clip={clip!r} must be positive")
        self.n_features, self.clip = n_features, float(np.clip(clip, 2.0**-20, longest))
        self.unit = self.scale * 2.0 ** (-2 * UNIT_BITS)

    def sensitivity(self, adjacency: str) -> Sensitivity:
        l2 = self.clip / self.unit * Adjacency(adjacency).parts
        return Sensitivity(l1=np.nextafter(l2 * np.sqrt(2 * self.n_features), np.inf), l2=l2, linf=l2)

    def __call__(self, chunk: Chunk) -> Integers:
        if chunk.constant is not None or chunk.offset is not None or not (chunk.scale == self.scale).all():
            raise ValueError("moments are taken of placed columns: neither centred nor scaled, without an intercept")
        if chunk.units.shape[1] != self.n_features:
            raise ValueError(f"moments were asked for {self.n_features} columns, but the rows have others")
        rows = max(1, _BLOCK_ENTRIES // self.n_features)
        if isinstance(chunk.units, np.ndarray) and len(chunk) > rows:  # a few rows at a time: they stay in cache
            starts = range(0, len(chunk), rows)
            parts = (self(chunk.part(slice(a, a + rows))) for a in starts)
            total: Integers = sum(parts, start=np.zeros(1, dtype=np.int64))
            return total
        squares = chunk.squared()
        norm = np.sqrt(np.square(chunk.norm) + np.square(squares.norm)) * (1 + 2.0**-40)
        limit = self.clip * (1 - 2.0**-30) / self.scale * 2.0**UNIT_BITS / np.maximum(norm, SHORTEST_NORM)
        weights = np.trunc(np.minimum(2.0**UNIT_BITS, limit))
        return np.concatenate([chunk.weighed(weights), squares.weighed(weights)], axis=-1)
