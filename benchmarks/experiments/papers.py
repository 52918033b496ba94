"""Accuracy and objective against epsilon: Figures 2 and 3 of Lee & Kifer (2018), 3 and 4 of Chen & Lee (2020)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .. import measured, pictures
from ..experiment import fits, save
from ..methods import BASELINES, CHEN_LEE, CONFIGURATIONS, DATASETS, KINDS, LEE_KIFER, METHODS
from ..table import Table
from .accuracy import KEY, TABLE, cells_of

CROSS = "means over repeats of 5-fold cross-validation"
TWENTY = f"{CROSS}; the paper: 20 repeats of 5 folds, which is 100 fits per point"
TEN = f"{CROSS}; the paper: 5 repeats of 10 folds, which is 50 fits per point"


FIGURES = {  # what the paper did, lines, logistic regression or SVM
    "lee-kifer-2": (TWENTY, LEE_KIFER, 0),
    "lee-kifer-3": (TWENTY, LEE_KIFER, 1),
    "chen-lee-3": (TEN, CHEN_LEE, 0),
    "chen-lee-4": (TEN, CHEN_LEE, 1),
}


def needs(name: str, repeats: int):
    _, names, kind = FIGURES[name]
    return needs_of(names, (kind,), repeats)


def note(name: str) -> str:
    about, names, kind = FIGURES[name]
    return note_of(about, names, (kind,))


def needs_of(names: Iterable[str], kinds: Iterable[int], repeats: int) -> list[tuple[Table, list[tuple]]]:
    """Return what accuracy.csv has to hold for a picture of accuracy against epsilon."""
    chosen = [METHODS[name][kind] for kind in kinds for name in names]
    cells = [cell for name in chosen if name in CONFIGURATIONS for cell in cells_of(name)]
    keys = [(*cell, repeat, fold) for repeat in range(repeats) for cell in cells for fold in range(5)]
    keys += [(*cell, 0, fold) for name in BASELINES for cell in cells_of(name) for fold in range(5)]
    return [(TABLE, keys)]


def note_of(about: str, names: Iterable[str], kinds: tuple[int, ...]) -> str:
    lines = {METHODS[name][kind]: name for name in names for kind in kinds}
    rows = [row for row in TABLE.rows() if row["configuration"] in lines and row["delta"] != "0.0"]
    rows = [{**row, "line": lines[row["configuration"]]} for row in rows]
    rows.sort(key=lambda row: list(names).index(row["line"]))
    return f"{about}. {fits(rows, 'line', KEY[:3])}"


def lines(axes, cells: pictures.Cells, dataset: str, names: Iterable[str], kind: int) -> None:
    for name in names:
        epsilons, values = pictures.curve(cells, dataset, METHODS[name][kind])
        if epsilons:
            pictures.mean_line(axes, epsilons, values, label=name, **pictures.style(name))


def report(name: str) -> None:
    """Draw accuracy (top) and objective (bottom) against epsilon on three data sets."""
    _, names, kind = FIGURES[name]
    figure = pictures.figure(15, 9.5)
    top, bottom = figure.subplots(2, len(DATASETS), sharex=True)
    for dataset, above, below in zip(DATASETS, top, bottom, strict=True):
        share = measured.all_cells()[dataset, "majority", ""].mean() / 100
        draw_accuracy(above, dataset, names, kind, share)
        draw_objective(below, dataset, names, kind, share)
        for axes in (above, below):
            pictures.epsilon_axis(axes)
    top[0].set_ylabel("accuracy, %")
    bottom[0].set_ylabel("mean loss + alpha/2 |w|², alpha = 1e-3")
    pictures.legend_below(figure)
    save(figure, name.replace("-", "_"))


def draw_accuracy(axes, dataset: str, names: Iterable[str], kind: int, share: float) -> None:
    scores = measured.all_cells()
    lines(axes, scores, dataset, names, kind)
    goal = scores[dataset, "not private SVM" if kind else "not private", ""].mean()
    axes.axhline(goal, color="black", ls="--", lw=1, label="not private / its objective")
    axes.axhline(100 * share, color="black", ls=":", lw=1, label="majority / best constant")
    axes.set_title(f"{dataset}: {KINDS[kind]}")
    shown = [v.mean() for name in names for v in pictures.curve(scores, dataset, METHODS[name][kind])[1]]
    low = max(min(shown), 100 * share - 2)  # what is far below the majority is not of interest
    axes.set_ylim(low - 0.05 * (goal - low), goal + 0.05 * (goal - low))


def draw_objective(axes, dataset: str, names: Iterable[str], kind: int, share: float) -> None:
    objectives = measured.all_cells("objective")
    lines(axes, objectives, dataset, names, kind)
    best = objectives[dataset, f"not private{' SVM' if kind else ''}, alpha 1e-3", ""].mean()
    constant = 2 * min(share, 1 - share) if kind else -share * np.log(share) - (1 - share) * np.log(1 - share)
    axes.axhline(best, color="black", ls="--", lw=1)
    axes.axhline(constant, color="black", ls=":", lw=1)
    axes.set(yscale="log", ylim=(0.97 * best, 5 * constant))
    values = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.5, 2, 3)
    pictures.ticks(axes, y=[value for value in values if 0.97 * best < value < 5 * constant])
    axes.set_xlabel("epsilon (delta = 1e-8)")
