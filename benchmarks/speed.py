"""How long a DP-AGD fit takes, in multiples of its floor; whether it is linear in rows and classes; and its memory.

    python -m benchmarks.speed --data DIR [--write]

The floor is what nobody can avoid: one X @ w and one X.T @ r for every gradient, and one float64 ``np.exp`` over
candidates x rows for every choice of a step. Floor and fit are timed in turn in one process with one BLAS thread; the
fit is everything after scikit-learn's own validation: rounding, set-up, noise and accounting included.
"""

from __future__ import annotations

import argparse
import platform
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import Logistic, Loss, Softmax
from dpsk.mechanisms import SystemBits
from dpsk.mechanisms.samplers import rounded_gaussian
from dpsk.penalties import L2
from dpsk.privacy import Budget, Ledger
from dpsk.solvers import run
from dpsk.solvers.adaptive_gradient import AdaptiveGradient

from .datasets import load

CANDIDATES = AdaptiveGradient().candidates


def fit(X, y, epsilon: float, loss: Loss, n_classes: int = 2) -> tuple[float, dict[str, int]]:
    """Return seconds and the number of releases of each kind."""
    start = time.perf_counter()
    rows = ArrayRows(X, y, RowMap(n_classes=n_classes if n_classes > 2 else None))
    data = PrivateData(rows, Ledger(Budget.of(epsilon, 1e-6)), SystemBits())
    shape = (data.n_parameters,) if n_classes == 2 else (data.n_parameters, n_classes)
    run(AdaptiveGradient(), data, loss, L2(1e-3, free_intercept=True), shape)
    seconds = time.perf_counter() - start
    counts: dict[str, int] = {}
    for release in data.report().releases:
        counts[release.label] = counts.get(release.label, 0) + release.count
    return seconds, counts


def floor(X, columns: int = 1) -> tuple[float, float]:
    """Return the seconds of one gradient (two products) and of one choice (one exponential)."""
    rng = np.random.default_rng(0)
    n, d = X.shape
    w = rng.normal(size=(d, columns)).squeeze()
    r = rng.normal(size=(n, columns)).squeeze()
    scores = rng.normal(size=(CANDIDATES, n * columns))
    return median(lambda: (X @ w, X.T @ r)), median(lambda: np.exp(scores))


def median(function: Callable[[], object], repeats: int = 9) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def ratios(X, stored, y, epsilon: float, repeats: int = 7, loss: Loss | None = None, n_classes: int = 2):
    """Return seconds of fit and floor and their ratio: medians over fits, each beside a floor of its own."""
    seconds, floors = [], []
    for _ in range(repeats):
        gradient, choice = floor(stored, 1 if n_classes == 2 else n_classes)
        took, counts = fit(X, y, epsilon, loss or Logistic(), n_classes)
        seconds.append(took)
        floors.append(counts["gradient"] * gradient + counts["losses"] * choice)
    return np.median(seconds), np.median(floors), np.median(np.array(seconds) / np.array(floors)), counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--write", action="store_true", help="store the tables in benchmarks/results/speed.md")
    options = parser.parse_args()
    lines: list[str] = []

    def say(text: str = "") -> None:
        lines.append(text)
        print(text, flush=True)

    with threadpool_limits(1):
        report(options.data, say)
    if options.write:
        (Path(__file__).parent / "results" / "speed.md").write_text("\n".join(lines) + "\n")


def report(folder: Path | None, say: Callable[..., None]) -> None:
    say("# Speed of DP-AGD")
    say()
    say("Made by `python -m benchmarks.speed --data DIR --write`. Medians; fit and floor in turn, one BLAS thread.")
    say(f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}.")
    say()
    say("## Adult, 48,842 x 108, epsilon 1, delta 1e-6")
    say()
    say("| input | floor of | gradients | choices | fit, ms | floor, ms | ratio |")
    say("|---|---|---|---|---|---|---|")
    X, y = load("adult", folder)
    compressed = sp.csr_matrix(X)
    dense = np.asfortranarray(X)
    rng = np.random.default_rng(0)
    filled = np.where(X == 0, rng.random(X.shape) * 1e-3, X)  # the same task with no zeros: nothing to compress
    cases = (
        ("dense, rows first", X, dense, "dense"),
        ("dense, columns first", dense, dense, "dense"),
        ("CSR", compressed, compressed, "CSR"),
        ("dense without zeros", filled, np.asfortranarray(filled), "dense"),
    )
    for name, given, stored, kind in cases:
        seconds, bare, ratio, counts = ratios(given, stored, y, 1.0)
        say(
            f"| {name} | {kind} | {counts['gradient']} | {counts['losses']} | {1e3 * seconds:.0f} | {1e3 * bare:.0f} | "
            f"{ratio:.2f} |"
        )
    one_noise = median(lambda: rounded_gaussian(2**40, X.shape[1] + 1, SystemBits()), 50)
    seconds, counts = fit(X, y, 1.0, Logistic())
    say()
    say(
        f"Gaussian noise: {1e6 * one_noise:.0f} us a gradient, "
        f"{100 * one_noise * counts['gradient'] / seconds:.1f} % of a fit."
    )
    say()
    say("## Memory beyond the data")
    say()
    say("| input | data, MB | peak beyond them, MB | one rounded copy, MB | left for O(rows), bytes a row |")
    say("|---|---|---|---|---|")
    for name, given in (("dense, 12 % non-zero", X), ("CSR", compressed), ("dense without zeros", filled)):
        size = given.nbytes if isinstance(given, np.ndarray) else csr_bytes(given)
        copy = csr_bytes(compressed) if name != "dense without zeros" else filled.nbytes
        tracemalloc.start()
        fit(given, y, 1.0, Logistic())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        say(f"| {name} | {size / 1e6:.1f} | {peak / 1e6:.1f} | {copy / 1e6:.1f} | {(peak - copy) / len(y):.0f} |")
    say()
    say("## Rows: covtype, class 1 against 2, 54 columns, epsilon 1")
    say()
    say("| rows | gradients | choices | fit, ms | floor, ms | ratio | microseconds a row and release |")
    say("|---|---|---|---|---|---|---|")
    X, y = load("covtype", folder)
    order = rng.permutation(len(y))
    for n in (120_000, 240_000, len(y)):
        part = np.ascontiguousarray(X[order[:n]])
        seconds, bare, ratio, counts = ratios(part, sp.csr_matrix(part), y[order[:n]], 1.0, repeats=3)
        per = 1e6 * seconds / n / (counts["gradient"] + counts["losses"])
        say(
            f"| {n:,} | {counts['gradient']} | {counts['losses']} | {1e3 * seconds:.0f} | {1e3 * bare:.0f} | "
            f"{ratio:.2f} | {per:.4f} |"
        )
    say()
    say("## Classes: 50,000 x 50 synthetic dense rows, softmax, epsilon 1")
    say()
    say("| classes | gradients | choices | fit, ms | ms a gradient and choice | per class |")
    say("|---|---|---|---|---|---|")
    X = rng.normal(size=(50_000, 50))
    for n_classes in (3, 6, 12):
        y = np.argmax(X @ rng.normal(size=(50, n_classes)), axis=1)
        seconds, counts = fit(X, y, 1.0, Softmax(n_classes), n_classes)
        per = 1e3 * seconds / max(counts.values())
        say(
            f"| {n_classes} | {counts['gradient']} | {counts['losses']} | {1e3 * seconds:.0f} | {per:.1f} | "
            f"{per / n_classes:.2f} |"
        )


def csr_bytes(matrix) -> int:
    return matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes


if __name__ == "__main__":
    main()
