"""How long a DP-AGD fit takes, in multiples of its floor; whether it is linear in rows and classes; and its memory.

The floor is what nobody can avoid: one X @ w and one X.T @ r for every gradient, and one float64 ``np.exp`` over
candidates x rows for every choice of a step. Floor and fit are timed in turn in one process with one BLAS thread; the
fit is everything after scikit-learn's own validation: rounding, set-up, noise and accounting included.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from ..experiment import write
from ..folds import cached
from ..inside import CANDIDATES, Logistic, Softmax, SystemBits, adaptive_fit, rounded_gaussian
from ..table import Table
from ..timing import csr_bytes, in_turn, median, products, times_as_long

INPUTS = ("dense, rows first", "dense, columns first", "CSR", "dense without zeros")
MEMORY = ("dense, 12 % non-zero", "CSR", "dense without zeros")
ROWS, CLASSES = (120_000, 240_000, 495_141), (3, 6, 12)


def fit(X, y, n_classes: int = 2) -> tuple[float, dict[str, int]]:
    """Return seconds and the number of releases of each kind."""
    start = time.perf_counter()
    counts = adaptive_fit(X, y, 1.0, Softmax(n_classes) if n_classes > 2 else Logistic(), n_classes)
    return time.perf_counter() - start, counts


def ratios(X, stored, y, repeats: int = 7) -> list[str]:
    """Return gradients, choices, ms of fit and floor and their ratio: medians over fits, each beside its own floor."""
    seconds, floors = [], []
    scores = np.random.default_rng(0).normal(size=(CANDIDATES, stored.shape[0]))
    for _ in range(repeats):
        gradient, choice = products(stored), median(lambda: np.exp(scores))
        took, counts = fit(X, y)
        seconds.append(took)
        floors.append(counts["gradient"] * gradient + counts["losses"] * choice)
    times = (f"{1e3 * np.median(values):.0f}" for values in (seconds, floors))
    return [counts["gradient"], counts["losses"], *times, f"{times_as_long(seconds, floors):.2f}"]


def adult(folder: Path | None, name: str):
    """Return Adult in one storage, and in the storage that a fit keeps."""
    X, y = cached("adult", folder)
    if name == "CSR":
        return sp.csr_matrix(X), sp.csr_matrix(X), y
    if name == "dense without zeros":  # the same task with nothing to compress
        X = np.where(X == 0, np.random.default_rng(0).random(X.shape) * 1e-3, X)
    return (np.asfortranarray(X) if name == "dense, columns first" else X), np.asfortranarray(X), y


def measure_input(folder: Path | None, name: str) -> list[str]:
    with threadpool_limits(1):
        return ["CSR" if name == "CSR" else "dense", *ratios(*adult(folder, name))]


def measure_noise(folder: Path | None, data: str) -> list[str]:
    """Return the CPU time of the Gaussian noise of one gradient, and its part of a fit."""
    X, y = cached(data, folder)
    bits, counts = SystemBits(), {}
    with threadpool_limits(1):
        one = np.median(in_turn([lambda: rounded_gaussian(2**40, X.shape[1] + 1, bits)], 50, time.process_time))
        whole = np.median(in_turn([lambda: counts.update(fit(X, y)[1])], 5, time.process_time))
    return [f"{1e6 * one:.0f}", f"{100 * one * counts['gradient'] / whole:.1f}"]


def measure_draws(folder: Path | None, scale: str, entries: str) -> list[str]:
    """Return the microseconds of CPU time a draw, and those of 8 random bytes and of a float that is not exact."""
    sigma, n = 2 ** int(scale.removeprefix("2^")), int(entries.replace(",", ""))
    bits, generator = SystemBits(), np.random.default_rng(0)
    calls = min(200, -(-200_000 // n))
    works = [lambda: rounded_gaussian(sigma, n, bits), lambda: bits.take(8 * n), lambda: generator.normal(size=n)]
    many = [lambda work=work: [work() for _ in range(calls)] for work in works]
    times = np.median(in_turn(many, 7, time.process_time), axis=0) / (calls * n)
    return [f"{1e6 * value:.3f}" for value in times]


def measure_memory(folder: Path | None, name: str) -> list[str]:
    given, _, y = adult(folder, name)
    size = given.nbytes if isinstance(given, np.ndarray) else csr_bytes(given)
    copy = given.nbytes if name == "dense without zeros" else csr_bytes(sp.csr_matrix(given))
    tracemalloc.start()
    with threadpool_limits(1):
        fit(given, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [f"{size / 1e6:.1f}", f"{peak / 1e6:.1f}", f"{copy / 1e6:.1f}", f"{(peak - copy) / len(y):.0f}"]


def measure_rows(folder: Path | None, rows: str) -> list[str]:
    n = int(rows.replace(",", ""))
    X, y = cached("covtype", folder)
    order = np.random.default_rng(0).permutation(len(y))[:n]
    part = np.ascontiguousarray(X[order])
    with threadpool_limits(1):
        found = ratios(part, sp.csr_matrix(part), y[order], repeats=3)
    return [*found, f"{1e3 * float(found[2]) / n / (found[0] + found[1]):.4f}"]


def measure_classes(folder: Path | None, n_classes: int) -> list[str]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 50))
    y = np.argmax(X @ rng.normal(size=(50, n_classes)), axis=1)
    with threadpool_limits(1):
        seconds, counts = fit(X, y, n_classes)
    per = 1e3 * seconds / max(counts.values())
    return [counts["gradient"], counts["losses"], f"{1e3 * seconds:.0f}", f"{per:.1f}", f"{per / n_classes:.2f}"]


RATIO = ("gradients", "choices", "fit, ms", "floor, ms", "ratio")
PEAK = ("data, MB", "peak beyond them, MB", "one rounded copy, MB", "left for O(rows), bytes a row")
OF_CLASSES = ("gradients", "choices", "fit, ms", "ms a gradient and choice", "per class")
TABLES = {
    "adult": (Table("speed", ("input",), ("floor of", *RATIO), measure_input), INPUTS),
    "noise": (Table("speed_noise", ("data",), ("us a gradient", "% of a fit"), measure_noise), ("adult",)),
    "draws": (
        Table(
            "speed_draws", ("deviation", "entries"), ("us a draw", "8 random bytes", "a normal float"), measure_draws
        ),
        tuple(
            (scale, n) for scale in ("2^1", "2^40", "2^56") for n in ("1", "10", "100", "1,000", "10,000", "1,000,000")
        ),
    ),
    "memory": (Table("speed_memory", ("input",), PEAK, measure_memory), MEMORY),
    "rows": (
        Table("speed_rows", ("rows",), (*RATIO, "microseconds a row and release"), measure_rows),
        tuple(f"{n:,}" for n in ROWS),
    ),
    "classes": (Table("speed_classes", ("classes",), OF_CLASSES, measure_classes), CLASSES),
}


def report() -> None:
    texts = {name: table.rows().markdown() for name, (table, _) in TABLES.items() if name != "noise"}
    (noise,) = TABLES["noise"][0].rows()
    write("speed", machine=TABLES["adult"][0].machine(), noise=noise, **texts)


def needs(repeats: None):
    return [(table, [n if isinstance(n, tuple) else (n,) for n in names]) for table, names in TABLES.values()]
