"""Conformance of a query."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data import ArrayRows, Query, RowMap, Rows, Statistic
from ..data.grid import SHARE_BITS
from ..data.persons import Persons
from ..data.weights import ONE, Weights, finer_sensitivity, kept_bits, on_finer_grid
from ..mechanisms.mechanism import Sensitivity
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
        for adjacency, change in changes.items():
            largest = max(largest, _part_of_promise(query.label, query.sensitivity(adjacency), adjacency, change))
    return largest


def check_weights(
    query: Query,
    *,
    n_features: int,
    n_classes: int | None = None,
    make_rows: Callable[[Any, Array, Weights], Rows] | None = None,
    trials: int = 30,
    seed: int = 0,
) -> float:
    """Check that a query counts rows by their weights, and delete and replace whole persons with heavy-tailed rows.

    ``make_rows(X, y, weights)`` builds the rows that the query is for, where these are not plain ArrayRows.

    Returns the largest fraction of the promised l2 sensitivity that a person reached.
    """
    rng, how = np.random.default_rng(seed), RowMap(n_classes=n_classes)
    require(query.weighed, f"{query.label}: it does not say that it counts rows by their weights (weighed)")
    largest = 0.0

    def parts_of(X: Array, y: Array, weights: Weights, units: Array) -> Array:
        matrix = sp.csr_matrix(X) if rng.random() < 0.5 else X
        rows = ArrayRows(matrix, y, how, weights) if make_rows is None else make_rows(matrix, y, weights)
        with np.errstate(all="ignore"):
            return query.over(rows.subset(units), SeededBits(seed))

    for _ in range(trials):
        sizes = np.array([rng.integers(1, 40), 1, rng.integers(1, 5), 1])
        codes = rng.permutation(np.repeat(np.arange(4), sizes))
        persons, n = Persons(codes.astype(np.int32), 4), len(codes)
        X, y, mine = heavy_tailed(n, n_features, rng), random_labels(n_classes, n, rng), codes == 0
        if rng.random() < 0.5:  # one row many times: as much as one person can add
            X[mine], y[mine] = rng.choice([-1.0, 1.0], n_features), y[mine][0]
        single = Weights(np.full(n, ONE, dtype=np.int32))
        by_row = [parts_of(X, y, single, np.array([i])) for i in range(n)]
        expected = sum(int(k) * _exact(parts) >> SHARE_BITS for k, parts in zip(persons.weights, by_row, strict=True))
        weights = Weights(persons.weights, persons)
        whole, without = (parts_of(X, y, weights, units) for units in (np.arange(4), np.array([1, 2, 3])))
        require((_exact(whole) == expected).all(), f"{query.label}: the sum is not that of rows times their weights")
        other = np.where(mine[:, None], -X if rng.random() < 0.5 else heavy_tailed(n, n_features, rng), X)
        replaced = parts_of(other, np.where(mine, random_labels(n_classes, n, rng), y), weights, np.arange(4))
        for adjacency, less in (("zero-out", without), ("replace", replaced)):
            promised = query.sensitivity(adjacency)
            bits = kept_bits(promised)
            change = on_finer_grid(whole, bits) - on_finer_grid(less, bits)
            finer = finer_sensitivity(promised, bits, change.size)
            largest = max(largest, _part_of_promise(query.label, finer, adjacency, change))
    return largest


def _exact(parts: Array) -> Array:
    """Return a sum in two parts as Python's integers."""
    exact: Array = parts[0].astype(object) * ONE + parts[1].astype(object)
    return exact


def _part_of_promise(label: str, promised: Sensitivity, adjacency: str, change: Array) -> float:
    """Check the promise for one change of a sum; return which fraction of the promised l2 norm it has."""
    # in Python's integers, and the l2 norm by its square: a promise has to hold after every rounding
    steps = [abs(int(entry)) for entry in change.ravel()]
    square = sum(step**2 for step in steps)
    finite = math.isfinite(promised.l2)
    for norm, size, holds in (
        ("l1", sum(steps), sum(steps) <= promised.l1),
        ("l2", math.sqrt(square), not finite or square <= Fraction(promised.l2) ** 2),
        ("linf", max(steps), max(steps) <= promised.linf),
    ):
        moved = f"{label}: one unit moved the sum by {size} in {norm}"
        require(holds, f"{moved}, promised {getattr(promised, norm)} ({adjacency})")
    require(
        not promised.monotone or (change >= 0).all() or (change <= 0).all(),
        f"{label}: promised monotone under {adjacency}, but one unit moved entries both ways",
    )
    return math.sqrt(square) / promised.l2 if finite else 0.0
