"""How long the untuned default by gradient descent takes on rows of many shapes, beside scikit-learn and bare products.

The three are measured in turn in one process with one BLAS thread, in seconds of processor time. The bare products are
one X @ w and one X.T @ r for every gradient of the fit, with as many scores as the model has, in the storage that a fit
keeps (CSR where fewer than 30 % of the entries are not zero, otherwise columns first). ``LogisticRegression`` makes up
to 100 iterations. It is left out where its first few iterations tell that these would take more than a minute.

A fit makes 30 to 300 steps, the more the more rows there are. So growth is that of the time per step.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression

from ..experiment import write
from ..table import Row, Rows, Table, markdown
from ..timing import growth, seconds

ITERATIONS, FIRST, LONGEST = 100, 3, 60.0
ROUNDS, ENOUGH = 5, 1.0  # fits of less than a second are made several times
WORDS = 100  # in a row of text
BLOCK = 100_000  # rows that are made at a time

C, F, SINGLE, MAPPED, CSR, TEXT = "rows first", "columns first", "float32", "memory-mapped", "CSR", "text"
CASES = (
    *((n, 5, C, 2) for n in (1_000, 10_000, 100_000, 1_000_000)),
    (5_000_000, 5, MAPPED, 2),
    *((n, 120, storage, 2) for n in (10_000, 100_000, 500_000) for storage in (C, MAPPED)),
    *((n, 120, storage, 2) for n in (10_000, 100_000) for storage in (F, SINGLE)),
    *((n, 120, CSR, 2) for n in (10_000, 100_000, 500_000)),
    *((3_000, d, C, 2) for d in (5, 50, 500, 5_000)),
    *((15_000, d, TEXT, 2) for d in (2_048, 16_384, 131_072)),
    *((15_000, 50, C, classes) for classes in (2, 10, 40, 120)),
)
SERIES = {"rows": ("columns", "storage", "classes"), "columns": ("rows", "storage", "classes")}
"""What grows, and what is the same then. Columns grow where nothing else does."""


@dataclass(frozen=True)
class Shape:
    """Rows of one shape and storage, made from a seed."""

    rows: int
    columns: int
    storage: str
    classes: int

    def make(self, folder: Path) -> tuple[object, np.ndarray]:
        """Return X and y; files go to the folder."""
        rng = np.random.default_rng(0)
        if self.storage == TEXT:
            X = _text(self.rows, self.columns, rng)
        elif self.storage == CSR:
            X = sp.random(self.rows, self.columns, 0.1, format="csr", random_state=rng)
        else:
            X = self._dense(folder, rng)
        return X, self._labels(X, rng)

    def _dense(self, folder: Path, rng: np.random.Generator) -> np.ndarray:
        shape, dtype = (self.rows, self.columns), np.float32 if self.storage == SINGLE else np.float64
        path = folder / "rows.npy"
        if self.storage == MAPPED:
            X = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        else:
            X = np.empty(shape, dtype, order="F" if self.storage == F else "C")
        for a in range(0, self.rows, BLOCK):
            X[a : a + BLOCK] = rng.random((min(BLOCK, self.rows - a), self.columns))
        return np.load(path, mmap_mode="r") if self.storage == MAPPED else X

    def _labels(self, X, rng: np.random.Generator) -> np.ndarray:
        """Return the class of each row: in which of as many even parts a noisy score lies."""
        scores = np.asarray(X @ rng.normal(size=self.columns))
        scores += 0.5 * scores.std() * rng.logistic(size=self.rows)
        return np.digitize(scores, np.quantile(scores, np.arange(1, self.classes) / self.classes))

    def kept(self, X):
        """Return the rows as a fit keeps them."""
        return sp.csr_matrix(X) if self.storage in (CSR, TEXT) else np.asfortranarray(X, dtype=np.float64)


def _text(n: int, d: int, rng: np.random.Generator) -> sp.csr_matrix:
    """Return rows of words whose frequencies follow Zipf's law, counted and weighed as tf-idf, of norm 1."""
    frequency = 1 / np.arange(1, d + 1)
    words = rng.permutation(d)[rng.choice(d, size=n * WORDS, p=frequency / frequency.sum())]
    X = sp.coo_matrix((np.ones(n * WORDS), (np.repeat(np.arange(n), WORDS), words)), (n, d)).tocsr()
    X.data *= (np.log((1 + n) / (1 + np.bincount(X.indices, minlength=d))) + 1)[X.indices]
    X.data /= np.sqrt(np.repeat(np.add.reduceat(X.data**2, X.indptr[:-1]), np.diff(X.indptr)))
    return X


def processor(work) -> float:
    return seconds(work, time.process_time)


