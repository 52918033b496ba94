"""How long fits take on the same rows in memory and memory-mapped, and whether time is linear in the rows.

Every model is fitted to the same numbers, which single precision holds, in every storage: rows first, columns first,
single precision, and a file that is memory-mapped (half as many bytes again go to the folder for temporary files). CSR
has numbers of its own, of which a tenth is not zero. Fits of one shape are made in turn, under one seed, so that all
dense storages must give the same bits: the run ends with an error where they do not.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from dpsk import DPAGDLogisticRegression, DPLogisticRegression, ObjectivePerturbationClassifier

from ..experiment import write
from ..table import Table, markdown
from ..timing import seconds

KNOWN = {"delta": 1e-8, "random_state": 0, "bounds": (-4, 4)}
MODELS = {
    "default, by gradient descent": DPLogisticRegression(delta=1e-8, random_state=0, solver="gradient-descent"),
    "DP-AGD": DPAGDLogisticRegression(**KNOWN),
    "DP-AGD, batches": DPAGDLogisticRegression(**KNOWN, batch_size=2000),
    "objective perturbation": ObjectivePerturbationClassifier(**KNOWN),
}
GRADIENTS, *_ = MODELS
CASES = (
    *product(MODELS, [100_000, 200_000], [120], [2]),
    *((name, 400_000, 120, 2) for name in MODELS if name != "DP-AGD"),
    (GRADIENTS, 400_000, 12, 2),
    (GRADIENTS, 20_000, 600, 2),
    (GRADIENTS, 20_000, 120, 5),
)
DENSE = ("rows first", "columns first", "float32", "memory-mapped")
STORAGES = (*DENSE, "CSR")
AIM = 1.2
REPEATS = 2  # the first fit of a process pays for its memory


@lru_cache(maxsize=1)
def problem(n: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.clip(np.random.default_rng(0).normal(size=(n, d)), -4, 4).astype(np.float32)
    noisy = X[:, 0] + np.random.default_rng(1).normal(size=n)
    return X, np.digitize(noisy, np.quantile(noisy, np.arange(1, classes) / classes))


def storages(X: np.ndarray, folder: Path) -> Iterator[tuple[str, object]]:
    """Yield these numbers of single precision in one storage after the other."""
    yield "rows first", X.astype(np.float64)
    yield "columns first", X.astype(np.float64, order="F")
    yield "float32", X
    np.save(folder / "rows.npy", X.astype(np.float64))
    yield "memory-mapped", np.load(folder / "rows.npy", mmap_mode="r")
    yield "CSR", sp.random(*X.shape, 0.1, format="csr", random_state=0)


def measure(folder: Path | None, name: str, n: int, d: int, classes: int) -> list[str]:
    """Return the seconds by storage."""
    X, y = problem(n, d, classes)
    with tempfile.TemporaryDirectory(dir=folder) as made, threadpool_limits(1):
        kept = dict(storages(X, Path(made)))
        times, bits = dict.fromkeys(kept, np.inf), set()
        for _, (storage, rows) in product(range(REPEATS), kept.items()):
            model = clone(MODELS[name])
            times[storage] = min(times[storage], seconds(partial(model.fit, rows, y), time.process_time))
            if storage in DENSE:
                bits.add(model.coef_.tobytes())
    if len(bits) > 1:
        raise SystemExit(f"{name} gave {len(bits)} different results for the same rows")
    ratio = max(times[storage] for storage in DENSE[:3]) / times["memory-mapped"]
    half = TABLE.rows().where(model=name, rows=n // 2, columns=d)
    grown = [f"{times[storage] / float(half[0][storage]):.1f}" if half else "" for storage in STORAGES]
    return [*(f"{times[storage]:.2f}" for storage in STORAGES), f"{ratio:.2f}", *grown]


GROWN = tuple(f"{storage}, times that of half" for storage in STORAGES)
TABLE = Table("storages", ("model", "rows", "columns", "classes"), (*STORAGES, "ratio", *GROWN), measure)


def report() -> None:
    lines = []
    for row in TABLE.rows():
        times = (row[s] + (f" ({row[grown]})" if row[grown] else "") for s, grown in zip(STORAGES, GROWN, strict=True))
        lines.append([row["model"], f"{int(row['rows']):,} x {row['columns']}", row["classes"], *times, row["ratio"]])
    table = markdown(["model", "rows x columns", "classes", *STORAGES, "ratio"], lines)
    above = sum(float(row["ratio"]) > AIM for row in TABLE.rows())
    write("storages", table=table, machine=TABLE.machine(), aim=AIM, above=above, lines=len(lines))


def keys(repeats: None):
    return CASES
