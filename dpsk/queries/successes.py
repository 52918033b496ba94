"""The number of successes, from which an accuracy is computed."""

from __future__ import annotations

import numpy as np

from ..data.private import Query
from ..data.rows import RawChunk
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Integers
from ..privacy.neighbours import Adjacency

_UNIT_BITS = 20


class Successes(Query):
    """The number of rows whose one entry is not zero, on a grid so fine that the scale of its noise hardly rounds.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.8)
    A leaving row lowers the count by at most 1; a replaced one moves it by at most 1 either way.
    """

    label = "successes"
    unit = 2.0**-_UNIT_BITS

    def sensitivity(self, adjacency: str) -> Sensitivity:
        one = 2**_UNIT_BITS
        return Sensitivity(l1=one, l2=one, linf=one, monotone=Adjacency(adjacency).monotone)

    def __call__(self, chunk: RawChunk) -> Integers:
        if not isinstance(chunk, RawChunk) or chunk.n_features != 1:
            raise ValueError(f"{self.label} are counted of one column in the user's units, and no others")
        return np.array([np.count_nonzero(chunk.counts) << _UNIT_BITS], dtype=np.int64)
