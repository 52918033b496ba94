"""Raw tables by name, as frames: strings, numbers and missing entries as they are in the files.

Where a file has one column per category, the category is put together again, as raw tables have it. What methods are
told as public stands in ``Facts``: they are read from the whole file, which is in favour of whoever needs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from . import datasets
from .datasets import DataNotFound

__all__ = ["NAMES", "Facts", "facts_of", "load_frame"]

MANY = {"covtype": "covtype 100,000 rows", "kddcup99": "kddcup99 50,000 rows"}
"""A sample of these, the same rows every time."""

NAMES = ("adult", "bank", "loans", "ipums_br", "ijcnn1", *MANY)

WITHOUT = re.compile(r"(?P<name>\w+), (?P<percent>\d+) % missing")
INDICATORS = {"covtype": re.compile(r"(Wilderness_Area|Soil_Type)(\d+)"), "kddcup99": re.compile(r"(f\d+)=(.+)")}


@dataclass(frozen=True)
class Facts:
    """What is taken as public: the ranges of numbers, the lists of categories, and which columns have gaps."""

    columns: tuple[str, ...]
    bounds: dict[str, tuple[float, float]]
    categories: dict[str, list[str]]
    gaps: frozenset[str]


def load_frame(name: str, folder: Path | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a frame and labels of -1 and +1.

    "NAME, 20 % missing" is the same table, of which every entry is missing with this probability.
    """
    found = WITHOUT.fullmatch(name)
    if found:
        frame, y = load_frame(found["name"], folder)
        gone = np.random.default_rng(0).random(frame.shape) < int(found["percent"]) / 100
        return frame.mask(gone), y
    if name not in NAMES:
        raise ValueError(f"unknown table {name!r}: choose from {', '.join(NAMES)}")
    if folder is None:
        raise DataNotFound(f"{name!r} as a frame has no fetcher here: put its file into a folder and give it by --data")
    if name == "adult":
        frame = _csv(folder, "adult_raw.csv.gz", na_values="?").drop(columns="split")
        income = frame.pop("income")
        return frame, np.where(income.str.startswith(">"), 1, -1)
    if name == "loans":
        frame = _csv(folder, "loans_raw.csv.gz")
        label = frame.pop("y")
        return frame, np.where(label > 0, 1, -1)
    X, y = datasets.load(MANY.get(name, name), folder)
    columns = _names(name, folder, X.shape[1])
    frame = pd.DataFrame(X.toarray() if sp.issparse(X) else X, columns=columns)
    return _together(frame, INDICATORS.get(name)), y.astype(int)


def facts_of(frame: pd.DataFrame) -> Facts:
    """Return the facts of a whole table; a column without entries has the range from 0 to 1."""
    bounds, categories = {}, {}
    for name, column in frame.items():
        known = column.dropna()
        if pd.api.types.is_numeric_dtype(column.dtype):
            bounds[name] = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        else:
            categories[name] = sorted(known.unique())
    gaps = frozenset(frame.columns[frame.isna().any()])
    return Facts(tuple(frame.columns), bounds, categories, gaps)


def _csv(folder: Path, file: str, **reading) -> pd.DataFrame:
    if not (folder / file).exists():
        raise DataNotFound(f"--data {folder} has no {file}: put it there")
    return pd.read_csv(folder / file, **reading)


def _names(name: str, folder: Path, count: int) -> list[str]:
    """Return the names of columns that the file has, or numbers."""
    file = {"covtype": "covtype.npz", "kddcup99": "kddcup99_10pct_y.npz"}.get(name)
    if file is None:
        return [f"column {j}" for j in range(count)]
    with np.load(folder / file) as stored:
        return [str(one) for one in stored["feature_names"]]


def _together(frame: pd.DataFrame, indicator: re.Pattern[str] | None) -> pd.DataFrame:
    """Return the frame with one column of names in place of the indicators of a category."""
    if indicator is None:
        return frame
    parts: dict[str, dict[str, str]] = {}
    for column in frame.columns:
        found = indicator.fullmatch(column)
        if found:
            parts.setdefault(found[1], {})[column] = found[2]
    joined = [frame[[column for column in frame.columns if not indicator.fullmatch(column)]]]
    for category, values in parts.items():
        chosen = frame[list(values)].to_numpy()
        names = np.array([*values.values(), None], dtype=object)
        labels = names[np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1)]
        joined.append(pd.Series(labels, name=category, dtype="str").to_frame())
    return pd.concat(joined, axis=1)
