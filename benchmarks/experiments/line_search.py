"""Settings of the private line search on mini-batches: Figures 1 and 2 of Chen & Lee (2020), on Adult."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dpsk import DPLineSearchClassifier, DPLogisticRegression

from .. import pictures
from ..experiment import fits, save, write
from ..folds import fitted, fold_of, seed_of
from ..methods import ALPHA
from ..table import Table, markdown, mean_of, per_repeat, standard_error

DELTA = 1e-8
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
SETTINGS = {
    "sufficient": (0.1, 0.25, 0.5, 0.75, 0.9),
    "shrink": (0.5, 0.6, 0.7, 0.8, 0.9),
    "noise": ("laplace", "gaussian"),
    "sampling_rate": RATES,
    "increase": ("never", "always", "angle"),
    "clip_decay": (0.0, 0.02, 0.05, 0.1, 0.2),
    "gains": ("per-unit", "clipped"),
    "search": ("armijo-svt", "exponential"),
    "estimator": ("default",),
}
TITLES = {
    "sufficient": "(a) sufficient decrease (alpha)",
    "shrink": "(b) shrinking of steps (beta)",
    "noise": "(c) noise of the search",
    "sampling_rate": "(d) sampling rate (q)",
    "increase": "(e) growth of prices",
    "clip_decay": "(f) decay of clips (zeta)",
}


def measure(folder: Path | None, parameter: str, value, epsilon: float, repeat: int, fold: int) -> tuple[str, ...]:
    """Fit Adult with one setting changed, or with the default estimator, which has no line search."""
    if parameter == "estimator":
        model = DPLogisticRegression(epsilon, DELTA, bounds=(0, 1))
    else:
        model = DPLineSearchClassifier(epsilon, DELTA, alpha=ALPHA).set_params(**{parameter: value})
    rows = fold_of("adult", folder, repeat, fold)
    model, _ = fitted(model, rows.X, rows.y, random_state=seed_of(repeat, fold))
    passes = model.evaluations_
    losses = passes.get("gains", 0.0) + passes.get("losses", 0.0)
    batches = sum(release.count for release in model.privacy_spent_.releases)
    accuracy = model.score(rows.test_X, rows.test_y)
    return f"{accuracy:.6f}", f"{passes['gradient']:.4g}", f"{losses:.5g}", str(batches)


CELL, MEASURED = ("parameter", "value", "epsilon"), ("accuracy", "gradients", "losses", "batches")
TABLE = Table("line_search", (*CELL, "repeat", "fold"), MEASURED, measure)


def keys(repeats: int) -> Iterable[tuple]:
    cells = [(p, v, e) for p, values in SETTINGS.items() for v in values for e in (0.05, 0.2)]
    cells += [("sampling_rate", rate, 0.4) for rate in RATES] + [("estimator", "default", 0.4)]
    return ((*cell, repeat, fold) for repeat in range(repeats) for cell in cells for fold in range(5))


def cells() -> dict[tuple[str, ...], dict[str, np.ndarray]]:
    """Return the mean over folds of every repeat, of each column, by parameter, value and epsilon."""
    columns = {field: TABLE.folds(CELL, field) for field in MEASURED}
    return {cell: {field: per_repeat(folds[cell]) for field, folds in columns.items()} for cell in columns["accuracy"]}


def note() -> str:
    about = (
        "means over repeats of 5-fold cross-validation; the paper: 5 repeats of 10 folds, which is 50 fits per point"
    )
    return f"{about}. {fits(TABLE.rows(), 'parameter', CELL[1:])}"


def report() -> None:
    found, lines = cells(), []
    order = [(p, str(v), e) for p, values in SETTINGS.items() for v in values for e in ("0.05", "0.2", "0.4")]
    for key in (key for key in order if key in found):
        accuracy, gradients, losses, batches = found[key].values()
        counts = f"{batches.mean():.0f}", f"{gradients.mean():.1f}", f"{losses.mean():.0f}"
        lines.append([*key, len(accuracy), mean_of(accuracy), *counts])
    header = ("parameter", "value", "epsilon", "repeats", "accuracy, %", "batches", "gradients", "losses")
    write("line_search", table=markdown(header, lines))
    draw_settings(found)
    draw_evaluations(found)


def draw_settings(found) -> None:
    figure = pictures.figure(12, 6.5)
    for axes, (parameter, title) in zip(figure.subplots(2, 3, sharey=True).flat, TITLES.items(), strict=True):
        for epsilon, marker, style in (("0.2", "^", "--"), ("0.05", "v", ":")):
            values = {str(v): found.get((parameter, str(v), epsilon)) for v in SETTINGS[parameter]}
            points = {value: cell["accuracy"] for value, cell in values.items() if cell}
            errors = [standard_error(v) for v in points.values()]
            axes.errorbar(
                list(points), [v.mean() for v in points.values()], errors, marker=marker, ls="-" if
                parameter not in ("noise", "increase") else "none", label=f"epsilon = {epsilon}",
            )  # fmt: skip
            default = found.get(("estimator", "default", epsilon))
            if default:
                level = default["accuracy"].mean()
                axes.axhline(level, color="black", ls=style, lw=1, label=f"default, epsilon = {epsilon}")
        axes.set_title(title, fontsize=10)
        axes.margins(x=0.15)
        axes.grid(axis="y", alpha=0.3)
    for row in (0, 3):
        figure.axes[row].set_ylabel("accuracy on Adult, %")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, "line_search_settings", 110)


def draw_evaluations(cells) -> None:
    figure = pictures.figure(9, 3.6)
    left, right = figure.subplots(1, 2)
    found = {rate: cells[key] for rate in RATES if (key := ("sampling_rate", str(rate), "0.4")) in cells}
    left.plot(list(found), [cell["gradients"].mean() for cell in found.values()], "o-", label="gradients")
    left.plot(list(found), [cell["losses"].mean() for cell in found.values()], "s-", label="losses")
    default = cells.get(("estimator", "default", "0.4"))
    if default:
        label = "default (all rows): gradients"
        left.axhline(default["gradients"].mean(), color="black", ls="--", lw=1, label=label)
        right.axhline(default["accuracy"].mean(), color="black", ls="--", lw=1, label="default")
    left.set(xscale="log", yscale="log", xlabel="sampling rate", ylabel="passes over the rows", title="Adult, eps 0.4")
    left.legend()
    pictures.mean_line(right, found, [cell["accuracy"] for cell in found.values()], marker="o")
    right.set(xscale="log", xlabel="sampling rate", ylabel="accuracy, %", title="Adult, eps 0.4")
    right.legend(loc="center right")
    for axes in (left, right):
        pictures.ticks(axes, RATES)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    save(figure, "line_search_evaluations", 110)
