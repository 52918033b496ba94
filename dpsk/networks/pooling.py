"""Layers that keep the largest of neighbouring values."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..mechanisms.samplers import Floats
from .layer import Unweighted


@dataclass(frozen=True)
class MaxPooling(Unweighted):
    """The largest value of every block of ``size`` times ``size`` places of an image, channel by channel.

    Blocks do not overlap. Rows and columns of the image that do not fill a block are dropped. Of equal values the first
    column that has one is taken, and its first row: the slope of a block goes there, and to no other place
    (docs/guarantees.md, 3.9).
    """

    inputs: tuple[int, ...]
    size: int

    def __post_init__(self) -> None:
        if len(self.inputs) != 3 or min(self.inputs) < 1:
            raise ValueError(f"inputs={self.inputs!r} of pooling must be (height, width, channels)")
        if not 1 <= self.size <= min(self.inputs[:2]):
            raise ValueError(f"size={self.size!r} of the blocks must lie between 1 and {min(self.inputs[:2])}")

    @property
    def outputs(self) -> tuple[int, ...]:
        height, width, channels = self.inputs
        return height // self.size, width // self.size, channels

    def forward(self, values: Floats) -> tuple[Floats, Any]:
        n, k, (height, width, channels) = len(values), self.size, self.outputs
        blocks = values[:, : height * k, : width * k].reshape(n, height, k, width * k, channels)
        columns, rows_known = _largest([blocks[:, :, i] for i in range(k)])
        pieces = columns.reshape(n, height, width, k, channels)
        largest, columns_known = _largest([pieces[:, :, :, j] for j in range(k)])
        return largest, (rows_known, columns_known)

    def backward(self, slopes: Floats, known: Any) -> Floats:
        n, k, (height, width, channels) = len(slopes), self.size, self.outputs
        rows_known, columns_known = known
        pieces = np.empty((n, height, width, k, channels))
        _to_largest(slopes, columns_known, [pieces[:, :, :, j] for j in range(k)])
        fits = self.inputs[:2] == (height * k, width * k)
        images = (np.empty if fits else np.zeros)((n, *self.inputs))
        blocks = images[:, : height * k, : width * k].reshape(n, height, k, width * k, channels)
        columns = pieces.reshape(n, height, width * k, channels)
        _to_largest(columns, rows_known, [blocks[:, :, i] for i in range(k)])
        return images


def _largest(parts: list[Floats]) -> tuple[Floats, list[Any]]:
    """Return the largest of several arrays entry by entry, and for all but the first where it beats all before."""
    largest, known = parts[0], list[Any]()
    for part in parts[1:]:
        known.append(part > largest)
        largest = np.maximum(largest, part)
    return largest, known


def _to_largest(slopes: Floats, known: list[Any], parts: list[Floats]) -> None:
    """Write slopes into the array that had the largest entry, and 0 into the others."""
    for part, beats in zip(parts[:0:-1], known[::-1], strict=True):
        np.multiply(slopes, beats, out=part)
        slopes = slopes - part
    parts[0][...] = slopes
