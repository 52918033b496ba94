"""How often the intervals of ``private_evaluation`` hold, how wide they are, and how far its numbers are from exact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom, norm
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import train_test_split

from dpsk import DPLogisticRegression

from ..datasets import load
from ..experiment import write
from ..inside import (
    Asked,
    BinaryEvaluation,
    Estimate,
    MulticlassEvaluation,
    bits_for,
    discrete_laplace,
    noise_scale,
    opinions,
)
from ..simulated import Drawn, Truth, TruthOfSeveral, asked_of, drawn, evaluation, population, released
from ..table import Table, markdown

Cell = tuple[str, int, float, float, str]
"""Scores, units, epsilon, base rate in percent, and what a unit is."""

SIZES, EPSILONS = (200, 1_000, 5_000, 50_000), (0.05, 0.5, 4.0)
LOW, HIGH = (1_000, 0.5), (5_000, 4.0)
CELLS: tuple[Cell, ...] = (
    *(("calibrated", n, epsilon, 20, "row") for n, epsilon in product(SIZES, EPSILONS)),
    *(("calibrated", n, epsilon, 1, "row") for n, epsilon in ((200, 4.0), LOW, (5_000, 0.5), HIGH)),
    *(("calibrated", 50_000, epsilon, 1, "row") for epsilon in (0.05, 0.5)),
    *(("calibrated", n, epsilon, 50, "row") for n, epsilon in ((200, 4.0), LOW, HIGH)),
    *(("calibrated", n, epsilon, 5, "row") for n, epsilon in ((5_000, 0.5), (50_000, 4.0))),
    *(
        (scores, n, epsilon, 20, "row")
        for scores in ("overconfident", "constant", "ties", "perfect", "useless", "foreign", "decision", "reversed")
        for n, epsilon in (LOW, HIGH)
    ),
    *((scores, 5_000, 0.5, 5, "row") for scores in ("overconfident", "perfect")),
    *(("calibrated", n, epsilon, 20, "person") for n, epsilon in ((200, 4.0), LOW, HIGH)),
    ("overconfident", 5_000, 0.5, 5, "person"),
    ("ties", 1_000, 4.0, 20, "person"),
    *(
        (f"calibrated of {classes}", n, epsilon, 20, "row")
        for classes in (3, 5, 10)
        for n, epsilon in (LOW, HIGH, (50_000, 0.5))
    ),
    *(("overconfident of 3", n, epsilon, 20, "row") for n, epsilon in (LOW, HIGH)),
    ("overconfident of 3", *HIGH, 20, "person"),
)
FIRST, AGAIN = range(2), range(2, 8)
"""Blocks of all cells, and of cells in which a number missed more often than it may in the first ones."""

LOOKED_AT: tuple[Cell, ...] = (
    ("ties", *HIGH, 20, "row"),
    ("useless", *LOW, 20, "row"),
    ("decision", *HIGH, 20, "row"),
    ("calibrated", 200, 4.0, 20, "person"),
    ("foreign", *HIGH, 20, "row"),
    ("calibrated", *HIGH, 20, "row"),
)
"""Cells that looked low in the first blocks: the last two for the bands of calibration."""

CONFIDENCES = (0.9, 0.95)
THRESHOLDS = (0.1, 0.3, 0.7)
RATES = ("precision", "recall", "specificity", "f1")
COSTS = {"false_positive": 1.0, "false_negative": 5.0}
BLOCK = 100
"""Repeats of a row of the table: half of them at each confidence, a third with each threshold.

