"""What it costs that a prediction depends on its own row alone, beside predictions by one matrix product.

Both models have the same weights. The other one is scikit-learn's ``LogisticRegression``: validation, one matrix
product, labels. Where the private model has ranges, the entries are clipped to them before the product as well.
They are timed in turn, in processor time, with one BLAS thread; the best of several repeats counts.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression

from ..experiment import write
from ..table import Table
from ..timing import in_turn

SHAPES = ((1, 20), (1_000, 20), (100_000, 20), (400_000, 20), (50_000, 109), (200_000, 109), (20_000, 1_000))
STORAGES = {
    "rows first": np.ascontiguousarray,
    "columns first": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "CSR, a tenth": lambda X: sp.csr_matrix(np.where(np.random.default_rng(1).random(X.shape) < 0.1, X, 0)),
}


def models(d: int, n_classes: int, ranges: bool) -> tuple[DPLogisticRegression, LogisticRegression]:
    """Return a private and a plain model with the same random weights."""
    rng = np.random.default_rng(0)
    private, plain = DPLogisticRegression(), LogisticRegression()
    for model in (private, plain):
        model.classes_, model.n_features_in_ = np.arange(n_classes), d
        model.coef_ = rng.normal(size=(1 if n_classes == 2 else n_classes, d))
        model.intercept_ = np.zeros(len(model.coef_))
    private.ranges_ = np.array([np.full(d, -3.0), np.full(d, 3.0)]) if ranges else None
    private.data_norm_ = None
    return private, plain


def clipped(X):
    """Return the table with its entries brought within the ranges."""
    if not sp.issparse(X):
        return np.clip(X, np.full(X.shape[1], -3.0), np.full(X.shape[1], 3.0))
    X = X.copy()
    X.data = np.clip(X.data, -3.0, 3.0)
    return X


def ratio(X, n_classes: int, ranges: bool, repeats: int) -> float:
    """Return how many times longer the private prediction takes."""
    private, plain = models(X.shape[1], n_classes, ranges)
    ways = (lambda: private.predict(X)), (lambda: plain.predict(clipped(X) if ranges else X))
    mine, bare = in_turn(ways, repeats, time.process_time).min(axis=0)
    return float(mine / bare)


def measure(folder: Path | None, shape: str, n_classes: int) -> list[str]:
    n, d = (int(size.replace(",", "")) for size in shape.split(" x "))
    X, repeats = np.random.default_rng(0).normal(size=(n, d)), 200 if n == 1 else 7
    with threadpool_limits(1):
        return [f"{ratio(s(X), n_classes, r, repeats):.2f}" for s in STORAGES.values() for r in (True, False)]


FIELDS = tuple(f"{name}, {ranges}" for name in STORAGES for ranges in ("ranges", "none"))
TABLE = Table("predictions", ("rows x columns", "classes"), FIELDS, measure)


def keys(repeats: None) -> list[tuple]:
    return [(f"{n:,} x {d:,}", classes) for n, d in SHAPES for classes in (2, 10)]


def report() -> None:
    write("predictions", table=TABLE.rows().markdown(), machine=TABLE.machine())
