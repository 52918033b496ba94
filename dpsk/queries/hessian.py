"""The sum of clipped Hessians."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from ..data.grid import SHARE_BITS, check_clip, octaves, power_of_two_above, weights_on_grid
from ..data.private import Query
from ..data.rows import Chunk
from ..data.weights import ONE, joined
from ..losses import Loss, MarginLoss, OneVsRest, check_weights, sum_of_classes
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from ..privacy.neighbours import Adjacency

_ROW_BITS = 12  # rows are rounded in units of 2^-12 to 2^-11 of their own norm
_TOTAL_BITS = 36  # of what a row adds at most: blocks of 2^17 rows are exact in float64, 2^26 rows in 64-bit integers
_BLOCK = 4096
_WEIGHTED_BLOCK = 512  # lower parts of weighted integers are below 2^20, and entries of rows are at most 2^12

Block = tuple[Floats, Iterable[Floats]]


def weighted_products(chunk: Chunk, n_sums: int, block_of: Callable[[slice], Block]) -> Integers:
    """Return, for each of ``n_sums`` vectors of integer factors, the sum over rows of factor * row row^T.

    ``block_of`` returns some rows as integers, and their factors. The caller ensures that every entry of a block of
    4,096 rows stays below 2^53, so that BLAS adds them exactly in any order.
    """
    p = chunk.units.shape[1] + (chunk.constant is not None)
    total = np.zeros((n_sums, p, p), dtype=np.int64)
    for a in range(0, len(chunk), _BLOCK):
        block, factors = block_of(slice(a, a + _BLOCK))
        for k, factor in enumerate(factors):
            total[k] += ((block.T * factor) @ block).astype(np.int64)
    return total


def weighed_products(chunk: Chunk, weights: Floats, n_sums: int, block_of: Callable[[slice], Block]) -> Integers:
    """Return the same sums with each row times its weight, in two parts. Rows are integers up to 2^12."""
    p = chunk.units.shape[1] + (chunk.constant is not None)
    total = np.zeros((2, n_sums, p, p), dtype=np.int64)
    for a in range(0, len(chunk), _WEIGHTED_BLOCK):
        rows = slice(a, a + _WEIGHTED_BLOCK)
        block, factors = block_of(rows)
        steps = weights[rows].astype(np.int64)
        for k, factor in enumerate(factors):
            product = factor.astype(np.int64) * steps  # of 37 bits and 20
            total[0, k] += ((block.T * (product >> SHARE_BITS)) @ block).astype(np.int64)
            total[1, k] += ((block.T * (product & (ONE - 1))) @ block).astype(np.int64)
    return joined(*total)


class HessianSum(Query):
    """The sum over rows of the Hessian of the loss at ``w``, each clipped to Frobenius norm ``clip``.

    For margin losses, ``sum_i phi''(y_i w.x_i) x_i x_i^T`` of shape (p, p); for one-vs-rest a block for each class, of
    shape (K, p, p): all other entries of the Hessian are 0.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.4)
    What a row adds has Frobenius norm at most ``clip``: a leaving row moves the sum by at most that much. A replaced
    row moves it by at most ``sqrt(2) clip`` for convex losses, ``max(sqrt(2) clip, clip + m)`` for one block whose
    negative curvatures are cut at ``m = clip * concavity/smoothness``, and 2 clip for K blocks, where each is cut at
    ``m/sqrt(K)``.
    """

    label = "Hessian"
    weighed = True
    evaluations = 1

    def __init__(self, loss: Loss, w: Floats, *, clip: float) -> None:
        self.loss, self.clip = loss, check_clip(clip)
        one = _binary(loss)
        self.w, _ = weights_on_grid(check_weights(loss, w))
        self.w.flags.writeable = False
        self.unit = power_of_two_above(self.clip) * 2.0**-_TOTAL_BITS
        # the part of the clip that a negative curvature may have, in each block
        self._below = one.concavity / one.smoothness / math.sqrt(loss.n_classes or 1)

    @staticmethod
    def largest(loss: Loss, longest: float) -> float:
        """Return the largest Frobenius norm of the Hessian of a row whose norm is at most ``longest``."""
        one = _binary(loss)
        return one.smoothness * longest**2 / math.sqrt(loss.n_classes or 1)

    def rounding(self, n_parameters: int) -> float:
        """Return a bound on what rounding does to one row's part, in spectral norm, where norms are below 2^100.

        Entries of the rounded row r are off by 1/2, so r r^T by ``||r|| sqrt(p) + p/4``, where ||r|| is at least 2^11;
        weights are off by sqrt(K), in units of at least 2^-36 clips.
        """
        of_row = math.sqrt(n_parameters) * 2.0**-11 + n_parameters * 2.0**-23
        return self.clip * (2 * of_row + math.sqrt(self.loss.n_classes or 1) * 2.0**-10)

    def sensitivity(self, adjacency: str) -> Sensitivity:
        l2 = self.clip / self.unit
        if Adjacency(adjacency) is Adjacency.REPLACE:
            of_one_block = max(np.nextafter(math.sqrt(2), 2), 1 + self._below)
            l2 *= of_one_block if self.loss.n_classes is None or not self._below else 2.0
        entries = self.w.size * self.w.shape[0]
        return Sensitivity(l1=np.nextafter(l2 * math.sqrt(entries), np.inf), l2=l2, linf=l2)

    def __call__(self, chunk: Chunk) -> Integers:
        curvatures = self._curvatures(chunk)
        n_blocks = curvatures.shape[1]
        factor = np.ldexp(1.0, _ROW_BITS - octaves(chunk.norm)[1])
        size = chunk.scale / factor
        most = self.clip * (1 - 2.0**-30) / self.unit

        def block_of(rows: slice) -> Block:
            block = chunk.dense(rows)
            block *= factor[rows, None]
            np.rint(block, out=block)
            norm2 = np.einsum("ij,ij->i", block, block)  # of integers: exact
            above, below = (
                np.maximum(part * most / np.maximum(norm2, 1.0) - math.sqrt(n_blocks) / 2, 0.0)[:, None]
                for part in (1.0, self._below)
            )
            weights = curvatures[rows] * np.square(size[rows])[:, None] / self.unit
            weights = np.clip(weights, -below, above)
            weights[np.isnan(weights)] = 0  # whatever a loss returns, the bound holds
            if n_blocks > 1:
                norm = np.sqrt(sum_of_classes(np.square(weights)))
                weights *= np.minimum(1.0, above / np.maximum(norm, 1e-300)[:, None])
            return block, np.rint(weights).T

        if chunk.weights is None:
            total = weighted_products(chunk, n_blocks, block_of)
        else:
            total = weighed_products(chunk, chunk.weights, n_blocks, block_of)
        return total if self.loss.n_classes is not None else total[..., 0, :, :]

    def _curvatures(self, chunk: Chunk) -> Floats:
        """Return the second derivatives of every row's part of each block."""
        scores = chunk.scores(self.w)
        if isinstance(self.loss, OneVsRest):
            one, k = self.loss.loss, self.loss.n_classes
            signs = np.where(chunk.y[:, None] == np.arange(k), 1.0, -1.0)
            curvatures = one.second_derivative(scores, signs) / k
        else:
            curvatures = self.loss.second_derivative(scores, chunk.y)
        if curvatures.shape != scores.shape:
            raise TypeError(f"{self.loss!r}.second_derivative changed the shape {scores.shape} of the scores")
        return curvatures if curvatures.ndim == 2 else curvatures[:, None]


def _binary(loss: Loss) -> MarginLoss:
    """Return the margin loss that a Hessian is made of."""
    one = loss.loss if isinstance(loss, OneVsRest) else loss
    if isinstance(one, MarginLoss) and math.isfinite(one.smoothness):
        return one
    raise ValueError(
        f"Hessians are summed for margin losses with a bounded second derivative and one-vs-rest of these, not for "
        f"{loss!r}"
    )
