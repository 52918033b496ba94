"""Which fits end near chance, and what public facts say about it: the measurements behind a warning."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from dpsk import (
    DPAGDLogisticRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    Number,
    OutputPerturbationLogisticRegression,
)

from ..datasets import DataNotFound, load
from ..experiment import write
from ..folds import fitted
from ..inside import EACH, FIELD, ONCE, WIDE, Facts, Schema, conversions, hopeful_product, plan_of, strength_of
from ..table import Row, Table, markdown

DELTA = 1e-6
TESTED = 2_000
DEFAULT, TABULAR = "DPLogisticRegression", "DPTabularClassifier"
HOPELESS, FINE, PLAIN = 0.2, 0.4, 8.0
ESTIMATORS: dict[str, Any] = {
    "DPLogisticRegression": DPLogisticRegression,
    "DPLinearSVC": DPLinearSVC,
    "DPAGDLogisticRegression": DPAGDLogisticRegression,
    "DPSGDClassifier": DPSGDClassifier,
    TABULAR: DPTabularClassifier,
    "DPSecondOrderClassifier": DPSecondOrderClassifier,
    "OutputPerturbationLogisticRegression": OutputPerturbationLogisticRegression,
}
MADE = ("few columns matter", "all columns matter", "clusters", "factors", "words", "far apart")
RAW = {"raw adult": "adult_raw.csv.gz", "raw loans": "loans_raw.csv.gz"}
REAL = ("digits", "cancer", "adult", "ipums_br", "covtype", "mnist", "fashion_mnist")
SHAPES = 14
"""Of made rows of each kind. Constants were chosen on the first half, and are checked on the others."""
SMALL = 3e6
NAMED = ((3_000, 5_000, 2), (15_000, 300, 120))
SIZES = {
    "digits": (64, 10), "cancer": (30, 2), "adult": (108, 2), "ipums_br": (52, 2), "covtype": (54, 2),
    "mnist": (784, 10), "fashion_mnist": (784, 10),
}  # fmt: skip
_TABLES = [(n, epsilon) for n in (500, 2_000, 10_000) for epsilon in (0.03, 0.1, 0.3, 1.0)]
_IMAGES = [(n, epsilon) for n in (500, 2_000, 10_000) for epsilon in (0.1, 0.3, 1.0, 3.0)]
ROWS = {
    "digits": [(n, epsilon) for n in (300, 1_297) for epsilon in (0.1, 0.3, 1.0, 3.0)],
    "cancer": [(369, epsilon) for epsilon in (0.1, 0.3, 1.0, 4.0)],
    **dict.fromkeys(("adult", "ipums_br", "covtype"), _TABLES),
    **dict.fromkeys(("mnist", "fashion_mnist"), _IMAGES),
}


class Split(NamedTuple):
    """Rows to train on and to test with, and what is reached without a model and without privacy."""

    X: Any
    y: np.ndarray
    test_X: Any
    test_y: np.ndarray
    majority: float
    exact: float


def made(kind: str, n: int, p: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of one kind, with classes of about one size, in columns between 0 and 1."""
    if kind == "words":  # 30 words a row, most of them rare; each class has its own taste
        common = 1 / np.arange(1, p + 1)
        y = rng.integers(k, size=n)
        taste = common * np.exp(0.5 * rng.normal(size=(k, p)))
        X = np.zeros((n, p))
        for label in range(k):
            rows = np.flatnonzero(y == label)
            drawn = rng.choice(p, size=(len(rows), 30), p=taste[label] / taste[label].sum())
            X[rows[:, None], drawn] = 1
        return X, y
    if kind in ("clusters", "far apart"):  # centres at a distance of 6, or of 2 in every column
        centres = rng.normal(size=(k, p)) * (math.sqrt(2) if kind == "far apart" else 6 / math.sqrt(2 * p))
        y = rng.integers(k, size=n)
        return within(centres[y] + rng.normal(size=(n, p))), y
    seen = {"few columns matter": min(p, 2 + k // 2), "all columns matter": p, "factors": min(p, 8 + k // 4)}[kind]
    Z = rng.normal(size=(n, seen))
    W = rng.normal(size=(seen, k)) / math.sqrt(seen)
    y = np.argmax(8 * (Z @ W) + rng.gumbel(size=(n, k)), axis=1)
    if kind == "factors":  # columns are mixtures of a few
        return within(Z @ rng.normal(size=(seen, p)) / math.sqrt(seen) + 0.3 * rng.normal(size=(n, p))), y
    return within(np.hstack([Z, rng.normal(size=(n, p - seen))])), y


def within(X: np.ndarray) -> np.ndarray:
    return np.clip(X / 8 + 0.5, 0, 1)


@lru_cache(maxsize=1)
def split(folder: Path | None, kind: str, n: int, p: int, k: int) -> Split:
    """Return so many rows to train on, and others to test with."""
    rng = np.random.default_rng([n, p, k, len(kind)])
    if kind in RAW:
        return raw_split(folder, kind, n, rng)
    if kind in MADE:
        X, y = made(kind, n + TESTED, p, k, rng)
    else:
        X, y = load(kind, folder)
        X, y = X[order := rng.permutation(len(y))[: n + TESTED]], y[order]
    train, test = (X[:n], y[:n]), (X[n:], y[n:])
    labels, counts = np.unique(train[1], return_counts=True)
    majority = float(np.mean(test[1] == labels[counts.argmax()]))
    scale = StandardScaler().fit(train[0])
    exact = LogisticRegression(C=0.1, max_iter=40, tol=1e-3).fit(scale.transform(train[0]), train[1])
    return Split(*train, *test, majority, float(exact.score(scale.transform(test[0]), test[1])))


def raw_split(folder: Path | None, kind: str, n: int, rng: np.random.Generator) -> Split:
    """Return rows of a raw table; without privacy stands for what an epsilon of 1,000 reaches."""
    if folder is None or not (folder / RAW[kind]).exists():
        raise DataNotFound(f"{kind!r} has no fetcher here: put {RAW[kind]} into a folder, given by --data")
    frame = pd.read_csv(folder / RAW[kind])
    y = frame["y"].to_numpy() if "y" in frame else frame["income"].str.startswith(">").to_numpy().astype(int)
    frame = frame.drop(columns=[name for name in ("y", "income", "split") if name in frame])
    order = rng.permutation(len(y))[: n + TESTED]
    X, y = frame.iloc[order], y[order]
    exact = fitted(DPTabularClassifier(1000.0, DELTA), X[:n], y[:n], random_state=0)[0].score(X[n:], y[n:])
    majority = float(np.mean(y[n:] == np.bincount(y[:n]).argmax()))
    return Split(X[:n], y[:n], X[n:], y[n:], majority, exact)


def model_of(estimator: str, epsilon: float) -> Any:
    """Return an estimator with public bounds; output perturbation with pure noise."""
    if estimator == TABULAR:
        return DPTabularClassifier(epsilon, DELTA)
    return ESTIMATORS[estimator](epsilon, 0.0 if estimator.startswith("Output") else DELTA, bounds=(0, 1))


def measure(
    folder: Path | None, kind: str, n: int, p: int, k: int, epsilon: float, estimator: str, repeats: int
) -> tuple[str, ...]:
    """Return the accuracies of the majority, of private fits and without privacy."""
    rows = split(folder, kind, n, p, k)
    model = model_of(estimator, epsilon).set_params(classes=np.unique(rows.y).tolist())
    found = [
        fitted(model, rows.X, rows.y, random_state=repeat)[0].score(rows.test_X, rows.test_y)
        for repeat in range(repeats)
    ]
    return f"{rows.majority:.4f}", f"{np.mean(found):.4f}", f"{rows.exact:.4f}"


KEY = ("data", "rows", "columns", "classes", "epsilon", "estimator", "repeats")
TABLE = Table("hopeless", KEY, ("majority", "private", "exact"), measure)


def drawn() -> list[tuple]:
    """Return shapes of made rows, with epsilons."""
    rng = np.random.default_rng(0)
    return [key for _ in range(SHAPES) for kind in MADE for key in around(kind, rng)]


def around(kind: str, rng: np.random.Generator) -> list[tuple]:
    """Return a shape of made rows, with epsilons where noise outweighs little or much."""
    while True:
        n, p = (int(10 ** rng.uniform(low, high)) for low, high in ((2.5, 4.5), (0.3, 3.7)))
        k = 2 if rng.random() < 0.4 else int(10 ** rng.uniform(0.5, 2.1))
        weights = (p + 1) * (k if k > 2 else 1)
        wanted = [10**u * math.sqrt(weights) / n for u in rng.uniform(0.3, 1.8, size=3)]
        epsilons = [float(f"{conversions.gaussian_epsilon(DELTA, mu):.2g}") for mu in wanted if mu < 3]
        epsilons = [epsilon for epsilon in epsilons if 0.01 <= epsilon <= 10]
        small = n * p <= 1.5e7 and n * p * k <= 1e8
        if small and len(epsilons) == 3 and n >= 8 * k and (kind != "words" or p >= 60):
            return [(kind, n, p, k, epsilon) for epsilon in epsilons]


def real() -> list[tuple]:
    return [(kind, n, *SIZES[kind], epsilon) for kind in REAL for n, epsilon in ROWS[kind]]


def raw() -> list[tuple]:
    sizes = (("raw adult", 14), ("raw loans", 42))
    return [
        (kind, n, p, 2, epsilon) for kind, p in sizes for n in (500, 2_000, 6_000) for epsilon in (0.03, 0.1, 0.3, 1.0)
    ]


def named() -> list[tuple]:
    return [(kind, *shape, epsilon) for shape in NAMED for kind in MADE for epsilon in (1.0, 2.0, 4.0)]


def keys(repeats: int) -> list[tuple]:
    """Return drawn shapes of made rows, parts of real data, the named shapes, and other estimators at some of these."""
    few = [key for key in drawn() if key[1] * key[2] * key[3] < SMALL][::6]
    others = [(*key, name) for key in few for name in ESTIMATORS if name not in (DEFAULT, TABULAR)]
    others += [(*key, TABULAR) for key in raw()]
    first = [(*key, DEFAULT) for key in drawn() + real() + named()]
    return [(*key, repeats) for key in first + others]


# ------------------------------------------------------------------------------------------------------- the report


class Fit(NamedTuple):
    """One line of the table: how far on the way from the majority to the exact model, and which rules warn."""

    share: float
    warned: bool
    plainly: bool


def fit_of(row: Row) -> Fit:
    """Return what one line of the table says."""
    majority, private, exact = (float(row[name]) for name in ("majority", "private", "exact"))
    model = model_of(row["estimator"], float(row["epsilon"]))
    rows, columns, classes = (int(row[name]) for name in ("rows", "columns", "classes"))
    schema = Schema(tuple(map(str, range(columns))), (Number(),) * columns) if row["data"] in RAW else None
    facts = Facts(rows, columns, classes, schema=schema)
    plan = plan_of(model, facts)
    budget, product = plan.budget, hopeful_product(plan, facts, "zero-out")
    weights = (facts.n_features + 1) * (facts.n_scores or 1)
    plain = PLAIN * (weights if budget.delta == 0 else math.sqrt(weights))
    reached = facts.n_rows * strength_of(budget)
    return Fit((private - majority) / (exact - majority), reached < product, reached < plain)


def counts(fits: list[Fit], rule: str) -> tuple[str, ...]:
    """Return the numbers of hopeless fits with a warning and without, and of fine fits with one and without."""
    found = [sum(getattr(fit, rule) == warned for fit in some) for some in ends(fits) for warned in (True, False)]
    return tuple(map(str, found))


def ends(fits: list[Fit]) -> tuple[list[Fit], list[Fit]]:
    """Return the hopeless fits and the fine ones; those between are neither."""
    return [fit for fit in fits if fit.share < HOPELESS], [fit for fit in fits if fit.share > FINE]


def report() -> None:
    rows = TABLE.rows()
    of = {(*(row[name] for name in KEY[:5]), row["estimator"]): fit_of(row) for row in rows}
    known = {tuple(map(str, key)): key for key in (*drawn(), *real(), *named())}
    default = {key: fit for (*parts, name), fit in of.items() if name == DEFAULT and (key := known.get(tuple(parts)))}
    shapes = drawn()
    first, second = ([default[key] for key in half if key in default] for half in halves(shapes))
    groups: dict[str, list[Fit]] = {"made, first half": first, "made, second half": second}
    for kind in MADE:
        groups[f"made: {kind}"] = [default[key] for key in shapes if key[0] == kind and key in default]
    groups |= {kind: [default[key] for key in real() if key[0] == kind and key in default] for kind in REAL}
    groups |= {
        name: [fit for (*_, other), fit in of.items() if other == name] for name in ESTIMATORS if name != DEFAULT
    }
    lines = [(name, str(len(fits)), *counts(fits, "plainly"), *counts(fits, "warned")) for name, fits in groups.items()]
    kinds = ("hopeless, warned", "hopeless, silent", "fine, warned", "fine, silent")
    header = ("fits", "lines", *(f"{rule}: {kind}" for rule in ("plain", "used") for kind in kinds))
    write(
        "hopeless", repeats=rows[0]["repeats"], table=markdown(header, lines), named=named_table(default),
        hopeless=f"{HOPELESS:.0%}", fine=f"{FINE:.0%}", plain=PLAIN, once=ONCE, each=EACH, wide=WIDE, field=FIELD,
    )  # fmt: skip


def halves(shapes: list[tuple]) -> tuple[list[tuple], list[tuple]]:
    return shapes[: len(shapes) // 2], shapes[len(shapes) // 2 :]


def named_table(fits: dict[tuple, Fit]) -> str:
    """Return how far fits on the named shapes come, by the kind of rows."""
    lines = []
    for n, p, k in NAMED:
        for epsilon in (1.0, 2.0, 4.0):
            some = {kind: fits[key] for kind in MADE if (key := (kind, n, p, k, epsilon)) in fits}
            told = "yes" if any(fit.warned for fit in some.values()) else "no"
            shares = (f"{some[kind].share:.0%}" if kind in some else "" for kind in MADE)
            lines.append((f"{n:,} x {p:,}", str(k), f"{epsilon:g}", told, *shares))
    return markdown(("rows x columns", "classes", "epsilon", "warned", *MADE), lines)
