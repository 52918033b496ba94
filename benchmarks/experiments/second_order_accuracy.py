"""Accuracies of ``DPSecondOrderClassifier`` on Adult and Bank beside the default estimator's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from dpsk import DPLogisticRegression, DPSecondOrderClassifier

from ..experiment import write
from ..folds import cached, fitted
from ..table import Table
from .accuracy import TABLE as ACCURACY

EPSILONS, SPLITS = (0.2, 1.0, 4.0), 5
MODELS = {
    "2opt-ls": DPSecondOrderClassifier(),
    "2opt-ls, bounds=(0, 1)": DPSecondOrderClassifier(bounds=(0, 1)),
    "2opt-ls, l2": DPSecondOrderClassifier(penalty="l2"),
    "2opt-ls, sigmoid": DPSecondOrderClassifier(loss="sigmoid"),
    "2opt": DPSecondOrderClassifier(method="2opt"),
    "2opt-b": DPSecondOrderClassifier(method="2opt-b"),
    "opt-ls": DPSecondOrderClassifier(method="opt-ls"),
    "`DPLogisticRegression`": DPLogisticRegression(),
}


def one(folder: Path | None, dataset: str, name: str, epsilon: float) -> str:
    """Return accuracy, how often the tolerances were reached, and the part of the budget that was charged."""
    X, y = cached(dataset, folder)
    scores, reached, charged = [], 0, []
    for seed in range(SPLITS):
        train, test, train_y, test_y = train_test_split(X, y, test_size=0.2, random_state=seed)
        model, _ = fitted(MODELS[name], train, train_y, epsilon=epsilon, random_state=seed)
        scores.append(100 * model.score(test, test_y))
        reached += hasattr(model, "certificate_") and model.certificate_.reached
        charged.append(100 * model.privacy_spent_.charged / model.privacy_spent_.limit)
    text = f"{np.mean(scores):.1f} ± {np.std(scores):.1f}"
    second_order = isinstance(MODELS[name], DPSecondOrderClassifier)
    return text + (f", {reached}/{SPLITS}, {np.mean(charged):.0f} %" if second_order else "")


def measure(folder: Path | None, dataset: str, name: str) -> list[str]:
    return [one(folder, dataset, name, epsilon) for epsilon in EPSILONS]


TABLE = Table("second_order_accuracy", ("data", "model"), tuple(f"epsilon {e:g}" for e in EPSILONS), measure)


def report() -> None:
    majority = {d: 100 * ACCURACY.rows().where(dataset=d, configuration="majority").numbers("accuracy").mean() for d in
                ("adult", "bank")}  # fmt: skip
    write("second_order_accuracy", table=TABLE.rows().markdown(), splits=SPLITS, majority=majority)


def keys(repeats: None) -> list[tuple]:
    return [(dataset, name) for dataset in ("adult", "bank") for name in MODELS]
