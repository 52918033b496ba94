"""How right probabilities are: the default beside the same without its calibration, base rates, and no privacy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from dpsk import DPGradientDescentClassifier, DPLinearSVC, DPLogisticRegression

from ..evidence import Gap
from ..experiment import write
from ..folds import fitted, fold_of, seed_of
from ..table import Folds, Table, markdown, per_repeat

DEFAULT, WITHOUT, SVC, CONSTANT, LOGISTIC = "default", "not calibrated", "default SVM", "base rates", "no privacy"
MODELS = {
    DEFAULT: DPLogisticRegression(),
    WITHOUT: DPGradientDescentClassifier(calibrate=False),
    SVC: DPLinearSVC(),
    CONSTANT: DummyClassifier(strategy="prior"),
    LOGISTIC: LogisticRegression(max_iter=200),
}
PRIVATE = (DEFAULT, WITHOUT, SVC)
EPSILONS = (0.1, 0.3, 1.0, 4.0)
CHOSEN_ON = ("adult", "bank", "ipums_br")
"""Sets on which constants of the curve were chosen; they get all seeds."""
FEW = ("adult 2,000 rows", "bank 2,000 rows", "ipums_br 5,000 rows", "cancer", "digits")
LARGE = ("a9a", "ijcnn1", "covtype", "kddcup99", "mnist", "fashion_mnist")
"""Sets of which one fold is measured."""
MEASURES = {"log-loss": 4, "ECE": 3, "ECE of 10": 3, "Brier": 4, "accuracy": 2}
"""By how many digits they are shown."""

Cells = Mapping[tuple[str, ...], Folds]


def measure(folder: Path | None, dataset: str, model: str, epsilon: float | str, repeat: int, fold: int) -> list[str]:
    """Return what the model of one fold reaches."""
    rows = fold_of(dataset, folder, repeat, fold)
    known = {"epsilon": epsilon, "random_state": seed_of(repeat, fold)} if model in PRIVATE else {}
    fit, _ = fitted(MODELS[model], rows.X, rows.y, **known)
    probabilities = fit.predict_proba(rows.test_X)
    hits = rows.test_y[:, None] == fit.classes_
    return [f"{value:.6f}" for value in scores(probabilities, hits)]


def scores(probabilities: np.ndarray, hits: np.ndarray) -> list[float]:
    """Return the measures. Of several classes the errors of calibration are those of the likeliest one."""
    if probabilities.shape[1] == 2:
        sure, right = probabilities[:, 1], hits[:, 1]
    else:
        sure, right = probabilities.max(axis=1), hits[np.arange(len(hits)), probabilities.argmax(axis=1)]
    accuracy = hits[np.arange(len(hits)), probabilities.argmax(axis=1)].mean()
    brier = np.square(probabilities - hits).sum(axis=1).mean() / 2
    codes = hits.argmax(axis=1)
    loss = log_loss(codes, probabilities, labels=np.arange(probabilities.shape[1]))
    return [loss, *(calibration_error(sure, right, bins) for bins in (15, 10)), brier, accuracy]


def calibration_error(sure: np.ndarray, right: np.ndarray, bins: int) -> float:
    """Return the expected calibration error in even bins of a probability."""
    cell = np.minimum((sure * bins).astype(int), bins - 1)
    return float(np.abs(np.bincount(cell, sure - right, bins)).sum() / len(sure))


TABLE = Table("probabilities", ("dataset", "model", "epsilon", "repeat", "fold"), tuple(MEASURES), measure)


def keys(repeats: int) -> Iterable[tuple]:
    cells = [(model, epsilon) for model in PRIVATE for epsilon in EPSILONS] + [(CONSTANT, ""), (LOGISTIC, "")]
    for dataset in (*CHOSEN_ON, *FEW, *LARGE):
        for repeat in range(repeats if dataset in CHOSEN_ON else 1):
            for fold in range(1 if dataset in LARGE else 5):
                yield from ((dataset, *cell, repeat, fold) for cell in cells)


def report() -> None:
    found = {measure: TABLE.folds(("dataset", "model", "epsilon"), measure) for measure in MEASURES}
    known = list(dict.fromkeys(dataset for dataset, *_ in found["log-loss"]))
    write(
        "probabilities",
        losses=table_of(found["log-loss"], known, MEASURES["log-loss"]),
        errors=table_of(found["ECE"], known, MEASURES["ECE"]),
        errors_of_10=table_of(found["ECE of 10"], known, MEASURES["ECE of 10"]),
        brier=table_of(found["Brier"], known, MEASURES["Brier"]),
        accuracy=table_of(found["accuracy"], known, MEASURES["accuracy"]),
        gaps=gaps(found["accuracy"], known),
        worse=worse(found["log-loss"], known),
        chosen=", ".join(CHOSEN_ON),
        machine=TABLE.machine(),
    )


def table_of(cells: Cells, known: Iterable[str], digits: int) -> str:
    """Return the means over folds: one line for each set and epsilon."""
    lines = []
    for dataset in known:
        for epsilon in EPSILONS:
            values = [cells.get((dataset, model, str(epsilon) if model in PRIVATE else ""), {}) for model in MODELS]
            shown = [f"{np.mean(list(folds.values())):.{digits}f}" if folds else "" for folds in values]
            lines.append([dataset, f"{epsilon:g}", len(values[0]), *shown])
    return markdown(["data", "epsilon", "fits", *MODELS], lines)


def gaps(cells: Cells, known: Iterable[str]) -> str:
    """Return by how many points the accuracy of the default is above that without calibration, on the same folds."""
    lines = []
    for dataset in known:
        texts = []
        for epsilon in map(str, EPSILONS):
            ours, other = (cells.get((dataset, model, epsilon), {}) for model in (DEFAULT, WITHOUT))
            gap = Gap.between(ours, other) if set(ours) & set(other) else None
            error = f" ± {gap.half_width():.2f}" if gap is not None and gap.count > 1 else ""
            texts.append("" if gap is None else f"{gap.mean:+.2f}{error}")
        lines.append([dataset, *texts])
    return markdown(["data", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], lines)


def worse(cells: Cells, known: Iterable[str]) -> str:
    """Return the cells in which the default has a higher log-loss than base rates."""
    lines = []
    for dataset in known:
        for model in (DEFAULT, SVC):
            for epsilon in map(str, EPSILONS):
                ours, base = cells.get((dataset, model, epsilon), {}), cells.get((dataset, CONSTANT, ""), {})
                by = per_repeat(ours).mean() - per_repeat(base).mean() if ours and base else -1.0
                if by > 0:
                    lines.append([dataset, model, epsilon, f"{by:.4f}"])
    return markdown(["data", "model", "epsilon", "log-loss above that of base rates"], lines) if lines else "None."
