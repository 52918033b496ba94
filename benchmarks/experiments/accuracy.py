"""Accuracy against epsilon: all configurations on three data sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .. import pictures
from ..experiment import save, write
from ..folds import Fold, fitted, fold_of, seed_of
from ..inside import BudgetExhausted
from ..methods import ALPHA, BASELINES, CONFIGURATIONS, DATASETS, EPSILONS, PURE
from ..table import Folds, Rows, Table, markdown, mean_of, per_repeat, standard_error

DELTA = 1e-8
WITHOUT_DELTA = (  # these were run with delta = 0, too
    "output perturbation", "output perturbation SVM", "output perturbation, rows within 1",
    "output perturbation 2017, GD", "output perturbation 2017, permuted SGD",
)  # fmt: skip
ELSEWHERE = (  # the pictures of the papers have these
    "line search", "DP-SGD", "DP-Adam", "objective perturbation 201", "AMP", "output", "PrivGene", "SGD-",
)  # fmt: skip


def scored(model, configuration: str, fold: Fold, **parameters) -> tuple[str, str, str]:
    """Return accuracy, the objective of alpha = 1e-3 on the rows of training and seconds of one fit.

    They are empty where the budget buys nothing. The name of the configuration says which loss.
    """
    try:
        model, seconds = fitted(model, fold.X, fold.y, **parameters)
    except BudgetExhausted:
        return "", "", ""
    objective = ""
    if hasattr(model, "decision_function"):
        margin = fold.y * model.decision_function(fold.X)
        loss = np.maximum(1 - margin, 0) if "SVM" in configuration else np.logaddexp(0, -margin)
        objective = f"{float(loss.mean() + ALPHA / 2 * np.square(model.coef_).sum()):.6f}"
    return f"{model.score(fold.test_X, fold.test_y):.6f}", objective, f"{seconds:.3f}"


def scored_by_name(configurations, configuration: str, fold: Fold, epsilon, delta, seed: int) -> tuple[str, str, str]:
    """Return the same of one of these configurations, or of a model without noise."""
    if configuration not in BASELINES:
        known = {"epsilon": epsilon, "delta": delta, "random_state": seed}
        return scored(configurations[configuration], configuration, fold, **known)
    strength = {"C": 1 / (ALPHA * len(fold.y))} if configuration.endswith("alpha 1e-3") else {}
    return scored(BASELINES[configuration], configuration, fold, **strength)


def measure(folder: Path | None, dataset: str, configuration: str, epsilon, delta, repeat: int, fold: int):
    """Return accuracy and objective of one fold."""
    rows = fold_of(dataset, folder, repeat, fold)
    return scored_by_name(CONFIGURATIONS, configuration, rows, epsilon, delta, seed_of(repeat, fold))[:2]


KEY = ("dataset", "configuration", "epsilon", "delta", "repeat", "fold")
TABLE = Table("accuracy", KEY, ("accuracy", "objective"), measure)


def repeats_of(configuration: str, delta: float = DELTA) -> int:
    """Return how often a configuration is run on every data set at every epsilon."""
    if configuration in BASELINES:
        return 1 if configuration.endswith("alpha 1e-3") else 10
    if configuration.startswith("default") or configuration == "DP-AGD standardised":
        return 6
    if configuration.startswith("DP-AGD"):
        return 10
    noisy_output = configuration in ("output perturbation", "output perturbation, paper's noise")
    return 24 if noisy_output and delta else 4


def cells_of(configuration: str, delta: float = DELTA, epsilons: Iterable[float] = EPSILONS) -> list[tuple]:
    """Return data set, configuration, epsilon and delta of what one configuration is run on."""
    if configuration in BASELINES:
        return [(dataset, configuration, "", "") for dataset in DATASETS]
    few = configuration == "DP-AGD paper's prices"
    chosen = [epsilon for epsilon in epsilons if not few or epsilon <= 0.2]
    return [(dataset, configuration, epsilon, delta) for dataset in DATASETS for epsilon in chosen]


def keys(repeats: int | None) -> Iterable[tuple]:
    """Yield everything, so often as it is declared or as is asked for."""
    runs = [(name, DELTA) for name in (*BASELINES, *CONFIGURATIONS)] + [(name, 0.0) for name in WITHOUT_DELTA]
    for repeat in range(repeats or max(repeats_of(*run) for run in runs)):
        for run in runs:
            if repeats or repeat < repeats_of(*run):
                yield from ((*cell, repeat, fold) for cell in cells_of(*run) for fold in range(5))


def folds_of(rows: Rows, measure: str = "accuracy") -> dict[tuple[str, ...], Folds]:
    """Return what was measured by data set, configuration and epsilon; configurations run with delta = 0 say so."""
    named = Rows(
        {**row, "configuration": row["configuration"] + (PURE if row["delta"] and not float(row["delta"]) else "")}
        for row in rows
    )
    return named.folds(("dataset", "configuration", "epsilon"), measure)


def means(rows: Rows, measure: str = "accuracy") -> dict[tuple[str, ...], np.ndarray]:
    """Return the same as means over the folds of each repeat."""
    return {cell: per_repeat(folds) for cell, folds in folds_of(rows, measure).items()}


def report() -> None:
    cells = means(TABLE.rows())
    datasets = sorted({key[0] for key in cells})
    epsilons = sorted({key[2] for key in cells if key[2]}, key=float)
    parts = [f"## {name}\n\n{table_of(name, cells, epsilons)}" for name in datasets]
    write("accuracy", datasets="\n\n".join(parts), paired=paired(cells, datasets, epsilons))
    for name in datasets:
        draw(name, cells, epsilons)


def table_of(dataset: str, cells: pictures.Cells, epsilons: list[str]) -> str:
    """Return the table of one data set."""
    lines = []
    for configuration in [name + pure for pure in ("", PURE) for name in CONFIGURATIONS] + list(BASELINES):
        constant = cells.get((dataset, configuration, ""))
        found = [cells.get((dataset, configuration, epsilon), constant) for epsilon in epsilons]
        if measured := [len(values) for values in found if values is not None]:
            texts = ["" if values is None else mean_of(values) for values in found]
            lines.append([configuration, max(measured), *texts])
    return markdown(["configuration", "repeats", *epsilons], lines)


def paired(cells: pictures.Cells, datasets: list[str], epsilons: list[str]) -> str:
    """Return the table of DP-AGD, ours, less the published one, at small epsilons."""
    lines = []
    for name in datasets:
        for ours, theirs in (("DP-AGD", "DP-AGD paper + laplace"), ("DP-AGD SVM", "DP-AGD SVM paper + laplace")):
            small = [e for e in epsilons if float(e) <= 0.2 and {(name, ours, e), (name, theirs, e)} <= cells.keys()]
            if small:
                points = np.mean([cells[name, ours, e] - cells[name, theirs, e] for e in small], axis=0)
                mean, error = points.mean(), standard_error(points)
                lines.append([name, ours, f"{mean:+.2f}", f"{error:.2f}", f"{mean / error:.1f}"])
    header = ("data set", "estimator", "mean difference", "standard error", "in standard errors")
    return markdown(header, lines)


def draw(name: str, cells: pictures.Cells, epsilons: list[str]) -> None:
    figure = pictures.figure(10, 4)
    for axes, svm in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        for configuration in CONFIGURATIONS:
            found = [cells.get((name, configuration, epsilon)) for epsilon in epsilons]
            elsewhere = configuration.startswith(ELSEWHERE) or ("SVM" in configuration) != svm
            if not elsewhere and all(values is not None for values in found):
                pictures.mean_line(axes, map(float, epsilons), found, marker="o", ms=4, label=configuration)
        for configuration, style in (("not private SVM" if svm else "not private", "--"), ("majority", ":")):
            constant = cells.get((name, configuration, ""))
            if constant is not None:
                axes.axhline(constant.mean(), color="black", linestyle=style, linewidth=1, label=configuration)
        kind = "linear SVM" if svm else "logistic regression"
        axes.set(xscale="log", xlabel="epsilon (delta = 1e-8)", title=f"{name}: {kind}")
        axes.set_xticks([float(e) for e in epsilons], epsilons)
        axes.minorticks_off()
        axes.legend(fontsize=8)
    figure.axes[0].set_ylabel("accuracy, %")
    save(figure, f"accuracy_{name}", 110)
