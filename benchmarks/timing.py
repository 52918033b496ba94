"""Time in multiples of a floor: things are timed in turn in one process, so that what slows one slows the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

__all__ = ["growth", "in_turn", "median", "products", "seconds", "times_as_long"]

Work = Callable[[], object]


def seconds(work: Work, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def in_turn(works: Sequence[Work], repeats: int, clock: Callable[[], float] = time.perf_counter) -> np.ndarray:
    """Return the seconds of each work, one row per round; a first round, which pays for memory, is not counted."""
    return np.array([[seconds(work, clock) for work in works] for _ in range(repeats + 1)])[1:]


def median(work: Work, repeats: int = 9) -> float:
    return float(np.median(in_turn([work], repeats)))


def times_as_long(tested: Sequence[float], floors: Sequence[float]) -> float:
    """Return the median ratio of times to the floors beside them."""
    return float(np.median(np.array(tested) / np.array(floors)))


def products(stored, columns: int = 1) -> float:
    """Return the seconds of X @ w and X.T @ r, which no gradient does without."""
    rng = np.random.default_rng(0)
    n, d = stored.shape
    w, r = (rng.normal(size=(size, columns)).squeeze() for size in (d, n))
    return median(lambda: (stored @ w, stored.T @ r))


def growth(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """Return the slope of log time over log size by least squares, and the steepest one between neighbouring sizes.

    Sizes are in order. A cost that is quadratic but small shows in the second number first: at the largest sizes.
    """
    x, y = np.log(sizes), np.log(times)
    across = x - x.mean()
    return float(across @ y / (across @ across)), float((np.diff(y) / np.diff(x)).max())


def csr_bytes(matrix: sp.csr_matrix) -> int:
    return matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
