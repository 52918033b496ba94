"""What the settings of DP-AGD do: Lee & Kifer (2018), Figure 1. Logistic regression on Adult, one changed at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from threadpoolctl import threadpool_limits

from dpsk import DPAGDLogisticRegression

from .accuracy import ADV, ALPHA, MA, PAPER, cached, fitted, fold_of, objective_of
from .solvers.composed_sgd import SGDMA, SGDAdv
from .suite import Table

DELTA, EPSILONS = 1e-8, (0.1, 0.4, 1.6)
SETTINGS = {
    "splits": (10, 20, 40, 60, 80, 100, 150),
    "gamma": (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0),
    "gradient_clip": (0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0),
    "loss_clip": (0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0),
}
VARIANTS = {
    "as published": DPAGDLogisticRegression(alpha=ALPHA, selection="laplace", **PAPER),
    "ours": DPAGDLogisticRegression(alpha=ALPHA),
    "SGD-Adv": SGDAdv(**ADV),
    "SGD-MA": SGDMA(**MA),
}
# the paper says that these depend on the number of steps, and does not draw it
STEPS, STEPS_EPSILONS = {"SGD-Adv": (10, 50, 250, 1000), "SGD-MA": (50, 250, 1000, 4000)}, (0.8, 1.6)


def measure(folder: Path | None, variant: str, parameter: str, value, epsilon: float, repeat: int, fold: int):
    """Return accuracy and objective of one fold."""
    X, y = cached("adult", folder)
    train, test = fold_of(X, y, repeat, fold)
    kind = VARIANTS[variant].__class__(**(VARIANTS[variant].get_params() | {parameter: value}))
    with threadpool_limits(1):
        model, _ = fitted(kind, variant, epsilon, DELTA, repeat, fold, X[train], y[train])
    return f"{model.score(X[test], y[test]):.6f}", f"{objective_of(model, '', X[train], y[train]):.6f}"


KEY = ("variant", "parameter", "value", "epsilon", "repeat", "fold")
TABLE = Table("settings", KEY, ("accuracy", "objective"), measure)


def keys(repeats: int) -> Iterable[tuple]:
    for repeat in range(repeats):
        for variant, values in STEPS.items():
            cells = [(variant, "steps", value, epsilon) for value in values for epsilon in STEPS_EPSILONS]
            yield from ((*cell, repeat, fold) for cell in cells for fold in range(5))
        for variant in ("as published", "ours"):
            for parameter, values in SETTINGS.items():
                for value in values:
                    for epsilon in EPSILONS:
                        yield from ((variant, parameter, value, epsilon, repeat, fold) for fold in range(5))
