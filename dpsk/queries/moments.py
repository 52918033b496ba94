"""The sums of columns, and of what their entries lack to being 0 or 1, or of their squares."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ..data.grid import SHORTEST_NORM, UNIT_BITS
from ..data.private import Query
from ..data.rows import Chunk, Matrix
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from ..privacy.neighbours import Adjacency

_BLOCK_ENTRIES = 2**15


class Moments(Query):
    """The sums over rows of x, and of |x| - x^2 or x^2 by column, each row scaled down to joint l2 norm ``clip``.

    For rows of placed columns that are neither centred nor scaled, without an intercept: entries in [-1, 1].
    ``one_sign`` says of all columns, or of each, whether their entries are known to have one sign. Then |x| adds up to
    the sum of x or its opposite, so that |x| - x^2 says as much as x^2. It is 0 where x is -1, 0 or 1: a row of
    categories is not longer than its entries alone.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.7)
    A leaving row moves the sum by at most ``clip``, a replaced one by twice as much, whatever the signs are.
    """

    label = "moments"
    weighed = True
    scale = 2.0
    """The scale of the rows this is for: units are at most 1/2."""

    def __init__(self, n_features: int, *, clip: float, one_sign: ArrayLike = False) -> None:
        self.n_features, self.one_sign = n_features, np.broadcast_to(np.asarray(one_sign, dtype=bool), n_features)
        longest = np.sqrt(2.0 * self.n_features - self.one_sign.sum())  # no row is longer
        if not clip > 0:
            raise ValueError(f"clip={clip!r} must be positive")
        self.clip = float(np.clip(clip, 2.0**-20, longest))
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
        seconds, norms = second_sums(chunk.units, self.one_sign, self.scale)
        norm = np.sqrt(np.square(chunk.norm) + np.square(norms)) * (1 + 2.0**-40)
        limit = self.clip * (1 - 2.0**-30) / self.scale * 2.0**UNIT_BITS / np.maximum(norm, SHORTEST_NORM)
        weights = np.trunc(np.minimum(2.0**UNIT_BITS, limit))
        others = Chunk(seconds, None, chunk.scale, norms, chunk.y, chunk.n_classes, weights=chunk.weights)
        return np.concatenate([chunk.weighed(weights), others.weighed(weights)], axis=-1)


def second_sums(units: Matrix, one_sign: NDArray[np.bool_], scale: float) -> tuple[Matrix, Floats]:
    """Return |x| - x^2 or x^2 of rows by column, on the grid of units, and norms that are never too short."""
    if sp.issparse(units):
        steps = _steps(units.data, one_sign[units.indices], scale)
        seconds: Matrix = sp.csr_matrix((steps * 2.0**-UNIT_BITS, units.indices, units.indptr), units.shape)
        ones = np.ones(units.shape[1], dtype=np.int64)
        norm2 = sp.csr_matrix((steps * steps, units.indices, units.indptr), units.shape) @ ones
    else:
        steps = _steps(units, one_sign, scale)
        seconds = steps * 2.0**-UNIT_BITS
        norm2 = np.einsum("ij,ij->i", steps, steps)
    return seconds, np.sqrt(np.maximum(norm2, 1)) * (2.0**-UNIT_BITS * (1 + 2.0**-40))


def _steps(units: Floats, one_sign: NDArray[np.bool_], scale: float) -> Integers:
    """Return |x| - x^2 or x^2 of entries, in steps of their grid: of the squares what is below it is cut off."""
    squares = np.square(units)
    squares *= scale * 2.0**UNIT_BITS
    steps: Integers = squares.astype(np.int64)
    if one_sign.any():
        sizes = np.abs(units) * 2.0**UNIT_BITS
        steps = np.where(one_sign, sizes.astype(np.int64) - steps, steps)
    return steps