A sixth has bands, and a third of those that look again.
"""
FIELDS = ("tries", "higher tries", "missed", "higher missed", "missed on rows", "higher missed on rows")
SUMS = ("width", "width on rows", "exact", "squares", "error")
"""What is counted of a number at either confidence, and summed at the higher one."""

Number = tuple[str, Estimate, float, float]
"""A name, an estimate, and what is true of the population and of the rows; NaN where it has no meaning."""
Band = tuple[str, bool]
"""A name, and whether all that it is for lies in it."""


def numbers_of_two(seen: BinaryEvaluation, whole: Truth, rows: Truth, turn: int) -> Iterator[Number]:
    """Yield all numbers of two classes."""
    both = whole, rows
    yield "accuracy", seen.accuracy, *(truth.at(None)["accuracy"] for truth in both)
    halves = [(truth.at(None)["recall"] + truth.at(None)["specificity"]) / 2 for truth in both]
    yield "balanced accuracy", seen.balanced_accuracy, *halves
    yield "base rate", seen.base_rate, *(truth.size[1] / truth.total for truth in both)
    is_probability = seen.released.asked.is_probability
    for threshold in (None, THRESHOLDS[turn]):
        edge = None if threshold is None else float(logit(threshold)) if is_probability else threshold
        at = [truth.at(edge) for truth in both]
        for name in RATES:
            shown = name if threshold is None else f"{name} at {threshold:g}"
            yield shown, getattr(seen, name)(threshold), *(found[name] for found in at)
    yield "AUC", seen.auc, whole.auc, rows.auc
    yield "average precision", seen.average_precision, whole.average_precision, rows.average_precision
    best = seen.best_threshold(**COSTS)
    edge = float(logit(best.threshold)) if is_probability else best.threshold
    edge = seen.released.edges[np.argmin(np.abs(seen.released.edges - edge))]
    yield "cost", best.cost, *(_cost(truth, edge) for truth in both)
    if is_probability:
        yield "log-loss", seen.log_loss, whole.log_loss, rows.log_loss
        yield "Brier", seen.brier, whole.brier, rows.brier
        yield "ECE", seen.ece, *(truth.ece(seen.released.edges) for truth in both)


def _cost(truth: Truth, edge: float) -> float:
    false, hits = truth.above(edge)
    mistakes = COSTS["false_positive"] * false + COSTS["false_negative"] * (truth.size[1] - hits)
    return float(mistakes / truth.total)


def bands_of_two(seen: BinaryEvaluation, whole: Truth) -> Iterator[Band]:
    """Yield whether bands hold as a whole for the population."""
    edges = seen.released.edges[::-1]
    curve, above = seen.roc_curve(), np.array([whole.above(edge) for edge in edges]) / whole.size
    rates = zip((curve.fpr_band, curve.tpr_band), above.T, strict=True)
    yield "ROC band", all(_within(rate, band[1:-1]) for band, rate in rates)
    curve = seen.precision_recall_curve()
    points = [whole.at(edge) for edge in edges]
    for_band = ((curve.precision_band, "precision"), (curve.recall_band, "recall"))
    yield "PR band", all(_within(np.array([at[name] for at in points]), band[:-1]) for band, name in for_band)
    if seen.released.asked.is_probability:
        yield "calibration band", _within(whole.observed(seen.released.edges), seen.calibration_curve().band)


def numbers_of_several(
    seen: MulticlassEvaluation, whole: TruthOfSeveral, rows: TruthOfSeveral, turn: int
) -> Iterator[Number]:
    """Yield all numbers of several classes; of the classes the most frequent and the rarest."""
    yield "accuracy", seen.accuracy, whole.accuracy, rows.accuracy
    yield "balanced accuracy", seen.balanced_accuracy, whole.balanced_accuracy, rows.balanced_accuracy
    yield "log-loss", seen.log_loss, whole.log_loss, rows.log_loss
    yield "ECE", seen.ece, *(truth.winner.ece(seen.released.edges) for truth in (whole, rows))
    last = len(seen.labels) - 1
    for (name, k, of_all), (_, _, of_rows) in zip(whole.rates(), rows.rates(), strict=True):
        if k in (0, last):
            yield f"{name}, {'rarest' if k else 'first'} class", getattr(seen, name)(k), of_all, of_rows


def bands_of_several(seen: MulticlassEvaluation, whole: TruthOfSeveral) -> Iterator[Band]:
    """Yield whether the band of calibration holds."""
    yield "calibration band", _within(whole.winner.observed(seen.released.edges), seen.calibration_curve().band)


def cells_of(seen: Any, rows: Any, turn: int) -> Iterator[Band]:
    """Yield whether intervals of cells of the confusion matrix hold for the rows."""
    matrices = {"": (seen.confusion_matrix(), rows.matrix if isinstance(rows, TruthOfSeveral) else rows.matrix(None))}
    if isinstance(rows, Truth):
        threshold = THRESHOLDS[turn]
        edge = float(logit(threshold)) if seen.released.asked.is_probability else threshold
        matrices[f" at {threshold:g}"] = seen.confusion_matrix(threshold), rows.matrix(edge)
    for at, (found, exact) in matrices.items():
        for i, j in product(range(2), repeat=2):
            yield f"cell {i}{j}{at}", _within(exact[i, j], found.interval_on_rows[i, j])


def _within(value: Any, band: np.ndarray) -> bool:
    """Return whether all values that have a meaning lie in their intervals, but for rounding."""
    inside = (np.asarray(value) >= band[..., 0] - 1e-6) & (np.asarray(value) <= band[..., 1] + 1e-6)
    return bool((inside | np.isnan(value)).all())


# ------------------------------------------------------------------------------------------------------ coverage


def cover(
    folder: Path | None, scores: str, n: int, epsilon: float, percent: float, unit: str, block: int
) -> list[object]:
    """Return what was found in the repeats of a block, by number."""
    base_rate, persons = percent / 100, unit == "person"
    whole, asked, found = population(scores, base_rate, persons), asked_of(scores), dict[str, np.ndarray]()
    for repeat in range(BLOCK * block, BLOCK * (block + 1)):
        rng = np.random.default_rng([repeat, n, int(1000 * epsilon), int(10 * percent)])
        rows = drawn(scores, n, base_rate, persons, rng)
        release = released(rows, asked, epsilon, int(rng.integers(2**31)))
        higher, turn = repeat % 2, repeat % 3
        seen: Any = evaluation(release, CONFIDENCES[higher])
        if asked.positive is not None:
            of_rows: Any = Truth(rows)
            numbers, bands = numbers_of_two(seen, whole, of_rows, turn), bands_of_two(seen, whole)
        else:
            of_rows = TruthOfSeveral(rows, asked.n_classes)
            numbers, bands = numbers_of_several(seen, whole, of_rows, turn), bands_of_several(seen, whole)
        for name, estimate, wanted, here in numbers:
            missed = not _within(wanted, np.array(estimate.interval))
            on_rows = not _within(here, np.array(estimate.interval_on_rows))
            _add(found, name, higher, missed, on_rows)
            if higher and not np.isnan(here):
                widths = (ends[1] - ends[0] for ends in (estimate.interval, estimate.interval_on_rows))
                found[name][len(FIELDS) :] += [*widths, here, here**2, abs(estimate.value - here)]
        for name, held in chain(
            cells_of(seen, of_rows, turn), bands if repeat % 12 < (2 if block in FIRST else 4) else ()
        ):
            _add(found, name, higher, not held, False)
    return [json.dumps({name: [round(float(x), 6) for x in sums] for name, sums in found.items()})]


def _add(found: dict[str, np.ndarray], name: str, higher: int, missed: bool, on_rows: bool) -> None:
    found.setdefault(name, np.zeros(len(FIELDS) + len(SUMS)))[higher : len(FIELDS) : 2] += [1, missed, on_rows]


COVERAGE = Table("evaluation_coverage", ("scores", "n", "epsilon", "percent", "unit", "block"), ("found",), cover)


# ------------------------------------------------------------------------------------------------------ precision

OURS, EVEN, SCORE = "private_evaluation", "even table", "private_score"
EVEN_BINS = 64
PRECISE = ("AUC", "recall", "precision", "F1", "log-loss", "Brier", "ECE", "average precision", "accuracy")
REAL = ("a9a", "bank", "ijcnn1")
PERCENTS, AT = (1, 5, 10, 20, 35, 50), 0.5
"""Base rates in percent, and the epsilon of the tables."""


@lru_cache(maxsize=1)
def pool(dataset: str, folder: Path | None) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a private model of two fifths of a data set, and the rows that were held out."""
    X, y = load(dataset, folder)
    fitted, kept = train_test_split(np.arange(len(y)), test_size=0.6, random_state=0)
    model = DPLogisticRegression(epsilon=1.0, delta=1e-6, random_state=0).fit(X[fitted], y[fitted])
    return model, X[kept], y[kept]


