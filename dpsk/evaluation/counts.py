"""Counts that add up, from noisy ones of several levels."""

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats


def on_simplex(counts: Floats, total: float) -> Floats:
    """Return the nearest counts that are not negative and add up to ``total``."""
    flat = counts.ravel()
    if total <= 0:
        return np.zeros(counts.shape)
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(flat) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    nearest: Floats = np.maximum(counts - excess[last], 0.0)
    return nearest


def number_right(
    accuracy: Floats, scale: float, cells: Floats, right: NDArray[np.bool_], cell_scale: float, n: float
) -> float:
    """Return how many of ``n`` are right: the most precise mean of two estimates, from two levels.

    ``accuracy`` counts the wrong and the right ones, and ``cells`` are right where ``right`` is true. Both levels count
    all n, so each estimate uses the wrong ones, too.
    """
    of_two = (n + accuracy[1] - accuracy[0]) / 2, scale**2
    of_cells = (n + cells[right].sum() - cells[~right].sum()) / 2, cells.size * cell_scale**2 / 2
    (one, variance), (other, another) = of_two, of_cells
    return float(np.clip((one * another + other * variance) / (variance + another), 0.0, n))


def consistent(cells: Floats, right: NDArray[np.bool_], n_right: float, n: float) -> Floats:
    """Return the nearest counts that are not negative, of which ``n_right`` are right, and ``n`` are there."""
    counts = np.zeros(cells.shape)
    for some, total in ((right, n_right), (~right, n - n_right)):
        if some.any():
            counts[some] = on_simplex(cells[some], total)
    return counts
