"""Sums of clipped losses at many points of a line, for two products with X."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data.grid import UNIT_BITS, check_clip, power_of_two_above, weights_on_grid
from ..data.rows import Chunk, Line
from ..data.weights import in_parts
from ..losses import Loss, MarginLoss, check_weights
from ..mechanisms.samplers import Floats, Integers
from .at_points import ClippedLosses

# Clipped losses are multiples of 2^-14 of the clip (rounded up to a power of two): runs of 1,024 of them add up
# exactly in float32.
_VALUE_BITS = 14
_RUN = 1024
_BLOCK = 8 * _RUN
_TABLE_SIZE = 2**16


class LossesAlong(ClippedLosses):
    """The sums over rows of the loss, clipped to [0, clip], at ``start + multiples[j] * step`` for every j.

    ``points`` holds these weights as they are evaluated: rounded to the exact grid. Continue from one of them and
    the next query reuses its scores.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.2)
    A leaving row moves all entries down, each by at most ``clip`` (monotone). A replaced one moves each by at most
    ``clip``, in any direction.
    """

    weighed = True

    def __init__(
        self, loss: Loss, start: Floats, step: Floats, multiples: Sequence[float] | Floats, *, clip: float
    ) -> None:
        self.loss, self.clip = loss, check_clip(clip)
        start, step = check_weights(loss, start), check_weights(loss, step)
        self.unit = power_of_two_above(self.clip) * 2.0**-_VALUE_BITS
        self._line = line_on_grid(start, step, np.array(multiples, dtype=np.float64))
        self.n_points = self.evaluations = len(self._line.multiples)

    @property
    def points(self) -> Floats:
        """The weights at which losses are summed, one per multiple."""
        return self._line.points

    def __call__(self, chunk: Chunk) -> Integers:
        scores = chunk.scores_along(self._line)
        start, step = (self.loss.margins(part, chunk.y) for part in scores)
        if start.shape != scores[0].shape or step.shape != scores[1].shape:
            raise TypeError(f"{self.loss!r}.margins changed the shape of the scores")
        if start.ndim == 1 and isinstance(self.loss, MarginLoss):
            table = _margin_table(self.loss, self.clip, self.unit)
            sums = table.sums(start, step, self._line.multiples, chunk.weights)
        else:
            sums = self._direct_sums(start, step, chunk.weights)
        return sums if chunk.weights is None else in_parts(sums)

    def _direct_sums(self, start: Floats, step: Floats, weights: Floats | None) -> Integers:
        sums = np.zeros(len(self._line.multiples), dtype=np.int64)
        for a in range(0, len(start), _BLOCK):
            rows = slice(a, a + _BLOCK)
            for j, multiple in enumerate(self._line.multiples):
                margins = start[rows] + multiple * step[rows]
                losses = self.loss.of_margins(margins)
                if losses.shape != margins.shape[:1]:
                    raise TypeError(f"{self.loss!r} must return one value per row")
                # NaN counts as the clip: whatever a loss returns, the bound holds
                losses = np.where(losses < self.clip, np.maximum(losses, 0), self.clip)
                values = np.floor(losses / self.unit)
                sums[j] += int(values.sum() if weights is None else values @ weights[rows])
        return sums


def line_on_grid(start: ArrayLike, step: ArrayLike, multiples: Floats) -> Line:
    """Return the points ``start + multiples[j] * step`` on a common grid of weights."""
    if multiples.ndim != 1 or len(multiples) == 0 or not (np.abs(multiples) < 2.0**60).all():
        raise ValueError("multiples must be a non-empty sequence of finite numbers below 2**60")
    start, spacing = weights_on_grid(np.asarray(start, dtype=np.float64))
    step, _ = weights_on_grid(np.asarray(step, dtype=np.float64), spacing)
    if start.shape != step.shape:
        raise ValueError(f"start and step must have the same shape, not {start.shape} and {step.shape}")
    points = start + np.multiply.outer(multiples, step)
    # scores stay on the grid along integer multiples, as long as they stay below 2^53 of its steps
    reach = np.abs(start).sum() + np.abs(multiples).max() * np.abs(step).sum()
    if not start.any():
        _, spacing = weights_on_grid(step)
    exact = bool((multiples == np.rint(multiples)).all() and reach < spacing * 2.0 ** (53 - UNIT_BITS))
    for array in (start, step, multiples, points):
        array.flags.writeable = False
    return Line(start, step, multiples, points, exact)


class _Room(threading.local):
    """Arrays that each thread uses again. The operating system would have to provide new ones each time."""

    def __init__(self) -> None:
        self._arrays = np.zeros((2, 0, 0), np.float32), np.zeros((0, 0), np.intp)

    def arrays(self, n: int) -> tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.float32]]:
        """Return room for n rows of positions, indices and values."""
        if len(self._arrays[1]) != n:
            self._arrays = np.zeros((2, n, _BLOCK), np.float32), np.zeros((n, _BLOCK), np.intp)
        (at, found), index = self._arrays
        return at, index, found


_room = _Room()


@dataclass(frozen=True, eq=False)
class _MarginTable:
    """A clipped margin loss as integers on an even grid of margins; constant beyond both ends.

    The sum uses the table as the loss, so it is a function of the margin of a row alone. Each process makes its own
    table. Tables are equal unless the last bit of a processor's ``exp`` takes a value across an integer.
    """

    low: float
    resolution: float
    values: NDArray[np.float32]

    def sums(self, start: Floats, step: Floats, multiples: Floats, weights: Floats | None = None) -> Integers:
        """Return the sum of table values at margins ``start + multiple * step``, times weights, for each multiple."""
        origin = (in_single(start) - np.float32(self.low)) * np.float32(1 / self.resolution) + np.float32(0.5)
        slope = in_single(step) * np.float32(1 / self.resolution)
        factors = in_single(multiples)[:, None]
        last = np.float32(len(self.values) - 1)
        sums = np.zeros(len(multiples), dtype=np.int64)
        at, index, found = _room.arrays(len(multiples))
        ones = np.ones(_RUN, dtype=np.float32)
        for a in range(0, len(origin), _BLOCK):
            width = min(_BLOCK, len(origin) - a)
            if width < _BLOCK:
                at, index, found = (np.zeros((len(multiples), width), b.dtype) for b in (at, index, found))
            np.multiply(factors, slope[a : a + width], out=at)
            at += origin[a : a + width]
            np.clip(at, 0, last, out=at)  # maximum and minimum with a number take seven times as long
            np.copyto(index, at, casting="unsafe")
            np.take(self.values, index, out=found, mode="wrap")  # all are in range; this mode is the fastest
            if weights is not None:
                sums += (found.astype(np.float64) @ weights[a : a + width]).astype(np.int64)  # of 14 bits and 20
            elif width == _BLOCK:
                # each run stays below 2^24, so float32 is exact in any order
                sums += (found.reshape(-1, _RUN) @ ones).reshape(len(multiples), -1).astype(np.int64).sum(axis=1)
            else:
                sums += found.sum(axis=1, dtype=np.float64).astype(np.int64)
        return sums


def in_single(x: Floats) -> NDArray[np.float32]:
    """Return ``x`` in single precision, bounded and without NaN, so that a position computed from it can be clipped."""
    single = np.clip(x, -(2.0**60), 2.0**60).astype(np.float32)
    unknown = np.isnan(single)
    if unknown.any():
        single[unknown] = 0
    return single


@lru_cache(maxsize=32)
def _margin_table(loss: MarginLoss, clip: float, unit: float) -> _MarginTable:
    def steps(margins: Floats) -> Floats:
        losses = loss.phi(margins)
        return np.floor(np.where(losses < clip, np.maximum(losses, 0), clip) / unit)

    # Between which margins does the clipped loss change at all? Signed powers of two, 60 to the octave.
    powers = 2.0 ** np.arange(-4, 30, 1 / 60)
    probes = np.concatenate([-powers[::-1], [0.0], powers])
    values = steps(probes)
    from_left, from_right = np.flatnonzero(values != values[0]), np.flatnonzero(values != values[-1])
    low, high = (probes[from_left[0] - 1], probes[from_right[-1] + 1]) if from_left.size else (-1.0, 1.0)
    resolution = max(2.0**-12, power_of_two_above((high - low) / _TABLE_SIZE))
    margins = np.arange(np.floor(low / resolution), np.ceil(high / resolution) + 1) * resolution
    return _MarginTable(float(margins[0]), resolution, steps(margins).astype(np.float32))
