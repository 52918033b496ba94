"""Curved boundaries: ``DPLogisticRegression(features="fourier")`` beside the same without, and without privacy.

The five large data sets have few columns of numbers among their columns. The small ones are there to see that features
are left out where there are too few rows for the budget: then both fits are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpsk import DPLogisticRegression

from ..datasets import bounds_of
from ..evidence import Gap
from ..experiment import write
from ..folds import fitted, fold_of, seed_of
from ..table import Folds, Table, markdown

DELTA, EPSILONS = 1e-6, (0.3, 1.0, 3.0)
FOLDS = {"adult": 5, "ipums_br": 5, "bank": 5, "ijcnn1": 3, "covtype": 2}
"""How many of five folds are run: fewer of the sets with many rows."""
ONE_EPSILON = {"covtype": (1.0,)}
SMALL = dict.fromkeys(("adult 2,000 rows", "bank 5,000 rows", "ipums_br 5,000 rows", "cancer", "digits"), 5)
LINEAR, CURVED, LOGISTIC, TREES = "default", "fourier", "logistic regression", "boosted trees"
NOT_PRIVATE = {
    LOGISTIC: make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    TREES: HistGradientBoostingClassifier(random_state=0),
}
PRIVATE: dict[str, dict[str, Any]] = {LINEAR: {}, CURVED: {"features": "fourier"}}
AIMS = {"ijcnn1": 95.0, "covtype": 79.0, "adult": 85.4, "ipums_br": 77.2}
"""What accuracy is aimed at with curved features at epsilon 1, in percent."""
MAY_LOSE = 0.1

Found = Mapping[tuple[str, ...], Folds]


def measure(
    folder: Path | None, dataset: str, model: str, epsilon: float | str, repeat: int, fold: int
) -> tuple[str, int | str, str]:
    """Return the accuracy on one fold, how many cosines and sines there were, and the processor time of the fit."""
    rows = fold_of(dataset, folder, repeat, fold)
    if model in NOT_PRIVATE:
        fit, seconds = fitted(NOT_PRIVATE[model], rows.X, rows.y)
        added: int | str = ""
    else:
        unfitted = DPLogisticRegression(epsilon, DELTA, bounds=bounds_of(dataset), **PRIVATE[model])
        fit, seconds = fitted(unfitted, rows.X, rows.y, random_state=seed_of(repeat, fold))
        added = fit.coef_.shape[1] - rows.X.shape[1]
    return f"{fit.score(rows.test_X, rows.test_y):.6f}", added, f"{seconds:.2f}"


KEY = ("dataset", "model", "epsilon", "repeat", "fold")
TABLE = Table("curved", KEY, ("accuracy", "added", "seconds"), measure)


def keys(repeats: int) -> Iterable[tuple]:
    """Yield everything, the sets with many rows once."""
    for dataset, folds in (FOLDS | SMALL).items():
        cells = [(model, "") for model in NOT_PRIVATE]
        cells += product(PRIVATE, ONE_EPSILON.get(dataset, EPSILONS))
        for repeat, fold in product(range(repeats if folds == 5 else 1), range(folds)):
            yield from ((dataset, *cell, repeat, fold) for cell in cells)


def shown(folds: Folds) -> str:
    """Return the mean of what was measured."""
    return f"{np.mean([*folds.values()]):.2f}" if folds else ""


def gain(found: Found, dataset: str, epsilon: float) -> Gap | None:
    """Return what curved features add on the same folds, None where that was not measured."""
    curved, linear = (found.get((dataset, model, str(epsilon)), {}) for model in (CURVED, LINEAR))
    return Gap.between(curved, linear) if set(curved) & set(linear) else None


def table_of(found: Found, datasets: Iterable[str]) -> str:
    """Return accuracies of these data sets at every epsilon, and what is gained."""
    lines = []
    for dataset, epsilon in product(datasets, EPSILONS):
        gap = gain(found, dataset, epsilon)
        if gap is None:
            continue
        rows = TABLE.rows().where(dataset=dataset, model=CURVED, epsilon=epsilon)
        linear, curved = (found[dataset, model, str(epsilon)] for model in (LINEAR, CURVED))
        ends = [shown(found.get((dataset, model, ""), {})) for model in NOT_PRIVATE]
        added = f"{np.mean(rows.numbers('added')):.0f}"
        difference = f"{gap.mean:+.2f} ± {gap.error:.2f}"
        lines.append([dataset, f"{epsilon:g}", gap.count, added, shown(linear), shown(curved), difference, *ends])
    head = ["data", "epsilon", "folds", "columns added", "default", "with features", "gain", *NOT_PRIVATE]
    return markdown(head, lines)


def aims(found: Found) -> str:
    """Return what is reached of what was aimed at."""
    lines = []
    for dataset, aim in AIMS.items():
        folds = found.get((dataset, CURVED, "1.0"), {})
        if folds:
            mean = np.mean([*folds.values()])
            lines.append([dataset, f"{aim:.1f}", f"{mean:.2f}", "yes" if mean >= aim else "no"])
    gap = gain(found, "bank", 1.0)
    if gap is not None:
        reached = "yes" if gap.mean >= -MAY_LOSE else "no"
        lines.append(["bank", f"{-MAY_LOSE:+.1f} beside the default", f"{gap.mean:+.2f}", reached])
    return markdown(["data", "aim at epsilon 1", "reached", "aim met"], lines)


def times() -> str:
    """Return how long fits take at epsilon 1."""
    seconds = TABLE.folds(("dataset", "model", "epsilon"), "seconds")
    lines = []
    for dataset in FOLDS:
        texts = [shown(seconds.get((dataset, model, epsilon), {})) for model, epsilon in TIMED]
        if all(texts):
            lines.append([dataset, *texts])
    return markdown(["data", *(model for model, _ in TIMED)], lines)


TIMED = ((LINEAR, "1.0"), (CURVED, "1.0"), (LOGISTIC, ""), (TREES, ""))


def report() -> None:
    found = TABLE.folds(("dataset", "model", "epsilon"), "accuracy")
    write(
        "curved",
        delta=DELTA,
        aims=aims(found),
        large=table_of(found, FOLDS),
        small=table_of(found, SMALL),
        times=times(),
        machine=TABLE.machine(),
    )
