"""Verdicts on statements about means: differences with their errors, and what several of them say together.

A difference is paired: both configurations saw the same folds. Its interval takes folds as independent, which they are
in the noise of the mechanisms and nearly so in the rows they are tested on, for the data set at hand. A statement holds
if the interval is beyond its threshold, fails if it is on the other side, and is undecided otherwise.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.stats import t

from .suite import Folds

__all__ = ["Gap", "Verdict", "at_least", "averaged", "best_and_worst", "everywhere", "somewhere"]

Value = TypeVar("Value")


class Verdict(enum.Enum):
    """What was measured says of a statement."""

    CONFIRMED = "confirmed"
    DENIED = "not confirmed"
    UNDECIDED = "not confirmed (undecided)"
    UNTESTABLE = "not testable here"

    @staticmethod
    def of(fact: bool) -> Verdict:
        return Verdict.CONFIRMED if fact else Verdict.DENIED


@dataclass(frozen=True)
class Gap:
    """A mean difference, its standard error and of how many values it is the mean; one value has no error."""

    mean: float
    error: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Gap:
        array = np.array(list(values))
        if not array.size:
            raise ValueError("nothing was measured that could be compared")
        error = float(array.std(ddof=1)) / math.sqrt(array.size) if array.size > 1 else math.inf
        return cls(float(array.mean()), error, array.size)

    @classmethod
    def between(cls, first: Folds, second: Folds) -> Gap:
        """Return by how much ``first`` is above ``second`` on the folds of both."""
        return cls.of(first[fold] - second[fold] for fold in first if fold in second)

    def __sub__(self, threshold: float) -> Gap:
        return replace(self, mean=self.mean - threshold)

    def __neg__(self) -> Gap:
        return replace(self, mean=-self.mean)

    def half_width(self, among: int = 1) -> float:
        """Return half the 95 % interval, or what leaves ``among`` such intervals right together with 95 %."""
        return float(t.ppf(1 - 0.025 / among, self.count - 1)) * self.error if self.count > 1 else math.inf

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.half_width():.2f}" if self.count > 1 else f"{self.mean:+.2f} (one run)"


def everywhere(gaps: Iterable[Gap]) -> Verdict:
    """Return whether all these are positive: each for itself if so; one of many must be clearer to say no."""
    gaps = list(gaps)
    if all(gap.mean > gap.half_width() for gap in gaps):
        return Verdict.CONFIRMED
    return Verdict.DENIED if any(-gap.mean > gap.half_width(len(gaps)) for gap in gaps) else Verdict.UNDECIDED


def somewhere(gaps: Iterable[Gap]) -> Verdict:
    """Return whether one of these is positive."""
    opposite = everywhere(-gap for gap in gaps)
    return {Verdict.CONFIRMED: Verdict.DENIED, Verdict.DENIED: Verdict.CONFIRMED}.get(opposite, opposite)


def at_least(count: int, verdicts: Iterable[Verdict]) -> Verdict:
    """Return whether so many of these statements hold."""
    verdicts = list(verdicts)
    if verdicts.count(Verdict.CONFIRMED) >= count:
        return Verdict.CONFIRMED
    return Verdict.DENIED if len(verdicts) - verdicts.count(Verdict.DENIED) < count else Verdict.UNDECIDED


def averaged(cells: Iterable[Folds]) -> Folds:
    """Return the mean over cells of every fold that all have."""
    cells = list(cells)
    return {fold: float(np.mean([c[fold] for c in cells])) for fold in cells[0] if all(fold in c for c in cells)}


def best_and_worst(values: Mapping[Value, Folds]) -> tuple[Folds, Folds]:
    """Return, fold by fold, the values that are best and worst by the means of all other repeats.

    The best of noisy means looks better than it is; a choice that has not seen a repeat is judged fairly there.
    """
    best: dict[tuple[str, ...], float] = {}
    worst: dict[tuple[str, ...], float] = {}
    for left_out in sorted({fold[0] for folds in values.values() for fold in folds}):
        means = {
            value: np.mean([x for fold, x in folds.items() if fold[0] != left_out] or [math.nan])
            for value, folds in values.items()
        }
        if not np.isfinite(list(means.values())).all():
            continue  # a single repeat leaves nothing to choose by
        high, low = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        for fold in values[high]:
            if fold[0] == left_out and fold in values[low]:
                best[fold], worst[fold] = values[high][fold], values[low][fold]
    return best, worst
