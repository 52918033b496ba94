"""KDDCup99 (the 10 % file): all rows and mini-batches of 40,000, accuracy and time of both (Lee & Kifer 2018, Fig. 4).

delta = 1e-12. Seconds are of processor time in one thread, so that they may be compared when a machine is shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from threadpoolctl import threadpool_limits

from dpsk import DPAGDSVC, DPAGDLogisticRegression, DPLinearSVC, DPLogisticRegression, DPSGDClassifier
from dpsk.privacy import BudgetExhausted

from .accuracy import (
    ADV,
    ALPHA,
    BASELINES,
    CONFIGURATIONS,
    EPSILONS,
    MA,
    PAPER,
    cached,
    fitted,
    fold_of,
    objective_of,
)
from .solvers.composed_sgd import SGDMA, SGDAdv
from .solvers.privgene import PrivGeneClassifier
from .suite import Table

DELTA, BATCH = 1e-12, 40_000
# generations are counted in epsilon * rows / pace: 8,000 leaves as many as the other data sets have at 800
GENES = {"batch_size": BATCH, "pace": 8000.0}
MODELS = {
    "default": DPLogisticRegression(bounds=(0, 1)),
    "DP-AGD": DPAGDLogisticRegression(alpha=ALPHA),
    "DP-AGD, batches": DPAGDLogisticRegression(alpha=ALPHA, batch_size=BATCH),
    "DP-AGD paper + laplace": DPAGDLogisticRegression(alpha=ALPHA, selection="laplace", **PAPER),
    "DP-AGD paper + laplace, batches": DPAGDLogisticRegression(
        alpha=ALPHA, selection="laplace", batch_size=BATCH, **PAPER
    ),
    "objective perturbation": CONFIGURATIONS["objective perturbation"],
    "DP-SGD": DPSGDClassifier(),
    "SGD-Adv": SGDAdv(**ADV),
    "SGD-MA": SGDMA(**MA),
    "PrivGene, batches": PrivGeneClassifier(**GENES),
    "default SVM": DPLinearSVC(bounds=(0, 1)),
    "DP-AGD SVM": DPAGDSVC(alpha=ALPHA),
    "DP-AGD SVM, batches": DPAGDSVC(alpha=ALPHA, batch_size=BATCH),
    "DP-AGD SVM paper + laplace": DPAGDSVC(alpha=ALPHA, selection="laplace", **PAPER),
    "DP-AGD SVM paper + laplace, batches": DPAGDSVC(alpha=ALPHA, selection="laplace", batch_size=BATCH, **PAPER),
    "objective perturbation SVM": CONFIGURATIONS["objective perturbation SVM"],
    "DP-SGD SVM": DPSGDClassifier(loss="hinge"),
    "SGD-Adv SVM": SGDAdv(loss="hinge", **ADV),
    "SGD-MA SVM": SGDMA(loss="hinge", **MA),
    "PrivGene SVM, batches": PrivGeneClassifier(loss="hinge", **GENES),
}
NOT_PRIVATE = ("majority", "not private", "not private SVM")


def measure(folder: Path | None, configuration: str, epsilon, fold: int) -> tuple[str, str, str]:
    """Return accuracy, objective and seconds of one fit."""
    X, y = cached("kddcup99", folder)
    train, test = fold_of(X, y, 0, fold)
    kind = BASELINES.get(configuration) or MODELS[configuration]
    with threadpool_limits(1):
        try:
            model, seconds = fitted(kind, configuration, epsilon, DELTA, 0, fold, X[train], y[train])
        except BudgetExhausted:
            return "", "", ""
        objective = ""
        if configuration != "majority":
            objective = f"{objective_of(model, configuration, X[train], y[train]):.6f}"
        return f"{model.score(X[test], y[test]):.6f}", objective, f"{seconds:.3f}"


TABLE = Table("kddcup99", ("configuration", "epsilon", "fold"), ("accuracy", "objective", "seconds"), measure)


def keys(repeats: int) -> Iterable[tuple]:
    """Yield one fold after the other, so that what is there when a run is stopped is balanced."""
    for fold in range(repeats):
        yield from ((name, "", fold) for name in NOT_PRIVATE)
        yield from ((name, epsilon, fold) for name in MODELS for epsilon in EPSILONS)
