"""KDDCup99 (the 10 % file): all rows and mini-batches of 40,000, accuracy and time (Lee & Kifer 2018, Fig. 4).

delta = 1e-12. Seconds are of processor time in one thread, so that they may be compared when a machine is shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from dpsk import DPAGDSVC, DPAGDLogisticRegression

from .. import pictures
from ..experiment import fits, save, write
from ..folds import fold_of, seed_of
from ..methods import ALPHA, CONFIGURATIONS, EPSILONS, KDD_LINES, KINDS, PAPER, kdd_name
from ..solvers.privgene import PrivGeneClassifier
from ..table import Rows, Table, markdown
from .accuracy import means, scored_by_name

DELTA, BATCH = 1e-12, 40_000
# generations are counted in epsilon * rows / pace: 8,000 leaves as many as the other data sets have at 800
GENES = {"batch_size": BATCH, "pace": 8000.0}
PUBLISHED = {"alpha": ALPHA, "selection": "laplace", "batch_size": BATCH, **PAPER}
BATCHES = {
    "DP-AGD, batches": DPAGDLogisticRegression(alpha=ALPHA, batch_size=BATCH),
    "DP-AGD paper + laplace, batches": DPAGDLogisticRegression(**PUBLISHED),
    "PrivGene, batches": PrivGeneClassifier(**GENES),
    "DP-AGD SVM, batches": DPAGDSVC(alpha=ALPHA, batch_size=BATCH),
    "DP-AGD SVM paper + laplace, batches": DPAGDSVC(**PUBLISHED),
    "PrivGene SVM, batches": PrivGeneClassifier(loss="hinge", **GENES),
}
NAMES = (
    "default", "DP-AGD", "DP-AGD, batches", "DP-AGD paper + laplace", "DP-AGD paper + laplace, batches",
    "objective perturbation", "DP-SGD", "SGD-Adv", "SGD-MA", "PrivGene, batches",
    "default SVM", "DP-AGD SVM", "DP-AGD SVM, batches", "DP-AGD SVM paper + laplace",
    "DP-AGD SVM paper + laplace, batches", "objective perturbation SVM", "DP-SGD SVM", "SGD-Adv SVM", "SGD-MA SVM",
    "PrivGene SVM, batches",
)  # fmt: skip
MODELS = {name: BATCHES.get(name) or CONFIGURATIONS[name] for name in NAMES}
NOT_PRIVATE = ("majority", "not private", "not private SVM")


def measure(folder: Path | None, configuration: str, epsilon, fold: int) -> tuple[str, str, str]:
    """Return accuracy, objective and seconds of one fit."""
    rows = fold_of("kddcup99", folder, 0, fold)
    return scored_by_name(MODELS, configuration, rows, epsilon, DELTA, seed_of(0, fold))


TABLE = Table("kddcup99", ("configuration", "epsilon", "fold"), ("accuracy", "objective", "seconds"), measure)


def keys(repeats: int) -> Iterable[tuple]:
    """Yield one fold after the other, so that what is there when a run is stopped is balanced."""
    for fold in range(repeats):
        yield from ((name, "", fold) for name in NOT_PRIVATE)
        yield from ((name, epsilon, fold) for name in MODELS for epsilon in EPSILONS)


def rows() -> Rows:
    """Return the rows with the columns that those of accuracy.csv have."""
    return TABLE.rows().also(dataset="kddcup99", delta="1e-12", repeat="0")


def note() -> str:
    about = "folds of one 5-fold cross-validation of the 10 % file; the paper: 20 repeats of 5 folds, 4,898,431 rows"
    return f"{about}. {fits((r for r in TABLE.rows() if r['epsilon']), 'configuration', ('epsilon',))}"


def report() -> None:
    """Draw error and time of a fit over epsilon, all rows and with batches of 40,000; write the table."""
    scores, seconds = means(rows()), means(rows(), "seconds")
    figure, tables = pictures.figure(13, 9), []
    grid = figure.subplots(2, 2, sharex=True)
    for kind, (top, bottom) in enumerate(grid.T):
        draw(top, scores, kind, error=True)
        draw(bottom, seconds, kind, error=False)
        goal, majority = (scores["kddcup99", name, ""].mean() for name in (not_private(kind), "majority"))
        top.axhline(100 - goal, color="black", ls="--", lw=1, label="not private")
        top.axhline(100 - majority, color="black", ls=":", lw=1, label="majority")
        top.set(title=KINDS[kind], yscale="log")
        pictures.ticks(top, y=(0.2, 0.5, 1, 2, 5, 10, 20))
        bottom.set(yscale="log", xlabel="epsilon (delta = 1e-12)")
        pictures.ticks(bottom, y=(0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
        tables += [f"## {KINDS[kind]}", f"Not private {goal:.2f}, majority {majority:.2f}.", table_of(kind)]
    grid[0, 0].set_ylabel("error (100 - accuracy), %")
    grid[1, 0].set_ylabel("seconds of processor time")
    pictures.legend_below(figure, 4)
    save(figure, "lee_kifer_4")
    write("kddcup99", least=math.log(1 / DELTA) / 32, ahead=ahead_from(), tables="\n\n".join(tables))


def not_private(kind: int) -> str:
    return "not private SVM" if kind else "not private"


def ahead_from() -> str:
    """Return from which epsilon on the mean of the default is above that of the model without privacy."""
    scores, texts = means(rows()), []
    for kind, name in enumerate(("default", "default SVM")):
        goal = scores["kddcup99", not_private(kind), ""].mean()
        above = [scores["kddcup99", name, str(epsilon)].mean() > goal for epsilon in EPSILONS]
        first = next((epsilon for i, epsilon in enumerate(EPSILONS) if all(above[i:])), None)
        texts.append(f"`{name}` " + ("at none" if first is None else f"from {first:g} on"))
    return ", ".join(texts)


def draw(axes, cells: pictures.Cells, kind: int, error: bool) -> None:
    for name in KDD_LINES:
        for batches in (False, True):
            epsilons, values = pictures.curve(cells, "kddcup99", kdd_name(name, kind, batches))
            if epsilons:
                look = pictures.style(name) | ({"ls": ":", "mfc": "none"} if batches else {"ls": "-"})
                label = name + (", batches of 40,000" if batches else "")
                axes.plot(epsilons, [100 - v.mean() if error else v.mean() for v in values], label=label, **look)
    pictures.epsilon_axis(axes)


def table_of(kind: int) -> str:
    """Return accuracies and seconds of every configuration."""
    scores, seconds, lines = means(rows()), means(rows(), "seconds"), []
    groups = TABLE.rows().by("configuration")
    for name in MODELS:
        if ("SVM" in name) == bool(kind) and (name,) in groups:
            found = [scores.get(("kddcup99", name, str(epsilon))) for epsilon in EPSILONS]
            times = [values.mean() for key, values in seconds.items() if key[1] == name]
            took = f"{min(times):.1f} to {max(times):.1f}" if times else ""
            folds = len(groups[name,].by("fold"))
            lines.append([name, folds, *("" if v is None else f"{v.mean():.2f}" for v in found), took])
    return markdown(["method", "folds", *(f"{e:g}" for e in EPSILONS), "seconds"], lines)
