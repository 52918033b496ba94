"""Networks for images before the data are known: convolutions, pooling, and dense layers behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

from .convolution import Convolution
from .dense import Dense
from .layer import Layer
from .network import Network
from .pooling import MaxPooling


def require_shape(name: str, value: Any) -> None:
    """Raise ValueError unless this is the shape of an image."""
    shape = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    whole = all(not isinstance(number, bool) and isinstance(number, Integral) and int(number) >= 1 for number in shape)
    if len(shape) not in (2, 3) or not whole:
        raise ValueError(
            f"{name}={value!r} must be (height, width) or (height, width, channels), integers >= 1, such as (28, 28)"
        )
    if len(shape) == 3 and shape[0] in (1, 3) and shape[1] == shape[2] > 4:
        raise ValueError(
            f"{name}={value!r} looks like channels first: a row holds the pixels line by line, the channels of a pixel "
            f"side by side. Move the axis of channels to the end, and give {name}={(*shape[1:], shape[0])!r}"
        )


@dataclass(frozen=True)
class ConvolutionalLayers:
    """Convolutions of these channels, each with max pooling, and dense layers: a function of the numbers of inputs
    and outputs. ``image_shape`` is None for square images of one channel.
    """

    image_shape: tuple[int, ...] | None
    channels: tuple[int, ...]
    kernel_size: int
    pool_size: int
    hidden_layer_sizes: tuple[int, ...]
    activation: str = "relu"

    def require(self) -> None:
        """Raise ValueError if images of a shape that is known are too small for the layers."""
        if self.image_shape is not None:
            self(math.prod(self.image_shape), 1)

    def __call__(self, n_inputs: int, n_outputs: int) -> Network:
        layers = list[Layer]()
        shape: tuple[int, ...] = self._shape(n_inputs)
        for i, channels in enumerate(self.channels):
            if min(shape[:2]) < self.kernel_size:
                raise self._too_small(f"convolution {i + 1} has windows of {self.kernel_size} pixels", shape)
            layers.append(Convolution(shape, channels, self.kernel_size))
            shape = layers[-1].outputs
            if self.pool_size > 1:
                if min(shape[:2]) < self.pool_size:
                    raise self._too_small(f"pooling {i + 1} has windows of {self.pool_size} pixels", shape)
                layers.append(MaxPooling(shape, self.pool_size))
                shape = layers[-1].outputs
        sizes = [math.prod(shape), *self.hidden_layer_sizes, n_outputs]
        layers += [Dense((a,), b) for a, b in pairwise(sizes)]
        return Network(tuple(layers), self.activation)

    def _shape(self, n_inputs: int) -> tuple[int, int, int]:
        """Return the shape of images of so many columns."""
        if self.image_shape is None:
            side = math.isqrt(n_inputs)
            if side * side != n_inputs:
                raise ValueError(
                    f"X has {n_inputs} columns, which are no square image of one channel: give image_shape=(height, "
                    "width) or (height, width, channels)"
                )
            return side, side, 1
        if math.prod(self.image_shape) != n_inputs:
            raise ValueError(
                f"image_shape={self.image_shape!r} has {math.prod(self.image_shape)} numbers, but X has {n_inputs} "
                "columns: a row holds the pixels line by line, the channels of a pixel side by side"
            )
        height, width, *channels = self.image_shape
        return height, width, *(channels or [1])  # type: ignore[return-value]

    def _too_small(self, what: str, shape: Sequence[int]) -> ValueError:
        return ValueError(
            f"images are too small for channels={self.channels!r}: {what}, but what reaches it has "
            f"{shape[0]} x {shape[1]}. Use fewer convolutions, a smaller kernel_size or pool_size, or larger images"
        )
