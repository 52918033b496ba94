"""What it costs that a prediction depends on its own row alone, beside predictions by one matrix product.

    python -m benchmarks run predictions [--write]

Both models have the same weights. The other one is scikit-learn's ``LogisticRegression``: validation, one matrix
product, labels. Where the private model has ranges, the entries are clipped to them before the product as well.
They are timed in turn, in processor time, with one BLAS thread; the best of several repeats counts.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression

RESULTS = Path(__file__).parent / "results"
SHAPES = ((1, 20), (1_000, 20), (100_000, 20), (400_000, 20), (50_000, 109), (200_000, 109), (20_000, 1_000))
STORAGES = {
    "rows first": np.ascontiguousarray,
    "columns first": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "CSR, a tenth": lambda X: sp.csr_matrix(np.where(np.random.default_rng(1).random(X.shape) < 0.1, X, 0)),
}
HEADER = [
    "| rows x columns | classes | "
    + " | ".join(f"{name}, {ranges}" for name in STORAGES for ranges in ("ranges", "none"))
    + " |",
    "|---" * (2 + 2 * len(STORAGES)) + "|",
]


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
    ways = [lambda: private.predict(X), (lambda: plain.predict(clipped(X))) if ranges else (lambda: plain.predict(X))]
    best = [np.inf, np.inf]
    for _ in range(repeats):
        for which, way in enumerate(ways):
            start = time.process_time()
            way()
            best[which] = min(best[which], time.process_time() - start)
    return best[0] / best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results/predictions.md")
    options = parser.parse_args()
    lines = [
        "# Time of predictions",
        "",
        "Made by `python -m benchmarks run predictions --write`: the time of `predict` in multiples of scikit-learn's",
        "`LogisticRegression.predict` with the same weights (after clipping, where the private model has ranges).",
        'Models with `bounds` or `standardize="private"` have ranges, and so has the default.',
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}.",
        "",
        *HEADER,
    ]
    print("\n".join(lines))
    with threadpool_limits(1):
        for n, d in SHAPES:
            X = np.random.default_rng(0).normal(size=(n, d))
            for n_classes in (2, 10):
                repeats = 200 if n == 1 else 7
                cells = [
                    f"{ratio(store(X), n_classes, ranges, repeats):.2f}"
                    for store in STORAGES.values()
                    for ranges in (True, False)
                ]
                lines.append(f"| {n:,} x {d:,} | {n_classes} | " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
    if options.write:
        (RESULTS / "predictions.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
