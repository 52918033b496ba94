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
from itertools import permutations

import numpy as np
from scipy.stats import t

from .table import Folds, per_repeat


class NotMeasured(ValueError):
    """There are not enough rows to say anything."""


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
            raise NotMeasured("nothing was measured that could be compared")
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


def everywhere(gaps: Iterable[Gap], among: int = 1) -> Verdict:
    """Return whether all these are positive.

    To say yes each has to be so for itself; to say no one of many must be clearer, as any of them could by chance.
    Among several such statements all verdicts are right together with 95 %.
    """
    gaps = list(gaps)
    if not gaps:
        raise NotMeasured("there is nothing to compare")
    if all(gap.mean > gap.half_width(among) for gap in gaps):
        return Verdict.CONFIRMED
    clear = any(-gap.mean > gap.half_width(among * len(gaps)) for gap in gaps)
    return Verdict.DENIED if clear else Verdict.UNDECIDED


def somewhere(gaps: Iterable[Gap], among: int = 1) -> Verdict:
    """Return whether one of these is positive."""
    opposite = everywhere((-gap for gap in gaps), among)
    return {Verdict.CONFIRMED: Verdict.DENIED, Verdict.DENIED: Verdict.CONFIRMED}.get(opposite, opposite)


def at_least(count: int, verdicts: Iterable[Verdict]) -> Verdict:
    """Return whether so many of these statements hold; verdicts on many cells are to be right together."""
    verdicts = list(verdicts)
    if verdicts.count(Verdict.CONFIRMED) >= count:
        return Verdict.CONFIRMED
    return Verdict.DENIED if len(verdicts) - verdicts.count(Verdict.DENIED) < count else Verdict.UNDECIDED


def differences(values: Mapping[str, Folds]) -> list[Gap]:
    """Return every value over every other: none is chosen, as the best of noisy means looks better than it is."""
    return [Gap.between(first, second) for first, second in permutations(values.values(), 2)]


def variance(values: Mapping[str, Folds]) -> Gap:
    """Return the variance between the true means of several values.

    Products of two repeats have no part from chance; the error is that of the jackknife over repeats.
    """
    table = np.array([per_repeat(folds) for folds in values.values()]).T
    n = len(table)
    if n < 3:
        raise NotMeasured("a variance needs three repeats")
    table = table - table.mean(axis=1, keepdims=True)
    products = table @ table.T / (table.shape[1] - 1)

    def among(kept: np.ndarray) -> float:
        some = products[np.ix_(kept, kept)]
        return float((some.sum() - np.trace(some)) / (len(kept) * (len(kept) - 1)))

    whole = among(np.arange(n))
    return Gap.of(n * whole - (n - 1) * among(np.delete(np.arange(n), i)) for i in range(n))


def averaged(cells: Iterable[Folds]) -> Folds:
    """Return the mean over cells of every fold that all have."""
    cells = list(cells)
    if not cells:
        raise NotMeasured("there is nothing to average")
    return {fold: float(np.mean([c[fold] for c in cells])) for fold in cells[0] if all(fold in c for c in cells)}
