"""How long fits take on the same rows in memory and memory-mapped, and whether time is linear in the rows.

    python -m benchmarks run storages [--folder DIR] [--write]

Every model is fitted to the same numbers, which single precision holds, in every storage: rows first, columns first,
single precision, and a file that is memory-mapped (half as many bytes again go to the folder for temporary files). CSR
has numbers of its own, of which a tenth is not zero. Fits of one shape are made in turn, under one seed, so that all
dense storages must give the same bits: the script ends with an error where they do not. Time is processor time, the
least of two fits (one of 400,000 x 120), with one BLAS thread; it is all that ``fit`` does.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from dpsk import DPAGDLogisticRegression, DPLogisticRegression, ObjectivePerturbationClassifier

RESULTS = Path(__file__).parent / "results"
GRADIENTS = "default, by gradient descent"
MODELS = {
    GRADIENTS: DPLogisticRegression(delta=1e-8, random_state=0, solver="gradient-descent"),
    "DP-AGD": DPAGDLogisticRegression(delta=1e-8, random_state=0, bounds=(-4, 4)),
    "DP-AGD, batches": DPAGDLogisticRegression(delta=1e-8, random_state=0, bounds=(-4, 4), batch_size=2000),
    "objective perturbation": ObjectivePerturbationClassifier(delta=1e-8, random_state=0, bounds=(-4, 4)),
}
CASES = (
    ((100_000, 120), 2, tuple(MODELS)),
    ((200_000, 120), 2, tuple(MODELS)),
    ((400_000, 120), 2, (GRADIENTS, "DP-AGD, batches", "objective perturbation")),
    ((400_000, 12), 2, (GRADIENTS,)),
    ((20_000, 600), 2, (GRADIENTS,)),
    ((20_000, 120), 5, (GRADIENTS,)),
)
DENSE = ("rows first", "columns first", "float32", "memory-mapped")
REPEATS = 2  # the first fit of a process pays for its memory


def labels(X: np.ndarray, classes: int) -> np.ndarray:
    noisy = X[:, 0] + np.random.default_rng(1).normal(size=len(X))
    return np.digitize(noisy, np.quantile(noisy, np.arange(1, classes) / classes))


def storages(X: np.ndarray, folder: Path) -> Iterator[tuple[str, object]]:
    """Yield these numbers of single precision in one storage after the other."""
    yield "rows first", X.astype(np.float64)
    yield "columns first", X.astype(np.float64, order="F")
    yield "float32", X
    np.save(folder / "rows.npy", X.astype(np.float64))
    yield "memory-mapped", np.load(folder / "rows.npy", mmap_mode="r")
    yield "CSR", sp.random(*X.shape, 0.1, format="csr", random_state=0)


def seconds(fit: Callable[[], object]) -> float:
    start = time.process_time()
    fit()
    return time.process_time() - start


def measured(folder: Path) -> Iterator[tuple[str, tuple[int, int], int, dict[str, float]]]:
    """Yield a model, a shape, the number of classes, and the seconds by storage."""
    for shape, classes, names in CASES:
        X = np.clip(np.random.default_rng(0).normal(size=shape), -4, 4).astype(np.float32)
        y, kept = labels(X, classes), dict(storages(X, folder))
        for name in names:
            times, bits = dict.fromkeys(kept, np.inf), set()
            for _, (storage, rows) in product(range(REPEATS), kept.items()):
                model = clone(MODELS[name])
                times[storage] = min(times[storage], seconds(partial(model.fit, rows, y)))
                if storage in DENSE:
                    bits.add(model.coef_.tobytes())
            if len(bits) > 1:
                raise SystemExit(f"{name} gave {len(bits)} different results for the same rows")
            yield name, shape, classes, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where the file is made (default: that for temporary files)")
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results/storages.md")
    options = parser.parse_args()
    lines = [
        "# Time by storage and by rows",
        "",
        "Made by `python -m benchmarks run storages --write`: seconds of processor time, the least of two fits,",
        "epsilon = 1, delta = 1e-8, one BLAS thread. In parentheses how many times that of half the rows it is:",
        "2 is linear. (DP-AGD takes fewer steps for more rows.) A tenth of the entries of CSR is not zero. The ratio",
        "is that of the slowest dense storage in memory to the memory-mapped file: 1.2 at most is aimed at. Rows",
        "of a file are kept in single precision: each pass reads half as much. All dense storages gave the same bits.",
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}.",
        "",
        "| model | rows x columns | classes | rows first | columns first | float32 | memory-mapped | CSR | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    seen: dict[tuple[str, int, int], dict[str, float]] = {}
    warnings.simplefilter("ignore")  # a seed is no release
    with threadpool_limits(1), tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, (n, d), classes, times in measured(Path(folder)):
            half = seen.get((name, n // 2, d), {})
            seen[name, n, d] = times
            cells = [f"{t:.2f}" + (f" ({t / half[s]:.1f})" if half else "") for s, t in times.items()]
            ratio = max(times[storage] for storage in DENSE[:3]) / times["memory-mapped"]
            lines.append(f"| {name} | {n:,} x {d} | {classes} | {' | '.join(cells)} | {ratio:.2f} |")
            print(lines[-1], flush=True)
    if options.write:
        (RESULTS / "storages.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