def real(dataset: str, folder: Path | None, n: int, base_rate: float, rng: np.random.Generator) -> Drawn:
    """Return held-out rows as a private model sees them, so many of them of the positive class."""
    model, X, y = pool(dataset, folder)
    positive, n_positive = np.flatnonzero(y > 0), round(n * base_rate)
    negative = np.flatnonzero(y <= 0)
    chosen = np.append(
        rng.choice(positive, n_positive, replace=False), rng.choice(negative, n - n_positive, replace=False)
    )
    seen = opinions(model, X[chosen], y[chosen], Asked.of(model, None))
    return Drawn(seen.true, seen.predicted, seen.score, seen.of_true)


def exact(rows: Drawn, edges: np.ndarray) -> np.ndarray:
    """Return what scikit-learn has on the rows; the calibration error is that of these bins."""
    true, guess, p = rows.true, rows.predicted, expit(np.clip(rows.score, -8.0, 8.0))
    rates = (score(true, guess, zero_division=0) for score in (recall_score, precision_score, f1_score))
    losses = log_loss(true, p, labels=[0, 1]), brier_score_loss(true, p), Truth(rows).ece(edges)
    area = average_precision_score(true, rows.score)
    return np.array([roc_auc_score(true, rows.score), *rates, *losses, area, accuracy_score(true, guess)])


