"""How long a fit of ``DPLogisticRegression`` by gradient descent takes, in multiples of its own bare products.

The floor is one X @ w and one X.T @ r for every gradient it releases, in the storage it keeps (CSR where fewer than
30 % of the entries are not zero, otherwise columns first). Fit and floor are timed in turn in one process with one BLAS
thread; the fit is everything ``fit`` does: validation, ranges, moments, rounding, noise and accounting included.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression

from ..experiment import write
from ..folds import cached
from ..table import Table
from ..timing import products, seconds, times_as_long

CASES = {
    ("adult", (0, 1)): 7,
    ("adult", None): 7,
    ("bank", (0, 1)): 7,
    ("ipums_br", (0, 1)): 7,
    ("covtype", (0, 1)): 3,
    ("covtype", None): 3,
    ("kddcup99", (0, 1)): 3,
    ("mnist", (0, 1)): 1,
}


def measure(folder: Path | None, data: str, bounds: str) -> list[str]:
    X, y = cached(data, folder)
    n, d = X.shape
    sparse = sp.issparse(X) or np.count_nonzero(X) < 0.3 * X.size
    stored = sp.csr_matrix(X) if sparse else np.asfortranarray(X)
    classes = len(np.unique(y))
    ranges = None if bounds == "none" else (0, 1)
    times, floors = [], []
    with threadpool_limits(1):
        for _ in range(CASES[data, ranges]):
            bare = products(stored, 1 if classes == 2 else classes)
            model = DPLogisticRegression(bounds=ranges, solver="gradient-descent")
            times.append(seconds(lambda model=model: model.fit(X, y)))
            steps = sum(r.count for r in model.privacy_spent_.releases if r.label == "gradient")
            floors.append(steps * bare)
    medians = (f"{np.median(values):.2f}" for values in (times, floors))
    return [f"{n:,} x {d}", "CSR" if sparse else "dense", steps, *medians, f"{times_as_long(times, floors):.2f}"]


FIELDS = ("rows x columns", "storage", "steps", "fit, s", "floor, s", "ratio")
TABLE = Table("speed_default", ("data", "bounds"), FIELDS, measure)


def report() -> None:
    fields = ("data", "rows x columns", "storage", "bounds", *FIELDS[2:])
    write("speed_default", table=TABLE.rows().markdown(fields), machine=TABLE.machine())


def keys(repeats: None) -> list[tuple]:
    return [(data, "none" if bounds is None else bounds) for data, bounds in CASES]
