"""The sum of clipped gradients."""

import numpy as np

from ..data.grid import UNIT_BITS, check_clip, power_of_two_above, weights_on_grid
from ..data.private import Query
from ..data.rows import Chunk
from ..losses import Loss, check_weights, sum_of_classes
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from ..privacy.neighbours import Adjacency


class GradientSum(Query):
    """The sum over rows of the loss gradient at ``w``, each clipped to l2 norm ``clip``.

    Gradients are never formed: row i adds ``residual_i (x) x_i``, whose norm is ``||residual_i||*||x_i||``, so
    scaling the residual clips, and one product with X adds up.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.1)
    What a row adds has norm at most ``clip``, whatever the loss returns: a leaving row moves the sum by at most that
    much, a replaced one by twice as much.
    """

    label = "gradient"
    weighed = True
    evaluations = 1

    def __init__(self, loss: Loss, w: Floats, *, clip: float) -> None:
        self.loss, self.clip = loss, check_clip(clip)
        self.w, _ = weights_on_grid(check_weights(loss, w))
        self.w.flags.writeable = False
        self._spacing = power_of_two_above(self.clip) * 2.0**-UNIT_BITS
        self.unit = self._spacing * 2.0**-UNIT_BITS

    def sensitivity(self, adjacency: str) -> Sensitivity:
        l2 = self.clip / self.unit * Adjacency(adjacency).parts
        return Sensitivity(l1=np.nextafter(l2 * np.sqrt(self.w.size), np.inf), l2=l2, linf=l2)

    def __call__(self, chunk: Chunk) -> Integers:
        scores = chunk.scores(self.w)
        residuals = self.loss.derivative(scores, chunk.y)
        if residuals.shape != scores.shape:
            raise TypeError(f"{self.loss!r}.derivative changed the shape {scores.shape} of the scores")
        residuals = np.asarray(residuals, dtype=np.float64)  # limits must not be rounded to a shorter type
        limit = chunk.limits(self.clip * (1 - 2.0**-30) / self._spacing)
        one = chunk.one_scale
        factor = (chunk.scale if one is None else one) / self._spacing
        if residuals.ndim == 1:
            residuals = residuals * factor
            np.maximum(residuals, -limit, out=residuals)
            np.minimum(residuals, limit, out=residuals)
        else:
            # divide by the largest entry first: squares of the quotients neither overflow nor underflow
            largest = np.abs(residuals).max(axis=1)
            residuals = residuals / np.where(largest > 0, largest, 1.0)[:, None]
            norm = np.sqrt(sum_of_classes(np.square(residuals)))
            residuals *= np.minimum(factor * largest, limit / np.maximum(norm, 1.0))[:, None]
        np.trunc(residuals, out=residuals)
        if _some_nan(residuals):  # whatever a loss returns, the bound holds
            residuals[np.isnan(residuals)] = 0
        return chunk.weighed(residuals)


def _some_nan(numbers: Floats) -> bool:
    """Return whether there is a NaN, or infinities that cancel: in one pass, which is several times faster than two."""
    return bool(np.isnan(numbers @ numbers if numbers.ndim == 1 else numbers.sum()))
