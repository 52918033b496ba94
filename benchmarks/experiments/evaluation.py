"""How often the intervals of ``private_evaluation`` hold, how wide they are, and how far its numbers are from exact."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit

from dpsk.evaluation.evidence import Estimate
from dpsk.evaluation.results import BinaryEvaluation, MulticlassEvaluation

from ..simulated import Truth, TruthOfSeveral, asked_of, drawn, evaluation, population, released
from ..table import Table

CONFIDENCES = (0.9, 0.95)
THRESHOLDS = (0.1, 0.3, 0.7)
RATES = ("precision", "recall", "specificity", "f1")
COSTS = {"false_positive": 1.0, "false_negative": 5.0}
BLOCK = 50
"""Repeats of a row of the table."""

Number = tuple[str, Estimate, float, float]
"""A name, an estimate, and what is true of the population and of the rows; NaN where it has no meaning."""
Band = tuple[str, bool]
"""A name, and whether all that it is for lies in it."""


def numbers_of_two(seen: BinaryEvaluation, whole: Truth, rows: Truth) -> Iterator[Number]:
    """Yield all numbers of two classes."""
    both = whole, rows
    yield "accuracy", seen.accuracy, *(truth.at(None)["accuracy"] for truth in both)
    halves = [(truth.at(None)["recall"] + truth.at(None)["specificity"]) / 2 for truth in both]
    yield "balanced accuracy", seen.balanced_accuracy, *halves
    yield "base rate", seen.base_rate, *(truth.size[1] / truth.total for truth in both)
    is_probability = seen.released.asked.is_probability
    for threshold in (None, *THRESHOLDS):
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


def bands_of_two(seen: BinaryEvaluation, whole: Truth, rows: Truth) -> Iterator[Band]:
    """Yield whether bands hold as a whole for the population, and cells of the confusion matrix for the rows."""
    edges = seen.released.edges[::-1]
    curve, above = seen.roc_curve(), np.array([whole.above(edge) for edge in edges]) / whole.size
    rates = zip((curve.fpr_band, curve.tpr_band), above.T, strict=True)
    yield "ROC band", all(_within(rate, band[1:-1]) for band, rate in rates)
    curve = seen.precision_recall_curve()
    points = [whole.at(edge) for edge in edges]
    for_band = ((curve.precision_band, "precision"), (curve.recall_band, "recall"))
    yield "PR band", all(_within(np.array([at[name] for at in points]), band[:-1]) for band, name in for_band)
    for threshold in (None, THRESHOLDS[0]):
        edge = None
        if threshold is not None:
            edge = float(logit(threshold)) if seen.released.asked.is_probability else threshold
        found, exact = seen.confusion_matrix(threshold), rows.matrix(edge)
        for i, j in product(range(2), repeat=2):
            shown = f"cell {i}{j}" if threshold is None else f"cell {i}{j} at {threshold:g}"
            yield shown, _within(exact[i, j], found.interval_on_rows[i, j])
    if seen.released.asked.is_probability:
        yield "calibration band", _within(whole.observed(seen.released.edges), seen.calibration_curve().band)


def numbers_of_several(seen: MulticlassEvaluation, whole: TruthOfSeveral, rows: TruthOfSeveral) -> Iterator[Number]:
    """Yield all numbers of several classes; of the classes the most frequent and the rarest."""
    yield "accuracy", seen.accuracy, whole.accuracy, rows.accuracy
    yield "balanced accuracy", seen.balanced_accuracy, whole.balanced_accuracy, rows.balanced_accuracy
    yield "log-loss", seen.log_loss, whole.log_loss, rows.log_loss
    yield "ECE", seen.ece, *(truth.winner.ece(seen.released.edges) for truth in (whole, rows))
    last = len(seen.labels) - 1
    for (name, k, of_all), (_, _, of_rows) in zip(whole.rates(), rows.rates(), strict=True):
        if k in (0, last):
            yield f"{name}, {'rarest' if k else 'first'} class", getattr(seen, name)(k), of_all, of_rows


def bands_of_several(seen: MulticlassEvaluation, whole: TruthOfSeveral, rows: TruthOfSeveral) -> Iterator[Band]:
    """Yield whether the band of calibration holds, and cells of the confusion matrix."""
    yield "calibration band", _within(whole.winner.observed(seen.released.edges), seen.calibration_curve().band)
    found = seen.confusion_matrix()
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        yield f"cell {i}{j}", _within(rows.matrix[i, j], found.interval_on_rows[i, j])


def _within(value: Any, band: np.ndarray) -> bool:
    """Return whether all values that have a meaning lie in their intervals, but for rounding."""
    inside = (np.asarray(value) >= band[..., 0] - 1e-6) & (np.asarray(value) <= band[..., 1] + 1e-6)
    return bool((inside | np.isnan(value)).all())


# ------------------------------------------------------------------------------------------------------ coverage


def cover(
    folder: Path | None, scores: str, n: int, epsilon: float, percent: float, unit: str, block: int
) -> list[object]:
    """Return what was found in some repeats, by number.

    That is how often it was looked at, how often each interval missed (population and rows, at the lower and at the
    higher confidence), the sums of widths at the higher one, and sums and sums of squares of the exact number.
    """
    base_rate, persons = percent / 100, unit == "person"
    whole, asked, found = population(scores, base_rate, persons), asked_of(scores), dict[str, np.ndarray]()
    n_classes = asked.n_classes
    for repeat in range(BLOCK * block, BLOCK * (block + 1)):
        rng = np.random.default_rng([repeat, n, int(1000 * epsilon), int(10 * percent)])
        rows = drawn(scores, n, base_rate, persons, rng)
        if asked.positive is not None and not 0 < rows.true.sum() < len(rows.true):
            continue
        of_rows = Truth(rows) if asked.positive is not None else TruthOfSeveral(rows, n_classes)
        release = released(rows, asked, epsilon, int(rng.integers(2**31)))
        for place, confidence in enumerate(CONFIDENCES):
            seen: Any = evaluation(release, confidence)
            numbers, bands = (
                (numbers_of_two, bands_of_two) if asked.positive is not None else (numbers_of_several, bands_of_several)
            )
            for name, estimate, wanted, here in numbers(seen, whole, of_rows):
                sums = found.setdefault(name, np.zeros(11))
                ends = np.array([estimate.interval, estimate.interval_on_rows])
                last = place == len(CONFIDENCES) - 1
                sums[place] += not _within(wanted, ends[0])
                sums[2 + place] += not _within(here, ends[1])
                if last:
                    width = ends[:, 1] - ends[:, 0]
                    error = abs(estimate.value - here)
                    known = not np.isnan(here)
                    sums[4:] += [1, *width, known, *(np.nan_to_num([here, here**2, error]))]
            for name, held in bands(seen, whole, of_rows):
                sums = found.setdefault(name, np.zeros(11))
                sums[place] += not held
                sums[4] += place == len(CONFIDENCES) - 1
    return [json.dumps({name: [round(float(x), 5) for x in sums] for name, sums in found.items()})]


COVERAGE = Table("evaluation_coverage", ("scores", "n", "epsilon", "percent", "unit", "block"), ("found",), cover)
