"""What each primitive of the core costs, as a ratio to the bare operation under it.

    python -m benchmarks.primitives [--write]

Each primitive and its floor are timed in turn in one run on synthetic data of Adult's size (48,842 x 108), dense and
12 % full, with one BLAS thread. ``--write`` stores the table in ``benchmarks/results/primitives.md``.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import Logistic, Softmax
from dpsk.mechanisms import ArgMin, Gaussian, Laplace, NoisyMin, NormGamma, PermuteAndFlip, Sensitivity, SystemBits
from dpsk.privacy import ZCDP, Budget, GaussianCost, Ledger
from dpsk.queries import GradientSum, LossesAlong

ROWS, COLUMNS, CANDIDATES = 48_842, 108, 20


def interleaved(tested: Callable[[], object], floor: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median seconds of both, timed in turn."""
    tested(), floor()
    times: list[list[float]] = [[], []]
    for _ in range(repeats):
        for function, into in zip((tested, floor), times, strict=True):
            start = time.perf_counter()
            function()
            into.append(time.perf_counter() - start)
    return float(np.median(times[0])), float(np.median(times[1]))


def cases():
    """Yield (primitive, floor, what is timed, what it is compared with, repeats)."""
    rng = np.random.default_rng(0)
    full = rng.random((ROWS, COLUMNS))
    sparse = full * (rng.random((ROWS, COLUMNS)) < 0.12)
    y = rng.choice([-1.0, 1.0], ROWS)
    w, step, r = rng.normal(size=COLUMNS + 1), 0.01 * rng.normal(size=COLUMNS + 1), rng.normal(size=ROWS)
    scores = rng.normal(size=(CANDIDATES, ROWS))
    for name, X in (("dense", full), ("12 % full", sparse)):
        stored = np.asfortranarray(X) if name == "dense" else sp.csr_matrix(X)
        rows = ArrayRows(X, y)
        gradient = GradientSum(Logistic(), w, clip=3.0)
        yield (
            f"GradientSum, {name}", "X @ w and X.T @ r",
            lambda rows=rows, q=gradient: rows.total(q),
            lambda X=stored: (X @ w[:-1], X.T @ r), 30,
        )  # fmt: skip
        yield (
            f"LossesAlong 20 steps, {name}", "X @ w and one np.exp over 20 x rows",
            lambda rows=rows: rows.total(LossesAlong(Logistic(), w, step, range(CANDIDATES + 1), clip=3.0)),
            lambda X=stored: (X @ w[:-1], np.exp(scores)), 30,
        )  # fmt: skip
        state = {"w": w}

        def iteration(rows=rows, state=state):
            line = LossesAlong(Logistic(), state["w"], step, range(CANDIDATES + 1), clip=3.0)
            rows.total(line)
            state["w"] = line.points[rng.integers(2)]
            rows.total(GradientSum(Logistic(), state["w"], clip=3.0))

        yield (
            f"line and gradient in turn, {name}", "X @ w, X.T @ r and one np.exp over 20 x rows",
            iteration, lambda X=stored: (X @ w[:-1], X.T @ r, np.exp(scores)), 30,
        )  # fmt: skip
        yield f"ArrayRows (once a fit), {name}", "X.copy()", lambda X=X: ArrayRows(X, y), lambda X=X: X.copy(), 5
    labels = rng.integers(5, size=ROWS)
    classes = rng.normal(size=(COLUMNS + 1, 5))
    rows, columns_first, residuals = (
        ArrayRows(full, labels, RowMap(n_classes=5)),
        np.asfortranarray(full),
        rng.normal(size=(ROWS, 5)),
    )
    yield (
        "GradientSum, softmax of 5, dense", "X @ W and X.T @ R",
        lambda: rows.total(GradientSum(Softmax(5), classes, clip=3.0)),
        lambda: (columns_first @ classes[:-1], columns_first.T @ residuals), 10,
    )  # fmt: skip

    bits, generator = SystemBits(), np.random.default_rng(0)
    zeros, unit = np.zeros(COLUMNS + 1, dtype=np.int64), Sensitivity(2.0**36, 2.0**36, 2.0**36)
    for mechanism in (Gaussian(0.1), Laplace(0.1), NormGamma(0.1)):
        yield (
            f"{mechanism!r}, 109 entries", "Generator.normal(size=109)",
            lambda m=mechanism: m(zeros, unit, bits), lambda: generator.normal(size=COLUMNS + 1), 200,
        )  # fmt: skip
    choice = np.arange(CANDIDATES + 1, dtype=np.int64) * 1000
    for mechanism in (ArgMin(0.1), PermuteAndFlip(0.1), NoisyMin(0.1), NoisyMin(0.1, "exponential")):
        yield (
            f"{mechanism!r}, 21 scores", "np.argmin",
            lambda m=mechanism: m(choice, Sensitivity(3e4, 3e4, 12288.0, True), bits), lambda: np.argmin(choice), 200,
        )  # fmt: skip
    ledger = Ledger(Budget.of(1e6, 1e-6))
    yield "Ledger.charge", "math on one float", lambda: ledger.charge(GaussianCost(1e-3), "x"), lambda: 0.5 + 0.5, 200
    yield "Gaussian.priced", "math on one float", lambda: Gaussian.priced(1e-5, ZCDP()), lambda: 0.5 + 0.5, 200
    yield "Budget.of (once a fit)", "math on one float", lambda: Budget.of(1.0, 1e-6), lambda: 0.5 + 0.5, 20
    data = PrivateData(ArrayRows(full[:100], y[:100]), ledger, bits)
    sealed = data.measure(GradientSum(Logistic(), w, clip=3.0))
    yield (
        "release of 109 entries, all included", "Generator.normal(size=109)",
        lambda: data.release(sealed, Gaussian(1e-3)), lambda: generator.normal(size=COLUMNS + 1), 200,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results/primitives.md")
    write = parser.parse_args().write
    lines = ["| primitive | microseconds | floor | microseconds | ratio |", "|---|---|---|---|---|"]
    with threadpool_limits(1):
        for name, floor_name, tested, floor, repeats in cases():
            mine, bare = interleaved(tested, floor, repeats)
            lines.append(f"| {name} | {mine * 1e6:,.1f} | {floor_name} | {bare * 1e6:,.1f} | {mine / bare:.2f} |")
            print(lines[-1], flush=True)
    if write:
        header = (
            "# The cost of every primitive\n\n"
            "Made by `python -m benchmarks.primitives --write`: medians, each primitive and its floor timed in turn,\n"
            "one BLAS thread. "
            f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
            f"{platform.machine()}, {ROWS:,} x {COLUMNS} synthetic rows.\n\n"
        )
        path = Path(__file__).parent / "results" / "primitives.md"
        path.write_text(header + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
