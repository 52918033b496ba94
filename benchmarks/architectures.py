"""The networks of Chen & Lee (2020), §5.7.

The text leaves kernels open. Those for MNIST are 5 x 5 without padding and pools are 2 x 2, as in LeNet: 28, 24, 12, 8,
4 pixels on a side. The six convolutions for CIFAR-10 are 3 x 3. Without padding they do not fit into 32 x 32 pixels
(32, 30, 28, 14, 12, 10, 5, 3, 1), so that images get a public margin of zeros, six pixels wide: 44, 42, 40, 20, 18, 16,
8, 6, 4, 2. Activations are not in the text either; they are ReLU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .inside import Convolution, Dense, MaxPooling, Network

POOL = "pool"
MLPS: dict[str, tuple[int, ...]] = {"mnist": (1000,), "fashion_mnist": (256, 256)}
CNN: tuple[int | str, ...] = (6, POOL, 16, POOL)
CNN_DENSE = (256, 128)
CIFAR: tuple[int | str, ...] = (32, 64, POOL, 128, 128, POOL, 256, 256, POOL)
CIFAR_DENSE = (4096, 1024, 512)
CIFAR_SHAPE, MARGIN = (32, 32, 3), 6
CLASSES = 10


def dense(inputs: int, widths: Sequence[int]) -> list[Any]:
    """Return dense layers of these widths, the last one with an output for every class."""
    layers = []
    for width in (*widths, CLASSES):
        layers.append(Dense((inputs,), width))
        inputs = width
    return layers


def convolutions(shape: tuple[int, int, int], channels: Sequence[int | str], size: int) -> list[Any]:
    """Return convolutions with so many channels and so large kernels, and pools between them."""
    layers: list[Any] = []
    for channel in channels:
        layer = MaxPooling(shape, 2) if channel == POOL else Convolution(shape, channel, size)
        layers.append(layer)
        shape = layer.outputs
    return layers


def network_of(dataset: str, kind: str) -> Network:
    """Return the paper's MLP or CNN for images of 28 x 28 pixels."""
    if kind == "MLP":
        return Network(tuple(dense(28 * 28, MLPS[dataset])), "relu")
    layers = convolutions((28, 28, 1), CNN, 5)
    return Network((*layers, *dense(math.prod(layers[-1].outputs), CNN_DENSE)), "relu")


def cifar_network() -> Network:
    """Return the paper's CNN for CIFAR-10, on images with their margin."""
    height, width, depth = CIFAR_SHAPE
    layers = convolutions((height + 2 * MARGIN, width + 2 * MARGIN, depth), CIFAR, 3)
    return Network((*layers, *dense(math.prod(layers[-1].outputs), CIFAR_DENSE)), "relu")


def with_margin(images: np.ndarray) -> np.ndarray:
    """Return images of shape (n, 32, 32, 3) with their margin of zeros, each as a row."""
    sides = (MARGIN, MARGIN)
    return np.pad(images, ((0, 0), sides, sides, (0, 0))).reshape(len(images), -1)


def made_images(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images in the shape of CIFAR-10, with pixels from -1 to 1, and labels: gratings of ten directions."""
    rng = np.random.default_rng(seed)
    height, width, depth = CIFAR_SHAPE
    y = rng.integers(CLASSES, size=n)
    angle, phase = np.pi * y / CLASSES, rng.uniform(0, 2 * np.pi, n)
    rows, columns = np.mgrid[:height, :width]
    waves = np.cos(angle)[:, None, None] * columns + np.sin(angle)[:, None, None] * rows
    grating = np.cos(0.8 * waves + phase[:, None, None])[..., None]
    images = 0.6 * grating * rng.uniform(0.3, 1, (n, 1, 1, depth)) + 0.2 * rng.normal(size=(n, height, width, depth))
    return np.clip(images, -1, 1).astype(np.float32), y