def ours(seen: BinaryEvaluation) -> np.ndarray:
    shown = (seen.auc, seen.recall(), seen.precision(), seen.f1(), seen.log_loss, seen.brier, seen.ece)
    return np.array([number.value for number in (*shown, seen.average_precision, seen.accuracy)])


def even_table(rows: Drawn, epsilon: float, seed: int) -> np.ndarray:
    """Return the numbers of one histogram over label and even bins of the probability; negative counts are set to 0."""
    ends = np.linspace(0, 1, EVEN_BINS + 1)
    bins = np.clip((expit(rows.score) * EVEN_BINS).astype(np.int64), 0, EVEN_BINS - 1)
    counts = np.bincount(rows.true * EVEN_BINS + bins, minlength=2 * EVEN_BINS)
    noise = discrete_laplace(noise_scale(2**20, epsilon), 2 * EVEN_BINS, bits_for(seed)) / 2**20
    counts = np.maximum(counts + noise, 0.0).reshape(2, EVEN_BINS)
    p = (ends[1:] + ends[:-1]) / 2
    middles = logit(p)
    table = Drawn(
        *(np.tile([[0], [1]], EVEN_BINS).ravel(), np.tile(p >= 0.5, 2).astype(np.int64)), *[np.tile(middles, 2)] * 2
    )
    truth = Truth(table, counts.ravel())
    at = truth.at(None)
    found = (truth.auc, at["recall"], at["precision"], at["f1"], truth.log_loss, truth.brier)
    return np.nan_to_num([*found, truth.ece(logit(ends[1:-1])), truth.average_precision, at["accuracy"]])


def even_edges() -> np.ndarray:
    return logit(np.linspace(0, 1, EVEN_BINS + 1)[1:-1])


def precise(folder: Path | None, data: str, n: int, epsilon: float, percent: float, repeat: int) -> list[object]:
    """Return the errors of all three, as against the same rows."""
    rng = np.random.default_rng([repeat, n, int(percent)])
    base_rate, seed = percent / 100, int(rng.integers(2**31))
    rows = real(data, folder, n, base_rate, rng) if data in REAL else drawn(data, n, base_rate, False, rng)
    seen: Any = evaluation(released(rows, asked_of("calibrated"), epsilon, seed), 0.95)
    noise = float(discrete_laplace(noise_scale(2**20, epsilon), 1, bits_for(seed + 1))[0]) / 2**20
    right = float((rows.true == rows.predicted).mean())
    errors = ours(seen) - exact(rows, seen.released.edges), even_table(rows, epsilon, seed) - exact(rows, even_edges())
    texts = [" ".join(f"{error:.5f}" for error in each) for each in errors]
    return [*texts, f"{np.clip(right + noise / n, 0, 1) - right:.6f}"]


