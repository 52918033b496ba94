"""Fits in cross-validation: every configuration sees the same folds, and a seed that repeat and fold give."""

from __future__ import annotations

import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from . import datasets

__all__ = ["Fold", "cached", "fitted", "fold_of", "seed_of"]


class Fold(NamedTuple):
    """Rows to train on and to test with."""

    X: Any
    y: np.ndarray
    test_X: Any
    test_y: np.ndarray


@lru_cache(maxsize=2)
def cached(name: str, folder: Path | None):
    return datasets.load(name, folder)


def fold_of(name: str, folder: Path | None, repeat: int, fold: int) -> Fold:
    """Return one of five folds of a data set; the repeat is the seed of the shuffle."""
    X, y = cached(name, folder)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y))[fold]
    return Fold(X[train], y[train], X[test], y[test])


def seed_of(repeat: int, fold: int) -> int:
    """Return the seed of a fit, so that anybody gets these numbers; a fit for release has none."""
    return 10 * repeat + fold


def fitted(model, X, y, **parameters):
    """Return a fitted copy and the seconds of processor time it took, in one thread; doubts for users are not shown."""
    model = clone(model).set_params(**parameters)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        start = time.process_time()
        model.fit(X, y)
        return model, time.process_time() - start
