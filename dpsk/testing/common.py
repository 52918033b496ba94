"""What the checks share: data to provoke with, and how they complain."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["ERROR_PROBABILITY", "Array", "heavy_tailed", "random_labels", "require"]

Array: TypeAlias = NDArray[Any]


ERROR_PROBABILITY = 1e-9
"""How often a comparison of a correct mechanism may fail by chance."""


def require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def random_labels(n_classes: int | None, n: int, rng: np.random.Generator) -> Array:
    return rng.choice([-1.0, 1.0], n) if n_classes is None else rng.integers(n_classes, size=n)


def heavy_tailed(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return rows over thirty orders of magnitude, some sparse, some zero, some with one huge entry."""
    x = rng.standard_t(1, (n, d)) * 10.0 ** rng.uniform(-15, 15, (n, 1))
    x[rng.random((n, d)) < 0.3] = 0
    x[rng.random(n) < 0.05] = 0
    huge = rng.random(n) < 0.1
    x[huge, rng.integers(d, size=huge.sum())] = 1e300
    return x
