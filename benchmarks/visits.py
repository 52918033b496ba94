"""Persons with several rows each, made from Adult and Bank: a person's rows are visits.

Every row of the file is one person, and is the first visit of this person. The number of visits is log-normal (median
2.7), rounded and cut to 1 to 50. It depends on nothing else, so that a model that counts rows and one that counts
persons estimate the same.

A further visit is the row of a similar person: one of the ``SIMILAR`` persons nearest in the columns that are weighed
in ``Kind.matched``. With probability ``OWN_LABEL`` it is the nearest among those with the label of the first visit. The
columns of the person (sex, education and so on) stay as they were at the first visit, and the age moves by up to two
years. All other columns and the label are those of the similar person. So labels go with the columns of the same visit,
and the labels of a person's visits are more alike than their columns explain.

Persons of the training set are similar to persons of the training set only, so that the test set is new. "NAME, 8,000
persons" has so many of them to train on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree
from sklearn.model_selection import train_test_split

from .datasets import load
from .frames import load_frame

__all__ = ["MOST", "NAMES", "RAW", "Visits", "intraclass_correlation", "split_of"]

MOST = 50
"""The largest number of rows of a person. It is public."""
SIMILAR, OWN_LABEL = 40, 0.7


@dataclass(frozen=True)
class Kind:
    """Which columns belong to the person, and how far apart persons are for a difference of 1 in one of them."""

    person: tuple[Any, ...]
    matched: dict[Any, float]
    years: float
    """The range of the age in years: column 0 or "age" is scaled by it in tables of numbers."""


RAW, FEWER, FEW = "adult, raw table", ", 8,000 persons", 8_000
KINDS = {
    "adult": Kind((0, 2, *range(15, 31), *range(59, 108)), {0: 7.3, 2: 7.5, 64: 10.0}, 73.0),
    "bank": Kind(tuple(range(18)), {0: 7.7} | dict.fromkeys(range(1, 17), 2.0), 77.0),
    RAW: Kind(("age", "education", "education_num", "race", "sex", "native_country"), {}, 1.0),
}
NAMES = ("adult", f"adult{FEWER}", "bank", f"bank{FEWER}", RAW)


class Visits(NamedTuple):
    """Rows, labels, and the person of each row."""

    X: Any
    y: np.ndarray
    persons: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """1 divided by the number of rows of the person."""
        return 1 / np.bincount(self.persons)[self.persons]

    def one_each(self, seed: int) -> Visits:
        """Return one row of every person, chosen at random."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        _, first = np.unique(self.persons[order], return_index=True)
        chosen = np.sort(order[first])
        return Visits(_rows(self.X, chosen), self.y[chosen], self.persons[chosen])


@lru_cache(maxsize=1)
def split_of(name: str, folder: Path | None, repeat: int) -> tuple[Visits, Visits]:
    """Return visits of four fifths of the persons to train on, and of the others to test with."""
    kind, source = KINDS[name.removesuffix(FEWER)], name.partition(",")[0]
    numbers, y = load(source, folder)
    X = load_frame(source, folder)[0] if name == RAW else numbers
    near = np.stack([weight * numbers[:, j] for j, weight in KINDS[source].matched.items()], axis=1)
    train_rows, test_rows = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=repeat)
    sides = (train_rows[:FEW] if name.endswith(FEWER) else train_rows, test_rows)
    rng = np.random.default_rng(repeat)
    train, test = (made(_rows(X, side), y[side], near[side], kind, rng) for side in sides)
    return train, test


def made(X: Any, y: np.ndarray, near: np.ndarray, kind: Kind, rng: np.random.Generator) -> Visits:
    """Return the visits of persons whose first ones are these rows; ``near`` says who is similar."""
    counts = np.clip(np.rint(np.exp(rng.normal(1, 1, len(y)))), 1, MOST).astype(int)
    persons = np.repeat(np.arange(len(y)), counts)
    first = np.append(True, persons[1:] != persons[:-1])
    near = near + 0.1 * rng.normal(size=near.shape)  # chooses among many who are equal
    same = np.empty((len(y), SIMILAR), dtype=np.intp)
    for label in np.unique(y):
        (own,) = np.nonzero(y == label)
        same[own] = own[_nearest(near[own], near[own])]
    choice = rng.integers(SIMILAR, size=len(persons))
    donors = np.where(
        rng.random(len(persons)) < OWN_LABEL, same[persons, choice], _nearest(near, near)[persons, choice]
    )
    donors = np.where(first, persons, donors)
    drift = np.where(first, 0, rng.integers(-2, 3, len(persons))) / kind.years
    return Visits(_visits_of(X, persons, donors, kind, drift), y[donors], persons)


def intraclass_correlation(values: np.ndarray, persons: np.ndarray) -> float:
    """Return the share of the variance that lies between persons (one-way analysis of variance, unequal sizes)."""
    sizes = np.bincount(persons).astype(float)
    means = np.bincount(persons, weights=values) / sizes
    n, groups = sizes.sum(), len(sizes)
    between = (sizes * (means - values.mean()) ** 2).sum() / (groups - 1)
    within = ((values - means[persons]) ** 2).sum() / (n - groups)
    size = (n - (sizes**2).sum() / n) / (groups - 1)
    return float((between - within) / (between + (size - 1) * within))


def _nearest(near: np.ndarray, points: np.ndarray) -> np.ndarray:
    return cKDTree(near).query(points, k=SIMILAR)[1]


def _rows(X: Any, chosen: np.ndarray) -> Any:
    return X.iloc[chosen].reset_index(drop=True) if isinstance(X, pd.DataFrame) else X[chosen]


def _visits_of(X: Any, persons: np.ndarray, donors: np.ndarray, kind: Kind, drift: np.ndarray) -> Any:
    """Return the rows of the similar persons with the columns of the persons in them, some time later."""
    visits = _rows(X, donors)
    if isinstance(X, pd.DataFrame):
        for name in kind.person:
            visits[name] = X[name].to_numpy()[persons]
        visits["age"] = visits["age"] + drift.astype(int)
        return visits
    visits[:, kind.person] = X[persons][:, kind.person]
    visits[:, 0] = np.clip(visits[:, 0] + drift, 0, 1)
    return visits
