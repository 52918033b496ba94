"""Layers whose outputs are sums over small windows of an image, with the same weights at every place."""

import math
from dataclasses import dataclass

import numpy as np

from ..data.grid import SHARE_BITS
from ..data.weights import joined
from ..mechanisms.samplers import Floats, Integers
from .layer import RowGradients, Weighted
from .signals import ONE, SIGNAL_BITS, SIGNAL_STEP, SLOPE_BITS, SLOPE_STEP, squared_norms
from .thread_memory import ThreadMemory

_EXACT_BITS = 53

_memory = ThreadMemory()


@dataclass(frozen=True)
class Convolution(Weighted):
    """``channels`` sums over every window of ``size`` times ``size`` places of an image, and a bias each.

    Images have the shape (height, width, channels). Windows lie inside the image and move by one place. A row of the
    weight matrix belongs to a place in the window and a channel of the input, in the order of the image; the last row
    holds the biases.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 3.9)
    What a row's output, slopes and gradient are depends on that row and on public numbers alone, bit for bit.
    """

    inputs: tuple[int, ...]
    channels: int
    size: int

    def __post_init__(self) -> None:
        if len(self.inputs) != 3 or min(self.inputs) < 1 or self.channels < 1:
            raise ValueError(
                f"inputs={self.inputs!r} of a convolution must be (height, width, channels), and channels at least 1"
            )
        if not 1 <= self.size <= min(self.inputs[:2]):
            raise ValueError(f"size={self.size!r} of the windows must lie between 1 and {min(self.inputs[:2])}")
        if self._coarser_bits > SLOPE_BITS:
            raise ValueError(f"inputs={self.inputs!r} have too many places: at most 2**31 windows fit")

    @property
    def outputs(self) -> tuple[int, ...]:
        height, width, _ = self.inputs
        return height - self.size + 1, width - self.size + 1, self.channels

    @property
    def weight_shape(self) -> tuple[int, int]:
        return self.size * self.size * self.inputs[2] + 1, self.channels

    @property
    def fan_out(self) -> int:
        return self.size * self.size * self.channels

    @property
    def _n_windows(self) -> int:
        return self.outputs[0] * self.outputs[1]

    @property
    def _coarser_bits(self) -> int:
        """By how many bits slopes are rounded for gradients, so that sums over all windows are exact."""
        return max(0, SIGNAL_BITS + SLOPE_BITS + math.ceil(math.log2(self._n_windows)) - _EXACT_BITS)

    def largest_sums(self, W: Floats) -> float:
        size = np.abs(W)
        backward = size[:-1].reshape(-1, self.inputs[2], self.channels).sum(axis=(0, 2))  # a signal meets these at most
        return max(float(size.sum(axis=0).max()), float(backward.max()))

    def forward(self, signals: Floats, W: Floats) -> Floats:
        sums: Floats = self._windows(signals) @ W
        return sums.reshape(len(signals), *self.outputs)

    def backward(self, slopes: Floats, W: Floats) -> Floats:
        n, k, (height, width, channels) = len(slopes), self.size, self.inputs
        down, across, _ = self.outputs
        sums = _memory.empty(n, down, across, k, k * channels)
        np.dot(slopes.reshape(-1, self.channels), W[:-1].T, out=sums.reshape(-1, self.fan_in))
        strips = np.zeros((n, height, across, k * channels))  # every row of the image, still in pieces that overlap
        for i in range(k):
            strips[:, i : i + down] += sums[:, :, :, i]
        images = np.zeros((n, height, width, channels))
        for j in range(min(k, across)):  # pieces that do not overlap
            count = len(range(j, across, k))
            images[:, :, j : j + count * k].reshape(n, height, count, k * channels)[...] += strips[:, :, j::k]
        return images

    def row_gradients(self, signals: Floats, slopes: Floats) -> RowGradients:
        slopes = slopes.reshape(len(slopes), self._n_windows, self.channels)
        if self._coarser_bits:
            spacing = math.ldexp(1.0, self._coarser_bits)
            slopes = np.rint(slopes * (1 / spacing)) * spacing
        return FormedGradients(self._windows(signals).transpose(0, 2, 1) @ slopes)

    def _windows(self, signals: Floats) -> Floats:
        """Return the signals of every window and a constant: shape (n, windows, fan_in + 1), in memory of the thread.

        They lie in memory as they are copied fastest, window by window or place by place. Products accept both.
        """
        n, k, channels = len(signals), self.size, self.inputs[2]
        down, across, _ = self.outputs
        signals = np.ascontiguousarray(signals)
        row, line, place, channel = signals.strides
        if across > k * channels:
            found = _memory.empty(n, self.fan_in + 1, down * across)
            shape, strides = (n, k, k, channels, down, across), (row, line, place, channel, line, place)
            found[:, :-1].reshape(shape)[...] = np.ndarray(shape, buffer=signals, strides=strides)
            found = found.transpose(0, 2, 1)
        else:
            found = _memory.empty(n, down * across, self.fan_in + 1)
            shape, strides = (n, down, across, k, k, channels), (row, line, place, line, place, channel)
            found[..., :-1].reshape(shape)[...] = np.ndarray(shape, buffer=signals, strides=strides)
        found[..., -1] = ONE
        return found


class FormedGradients(RowGradients):
    """Gradients of some rows in steps, integers: shape (n, *weight_shape)."""

    def __init__(self, steps: Floats) -> None:
        self._steps = steps

    @property
    def squared_norms(self) -> Floats:
        step = SIGNAL_STEP * SLOPE_STEP
        norms: Floats = squared_norms(self._steps) * (step * step)
        return norms

    def total(self, factors: Floats, unit: float, weights: Floats | None) -> Integers:
        parts = self._sums(factors, unit, weights).astype(np.int64)
        return parts if weights is None else joined(parts[0], parts[1])

    def add_to(self, sums: Floats, factors: Floats, unit: float, weights: Floats | None) -> None:
        sums += self._sums(factors, unit, weights)

    def _sums(self, factors: Floats, unit: float, weights: Floats | None) -> Floats:
        """Return the total in floats, which are integers: with weights in two parts, of which the lower may be long."""
        parts = self._steps * (factors * (SIGNAL_STEP * SLOPE_STEP / unit))[:, None, None]
        np.trunc(parts, out=parts)
        if weights is None:
            total: Floats = parts.sum(axis=0)
            return total
        high = np.floor(parts * 0.5**SHARE_BITS)
        parts -= high * 2.0**SHARE_BITS
        return np.stack([np.tensordot(weights, high, axes=1), np.tensordot(weights, parts, axes=1)])
