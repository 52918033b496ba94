"""Losses of a network at points of a line of weights, and what steps along it gain."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ..data.grid import check_clip, power_of_two_above
from ..data.rows import Chunk, Labels, Matrix
from ..data.weights import in_parts, joined, products
from ..losses import Loss
from ..mechanisms.samplers import Floats, Integers
from ..networks import Network
from ..networks.network import Pass
from .at_points import ClippedLosses, Gains
from .network_gradient import require_outputs

_GAIN_BITS = 20  # gains are multiples of 2^-20 of the clip, clipped losses of 2^-14: as those of linear models
_LOSS_BITS = 14


class NetworkLine:
    """The scores of a network at ``start + multiples[j] * step``, for some rows and every j.

    The sums of the first layer are linear in its weights. So two products of the inputs serve all points, and what a
    point costs is the later layers. Those are evaluated with weights on their grid.
    """

    def __init__(self, network: Network, start: Floats, step: Floats, multiples: Sequence[float] | Floats) -> None:
        self.multiples = np.array(multiples, dtype=np.float64)
        if self.multiples.ndim != 1 or not len(self.multiples) or not (np.abs(self.multiples) < 2.0**60).all():
            raise ValueError("multiples must be a non-empty sequence of finite numbers below 2**60")
        self.network, stages = network, network.stages
        starts, steps = (network.split(np.asarray(w, dtype=np.float64)) for w in (start, step))
        self.start, self._step = (stages[0].layer.on_grid(of_all[0]) for of_all in (starts, steps))
        self.later = [
            [stage.layer.on_grid(W + m * S) for stage, W, S in zip(stages[1:], starts[1:], steps[1:], strict=True)]
            for m in self.multiples
        ]
        """The matrices of all layers but the first, at one point after the other."""

    @cached_property
    def points(self) -> Floats:
        """The weights at which scores are computed, one point after the other."""
        first = (self.start + multiple * self._step for multiple in self.multiples)
        return np.stack([self.network.joined([W, *later]) for W, later in zip(first, self.later, strict=True)])

    def passes(self, signals: Matrix) -> Iterator[Pass]:
        """Yield what passes over some rows find at one point after the other, in the same memory each time."""
        layer = self.network.stages[0].layer
        if isinstance(signals, np.ndarray):
            signals = signals.reshape(len(signals), *layer.inputs)
        start, step = (layer.forward(signals, W) for W in (self.start, self._step))
        sums = np.empty_like(start)
        for multiple, later in zip(self.multiples, self.later, strict=True):
            np.multiply(multiple, step, out=sums)
            sums += start
            yield self.network.forward(signals, [self.start, *later], sums)


def _losses(seen: Pass, y: Labels, loss: Loss) -> Floats:
    """Return the losses of rows after a pass."""
    losses = loss.value(seen.scores, y)
    if losses.shape != y.shape:
        raise TypeError(f"{loss!r} must return one value per row")
    return losses


def _clipped(losses: Floats, clip: float) -> Floats:
    """Return losses clipped to [0, clip]. NaN counts as the clip: whatever a loss returns, the bound holds."""
    return np.where(losses < clip, np.maximum(losses, 0), clip)


class NetworkLosses(ClippedLosses):
    """The sums over rows of the loss of a network, clipped to [0, clip], at ``start + multiples[j] * step``.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.18)
    A leaving row moves all entries down, each by at most ``clip`` (monotone). A replaced one moves each by at most
    ``clip``, in any direction.
    """

    weighed = True

    def __init__(
        self,
        network: Network,
        loss: Loss,
        start: Floats,
        step: Floats,
        multiples: Sequence[float] | Floats,
        *,
        clip: float,
    ) -> None:
        require_outputs(network, loss)
        self.loss, self.clip = loss, check_clip(clip)
        self.unit = power_of_two_above(self.clip) * 2.0**-_LOSS_BITS
        self._line = NetworkLine(network, start, step, multiples)
        self.n_points = self.evaluations = len(self._line.multiples)

    @property
    def points(self) -> Floats:
        """The weights at which losses are summed, one per multiple."""
        return self._line.points

    def __call__(self, chunk: Chunk) -> Integers:
        sums = np.zeros(len(self._line.multiples), dtype=np.int64)
        for rows, signals in self._line.network.blocks(chunk):
            for j, seen in enumerate(self._line.passes(signals)):
                losses = _clipped(_losses(seen, chunk.y[rows], self.loss), self.clip)
                values = np.floor(losses / self.unit)
                sums[j] += int(values.sum() if chunk.weights is None else values @ chunk.weights[rows])
        return sums if chunk.weights is None else in_parts(sums)


class NetworkGains(Gains):
    """The sums over rows of a network's loss at ``w`` less the loss at ``w - steps[j] * direction``, for every j.

    ``per_unit=True``: what each row gains is divided by the length of the step, multiplied by the factor that clips the
    row's gradient at ``w``, and clipped to [-clip, clip]. So a short step gains what the sum of clipped gradients says,
    and the search judges the direction that descent takes. Without the factor, rows whose long gradients are clipped
    would decide. One noise fits all steps, and relative to the gain it shrinks with the step.

    ``per_unit=False`` is the form of Chen & Lee (2020): both losses are clipped to [0, clip].

    ``points`` holds the weights that the steps lead to, as they are evaluated.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.18)
    A leaving row moves each entry by at most ``clip``, a replaced one by twice as much, in any direction.
    """

    weighed = True

    def __init__(
        self,
        network: Network,
        loss: Loss,
        w: Floats,
        direction: Floats,
        steps: Sequence[float] | Floats,
        *,
        clip: float,
        per_unit: bool = True,
    ) -> None:
        require_outputs(network, loss)
        self.loss, self.clip, self.per_unit = loss, check_clip(clip), per_unit
        steps, direction = np.array(steps, dtype=np.float64), np.asarray(direction)
        if not (steps > 0).all():
            raise ValueError("steps must be positive")
        self.unit = power_of_two_above(self.clip) * 2.0**-_GAIN_BITS
        self._line = NetworkLine(network, w, -direction, [0.0, *steps])
        self.lengths = steps * math.sqrt(np.einsum("i,i->", direction, direction))  # in one order on every machine
        if per_unit and not (self.lengths > 2.0**-400).all():
            raise ValueError("the direction must not be zero: gains are counted per unit of its length")
        self.n_points, self.evaluations = len(steps), len(steps) + 1

    @property
    def points(self) -> Floats:
        """The weights that the steps lead to."""
        return self._line.points[1:]

    def __call__(self, chunk: Chunk) -> Integers:
        sums = np.zeros((2, len(self.lengths)), dtype=np.int64)
        for rows, signals in self._line.network.blocks(chunk):
            values = self._values(signals, chunk.y[rows])
            parts = (values,) if chunk.weights is None else products(values, chunk.weights[rows])
            for total, part in zip(sums, parts, strict=False):
                total += part.sum(axis=0).astype(np.int64)
        return sums[0] if chunk.weights is None else joined(*sums)

    def _values(self, signals: Matrix, y: Labels) -> Floats:
        """Return what each of some rows gains by each step, in multiples of the unit."""
        losses = np.empty((len(y), len(self.lengths) + 1))
        for j, seen in enumerate(self._line.passes(signals)):
            losses[:, j] = self._losses(seen, y)
            if j == 0 and self.per_unit:
                factors = self._factors(seen, y)
        gains = losses[:, :1] - losses[:, 1:]
        if self.per_unit:
            gains *= factors[:, None]
            gains *= 1 / (self.unit * self.lengths)
        else:
            gains *= 1 / self.unit
        limit = math.floor(self.clip / self.unit)
        np.clip(np.trunc(gains, out=gains), -limit, limit, out=gains)
        gains[np.isnan(gains)] = 0  # whatever a loss returns, the bound holds
        return gains

    def _losses(self, seen: Pass, y: Labels) -> Floats:
        losses = _losses(seen, y, self.loss)
        return losses if self.per_unit else _clipped(losses, self.clip)

    def _factors(self, start: Pass, y: Labels) -> Floats:
        """Return what the gains of rows are multiplied by: the factors that clip their gradients at ``w``."""
        gradients = self._line.network.backward(start, y, [self._line.start, *self._line.later[0]], self.loss)
        squared = sum((gradient.squared_norms for gradient in gradients), np.zeros(len(y)))
        return self.clip / np.maximum(np.sqrt(squared), self.clip)
