"""Rare classes: ``DPLogisticRegression(class_weight="balanced")`` beside a balanced model without noise.

Tables of 2, 5 and 10 % positives, with 20,000 rows or more to train on. They are made by leaving positives out at
random. ijcnn1 has 9.6 % and keeps them all in place of 10 %. In covtype class 1 is the positive one, in kddcup99 an
attack is. delta = 1e-6.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, recall_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpsk import DPLogisticRegression

from ..datasets import FILES, DataNotFound, load
from ..evidence import Gap
from ..experiment import write
from ..folds import Fold
from ..table import Folds, Table, markdown, standard_error

DATASETS = ("adult", "bank", "covtype", "ijcnn1", "kddcup99")
SHARES = (2, 5, 10)
"""Percents of positives."""
MOST = 125_000
"""Rows of a table, a sample of more: four fifths of them are trained on."""
EPSILONS, DELTA = (0.5, 1.0, 4.0), 1e-6
NO_NOISE, BALANCED, PLAIN = "balanced, without noise", "balanced", "without class weights"
MEASURES = ("balanced accuracy", "recall", "AUC")
AIM, AT = 1.5, 1.0
"""How many points of balanced accuracy may be lost, and at which epsilon."""

Found = Mapping[str, Mapping[tuple[str, ...], Folds]]


@lru_cache(maxsize=1)
def whole(dataset: str, folder: Path | None) -> tuple[Any, np.ndarray]:
    if dataset != "covtype":
        return load(dataset, folder)
    if folder is None:
        raise DataNotFound(f"all classes of covtype have no fetcher here: put {FILES[dataset]} into a folder")
    with np.load(folder / FILES[dataset]) as stored:
        return stored["X"], np.where(stored["y"] == 1, 1, -1)


def split_of(dataset: str, folder: Path | None, share: int, repeat: int) -> Fold:
    """Return a table with so many percent of positives, a fifth of it to test with."""
    X, y = whole(dataset, folder)
    rng = np.random.default_rng(repeat)
    positive, negative = rng.permutation(np.flatnonzero(y > 0)), rng.permutation(np.flatnonzero(y < 0))
    negative = negative[: MOST * (100 - share) // 100]
    chosen = np.append(positive[: round(len(negative) * share / (100 - share))], negative)
    train, test = train_test_split(chosen, test_size=0.2, stratify=y[chosen], random_state=repeat)
    return Fold(X[train], y[train], X[test], y[test])


def measure(folder: Path | None, dataset: str, share: int, method: str, epsilon: float | str, repeat: int) -> list[str]:
    """Return what one fit reaches on the rows that were held out, and its processor time."""
    rows = split_of(dataset, folder, share, repeat)
    start = time.process_time()
    model = unfitted(method, float(epsilon or math.inf), repeat).fit(rows.X, rows.y)
    seconds = time.process_time() - start
    predicted = model.predict(rows.test_X)
    found = (
        balanced_accuracy_score(rows.test_y, predicted),
        recall_score(rows.test_y, predicted),
        roc_auc_score(rows.test_y, model.predict_proba(rows.test_X)[:, 1]),
    )
    return [str(len(rows.y)), str((rows.y > 0).sum()), *(f"{value:.6f}" for value in found), f"{seconds:.2f}"]


def unfitted(method: str, epsilon: float, seed: int) -> Any:
    if method == NO_NOISE:
        scaler = StandardScaler(with_mean=False)  # rows of kddcup99 are sparse
        return make_pipeline(scaler, LogisticRegression(class_weight="balanced", max_iter=1000))
    weights = {"class_weight": "balanced"} if method == BALANCED else {}
    return DPLogisticRegression(epsilon=epsilon, delta=DELTA, random_state=seed, **weights)


TABLE = Table(
    "rare_classes",
    ("dataset", "share", "method", "epsilon", "repeat"),
    ("rows", "positives", *MEASURES, "seconds"),
    measure,
)


def keys(repeats: int) -> Iterable[tuple]:
    cells = [(NO_NOISE, ""), *product((BALANCED, PLAIN), EPSILONS)]
    for dataset, repeat, share in product(DATASETS, range(repeats), SHARES):
        yield from ((dataset, share, *cell, repeat) for cell in cells)


# ------------------------------------------------------------------------------------------------------ report


def everything() -> Found:
    """Return what was measured, in percent: for each measure the repeats by dataset, share, method and epsilon."""
    cell = ("dataset", "share", "method", "epsilon")
    return {
        name: {
            key: {repeat: 100 * value for repeat, value in values.items()}
            for key, values in TABLE.folds(cell, name, ("repeat",)).items()
        }
        for name in MEASURES
    }


def shown(folds: Folds) -> str:
    """Return the mean and its standard error over seeds."""
    values = np.array([*folds.values()])
    if not values.size:
        return ""
    return f"{values.mean():.2f}" + (f" ± {standard_error(values):.2f}" if len(values) > 1 else "")


def table_of(found: Found, dataset: str) -> str:
    """Return what every method reaches on one data set."""
    lines = []
    for measured, share in product(MEASURES, SHARES):
        cells = found[measured]
        lines.append(
            [measured, share, NO_NOISE, *[shown(cells.get((dataset, str(share), NO_NOISE, ""), {}))] * len(EPSILONS)]
        )
        for method in (BALANCED, PLAIN):
            texts = [shown(cells.get((dataset, str(share), method, str(epsilon)), {})) for epsilon in EPSILONS]
            lines.append([measured, share, method, *texts])
    return markdown(["", "% positives", "method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], lines)


def losses(found: Found, epsilon: float) -> dict[tuple[str, int], Gap]:
    """Return the points of balanced accuracy that are lost, by data set and share, where both were measured."""
    cells, gaps = found["balanced accuracy"], {}
    for dataset, share in product(DATASETS, SHARES):
        pair = [cells.get((dataset, str(share), *end), {}) for end in ((NO_NOISE, ""), (BALANCED, str(epsilon)))]
        if set(pair[0]) & set(pair[1]):
            gaps[dataset, share] = Gap.between(*pair)
    return gaps


def aims(found: Found) -> str:
    """Return what is lost in every cell, and which cells lose more than they may."""
    known = losses(found, AT)
    missed = {cell: gap for cell, gap in known.items() if gap.mean > AIM}
    named = "; ".join(f"{name}, {share} % ({gap.mean:.2f} ± {gap.error:.2f})" for (name, share), gap in missed.items())
    text = f"{len(known) - len(missed)} of {len(known)} tables lose at most {AIM:g} points at epsilon {AT:g}."
    return f"{text} Not: {named}." if missed else text


def lost(found: Found) -> str:
    """Return the points that are lost at every epsilon, with rows and positives to train on."""
    lines, all_gaps = [], {epsilon: losses(found, epsilon) for epsilon in EPSILONS}
    for dataset, share in product(DATASETS, SHARES):
        rows = TABLE.rows().where(dataset=dataset, share=share)
        if rows:
            gaps = [all_gaps[epsilon].get((dataset, share)) for epsilon in EPSILONS]
            texts = ["" if gap is None else f"{gap.mean:+.2f} ± {gap.error:.2f}" for gap in gaps]
            lines.append([dataset, share, rows[0]["rows"], rows[0]["positives"], *texts])
    head = ["data", "% positives", "rows", "positives", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)]
    return markdown(head, lines)


def report() -> None:
    found = everything()
    measured = {dataset for dataset, *_ in found["AUC"]}
    sections = [f"## {dataset}\n\n{table_of(found, dataset)}" for dataset in DATASETS if dataset in measured]
    write(
        "rare_classes",
        delta=DELTA,
        seeds=len(TABLE.rows().by("repeat")),
        aims=aims(found),
        lost=lost(found),
        tables="\n\n".join(sections),
        machine=TABLE.machine(),
    )
