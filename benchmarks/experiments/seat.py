"""Where a perturbed objective is better than noisy gradient descent, sorted by what ``solver="auto"`` goes by."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from dpsk import DPLogisticRegression

from ..datasets import bounds_of
from ..experiment import write
from ..folds import cached, fitted, fold_of, seed_of
from ..inside import PRECISE, gaussian_mu
from ..table import Row, Rows, Table, standard_error

SOLVERS = ("gradient-descent", "objective-perturbation")
DELTA = 1e-8
DATA = ("adult", "bank", "ipums_br", "a9a", "ijcnn1", "covtype", "kddcup99", "collinear 0.95", "collinear 0.999")
EPSILONS = (0.05, 0.2, 0.8, 1.6, 4.0, 10.0)


@lru_cache(maxsize=4)
def accuracies(folder: Path | None, dataset: str, epsilon: float, solver: str, repeats: int) -> np.ndarray:
    """Return the mean accuracy over the folds of each repeat."""
    model = DPLogisticRegression(epsilon, DELTA, bounds=bounds_of(dataset), solver=solver)
    found = []
    for repeat in range(repeats):
        for fold in range(5):
            rows = fold_of(dataset, folder, repeat, fold)
            fit, _ = fitted(model, rows.X, rows.y, random_state=seed_of(repeat, fold))
            found.append(100 * fit.score(rows.test_X, rows.test_y))
    return np.reshape(found, (repeats, 5)).mean(axis=1)


def measure(folder: Path | None, dataset: str, epsilon: float, repeats: int) -> tuple[str, ...]:
    """Return the precision, both accuracies, and their difference with its standard error over repeats."""
    X, y = cached(dataset, folder)
    precision = gaussian_mu(epsilon, DELTA) * 0.8 * len(y) / math.sqrt(X.shape[1] + 1)
    descent, objective = (accuracies(folder, dataset, epsilon, solver, repeats) for solver in SOLVERS)
    gain = objective - descent
    difference = f"{gain.mean():+.2f} ± {standard_error(gain):.2f}"
    return f"{precision:,.0f}", f"{descent.mean():.2f}", f"{objective.mean():.2f}", difference


FIELDS = ("precision", "gradient descent", "perturbed objective", "difference")
TABLE = Table("seat", ("data", "epsilon", "repeats"), FIELDS, measure)


def report() -> None:
    rows = sorted(TABLE.rows(), key=lambda row: (float(row["precision"].replace(",", "")), row["data"]))
    for row in rows:
        row["epsilon"] = f"{float(row['epsilon']):g}"
    table = Rows(rows).markdown(("precision", "data", "epsilon", *FIELDS[1:]))
    large = [row for row in rows if float(row["precision"].replace(",", "")) > PRECISE]
    there = {f"{name}_there": count for name, count in decided(large).items()}
    write("seat", table=table, repeats=rows[0]["repeats"], precise=PRECISE, **decided(rows), **there)


def decided(rows: list[Row]) -> dict[str, int]:
    """Return in how many lines the difference is above twice its standard error, and below minus that."""
    pairs = [[float(number) for number in row["difference"].split(" ± ")] for row in rows]
    ahead, behind = (sum(sign * gap > 2 * error for gap, error in pairs) for sign in (1, -1))
    return {"ahead": ahead, "behind": behind, "lines": len(pairs)}


def keys(repeats: int) -> list[tuple]:
    return [(name, epsilon, repeats) for name in DATA for epsilon in EPSILONS]
