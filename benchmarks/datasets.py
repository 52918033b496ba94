"""Data sets by name, from a folder of .npz files or through scikit-learn's fetchers.

Features are scaled to [0, 1] with public ranges, categories are one-hot with public lists, labels are -1/+1.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.datasets import fetch_covtype, fetch_openml, load_breast_cancer, load_digits

__all__ = ["NAMES", "RAW", "DataNotFound", "bounds_of", "load"]

FILES = {
    "adult": "adult_onehot.npz",
    "bank": "bank.npz",
    "ipums_br": "ipums_br.npz",
    "covtype": "covtype.npz",
    "kddcup99": "kddcup99_10pct_X.npz",
    "a9a": "a9a.npz",
    "ijcnn1": "ijcnn1.npz",
    "mnist": "mnist.npz",
    "fashion_mnist": "fashion_mnist.npz",
}
NAMES = tuple(FILES)

# Ranges that are known without looking: the survey's own definitions
ADULT_RANGES = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_500),
    "hours-per-week": (1, 99),
}


RAW = ("raw", "raw + constant", "raw + 1e12", "raw + 1e300 in one row")
"""Adult with its numbers as they are, and with a column or a row that would break a scale."""
FETCHED = ("adult", "covtype", "mnist")


class DataNotFound(ValueError):
    """The rows of a data set are nowhere to be had."""


def bounds_of(name: str) -> tuple[float, float]:
    """Return the public range of the columns."""
    return (-1.33, 1.33) if name == "ijcnn1" else (0, 1)


def load(name: str, folder: Path | None) -> tuple[Any, np.ndarray]:
    """Return X and y, from ``folder`` if one is given, otherwise from the network.

    "NAME 5,000 rows" are so many of them, the same ones every time. "collinear 0.95" is made: neighbouring columns
    correlate by so much, and the label depends on all of them.
    """
    if name.endswith(" rows"):
        whole, count, _ = name.split()
        X, y = load(whole, folder)
        chosen = np.random.default_rng(0).permutation(len(y))[: int(count.replace(",", ""))]
        return X[chosen], y[chosen]
    if name.startswith("collinear "):
        return _collinear(float(name.split()[1]))
    if name in RAW:
        return _hostile(name, folder)
    if name == "cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return X / X.max(axis=0), y
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16, y
    if name not in FILES:
        raise ValueError(f"unknown data set {name!r}: choose from {', '.join(NAMES)}")
    if folder is not None:
        if not (folder / FILES[name]).exists():
            remedy = ", or leave --data out to fetch it" if name in FETCHED else ""
            raise DataNotFound(f"--data {folder} has no {FILES[name]}: put it there{remedy}")
        return _from_file(name, folder / FILES[name])
    if name not in FETCHED:
        raise DataNotFound(f"{name!r} has no fetcher here: put {FILES[name]} into a folder and give it by --data")
    try:
        if name == "covtype":
            return _covtype(*fetch_covtype(return_X_y=True))
        if name == "mnist":
            X, y = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
            return X / 255.0, y.astype(int)
        return _adult(fetch_openml("adult", version=2, as_frame=True).frame)
    except OSError as error:
        raise DataNotFound(
            f"{name!r} could not be fetched ({error}): put {FILES[name]} into a folder and give it by --data"
        ) from error


def _collinear(correlation: float, n: int = 200_000, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = correlation * X[:, j - 1] + math.sqrt(1 - correlation**2) * X[:, j]
    w = rng.normal(size=d) * 0.7 / math.sqrt(1 - correlation**2)
    y = np.where(X @ w + rng.logistic(size=n) > 0, 1, -1)
    return np.clip(X / 4 + 0.5, 0, 1), y


def _hostile(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    X, y = _raw_adult(folder)
    if name == "raw + constant":
        X = np.hstack([X, np.full((len(y), 1), 7.0)])
    elif name == "raw + 1e12":
        X = np.hstack([X, 1e12 + 1e11 * np.random.default_rng(0).normal(size=(len(y), 1))])
    elif name == "raw + 1e300 in one row":
        X[17, 0] = 1e300
    return X, y


def _raw_adult(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Return Adult with its numbers as they are (ages, dollars, weights) and one column per category."""
    if folder is None or not (folder / "adult_raw.csv.gz").exists():
        raise DataNotFound("Adult as it is has no fetcher here: put adult_raw.csv.gz into a folder, given by --data")
    frame = pd.read_csv(folder / "adult_raw.csv.gz")
    numbers = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
    columns = [frame[numbers].to_numpy(float)]
    for column in frame.columns.drop([*numbers, "income", "split"]):
        values = frame[column].astype(str).to_numpy()
        columns.append((values[:, None] == np.unique(values)[None]).astype(float))
    return np.hstack(columns), np.where(frame["income"].str.startswith(">"), 1.0, -1.0)


def _from_file(name: str, path: Path) -> tuple[Any, np.ndarray]:
    if name == "kddcup99":
        labels = np.load(path.with_name("kddcup99_10pct_y.npz"))
        return sp.load_npz(path).astype(np.float64), labels[labels.files[0]].astype(float)
    with np.load(path) as stored:
        X, y = stored["X"], stored["y"]
    if name == "covtype":
        return _covtype(X, y)
    if name in ("mnist", "fashion_mnist"):
        return X / 255.0, y.astype(int)
    return X.astype(np.float64), y.astype(float)


def _covtype(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return class 1 against class 2: 495,141 rows."""
    chosen = (y == 1) | (y == 2)
    X = X[chosen].astype(np.float64)
    if X.max() > 1:  # raw units: the ten measurements have documented ranges
        X[:, :10] /= np.array([4000, 360, 70, 1400, 700, 7200, 255, 255, 255, 7200])
    return X, np.where(y[chosen] == 1, 1.0, -1.0)


def _adult(frame: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the census table with numbers in [0, 1] and one column per category of the code book."""
    columns = []
    for column in frame.columns.drop("class"):
        if column in ADULT_RANGES:
            low, high = ADULT_RANGES[column]
            columns.append(np.clip((frame[column].to_numpy(float) - low) / (high - low), 0, 1)[:, None])
        else:
            categories = frame[column].astype("category").cat.categories
            columns.append((frame[column].to_numpy()[:, None] == np.asarray(categories)[None]).astype(float))
    return np.hstack(columns), np.where(frame["class"].str.startswith(">"), 1.0, -1.0)
