"""Helpers of the checks: extreme data, and error messages."""

from collections.abc import Iterator
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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


def places(values: Array) -> Iterator[tuple[str, Array]]:
    """Yield copies of an array of one or two dimensions at other places in memory, which must not change a result."""
    for where, place in _rooms(values):
        place[...] = values
        yield where, place


def _rooms(like: Array) -> Iterator[tuple[str, Array]]:
    n, *columns = like.shape
    for address in (1, *range(8, 65, 8)):
        room = np.zeros(like.nbytes + address, dtype=np.uint8)[address:]
        yield f"{address} bytes on", room.view(like.dtype).reshape(like.shape)
    for step in (2, 3, 8, -1, -2, -5):
        yield f"at every {step}. place", np.zeros((abs(step) * n, *columns), like.dtype)[::step][:n]
    for order, step in product("CF", (1, 2, -1, -3) if columns else ()):
        wide = n, abs(step) * columns[0]
        across = (np.zeros(wide, like.dtype) if order == "C" else np.zeros(wide[::-1], like.dtype).T)[:, ::step]
        yield f"in order {order} at every {step}. column", across
        yield f"in order {order} at every {step}. column, the last row first", across[::-1]
