"""Raw tables: ``DPTabularClassifier`` beside DP-EBM (Nori et al. 2021), the default on public one-hot columns, and
models without privacy.

DP-EBM is measured at its defaults and with settings of a grid. "Tuned" is the best setting of the grid for every table,
epsilon and measure, chosen on these test folds: no user can reach it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from ..evidence import Gap
from ..experiment import write
from ..folds import fitted, seed_of
from ..frames import NAMES, Facts, facts_of, load_frame
from ..raw_methods import BOOSTED, EBM, LINEAR, LOGISTIC, NOT_PRIVATE, OURS, SETTINGS, VERSION, method
from ..table import Folds, Table, markdown, per_repeat, standard_error

TABLES = (*NAMES, *(f"{name}, 20 % missing" for name in ("adult", "bank", "loans")))
OFTEN = ("adult", "bank")
"""What is measured with every seed; the others with the first one."""
EPSILONS, DELTA = (0.1, 0.5, 1.0, 4.0), 1e-6
PRIVATE = (EBM, *SETTINGS, LINEAR, OURS)
MEASURES = {"accuracy": 2, "AUC": 4, "log-loss": 4, "seconds": 2}
"""By how many digits they are shown."""
TUNED = "DP-EBM, tuned"
HIGHER, AIM = 0.5, 0.5
"""From which epsilon on it has to be above DP-EBM, and how many points below the others it may be at the least."""

STUDY, BELOW = {  # accuracies of a prototype, and how many points below them is near enough
    ("adult", 0.1): 84.5, ("adult", 0.5): 86.2, ("adult", 1.0): 86.5, ("adult", 4.0): 86.8,
    ("bank", 0.1): 89.1, ("bank", 0.5): 89.8, ("bank", 1.0): 90.2, ("bank", 4.0): 90.6,
}, 0.2  # fmt: skip
COLUMNS = tuple(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
NOT_YET = f"{OURS} was not measured yet."

Found = Mapping[str, Mapping[tuple[str, ...], Folds]]


@lru_cache(maxsize=1)
def raw(name: str, folder: Path | None) -> tuple[pd.DataFrame, np.ndarray, Facts]:
    frame, y = load_frame(name, folder)
    return frame, y, facts_of(frame)


def measure(folder: Path | None, table: str, name: str, epsilon: float | str, repeat: int, fold: int) -> list[str]:
    """Return what the model of one fold reaches, and the processor time of its fit."""
    frame, y, facts = raw(table, folder)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(frame, y))[fold]
    model = method(name, facts, float(epsilon or 1), DELTA, seed_of(repeat, fold))
    model, seconds = fitted(model, frame.iloc[train], y[train])
    return [*scores(y[test] > 0, model.predict_proba(frame.iloc[test])[:, 1]), f"{seconds:.3f}"]


def scores(positive: np.ndarray, probability: np.ndarray) -> list[str]:
    """Return accuracy, AUC and log-loss; a probability of 0 or 1 counts as one within 1e-15 of it."""
    within = np.clip(probability, 1e-15, 1 - 1e-15)
    found = (
        accuracy_score(positive, probability > 0.5),
        roc_auc_score(positive, probability),
        log_loss(positive, within),
    )
    return [f"{value:.6f}" for value in found]


TABLE = Table("tabular", ("table", "method", "epsilon", "repeat", "fold"), tuple(MEASURES), measure)


def keys(repeats: int) -> Iterable[tuple]:
    for repeat in range(repeats):
        for table in TABLES if repeat == 0 else OFTEN:
            cells = [(name, epsilon) for name in PRIVATE for epsilon in EPSILONS]
            cells += [(name, "") for name in NOT_PRIVATE]
            yield from ((table, *cell, repeat, fold) for cell in cells for fold in range(5))


# ------------------------------------------------------------------------------------------------------ report


def everything() -> Found:
    """Return what was measured: for each measure the folds by table, method and epsilon."""
    return {measured: TABLE.folds(("table", "method", "epsilon"), measured) for measured in MEASURES}


def tuned(found: Found, table: str, epsilon: float, measured: str) -> tuple[str, Folds]:
    """Return the setting with the best mean over the folds that all settings have; nothing if there are none."""
    known = {name: found[measured].get((table, name, str(epsilon)), {}) for name in SETTINGS}
    common = set.intersection(*(set(folds) for folds in known.values()))
    if not common:
        return "", {}
    means = {name: np.mean([folds[fold] for fold in common]) for name, folds in known.items()}
    best = (min if measured == "log-loss" else max)(means, key=means.__getitem__)
    return best, known[best]


def folds_of(found: Found, table: str, name: str, epsilon: float | str, measured: str) -> Folds:
    """Return a cell; the time of the tuned one is that of its best setting for accuracy."""
    if name == TUNED and measured != "seconds":
        return tuned(found, table, float(epsilon), measured)[1]
    if name == TUNED:
        name, _ = tuned(found, table, float(epsilon), "accuracy")
    return found[measured].get((table, name, str(epsilon)), {})


def shown(folds: Folds, digits: int) -> str:
    """Return the mean and its standard error over seeds."""
    if not folds:
        return ""
    seeds = per_repeat(folds)
    error = f" ± {standard_error(seeds):.{digits}f}" if len(seeds) > 1 else ""
    return f"{seeds.mean():.{digits}f}{error}"


def scores_of(found: Found, table: str) -> str:
    """Return what every method reaches on one table."""
    lines = []
    for measured, digits in MEASURES.items():
        for name in (OURS, EBM, TUNED, LINEAR):
            texts = [shown(folds_of(found, table, name, epsilon, measured), digits) for epsilon in EPSILONS]
            lines.append([measured, name, *texts, ""])
        for name in NOT_PRIVATE:
            lines.append(
                [measured, name, *("" for _ in EPSILONS), shown(folds_of(found, table, name, "", measured), digits)]
            )
    return markdown(["", "method", *COLUMNS, "no noise"], lines)


def gaps(found: Found, other: str, measured: str) -> dict[tuple[str, float], Gap]:
    """Return by how much our estimator is above another method, by table and epsilon, where both were measured."""
    pairs = {
        cell: [folds_of(found, cell[0], name, cell[1], measured) for name in (OURS, other)]
        for cell in product(TABLES, EPSILONS)
    }
    return {cell: Gap.between(ours, theirs) for cell, (ours, theirs) in pairs.items() if set(ours) & set(theirs)}


def differences(found: Found, other: str) -> str:
    """Return all gaps to another method, with their intervals."""
    lines = []
    for measured, digits in MEASURES.items():
        known = gaps(found, other, measured)
        for table in dict.fromkeys(table for table, _ in known):
            texts = [
                interval(known[table, epsilon], digits) if (table, epsilon) in known else "" for epsilon in EPSILONS
            ]
            lines.append([measured, table, *texts])
    return markdown(["", "table", *COLUMNS], lines) if lines else NOT_YET


def interval(gap: Gap, digits: int) -> str:
    return f"{gap.mean:+.{digits}f}" + (f" ± {gap.half_width():.{digits}f}" if gap.count > 1 else " (one run)")


def aims(found: Found) -> str:
    """Return in how many cells our estimator is where it is meant to be, and which cells are elsewhere."""
    higher, least = {}, {}
    for measured in ("accuracy", "AUC"):
        known = gaps(found, TUNED, measured)
        higher |= {(*cell, measured): gap.mean for cell, gap in known.items() if cell[1] >= HIGHER}
    for other in (TUNED, EBM, LINEAR):
        known = gaps(found, other, "accuracy")
        least |= {(*cell, other): gap.mean + AIM for cell, gap in known.items() if cell[1] == EPSILONS[0]}
    if not higher or not least:
        return NOT_YET
    means = {cell: per_repeat(folds_of(found, cell[0], OURS, cell[1], "accuracy")) for cell in STUDY}
    known = {cell: means[cell].mean() - STUDY[cell] + BELOW for cell in STUDY if len(means[cell])}
    texts = [
        counted(higher, f"cells of accuracy and AUC at epsilon {HIGHER:g} and more are above the tuned DP-EBM"),
        counted(
            least, f"accuracies at epsilon {EPSILONS[0]:g} are at most {AIM:g} points below another private method"
        ),
        counted(known, f"accuracies on adult and bank are those of a study of such a method, less {BELOW:g} points"),
        beside_models_without_noise(found),
    ]
    return "\n".join(f"- {text}" for text in texts)


def counted(above: Mapping[tuple, float], what: str) -> str:
    """Return how many cells are above 0, and which are not."""
    missed = [cell for cell, by in above.items() if by <= 0]
    named = "; ".join(", ".join(map(str, cell)) for cell in missed)
    return f"{len(above) - len(missed)} of {len(above)} {what}" + (f". Not: {named}." if missed else ".")


def beside_models_without_noise(found: Found) -> str:
    """Return accuracy and time on Adult at epsilon 1, compared with the models without noise."""
    ours, other = (
        folds_of(found, "adult", name, epsilon, "accuracy") for name, epsilon in ((OURS, 1.0), (LOGISTIC, ""))
    )
    times = [folds_of(found, "adult", name, epsilon, "seconds") for name, epsilon in ((OURS, 1.0), (BOOSTED, ""))]
    if not set(ours) & set(other) or not all(times):
        return NOT_YET
    ratio = np.mean([*times[0].values()]) / np.mean([*times[1].values()])
    gap = interval(Gap.between(ours, other), 2)
    return f"adult, epsilon 1: accuracy {gap} points to {LOGISTIC}; {ratio:.1f} times the seconds of {BOOSTED}."


def choices(found: Found) -> str:
    """Return which setting of DP-EBM was chosen how often, among all tables, epsilons and measures."""
    cells = product(TABLES, EPSILONS, ("accuracy", "AUC", "log-loss"))
    counts = Counter(tuned(found, *cell)[0] for cell in cells)
    return markdown(["setting", "chosen"], [(name, counts[name]) for name in SETTINGS])


def report() -> None:
    found = everything()
    measured = {table for table, _, _ in found["accuracy"]}
    sections = [f"## {table}\n\n{scores_of(found, table)}" for table in TABLES if table in measured]
    write(
        "tabular",
        tables="\n\n".join(sections),
        aims=aims(found),
        differences=differences(found, TUNED),
        linear=differences(found, LINEAR),
        choices=choices(found),
        delta=DELTA,
        version=VERSION,
        settings=len(SETTINGS),
        machine=TABLE.machine(),
    )
