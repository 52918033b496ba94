"""Simulated rows for private evaluations: labels, predictions and scores of known law, and what is true of them.

A model is skipped: rows are drawn with the scores that it would give. Persons have one to five rows, whose labels are
the same and whose scores hang together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax

from .inside import (
    ABOVE_ZERO,
    ROW,
    Asked,
    BinaryEvaluation,
    Budget,
    Door,
    Ledger,
    MulticlassEvaluation,
    Opinions,
    Persons,
    PrivateEvaluation,
    Released,
    Releases,
    bits_for,
    release_levels,
)

Array = np.ndarray

APART = 2.25
"""The variance of log-odds within a class, and how far its mean lies from the middle of two, twice."""
ROWS_OF_A_PERSON, ALIKE = 5, 0.8
"""The most rows, and the correlation of what their scores add to the label."""
POPULATION = 3_000_000
MOST = 8.0
"""Log-odds beyond count as this in log-losses."""


@dataclass(frozen=True)
class Drawn:
    """Rows, and the person of each or None."""

    true: Array
    predicted: Array
    score: Array
    of_true: Array
    persons: Array | None = None
    base_rate: float | None = None

    @cached_property
    def weight(self) -> Array:
        """The part of one unit that each row is; with a base rate both classes are made to have their part."""
        weight = np.ones(len(self.true)) if self.persons is None else 1.0 / np.bincount(self.persons)[self.persons]
        if self.base_rate is not None:
            weight *= 2 * np.where(self.true == 1, self.base_rate, 1 - self.base_rate)
        return weight

    @cached_property
    def n_units(self) -> int:
        return len(self.true) if self.persons is None else int(self.persons.max()) + 1


def drawn(scores: str, n: int, base_rate: float, persons: bool, rng: np.random.Generator) -> Drawn:
    """Return rows of two classes, or of several where ``scores`` end with their number; n units of them."""
    of, (kind, _, classes) = _owners(n, persons, rng), scores.partition(" of ")
    if classes:
        return Drawn(*_of_several(kind, int(classes), of, rng), persons=of if persons else None)
    return Drawn(*_of_two(kind, of, base_rate, base_rate, rng), persons=of if persons else None)


@lru_cache(maxsize=1)
def population(scores: str, base_rate: float, persons: bool) -> Truth | TruthOfSeveral:
    """Return what is true of millions of rows, half of which are of the positive class and weigh what it is."""
    rng = np.random.default_rng(0)
    of, (kind, _, classes) = _owners(POPULATION // (3 if persons else 1), persons, rng), scores.partition(" of ")
    whose = of if persons else None
    if classes:
        return TruthOfSeveral(Drawn(*_of_several(kind, int(classes), of, rng), persons=whose), int(classes))
    return Truth(Drawn(*_of_two(kind, of, base_rate, 0.5, rng), persons=whose, base_rate=base_rate))


def _owners(n: int, persons: bool, rng: np.random.Generator) -> Array:
    return np.repeat(np.arange(n), rng.integers(1, ROWS_OF_A_PERSON + 1, n) if persons else 1)


def _noise(of: Array, rng: np.random.Generator, width: int = 1) -> Array:
    """Return normal numbers of variance 1, which hang together for the rows of a person."""
    own, common = rng.normal(size=(len(of), width)), rng.normal(size=(int(of[-1]) + 1, width))[of]
    return np.sqrt(1 - ALIKE) * own + np.sqrt(ALIKE) * common


def _of_two(kind: str, of: Array, base_rate: float, part: float, rng: np.random.Generator) -> tuple[Array, ...]:
    """Return rows, of which a part is of the positive class, with scores as if the base rate were this."""
    true = (rng.random(int(of[-1]) + 1) < part).astype(np.int64)[of]
    normal, base = _noise(of, rng)[:, 0], float(np.log(base_rate / (1 - base_rate)))
    odds = base + APART * (true - 0.5) + np.sqrt(APART) * normal
    score = {
        "calibrated": lambda: odds,
        "foreign": lambda: odds,
        "decision": lambda: 0.3 * odds,
        "overconfident": lambda: 3 * odds,
        "constant": lambda: base + 0.05 * (odds - base),
        "ties": lambda: np.round(odds / 1.5) * 1.5 - 0.3,
        "perfect": lambda: np.where(true, 1.0, -1.0) * (1 + np.abs(3 * normal)),
        "useless": lambda: base + normal,
        "reversed": lambda: -odds,
    }[kind]()
    cut = np.log(base_rate / 2 / (1 - base_rate / 2)) if kind == "foreign" else 0.0
    predicted = (score > cut).astype(np.int64)
    score = np.clip(score, -36.0, 36.0)
    if kind != "foreign":
        score = np.where(predicted, np.maximum(score, ABOVE_ZERO), np.minimum(score, 0.0))
    return true, predicted, score, np.where(true, score, -score)


def _of_several(kind: str, n_classes: int, of: Array, rng: np.random.Generator) -> tuple[Array, ...]:
    shares = 0.7 ** np.arange(n_classes)  # the last class is the rarest
    shares /= shares.sum()
    true = rng.choice(n_classes, p=shares, size=int(of[-1]) + 1)[of]
    odds = np.log(shares) + APART * np.eye(n_classes)[true] + np.sqrt(APART) * _noise(of, rng, n_classes)
    logs = log_softmax({"calibrated": 1.0, "overconfident": 3.0}[kind] * odds, axis=1)
    rows, predicted = np.arange(len(of)), logs.argmax(axis=1)
    rest = -np.expm1(np.minimum(logs, -1e-16))
    of_any = np.clip(logs - np.log(rest), -36.0, 36.0)
    return true, predicted, of_any[rows, predicted], of_any[rows, true]


def asked_of(scores: str) -> Asked:
    kind, _, classes = scores.partition(" of ")
    if classes:
        return Asked(np.arange(int(classes)), None, "predict_proba", False)
    method = "decision_function" if kind == "decision" else "predict_proba"
    return Asked(np.array([0, 1]), 1, method, kind != "foreign")


def released(rows: Drawn, asked: Asked, epsilon: float, seed: int) -> tuple[Released, Any]:
    """Return what one release of these rows shows, and its price."""
    unit = ROW if rows.persons is None else "person"
    ledger = Ledger(Budget.of(epsilon, 0.0), unit=unit)
    door = Door(ledger, bits_for(seed), "zero-out")
    persons = None if rows.persons is None else Persons(rows.persons.astype(np.int32), rows.n_units)
    seen = Opinions(rows.true, rows.predicted, rows.score, rows.of_true)
    return release_levels(Releases(door, persons, len(rows.true)), seen, asked, 0.6), door.report()


def evaluation(found: tuple[Released, Any], confidence: float) -> PrivateEvaluation:
    kind = MulticlassEvaluation if found[0].asked.positive is None else BinaryEvaluation
    return kind(found[0], confidence, found[1])


class Truth:
    """All metrics of two classes on some rows, which may be so many that they are the population."""

    def __init__(self, rows: Drawn, weight: Array | None = None) -> None:
        order = np.argsort(rows.score, kind="stable")
        self.score, weight = rows.score[order], (rows.weight if weight is None else weight)[order]
        true, predicted = rows.true[order] == 1, rows.predicted[order] == 1
        self.total = float(weight.sum())
        self.weights = np.array([weight * ~true, weight * true])
        self.below = np.concatenate([np.zeros((2, 1)), np.cumsum(self.weights, axis=1)], axis=1)
        self.size = self.below[:, -1]
        self.own = np.array([self.weights[label][predicted].sum() for label in (0, 1)])
        self.probability = expit(self.score)
        self.gap = np.concatenate([[0.0], np.cumsum(self.weights[1] - weight * self.probability)])

    def above(self, edge: float | None) -> Array:
        """Return the weight of each class above an edge; None is the prediction."""
        if edge is None:
            return self.own
        return self.size - self.below[:, np.searchsorted(self.score, edge, side="left")]

    def at(self, edge: float | None) -> dict[str, float]:
        """Return what follows from the matrix at an edge."""
        false, hits = self.above(edge)
        (negative, positive), flagged = self.size, false + hits
        return {
            "accuracy": (hits + negative - false) / self.total,
            "precision": hits / flagged if flagged > 0 else np.nan,
            "recall": hits / positive if positive > 0 else np.nan,
            "specificity": 1 - false / negative if negative > 0 else np.nan,
            "f1": 2 * hits / (positive + flagged) if positive + flagged > 0 else np.nan,
        }

    def matrix(self, edge: float | None) -> Array:
        above = self.above(edge)
        return np.stack([self.size - above, above], axis=1)

    @cached_property
    def _groups(self) -> Array:
        """The weights of each class at every distinct score, from the highest."""
        first = np.flatnonzero(np.append(True, self.score[1:] != self.score[:-1]))
        return np.add.reduceat(self.weights, first, axis=1)[:, ::-1]

    @cached_property
    def auc(self) -> float:
        negative, positive = self._groups
        above = np.cumsum(positive) - positive / 2
        pairs = float(self.size[0] * self.size[1])
        return float(above @ negative) / pairs if pairs > 0 else np.nan

    @cached_property
    def average_precision(self) -> float:
        hits, flagged = np.cumsum(self._groups[1]), np.cumsum(self._groups.sum(axis=0))
        return float((self._groups[1] * hits / flagged).sum() / self.size[1]) if self.size[1] > 0 else np.nan

    @cached_property
    def log_loss(self) -> float:
        odds = np.clip(self.score, -MOST, MOST)
        return float((self.weights * np.log1p(np.exp([odds, -odds]))).sum() / self.total)

    @cached_property
    def brier(self) -> float:
        p = self.probability
        return float((self.weights * np.array([p**2, (1 - p) ** 2])).sum() / self.total)

    def ece(self, edges: Array) -> float:
        """Return the calibration error over bins."""
        ends = np.concatenate([[0], np.searchsorted(self.score, edges, side="left"), [len(self.score)]])
        return float(np.abs(np.diff(self.gap[ends])).sum() / self.total)

    def observed(self, edges: Array) -> Array:
        """Return the part of the positive class in each bin, NaN in an empty one."""
        ends = np.concatenate([[0], np.searchsorted(self.score, edges, side="left"), [len(self.score)]])
        negative, positive = np.diff(self.below[:, ends], axis=1)
        return np.divide(
            positive, negative + positive, out=np.full(len(positive), np.nan), where=positive + negative > 0
        )


class TruthOfSeveral:
    """All metrics of several classes."""

    def __init__(self, rows: Drawn, n_classes: int) -> None:
        pairs = rows.true * n_classes + rows.predicted
        self.matrix = np.bincount(pairs, rows.weight, n_classes**2).reshape(n_classes, n_classes)
        self.total = self.matrix.sum()
        odds = np.clip(rows.of_true, -MOST, MOST)
        self.log_loss = float(rows.weight @ np.log1p(np.exp(-odds)) / self.total)
        right = (rows.true == rows.predicted).astype(np.int64)
        self.winner = Truth(Drawn(right, right, rows.score, rows.of_true, rows.persons))

    def rates(self) -> Iterator[tuple[str, int, float]]:
        """Yield the names, classes and values of rates."""
        hits, lines, columns = np.diag(self.matrix), self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        for k in range(len(hits)):
            yield "recall", k, hits[k] / lines[k] if lines[k] > 0 else np.nan
            yield "precision", k, hits[k] / columns[k] if columns[k] > 0 else np.nan
            yield "f1", k, 2 * hits[k] / (lines[k] + columns[k]) if lines[k] + columns[k] > 0 else np.nan

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.matrix) / self.total)

    @property
    def balanced_accuracy(self) -> float:
        return float((np.diag(self.matrix) / np.maximum(self.matrix.sum(axis=1), 1e-300)).mean())
