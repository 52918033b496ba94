"""Conformance of a query."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data import ArrayRows, RowMap, Rows, Statistic
from ..mechanisms.randomness import SeededBits
from .common import Array, heavy_tailed, random_labels, require


def check_query(
    query: Statistic,
    *,
    n_features: int,
    n_classes: int | None = None,
    fit_intercept: bool = True,
    data_norm: float | None = None,
    make_rows: Callable[[Any, Array], Rows] | None = None,
    trials: int = 100,
    seed: int = 0,
) -> float:
    """Delete and replace heavy-tailed rows and check the promised norms under both adjacencies.

    ``make_rows(X, y)`` builds the rows that the query is for, from a dense array or a CSR matrix, where these are not
    plain ArrayRows.

    Returns the largest fraction of the promised l2 sensitivity that was reached: far below 1 means a loose bound.
    """
    rng = np.random.default_rng(seed)
    largest = 0.0
    how = RowMap(n_classes=n_classes, fit_intercept=fit_intercept, data_norm=data_norm)

    def total(X: Array, y: Array) -> Array:
        matrix = sp.csr_matrix(X) if rng.random() < 0.5 else X
        rows = ArrayRows(matrix, y, how) if make_rows is None else make_rows(matrix, y)
        with np.errstate(all="ignore"):  # as PrivateData.measure does
            result = query.over(rows, SeededBits(seed))
        require(result.dtype == np.int64, f"{query.label}: a query must return 64-bit integers")
        return result

    for _ in range(trials):
        n = int(rng.integers(2, 20))
        X, y = heavy_tailed(n, n_features, rng), random_labels(n_classes, n, rng)
        X[0] = heavy_tailed(1, n_features, rng)[0] if rng.random() < 0.5 else rng.choice([-1.0, 1.0], n_features)
        other_X, other_y = X.copy(), y.copy()
        other_X[0] = -X[0] if rng.random() < 0.5 else heavy_tailed(1, n_features, rng)[0]
        other_y[0] = random_labels(n_classes, 1, rng)[0]
        whole = total(X, y)
        changes = {"zero-out": whole - total(X[1:], y[1:]), "replace": whole - total(other_X, other_y)}
        largest = max(largest, *(_part_of_promise(query, *change) for change in changes.items()))
    return largest


def _part_of_promise(query: Statistic, adjacency: str, change: Array) -> float:
    """Check the promise for one change of a sum; return which fraction of the promised l2 norm it has."""
    promised = query.sensitivity(adjacency)
    # in Python's integers, and the l2 norm by its square: a promise has to hold after every rounding
    steps = [abs(int(entry)) for entry in change.ravel()]
    square = sum(step**2 for step in steps)
    finite = math.isfinite(promised.l2)
    for norm, size, holds in (
        ("l1", sum(steps), sum(steps) <= promised.l1),
        ("l2", math.sqrt(square), not finite or square <= Fraction(promised.l2) ** 2),
        ("linf", max(steps), max(steps) <= promised.linf),
    ):
        moved = f"{query.label}: one row moved the sum by {size} in {norm}"
        require(holds, f"{moved}, promised {getattr(promised, norm)} ({adjacency})")
    require(
        not promised.monotone or (change >= 0).all() or (change <= 0).all(),
        f"{query.label}: promised monotone under {adjacency}, but one row moved entries both ways",
    )
    return math.sqrt(square) / promised.l2 if finite else 0.0
