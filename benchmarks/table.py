"""Rows of measurements: ``Rows`` in memory, ``Table`` in a CSV file that resumes and is measured in parallel."""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed

__all__ = ["RESULTS", "Folds", "Rows", "Table", "keyed", "markdown", "mean_of", "per_repeat", "read", "standard_error"]

RESULTS = Path(__file__).parent / "results"

Row = Mapping[str, str]
Folds = Mapping[tuple[str, ...], float]
"""What was measured in one cell, by repeat and fold."""


def per_repeat(folds: Folds) -> np.ndarray:
    """Return the mean over the folds of each repeat, in the order of repeats."""
    repeats: dict[int, list[float]] = {}
    for (repeat, *_), value in folds.items():
        repeats.setdefault(int(repeat), []).append(value)
    return np.array([np.mean(repeats[repeat]) for repeat in sorted(repeats)])


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean; one value has none."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else math.nan


def mean_of(values: np.ndarray) -> str:
    """Return the mean, with its standard error if there is one."""
    return f"{values.mean():.2f}" + (f" ± {standard_error(values):.2f}" if len(values) > 1 else "")


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table for a report."""
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


class Rows(list[Row]):
    """Rows as they stand in a CSV file: all fields are text, and an empty field was not measured."""

    def where(self, **wanted: object) -> Rows:
        """Return the rows that have these values."""
        texts = {field: str(value) for field, value in wanted.items()}
        return Rows(row for row in self if all(row[field] == text for field, text in texts.items()))

    def also(self, **columns: str) -> Rows:
        """Return the rows with further columns of one value, so that rows of two tables may be joined."""
        return Rows({**row, **columns} for row in self)

    def by(self, *fields: str) -> dict[tuple[str, ...], Rows]:
        """Return the rows in groups of equal fields."""
        groups: dict[tuple[str, ...], Rows] = {}
        for row in self:
            groups.setdefault(tuple(row[field] for field in fields), Rows()).append(row)
        return groups

    def numbers(self, field: str) -> np.ndarray:
        """Return one column as numbers."""
        return np.array([float(row[field]) for row in self])

    def folds(
        self, cell: Sequence[str], measure: str, over: Sequence[str] = ("repeat", "fold")
    ) -> dict[tuple[str, ...], Folds]:
        """Return one column, accuracy in percent, by cell and by what was repeated; empty results are left out."""
        factor = 100.0 if measure == "accuracy" else 1.0
        return {
            key: {tuple(row[field] for field in over): factor * float(row[measure]) for row in rows}
            for key, rows in Rows(row for row in self if row[measure]).by(*cell).items()
        }

    def markdown(self, fields: Sequence[str] | None = None) -> str:
        """Return these rows as a table, as they are."""
        fields = list(self[0]) if fields is None else fields
        return markdown(fields, ([row[field] for field in fields] for row in self))


def read(path: Path) -> Rows:
    """Return the rows of a CSV file."""
    with path.open(newline="") as file:
        return Rows(csv.DictReader(file))


@dataclass(frozen=True)
class Table:
    """A CSV file in ``results``: one row per measurement, found by its key.

    ``measure(folder, *key)`` returns what was measured, in the order of ``measured``; None leaves the row out. It is a
    function of a module, so that worker processes can import it. ``folder`` holds the data sets.
    """

    name: str
    key: tuple[str, ...]
    measured: tuple[str, ...]
    measure: Callable[..., Iterable[object] | None]

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.key, *self.measured)

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.name}.csv"

    def rows(self) -> Rows:
        """Return what was measured so far."""
        return read(self.path) if self.path.exists() else Rows()

    def folds(
        self, cell: Sequence[str], measure: str, over: Sequence[str] = ("repeat", "fold")
    ) -> dict[tuple[str, ...], Folds]:
        return self.rows().folds(cell, measure, over)

    def missing(self, keys: Iterable[tuple]) -> list[tuple]:
        """Return the keys that have no row yet, each once."""
        done = self.rows().by(*self.key).keys()
        return [key for text, key in keyed(keys).items() if text not in done]

    def forget(self, keys: Iterable[tuple]) -> None:
        """Take the rows of these keys out of the file."""
        keys = list(keys)
        if keys and self.path.exists():
            gone, rows, ending = keyed(keys).keys(), self.rows(), self._ending()
            kept = [row.values() for row in rows if tuple(row[field] for field in self.key) not in gone]
            with self.path.open("w", newline="") as file:
                csv.writer(file, lineterminator=ending).writerows([self.fields, *kept])

    def run(self, keys: Iterable[tuple], folder: Path | None = None, jobs: int = 2) -> int:
        """Measure what is missing, one row after the other to disk as it is known; return how many were."""
        keys = list(keys)
        self.forget(self._with_other_repeats(keys))
        missing, start, shown = self.missing(keys), time.monotonic(), 0.0
        print(f"{self.path.name}: {len(missing)} rows to measure", flush=True)
        self.path.parent.mkdir(exist_ok=True)
        new, ending = not self.path.exists() or not self.path.stat().st_size, self._ending()
        with self.path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator=ending)
            if new:
                writer.writerow(self.fields)
                file.flush()
            pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            for count, row in enumerate(pool(delayed(self._one)(folder, key) for key in missing), 1):
                if row:
                    writer.writerow(row)
                    file.flush()
                passed = time.monotonic() - start
                if passed > shown + 20 or count == len(missing):
                    shown, left = passed, passed * (len(missing) - count) / count
                    print(f"{self.path.name}: {count}/{len(missing)}, {passed:.0f} s, {left:.0f} s left", flush=True)
        if missing:
            note_machine(self.path.name)
        return len(missing)

    def machine(self) -> str:
        """Return on what the rows were measured last."""
        known = machines()
        return known.get(self.path.name, known.get("all others", "not noted"))

    def _with_other_repeats(self, keys: Iterable[tuple]) -> Iterable[tuple[str, ...]]:
        """Return the keys of rows that these keys replace: the same cell with another number of repeats."""
        if "repeats" not in self.key:
            return ()
        place, wanted = self.key.index("repeats"), keyed(keys).keys()
        cells = {(*key[:place], *key[place + 1 :]) for key in wanted}
        known = self.rows().by(*self.key).keys() - wanted
        return [key for key in known if (*key[:place], *key[place + 1 :]) in cells]

    def _one(self, folder: Path | None, key: tuple) -> list[str] | None:
        measured = self.measure(folder, *key)
        return None if measured is None else [str(value) for value in (*key, *measured)]

    def _ending(self) -> str:
        """Return how lines of the file end; those of a new one as the csv module ends them."""
        first = self.path.read_bytes()[:10_000] if self.path.exists() else b""
        return "\n" if first and b"\r\n" not in first else "\r\n"


def keyed(keys: Iterable[tuple]) -> dict[tuple[str, ...], tuple]:
    """Return the keys by their text, each once."""
    return {tuple(map(str, key)): key for key in keys}


def machines() -> dict[str, str]:
    """Return on what each file was measured last."""
    path = RESULTS / "machines.json"
    return json.loads(path.read_text()) if path.exists() else {}


def note_machine(rows: str) -> None:
    """Remember on what the rows of a file were measured."""
    versions = ", ".join(f"{module.__name__} {module.__version__}" for module in (np, scipy, sklearn, joblib))
    versions = f"Python {platform.python_version()}, {versions}, SQLite {sqlite3.sqlite_version}"
    machine = f"{os.cpu_count()} cores, {platform.machine()}; {versions}"
    (RESULTS / "machines.json").write_text(json.dumps(machines() | {rows: machine}, indent=1) + "\n")
