"""All methods on all data sets: excess error over the model without privacy, and the epsilon needed to come near it."""

from __future__ import annotations

import math

import numpy as np

from .. import measured, pictures
from ..experiment import save, write
from ..methods import CONFIGURATIONS, EPSILONS, KINDS, METHODS, kdd_name
from ..table import markdown
from . import kddcup99, papers

DATASETS = ("adult", "bank", "ipums_br", "kddcup99")
WITHIN = 1.0
"""How many points of accuracy below the model without privacy are near it."""
NARROW = 3.0
"""A data set says little where majority and model without privacy are closer than this."""


def goal(dataset: str, configuration: str) -> float:
    """Return the accuracy without privacy: of logistic regression, or of the linear SVM for what is called so."""
    name = kddcup99.not_private("SVM" in configuration)
    return float(measured.all_cells()[dataset, name, ""].mean())


def excess(dataset: str, configuration: str) -> tuple[list[float], list[float]]:
    """Return epsilons and by how many points a configuration misses the model without privacy there."""
    epsilons, values = pictures.curve(measured.all_cells(), dataset, configuration)
    return epsilons, [goal(dataset, configuration) - value.mean() for value in values]


def needed(dataset: str, configuration: str) -> str:
    """Return the epsilon from which on the line stays within a point, straight between its points in log epsilon."""
    epsilons, missed = excess(dataset, configuration)
    if not epsilons:
        return ""
    if missed[-1] > WITHIN:
        return f"> {epsilons[-1]:g}"
    last = max((i for i, points in enumerate(missed) if points > WITHIN), default=-1)
    if last < 0:
        return f"<= {epsilons[0]:g}"
    part = (missed[last] - WITHIN) / (missed[last] - missed[last + 1])
    return f"{np.exp(np.log(epsilons[last]) + part * np.log(epsilons[last + 1] / epsilons[last])):.2g}"


def configurations() -> list[str]:
    """Return all that were run on any of the data sets, in the order of the tables."""
    run = {key[1] for key in measured.all_cells() if key[2]}
    return [name for name in dict.fromkeys((*CONFIGURATIONS, *kddcup99.MODELS)) if name in run]


def majority(dataset: str) -> float:
    return float(measured.all_cells()[dataset, "majority", ""].mean())


def room() -> str:
    """Return how much the data sets can tell methods apart."""
    texts = []
    for dataset in DATASETS:
        best, least = goal(dataset, ""), goal(dataset, "") - majority(dataset)
        narrow = ", narrow" if least < NARROW else ""
        texts.append(f"{dataset} {least:.1f} (error without privacy {100 - best:.1f} %{narrow})")
    return "; ".join(texts)


def least_epsilons() -> str:
    """Return which methods need the least epsilon on each data set."""
    lines = []
    for dataset in DATASETS:
        texts = {name: needed(dataset, name) for name in configurations()}
        at_once = [name for name, text in texts.items() if text == f"<= {EPSILONS[0]:g}"]
        rest = sorted((float(text), name) for name, text in texts.items() if text and text[0] not in "<>")
        first = f"within a point from the smallest epsilon on: {'; '.join(at_once)}. Then " if at_once else ""
        lines.append(f"- {dataset}: {first}{'; '.join(f'{name} ({epsilon:g})' for epsilon, name in rest[:5])}.")
    return "\n".join(lines)


def report() -> None:
    table = [[name, *(needed(dataset, name) for dataset in DATASETS)] for name in configurations()]
    write(
        "summary",
        within=WITHIN,
        epsilons=", ".join(f"{epsilon:g}" for epsilon in EPSILONS),
        narrow=NARROW,
        room=room(),
        ahead=kddcup99.ahead_from(),
        promised=math.log(1e8) / 32,
        promised_kddcup99=math.log(1 / kddcup99.DELTA) / 32,
        table=markdown(["method", *DATASETS], table),
        least=least_epsilons(),
    )
    draw()


def draw() -> None:
    figure = pictures.figure(17, 10)
    grid = figure.subplots(2, len(DATASETS), sharex=True, sharey="col")
    for kind, row in enumerate(grid):
        for dataset, axes in zip(DATASETS, row, strict=True):
            for name in METHODS:
                configuration = METHODS[name][kind]
                if dataset == "kddcup99" and name == "PrivGene":
                    configuration = kdd_name(name, kind, batches=True)
                epsilons, missed = excess(dataset, configuration)
                if epsilons:
                    axes.plot(epsilons, np.maximum(missed, 0.02), label=name, **pictures.style(name))
            above = goal(dataset, "SVM" if kind else "") - majority(dataset)
            axes.axhline(above, color="black", ls=":", lw=1, label="majority")
            axes.axhline(WITHIN, color="gray", lw=1, label=f"{WITHIN:g} point")
            axes.set(yscale="log", ylim=(0.018, 40))
            pictures.epsilon_axis(axes)
            axes.set_title(f"{dataset}: {KINDS[kind]}")
            axes.set_yticks([0.02, 0.1, 0.5, 1, 5, 20], ["<= 0.02", "0.1", "0.5", "1", "5", "20"])
        row[0].set_ylabel("points of accuracy below not private")
    for axes in grid[1]:
        axes.set_xlabel("epsilon")
    pictures.legend_below(figure, 7)
    save(figure, "summary")


def needs(repeats: int):
    return [*papers.needs_of(METHODS, (0, 1), repeats), (kddcup99.TABLE, kddcup99.keys(repeats))]


def note() -> str:
    return papers.note_of(papers.CROSS, METHODS, (0, 1))
