"""Persons with 1 to 50 rows: a fit for persons beside naive ways to the same guarantee (``benchmarks/visits.py``).

delta = 1e-6. A naive way that keeps all rows is a fit for rows with so small an epsilon that 50 rows together have the
epsilon of the table. Another keeps one row of each person. A fit for rows with the epsilon of the table stands there
for comparison. It does not protect persons.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpsk import DPLogisticRegression, DPTabularClassifier

from ..evidence import Gap
from ..experiment import write
from ..inside import GaussianDP, gaussian_mu
from ..table import Folds, Table, markdown, standard_error
from ..visits import MOST, NAMES, RAW, Visits, intraclass_correlation, split_of

EPSILONS, DELTA = (0.5, 1.0, 4.0), 1e-6
NO_NOISE, PERSONS = "without noise", "for persons"
GROUPS, ONE, ROWS = f"for rows, {MOST} together", "for rows, one of each person", "for rows"
PRIVATE = (PERSONS, GROUPS, ONE, ROWS)
ALMOST_INFINITE = 10_000.0
"""The epsilon of ``DPTabularClassifier`` that stands for no noise."""
SHARE = 1 / 3
"""What the loss of the fit for persons may be of that of the naive way with all rows."""
MEASURES = {
    "accuracy": "accuracy, persons",
    "AUC": "AUC, persons",
    "accuracy of rows": "accuracy, rows",
    "AUC of rows": "AUC, rows",
}
"""What is measured, and how it is called where rows of a person weigh 1 together, or each of them weighs 1."""

Found = Mapping[str, Mapping[tuple[str, ...], Folds]]


def measure(folder: Path | None, data: str, method: str, epsilon: float | str, repeat: int) -> list[str]:
    """Return what one fit reaches on new persons, the epsilon of a person with 50 rows, and the processor time."""
    train, test = split_of(data, folder, repeat)
    start = time.process_time()
    model = fit(data, method, float(epsilon or math.inf), train, repeat)
    seconds = time.process_time() - start
    positive, probability = test.y > 0, model.predict_proba(test.X)[:, 1]
    found = [
        score(positive, of, sample_weight=weights)
        for weights in (test.weights, None)
        for score, of in ((accuracy_score, probability > 0.5), (roc_auc_score, probability))
    ]
    return [*(f"{value:.6f}" for value in found), promised(model, method), f"{seconds:.2f}"]


def fit(data: str, method: str, epsilon: float, train: Visits, seed: int) -> Any:
    """Return the model of a method, as users call it."""
    if method == NO_NOISE and data != RAW:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return model.fit(train.X, train.y, logisticregression__sample_weight=train.weights)
    kind = DPTabularClassifier if data == RAW else DPLogisticRegression
    if method == GROUPS:
        epsilon = row_epsilon(epsilon)
    model = kind(epsilon=min(epsilon, ALMOST_INFINITE), delta=DELTA, random_state=seed)
    if method in (PERSONS, NO_NOISE):
        return model.fit(train.X, train.y, groups=train.persons)
    rows = train.one_each(seed) if method == ONE else train
    return model.fit(rows.X, rows.y)


def row_epsilon(epsilon: float) -> float:
    """Return the epsilon of a row that gives 50 rows this epsilon together, at the same delta."""
    mu = gaussian_mu(epsilon, DELTA) / MOST
    return GaussianDP().epsilon(mu * mu, DELTA)


def promised(model: Any, method: str) -> str:
    """Return the epsilon that the report of a model states for a person with 50 rows, if it states one."""
    if method == NO_NOISE:
        return ""
    report = model.privacy_spent_
    try:
        return f"{report.epsilon if method in (PERSONS, ONE) else report.epsilon_for_group(MOST):.4g}"
    except ValueError:
        return ""


TABLE = Table(
    "persons", ("data", "method", "epsilon", "repeat"), (*MEASURES, "epsilon of a person", "seconds"), measure
)


def described(folder: Path | None, data: str, repeat: int) -> list[str]:
    """Return numbers of persons and rows to train on, and how alike the labels of a person are.

    The second correlation is that of labels less the probabilities of a logistic regression, on new persons.
    """
    train, test = split_of(data, folder, repeat)
    sizes = np.bincount(train.persons)
    numbers = [len(sizes), len(train.y), int(np.median(sizes)), int(sizes.max())]
    probability = fit(data, NO_NOISE, math.inf, train, repeat).predict_proba(test.X)[:, 1]
    labels = 1.0 * (test.y > 0)
    alike = [intraclass_correlation(values, test.persons) for values in (labels, labels - probability)]
    return [*map(str, numbers), f"{(train.y > 0).mean():.4f}", *(f"{value:.3f}" for value in alike)]


SETS = Table(
    "persons_data",
    ("data", "repeat"),
    ("persons", "rows", "median of rows", "most rows", "positive", "correlation", "unexplained correlation"),
    described,
)


def needs(repeats: int) -> list[tuple[Table, Iterable[tuple]]]:
    cells = [(NO_NOISE, ""), *product(PRIVATE, EPSILONS)]
    keys = [(data, *cell, repeat) for data in NAMES for repeat in range(repeats) for cell in cells]
    return [(SETS, [(data, 0) for data in NAMES]), (TABLE, keys)]


# ------------------------------------------------------------------------------------------------------ report


def everything() -> Found:
    """Return what was measured: for each measure the repeats by data, method and epsilon, in percent."""
    return {
        name: {
            cell: {repeat: value * (1 if name == "accuracy" else 100) for repeat, value in values.items()}
            for cell, values in TABLE.folds(("data", "method", "epsilon"), name, ("repeat",)).items()
        }
        for name in MEASURES
    }


def loss(found: Found, measured: str, data: str, method: str, epsilon: float) -> Gap | None:
    """Return by how much a method is below the model without noise; None where it was not measured."""
    cells = found[measured]
    reference, own = cells.get((data, NO_NOISE, ""), {}), cells.get((data, method, str(epsilon)), {})
    return Gap.between(reference, own) if set(reference) & set(own) else None


def losses(found: Found, data: str) -> str:
    """Return what the model without noise reaches, and what the others lose, with standard errors over seeds."""
    lines = []
    for measured, name in MEASURES.items():
        reference = np.array([*found[measured].get((data, NO_NOISE, ""), {}).values()])
        error = f" ± {standard_error(reference):.2f}" if len(reference) > 1 else ""
        lines.append([name, NO_NOISE, *[f"{reference.mean():.2f}{error}"] * len(EPSILONS)])
        for method in PRIVATE:
            gaps = [loss(found, measured, data, method, epsilon) for epsilon in EPSILONS]
            texts = ["" if gap is None else f"{gap.mean:+.2f} ± {gap.error:.2f}" for gap in gaps]
            lines.append([name, method, *texts])
    return markdown(["", "method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], lines)


def excess(found: Found, measured: str, data: str, epsilon: float) -> Gap | None:
    """Return by how much the fit for persons loses more than its share of what the naive way loses."""
    methods = ((NO_NOISE, ""), (PERSONS, str(epsilon)), (GROUPS, str(epsilon)))
    reference, own, naive = (found[measured].get((data, *method), {}) for method in methods)
    repeats = set(reference) & set(own) & set(naive)
    if not repeats:
        return None
    return Gap.of(reference[r] - own[r] - SHARE * (reference[r] - naive[r]) for r in sorted(repeats))


def aims(found: Found) -> str:
    """Return in how many cells the loss is at most a third of that of the naive way, and name the others."""
    cells = {
        (data, f"epsilon {epsilon:g}", MEASURES[measured]): excess(found, measured, data, epsilon)
        for data, epsilon, measured in product(NAMES, EPSILONS, MEASURES)
    }
    known = {cell: gap for cell, gap in cells.items() if gap is not None}
    missed = {cell: gap for cell, gap in known.items() if gap.mean > 0}
    named = "; ".join(f"{', '.join(cell)} (by {gap.mean:.2f} ± {gap.error:.2f} points)" for cell, gap in missed.items())
    kept = len(known) - len(missed)
    text = f"In {kept} of {len(known)} cells the fit for persons loses at most a third of that."
    return f"{text} Not: {named}." if missed else text


def guarantees() -> str:
    """Return the largest epsilon that a person with 50 rows has by the report of each method."""
    lines = []
    for data, method in product(NAMES, PRIVATE):
        rows = [TABLE.rows().where(data=data, method=method, epsilon=epsilon) for epsilon in EPSILONS]
        texts = [[row["epsilon of a person"] for row in some if row["epsilon of a person"]] for some in rows]
        lines.append([data, method, *(max(some, key=float) if some else "no statement" for some in texts)])
    return markdown(["data", "method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], lines)


def report() -> None:
    found = everything()
    sections = [f"## {data}\n\n{losses(found, data)}" for data in NAMES if (data, NO_NOISE, "") in found["AUC"]]
    write(
        "persons",
        delta=DELTA,
        most=MOST,
        infinite=ALMOST_INFINITE,
        seeds=len(TABLE.rows().by("repeat")),
        sets=SETS.rows().markdown([field for field in SETS.fields if field != "repeat"]),
        aims=aims(found),
        guarantees=guarantees(),
        tables="\n\n".join(sections),
        machine=TABLE.machine(),
    )
