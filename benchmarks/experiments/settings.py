"""What the settings of DP-AGD do: Lee & Kifer (2018), Figure 1. Logistic regression on Adult, one changed at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sklearn.base import clone

from .. import pictures
from ..experiment import fits, save
from ..folds import fold_of, seed_of
from ..methods import CONFIGURATIONS
from ..table import Table, per_repeat
from .accuracy import TABLE as ACCURACY
from .accuracy import means, scored

DELTA, EPSILONS = 1e-8, (0.1, 0.4, 1.6)
SETTINGS = {
    "splits": (10, 20, 40, 60, 80, 100, 150),
    "gamma": (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0),
    "gradient_clip": (0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0),
    "loss_clip": (0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0),
}
TITLES = {"splits": "(a) splits", "gamma": "(b) gamma", "gradient_clip": "(c) C_grad", "loss_clip": "(d) C_obj"}
VARIANTS = {
    "as published": CONFIGURATIONS["DP-AGD paper + laplace"],
    "ours": CONFIGURATIONS["DP-AGD"],
    "SGD-Adv": CONFIGURATIONS["SGD-Adv"],
    "SGD-MA": CONFIGURATIONS["SGD-MA"],
}
# the paper says that these depend on the number of steps, and does not draw it
STEPS, STEPS_EPSILONS = {"SGD-Adv": (10, 50, 250, 1000), "SGD-MA": (50, 250, 1000, 4000)}, (0.8, 1.6)


def measure(folder: Path | None, variant: str, parameter: str, value, epsilon: float, repeat: int, fold: int):
    """Return accuracy and objective of one fold."""
    model = clone(VARIANTS[variant]).set_params(**{parameter: value})
    known = {"epsilon": epsilon, "delta": DELTA, "random_state": seed_of(repeat, fold)}
    return scored(model, "", fold_of("adult", folder, repeat, fold), **known)[:2]


CELL = ("variant", "parameter", "value", "epsilon")
TABLE = Table("settings", (*CELL, "repeat", "fold"), ("accuracy", "objective"), measure)


def keys(repeats: int) -> Iterable[tuple]:
    cells = [(v, "steps", value, e) for v, values in STEPS.items() for value in values for e in STEPS_EPSILONS]
    for variant in ("as published", "ours"):
        cells += [(variant, p, value, e) for p, values in SETTINGS.items() for value in values for e in EPSILONS]
    return ((*cell, repeat, fold) for repeat in range(repeats) for cell in cells for fold in range(5))


def note() -> str:
    cross = (
        "means over repeats of 5-fold cross-validation; the paper: 20 repeats of 5 folds, which is 100 fits per point"
    )
    return f"{cross}. {fits(TABLE.rows(), 'variant', CELL[1:])}"


def report() -> None:
    """Draw accuracy and objective, as published and ours."""
    figure = pictures.figure(15, 9)
    grid = figure.subplots(4, len(SETTINGS), sharey="row", sharex="col")
    ways = [(v, measure) for measure in ("accuracy", "objective") for v in ("as published", "ours")]
    for (variant, measure), row in zip(ways, grid, strict=True):
        default, found = means(ACCURACY.rows(), measure), TABLE.folds(CELL, measure)
        for axes, (parameter, values) in zip(row, SETTINGS.items(), strict=True):
            for epsilon, color in zip(EPSILONS, ("C3", "C0", "C2"), strict=True):
                cells = {v: found.get((variant, parameter, str(v), str(epsilon))) for v in values}
                points = {v: per_repeat(folds) for v, folds in cells.items() if folds}
                look = {"color": color, "marker": "o", "ms": 4, "label": f"epsilon = {epsilon}"}
                pictures.mean_line(axes, points, points.values(), **look)
                level = default["adult", "default", str(epsilon)].mean()
                axes.axhline(level, color=color, ls="--", lw=1, label=f"default, epsilon = {epsilon}")
            if parameter != "gamma":
                axes.set_xscale("log")
                pictures.ticks(axes, values)
                axes.minorticks_off()
            axes.grid(alpha=0.3)
        row[0].set_ylabel(f"{measure}{', %' if measure == 'accuracy' else ''}\n{variant}")
    for axes, parameter in zip(grid[0], SETTINGS, strict=True):
        axes.set_title(TITLES[parameter])
    for row in grid[2:]:
        row[0].set(yscale="log", ylim=(0.34, 1.4))
        pictures.ticks(row[0], y=(0.35, 0.4, 0.5, 0.6, 0.8, 1, 1.3))
        row[0].minorticks_off()
    pictures.legend_below(figure, 6)
    save(figure, "lee_kifer_1")