PRECISION = Table("evaluation_precision", ("data", "n", "epsilon", "percent", "repeat"), (OURS, EVEN, SCORE), precise)


def needs(repeats: int) -> list[tuple[Table, list[tuple]]]:
    cover_keys = [(*cell, block) for cell in CELLS for block in FIRST]
    cover_keys += [(*cell, block) for cell in LOOKED_AT for block in AGAIN]
    data = [("calibrated", n) for n in SIZES[1:]] + [(name, n) for name in REAL for n in SIZES[1:3]]
    keys = [(*one, AT, percent, k) for one in data for percent in PERCENTS for k in range(repeats)]
    return [(COVERAGE, cover_keys), (PRECISION, keys)]


# --------------------------------------------------------------------------------------------------------- report

ALLOWED = 0.02
"""How much more often than nominal an interval may miss."""
CHANCE = 0.02
"""A number in a cell looks low if it misses too often, and so many misses had a smaller chance than this."""

Sums = dict[str, np.ndarray]


def counted(blocks: range) -> dict[tuple[str, ...], Sums]:
    """Return the sums of some blocks, by cell and number."""
    cells: dict[tuple[str, ...], Sums] = {}
    for row in COVERAGE.rows():
        if int(row["block"]) in blocks:
            sums = cells.setdefault(tuple(row[field] for field in COVERAGE.key[:-1]), {})
            for name, values in json.loads(row["found"]).items():
                sums[name] = sums.get(name, 0.0) + np.array(values)
    return cells


def misses(name: str, sums: np.ndarray) -> Iterator[tuple[str, float, int, int]]:
    """Yield what an interval is for, the error that it may have, and misses and tries."""
    kinds = {"cell": (("rows", 2),), "band": (("population", 2),)}
    for place, confidence in enumerate(CONFIDENCES):
        for kind, at in kinds.get(name[:4], kinds.get(name[-4:], (("population", 2), ("rows", 4)))):
            yield kind, 1 - confidence, int(sums[at + place]), int(sums[place])


def low(cells: dict[tuple[str, ...], Sums]) -> list[list[object]]:
    """Return numbers that miss more often than they may."""
    return [
        [" ".join(cell), name, kind, f"{1 - error:.0%}", tries, f"{missed / tries:.1%} ± {_error(missed, tries):.1%}"]
        for cell, numbers in cells.items()
        for name, sums in numbers.items()
        for kind, error, missed, tries in misses(name, sums)
        if tries and missed / tries > error + ALLOWED and binom.sf(missed - 1, tries, error) < CHANCE
    ]


def _error(missed: int, tries: int) -> float:
    part = missed / tries
    return float(np.sqrt(part * (1 - part) / tries))


HEAD = ("cell", "number", "for", "nominal", "tries", "misses")


def pooled() -> str:
    """Return how often each number misses over all cells, and in its worst one."""
    lines: dict[str, dict[tuple[str, float], list[tuple[int, int]]]] = {}
    for numbers in counted(FIRST).values():
        for name, sums in numbers.items():
            for kind, error, missed, tries in misses(name, sums):
                lines.setdefault(name, {}).setdefault((kind, error), []).append((missed, tries))
    order = [(kind, 1 - confidence) for confidence in CONFIDENCES for kind in ("population", "rows")]
    rows = []
    for name, kinds in lines.items():
        texts = []
        for kind in order:
            found = kinds.get(kind, [])
            missed, tries = np.sum(found, axis=0) if found else (0, 0)
            worst = max((one / of for one, of in found if of), default=0.0)
            texts.append(f"{missed / tries:.1%} ({worst:.0%})" if found else "")
        rows.append([name, max(map(len, kinds.values())), *texts])
    return markdown(["number", "cells", *(f"{kind}, {1 - error:.0%}" for kind, error in order)], rows)


