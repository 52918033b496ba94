"""How much a backtracking line search gains at each of its candidate steps."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..data.grid import check_clip, power_of_two_above
from ..data.rows import Chunk
from ..data.weights import joined, products
from ..losses import Loss, MarginLoss, check_weights, sum_of_classes
from ..mechanisms.samplers import Floats, Integers
from .at_points import Gains
from .line import in_single, line_on_grid

_VALUE_BITS = 20  # gains are multiples of 2^-20 of the clip: sums of 2^26 rows fit into 64-bit integers
_BLOCK = 16384

Gain: TypeAlias = Callable[[slice, float], NDArray[np.float32]]


class ArmijoGains(Gains):
    """The sums over rows of the loss at ``w`` less the loss at ``w - steps[j] * direction``, for every j.

    ``per_unit=True``: gains of the objective whose gradient is the *clipped* gradient, so that the search looks at what
    :class:`~dpsk.queries.GradientSum` descends on, divided by the length of the step. For a convex margin loss each
    row's loss is flattened to a slope of clip/||x||, which stays convex. Other losses need not have such an objective.
    A row whose slope is at most clip/||x|| everywhere gains the difference of its losses; for other rows the clipped
    slope is integrated by the trapezoidal rule. No gain per unit exceeds ``clip``, so one noise fits all steps, and
    relative to the gain it shrinks with the step.

    ``per_unit=False`` is the form of Chen & Lee (2020): both losses are clipped to [0, clip].

    ``points`` holds the weights that the steps lead to, as they are evaluated.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.3)
    A leaving row moves each entry by at most ``clip``, a replaced one by twice as much, in any direction.
    """

    weighed = True

    def __init__(
        self,
        loss: Loss,
        w: Floats,
        direction: Floats,
        steps: Sequence[float] | Floats,
        *,
        clip: float,
        per_unit: bool = True,
    ) -> None:
        self.loss, self.clip, self.per_unit = loss, check_clip(clip), per_unit
        w, direction = check_weights(loss, w), check_weights(loss, direction)
        steps = np.array(steps, dtype=np.float64)
        if not (steps > 0).all():
            raise ValueError("steps must be positive")
        self.unit = power_of_two_above(self.clip) * 2.0**-_VALUE_BITS
        self._line = line_on_grid(w, -direction, steps)
        self.lengths = steps * np.linalg.norm(direction)
        if per_unit and not (self.lengths > 2.0**-400).all():
            raise ValueError("the direction must not be zero: gains are counted per unit of its length")
        self.n_points, self.evaluations = len(steps), len(steps) + 1

    @property
    def points(self) -> Floats:
        """The weights that the steps lead to."""
        return self._line.points

    def __call__(self, chunk: Chunk) -> Integers:
        gain, weights = self._gain(chunk), chunk.weights
        sums = np.zeros(len(self.lengths) if weights is None else (2, len(self.lengths)), dtype=np.int64)
        limit = math.floor(self.clip / self.unit)
        for a in range(0, len(chunk), _BLOCK):
            rows = slice(a, a + _BLOCK)
            for j, multiple in enumerate(self._line.multiples):
                scale = self.unit * (self.lengths[j] if self.per_unit else 1.0)
                gains = gain(rows, multiple) * np.float32(1 / scale)
                np.clip(np.trunc(gains, out=gains), -limit, limit, out=gains)
                gains[np.isnan(gains)] = 0  # whatever a loss returns, the bound holds
                if weights is None:
                    sums[j] += int(gains.sum(dtype=np.float64))
                else:
                    sums[:, j] += [int(part.sum()) for part in products(gains.astype(np.float64), weights[rows])]
        return sums if weights is None else joined(*sums)

    def _gain(self, chunk: Chunk) -> Gain:
        """Return the function that gives what some rows gain by some multiple of the direction."""
        start, step = chunk.scores_along(self._line)
        if not self.per_unit:
            return self._difference(chunk, start, step, lambda m, _: np.clip(self.loss.of_margins(m), 0, self.clip))
        if isinstance(self.loss, MarginLoss):
            loss, steep = self.loss, cast(Any, in_single(self.clip / chunk.norms))
            bend: Any = loss.corner(steep)
            if bend is not None:
                return self._difference(chunk, start, step, lambda m, rows: loss.flattened(m, steep[rows], bend[rows]))
        return self._path(chunk, start, step)

    def _difference(
        self, chunk: Chunk, start: Floats, step: Floats, value: Callable[[Any, slice], NDArray[Any]]
    ) -> Gain:
        """Return gains as differences of losses."""
        here, move = self._margins(start, chunk), self._margins(step, chunk)

        def losses(margins: Any, rows: slice) -> NDArray[Any]:
            found = value(margins, rows)
            if found.shape != margins.shape[:1]:
                raise TypeError(f"{self.loss!r} must return one value per row")
            return found

        before = losses(here, slice(None))
        return lambda rows, multiple: before[rows] - losses(here[rows] + np.float32(multiple) * move[rows], rows)

    def _path(self, chunk: Chunk, start: Floats, step: Floats) -> Gain:
        """Return gains as integrals of the clipped slope along the step."""
        steepness = self.clip / chunk.norms

        def slope(scores: Floats, rows: slice) -> Floats:
            residuals = self.loss.derivative(scores, chunk.y[rows])
            if residuals.shape != scores.shape:
                raise TypeError(f"{self.loss!r}.derivative changed the shape {scores.shape} of the scores")
            if residuals.ndim == 1:
                return -np.clip(residuals, -steepness[rows], steepness[rows]) * step[rows]
            norm = np.sqrt(sum_of_classes(np.square(residuals)))
            clipped = np.minimum(1.0, steepness[rows] / np.maximum(norm, 1e-300))
            return -clipped * sum_of_classes(residuals * step[rows])

        before = slope(start, slice(None))
        untouched = steepness >= self.loss.lipschitz

        def gain(rows: slice, multiple: float) -> NDArray[np.float32]:
            after = slope(start[rows] + multiple * step[rows], rows)
            return in_single(multiple / 2 * (before[rows] + after))

        if untouched.any():
            difference = self._difference(chunk, start, step, lambda m, _: self.loss.of_margins(m))
            return lambda rows, multiple: np.where(untouched[rows], difference(rows, multiple), gain(rows, multiple))
        return gain

    def _margins(self, scores: Floats, chunk: Chunk) -> NDArray[np.float32]:
        margins = self.loss.margins(scores, chunk.y)
        if margins.shape != scores.shape:
            raise TypeError(f"{self.loss!r}.margins changed the shape of the scores")
        return in_single(margins)
