"""The default estimator on every data set with 20,000 rows or more, and on raw columns, beside non-private models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpsk import DPLinearSVC, DPLogisticRegression

from ..datasets import RAW, bounds_of
from ..experiment import write
from ..folds import Fold, cached, fitted, fold_of, seed_of
from ..table import Table, markdown

OFFICIAL = {"mnist, official split": "mnist", "fashion_mnist, official split": "fashion_mnist"}  # 60,000 + 10,000 rows
DATASETS = ("adult", "a9a", "bank", "ipums_br", "ijcnn1", "covtype", "kddcup99", "mnist", "fashion_mnist", *OFFICIAL)
MODELS = {
    "not private, C=1": LogisticRegression(C=1.0, max_iter=200),
    "not private, C=0.01": LogisticRegression(C=0.01, max_iter=200),
    "default": DPLogisticRegression(),
    "default, no bounds": DPLogisticRegression(),
    "default SVM": DPLinearSVC(),
}


def measure(folder: Path | None, dataset: str, model: str, repeat: int, fold: int) -> tuple[str]:
    """Return the accuracy on one fold; on an official split the fold is a seed."""
    if dataset in OFFICIAL:
        X, y = cached(OFFICIAL[dataset], folder)
        rows = Fold(X[:60_000], y[:60_000], X[60_000:70_000], y[60_000:70_000])
    else:
        rows = fold_of(dataset, folder, repeat, fold)
    known = {} if model.startswith("not private") else {"random_state": seed_of(repeat, fold)}
    if model in ("default", "default SVM"):
        known["bounds"] = bounds_of(dataset)
    fit, _ = fitted(MODELS[model], rows.X, rows.y, **known)
    return (f"{fit.score(rows.test_X, rows.test_y):.6f}",)


TABLE = Table("everywhere", ("dataset", "model", "repeat", "fold"), ("accuracy",), measure)


def keys(repeats: int) -> Iterable[tuple]:
    cells = [(name, model, folds(name, model)) for name in DATASETS for model in MODELS]
    cells += [(name, "default, no bounds", 5) for name in RAW]
    return ((n, model, repeat, fold) for n, model, count in cells for repeat in range(repeats) for fold in range(count))


def folds(name: str, model: str) -> int:
    """Return 5 folds; on an official split 3 fits, or 1 of a model without noise."""
    if name not in OFFICIAL:
        return 5
    return 1 if model.startswith("not private") else 3


def report() -> None:
    """Write the table of mean accuracies and of the distance to the better non-private model."""
    cells = {cell: list(values.values()) for cell, values in TABLE.folds(("dataset", "model"), "accuracy").items()}
    lines = []
    for name in [n for n in DATASETS if all((n, model) in cells for model in MODELS)]:
        means = [np.mean(cells[name, model]) for model in MODELS]
        distance = max(means[:2]) - means[2]
        numbers = (f"{mean:.2f}" for mean in means)
        lines.append([name, len(cells[name, "default"]), *numbers, f"{distance:+.2f}"])
    raw = []
    for name in [n for n in ("adult", *RAW) if (n, "default, no bounds") in cells]:
        found = cells[name, "default, no bounds"]
        raw.append(["adult, scaled to [0, 1]" if name == "adult" else name, len(found), f"{np.mean(found):.2f}"])
    table = markdown(["data", "folds", *MODELS, "distance"], lines)
    write("everywhere", table=table, raw=markdown(["data", "folds", "default, no bounds"], raw))
