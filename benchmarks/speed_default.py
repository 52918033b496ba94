"""How long a fit of ``DPLogisticRegression`` by gradient descent takes, in multiples of its own bare products.

    python -m benchmarks.speed_default --data DIR [--write]

The floor is one X @ w and one X.T @ r for every gradient it releases, in the storage it keeps (CSR where fewer than
30 % of the entries are not zero, otherwise columns first). Fit and floor are timed in turn in one process with one BLAS
thread; the fit is everything ``fit`` does: validation, ranges, moments, rounding, noise and accounting included.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression

from .datasets import load
from .speed import median

RESULTS = Path(__file__).parent / "results"
CASES = (
    ("adult", (0, 1), 7),
    ("adult", None, 7),
    ("bank", (0, 1), 7),
    ("ipums_br", (0, 1), 7),
    ("covtype", (0, 1), 3),
    ("covtype", None, 3),
    ("kddcup99", (0, 1), 3),
    ("mnist", (0, 1), 1),
)


def floor(stored, classes: int) -> float:
    """Return the seconds of the two products of one gradient."""
    rng = np.random.default_rng(0)
    n, d = stored.shape
    w, r = (rng.normal(size=(size, classes)).squeeze() for size in (d, n))
    return median(lambda: (stored @ w, stored.T @ r))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results/speed_default.md")
    options = parser.parse_args()
    lines = [
        "# Speed of DPLogisticRegression by gradient descent",
        "",
        "Made by `python -m benchmarks.speed_default --data DIR --write`: epsilon = 1, delta = 1e-6, medians, one BLAS",
        "thread. The floor is the bare products X @ w and X.T @ r of every step, in the storage the fit keeps.",
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}.",
        "",
        "| data | rows x columns | storage | bounds | steps | fit, s | floor, s | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    with threadpool_limits(1):
        for name, bounds, repeats in CASES:
            X, y = load(name, options.data)
            n, d = X.shape
            sparse = sp.issparse(X) or np.count_nonzero(X) < 0.3 * X.size
            stored = sp.csr_matrix(X) if sparse else np.asfortranarray(X)
            classes = len(np.unique(y))
            seconds, floors = [], []
            for _ in range(repeats):
                products = floor(stored, 1 if classes == 2 else classes)
                start = time.perf_counter()
                model = DPLogisticRegression(bounds=bounds, solver="gradient-descent").fit(X, y)
                seconds.append(time.perf_counter() - start)
                (steps,) = (r.count for r in model.privacy_spent_.releases if r.label == "gradient")
                floors.append(steps * products)
            ratio = np.median(np.array(seconds) / np.array(floors))
            lines.append(
                f"| {name} | {n:,} x {d} | {'CSR' if sparse else 'dense'} | {'none' if bounds is None else bounds} | "
                f"{steps} | {np.median(seconds):.2f} | {np.median(floors):.2f} | {ratio:.2f} |"
            )
            print(lines[-1], flush=True)
    if options.write:
        (RESULTS / "speed_default.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