def measure(folder: Path | None, rows: int, columns: int, storage: str, classes: int) -> list[object]:
    """Return the steps, the seconds of the three, and how often the fit was measured."""
    shape = Shape(rows, columns, storage, classes)
    with tempfile.TemporaryDirectory(dir=folder) as made, threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows for an epsilon, and of iterations that end
        X, y = shape.make(Path(made))
        fits: list[float] = []
        while not fits or (len(fits) < ROUNDS and sum(fits) < ENOUGH):
            model = DPLogisticRegression(solver="gradient-descent")
            fits.append(processor(lambda model=model: model.fit(X, y)))
        steps = sum(r.count for r in model.privacy_spent_.releases if r.label == "gradient")
        times = logistic(X, y), steps * products(shape.kept(X), 1 if classes == 2 else classes)
        return [steps, f"{np.median(fits):.4g}", *("" if t is None else f"{t:.4g}" for t in times), len(fits)]


def logistic(X, y: np.ndarray) -> float | None:
    """Return the seconds of scikit-learn's fit; None if it would take too long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = processor(lambda: LogisticRegression(max_iter=FIRST).fit(X, y))
        if first * ITERATIONS / FIRST > LONGEST:
            return None
        return processor(lambda: LogisticRegression(max_iter=ITERATIONS).fit(X, y))


def products(kept, scores: int) -> float:
    """Return the seconds of X @ w and X.T @ r, the least of several."""
    rng = np.random.default_rng(0)
    w, r = (rng.normal(size=(size, scores)).squeeze() for size in kept.shape[::-1])
    times: list[float] = []
    while len(times) < ROUNDS or sum(times) < 0.05:
        times.append(max(processor(lambda: (kept @ w, kept.T @ r)), 1e-7))
    return float(min(times))


MEASURED = ("steps", "fit, s", "scikit-learn, s", "products, s", "fits")
TABLE = Table("shapes", ("rows", "columns", "storage", "classes"), MEASURED, measure)


def table(rows: Rows) -> str:
    """Return all shapes and ratios."""
    lines = []
    for row in rows:
        fit = float(row["fit, s"])
        sizes = f"{int(row['rows']):,} x {int(row['columns']):,}"
        ratios = (f"{fit / float(row[of]):.1f}" if row[of] else "" for of in ("scikit-learn, s", "products, s"))
        times = (f"{float(row[of]):.3g}" if row[of] else "left out" for of in MEASURED[1:4])
        lines.append([sizes, row["storage"], row["classes"], row["steps"], *times, *ratios])
    header = ["rows x columns", "storage", "classes", "steps", *MEASURED[1:4], "fit / scikit-learn", "fit / products"]
    return markdown(header, lines)


def per_step(row: Row) -> float:
    return float(row["fit, s"]) / int(row["steps"])


def slopes(rows: Rows) -> str:
    """Return how time grows with rows and with columns, of each storage that was measured with three sizes or more."""
    lines = []
    for grows, same in SERIES.items():
        for fixed, group in rows.by(*same).items():
            ordered = sorted(group, key=lambda row: int(row[grows]))
            if len(ordered) < 3:
                continue
            sizes = [int(row[grows]) for row in ordered]
            steps, bare = (
                growth(sizes, [of(row) for row in ordered])
                for of in (per_step, lambda row: float(row["products, s"]) / int(row["steps"]))
            )
            told = ", ".join(f"{name} {value}" for name, value in zip(same, fixed, strict=True))
            over = f"{sizes[0]:,} to {sizes[-1]:,}"
            lines.append([grows, over, told, f"{steps[0]:.2f}", f"{steps[1]:.2f}", f"{bare[0]:.2f}", f"{bare[1]:.2f}"])
    header = ["grows", "from", "the same", "slope", "steepest part", "of products", "steepest part of products"]
    return markdown(header, lines)


def in_memory(rows: Rows) -> str:
    """Return the ratio of in-memory to memory-mapped time, for shapes that were measured as both."""
    lines = []
    for (n, d, classes), group in rows.by("rows", "columns", "classes").items():
        times = {row["storage"]: float(row["fit, s"]) for row in group}
        if {C, MAPPED} <= times.keys():
            lines.append([f"{int(n):,} x {d}", classes, f"{times[C] / times[MAPPED]:.2f}"])
    return markdown(["rows x columns", "classes", "rows first / memory-mapped"], lines)


def report() -> None:
    rows = TABLE.rows()
    write("shapes", table=table(rows), slopes=slopes(rows), mapped=in_memory(rows), machine=TABLE.machine())


def keys(repeats: None) -> tuple[tuple, ...]:
    return CASES
