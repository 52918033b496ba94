"""What a benchmark is made of: tables of measurements that resume and run in parallel, and figures drawn from them."""

from __future__ import annotations

import csv
import json
import os
import platform
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy
import scipy
import sklearn
from joblib import Parallel, delayed

__all__ = ["RESULTS", "Figure", "Folds", "Table", "by_fold", "machine", "one_thread_per_process", "per_repeat"]

RESULTS = Path(__file__).parent / "results"

Folds = Mapping[tuple[str, ...], float]
"""What was measured in one cell, by repeat and fold."""


def by_fold(
    rows: Iterable[Mapping[str, str]], cell: tuple[str, ...], measure: str, over: tuple[str, ...] = ("repeat", "fold")
) -> dict[tuple[str, ...], Folds]:
    """Return one column, accuracy in percent, by cell and by what a cell was repeated over; empty results left out."""
    factor = 100.0 if measure == "accuracy" else 1.0
    cells: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
    for row in rows:
        if row[measure]:
            folds = cells.setdefault(tuple(row[field] for field in cell), {})
            folds[tuple(row[field] for field in over)] = factor * float(row[measure])
    return cells


def per_repeat(folds: Folds) -> numpy.ndarray:
    """Return the mean over the folds of each repeat, in the order of repeats."""
    repeats: dict[int, list[float]] = {}
    for (repeat, *_), value in folds.items():
        repeats.setdefault(int(repeat), []).append(value)
    return numpy.array([numpy.mean(repeats[repeat]) for repeat in sorted(repeats)])


@dataclass(frozen=True)
class Table:
    """A tidy CSV file in ``results``: one row per measurement, found by its key.

    ``measure(folder, *key)`` returns what was measured, in the order of ``measured``. It is a function of a module, so
    that worker processes can import it; ``folder`` holds the data sets.
    """

    name: str
    key: tuple[str, ...]
    measured: tuple[str, ...]
    measure: Callable[..., Iterable[object]]

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.key, *self.measured)

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.name}.csv"

    def rows(self) -> list[dict[str, str]]:
        """Return what was measured so far, as text."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return list(csv.DictReader(file))

    def missing(self, keys: Iterable[tuple]) -> list[tuple]:
        """Return the keys that have no row yet, each once."""
        done = {tuple(row[field] for field in self.key) for row in self.rows()}
        found: dict[tuple[str, ...], tuple] = {}
        for key in keys:
            text = tuple(map(str, key))
            if text not in done:
                found.setdefault(text, key)
        return list(found.values())

    def run(self, keys: Iterable[tuple], folder: Path | None = None, jobs: int = 2) -> int:
        """Measure what is missing, one row after the other to disk as it is known; return how many were."""
        missing, start, shown = self.missing(keys), time.monotonic(), 0.0
        print(f"{self.path.name}: {len(missing)} rows to measure", flush=True)
        self.path.parent.mkdir(exist_ok=True)
        new = not self.path.exists() or not self.path.stat().st_size
        with self.path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\r\n")
            if new:
                writer.writerow(self.fields)
                file.flush()
            pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            work = (delayed(self._one)(folder, key) for key in missing)
            for count, row in enumerate(pool(work), 1):
                writer.writerow(row)
                file.flush()
                passed = time.monotonic() - start
                if passed > shown + 20 or count == len(missing):
                    shown = passed
                    left = passed * (len(missing) - count) / count
                    print(f"{self.path.name}: {count}/{len(missing)}, {passed:.0f} s, {left:.0f} s left", flush=True)
        if missing:
            note_machine(self.path.name)
        return len(missing)

    def _one(self, folder: Path | None, key: tuple) -> list[str]:
        return [str(value) for value in (*key, *self.measure(folder, *key))]


@dataclass(frozen=True)
class Figure:
    """One figure or table: what is measured for it, and how it is drawn from CSV files alone.

    ``measurements(options)`` yields tables and the keys they need; ``report()`` draws; ``files`` are what it leaves in
    ``results``; ``repeats()`` says what was repeated how often, beside what the paper did.
    """

    name: str
    title: str
    files: tuple[str, ...]
    repeats: Callable[[], str]
    report: Callable[[], None]
    measurements: Callable[[Namespace], Iterable[tuple[Table, Iterable[tuple]]]]
    default_repeats: int | None
    """None where repeats are fixed."""


def one_thread_per_process() -> None:
    """Let worker processes use one thread each: they are what runs in parallel."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def machine() -> str:
    """Return what this runs on."""
    versions = ", ".join(f"{module.__name__} {module.__version__}" for module in (numpy, scipy, sklearn, joblib))
    return f"{os.cpu_count()} cores, {platform.machine()}; Python {platform.python_version()}, {versions}"


def note_machine(rows: str) -> None:
    """Remember on what the rows of a table were measured last."""
    path = RESULTS / "machines.json"
    machines = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(machines | {rows: machine()}, indent=1) + "\n")