def widths() -> str:
    """Return mean widths at the higher confidence beside those without noise."""
    shown = ("accuracy", "recall", "precision", "f1", "AUC", "average precision", "log-loss", "Brier", "ECE")
    rows, cells = [], counted(FIRST)
    for cell in (*CELLS[3:12], *CELLS[13:15]):
        numbers, texts = cells.get(tuple(map(str, cell)), {}), []
        for name in shown:
            if name in numbers:
                tries = numbers[name][1]
                width, on_rows, mean, squares, _ = numbers[name][len(FIELDS) :] / tries
                ideal = 2 * norm.isf((1 - CONFIDENCES[1]) / 2) * np.sqrt(max(squares - mean**2, 0.0))
                texts.append(f"{width:.3f} / {on_rows:.3f} / {ideal:.3f}")
        rows.append([f"{cell[1]:,}", cell[2], cell[3], *texts])
    return markdown(["rows", "epsilon", "% positives", *shown], rows)


def errors(data: str, n: int, percent: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return the errors of all three methods."""
    rows = PRECISION.rows().where(data=data, n=n, epsilon=AT, percent=percent)
    if not rows:
        return None
    first, second = (np.array([[float(x) for x in row[name].split()] for row in rows]) for name in (OURS, EVEN))
    return first, second, rows.numbers(SCORE)


def precision_table(data: str, n: int) -> str:
    """Return median errors of the evaluation beside those of the even table, and those of accuracy by all three."""
    lines = []
    for percent in PERCENTS:
        found = errors(data, n, percent)
        if found is not None:
            first, second, other = found
            pairs = zip(np.median(np.abs(first), axis=0), np.median(np.abs(second), axis=0), strict=True)
            ratio = np.median(np.abs(first[:, -1])) / np.median(np.abs(other))
            squares = np.sqrt((first[:, -1] ** 2).mean() / (other**2).mean())
            lines.append([percent, *(f"{one:.4f} / {two:.4f}" for one, two in pairs), f"{ratio:.2f}, {squares:.2f}"])
    return f"{data}, {n:,} rows\n\n" + markdown(["% positives", *PRECISE, "accuracy by private_score's"], lines)


def aims() -> str:
    """Return which aims are met at 5,000 rows."""
    lines = []
    for data in ("calibrated", *REAL):
        for percent in PERCENTS:
            found = errors(data, 5_000, percent)
            if found is None:
                continue
            first, second, other = found
            auc, recall = np.median(np.abs(first[:, :2]), axis=0)
            even = np.median(np.abs(second[:, :2]), axis=0)
            ratio = np.median(np.abs(first[:, -1])) / np.median(np.abs(other))
            squares = float(np.sqrt((first[:, -1] ** 2).mean() / (other**2).mean()))
            missed = [
                text
                for wrong, text in (
                    (percent >= 20 and auc > 0.01, f"AUC {auc:.4f}"),
                    (percent >= 20 and recall > 0.03, f"recall {recall:.4f}"),
                    (max(ratio, squares) > 1.5, f"accuracy {ratio:.2f}, {squares:.2f} times private_score's"),
                    (percent <= 5 and auc >= even[0], f"AUC {auc:.4f}, even table {even[0]:.4f}"),
                    (percent <= 5 and recall >= even[1], f"recall {recall:.4f}, even table {even[1]:.4f}"),
                )
                if wrong
            ]
            if missed:
                lines.append(f"- {data}, {percent} % positives: {'; '.join(missed)}")
    return "\n".join(lines) or "- none"


def report() -> None:
    again = low(counted(AGAIN))
    data = [("calibrated", n) for n in SIZES[1:]] + [(name, n) for name in REAL for n in SIZES[1:3]]
    found = counted(FIRST)
    write(
        "evaluation",
        cells=len(found),
        repeats=BLOCK * len(FIRST),
        again=BLOCK * len(AGAIN),
        tests=sum(len(list(misses(*one))) for numbers in found.values() for one in numbers.items()),
        chance=f"{CHANCE:.0%}",
        pooled=pooled(),
        first=markdown(HEAD, low(found)),
        second=markdown(HEAD, again) if again else "None.",
        looked_at="; ".join(" ".join(map(str, cell)) for cell in LOOKED_AT),
        seeds=max(len(rows) for rows in PRECISION.rows().by(*PRECISION.key[:-1]).values()),
        aims=aims(),
        precision="\n\n".join(precision_table(*one) for one in data),
        widths=widths(),
        machine=COVERAGE.machine(),
    )
