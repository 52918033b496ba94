"""Somebody who tells two data sets apart by what fits on them released: it learns how from pilot fits."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from ..mechanisms.samplers import Floats
from .released import Released

Sides: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = tuple[tuple[str, int], ...]
"""Names of arrays of numbers, and how many entries each has."""

_PLAIN, _SHORT, _LOGARITHMS, _SINGLE = "entries", "shortened entries", "with logarithms", "one column"
_CANDIDATES = ((_PLAIN, 0.3), (_PLAIN, 0.01), (_SHORT, 0.3), (_SHORT, 0.03), (_LOGARITHMS, 0.3), (_SINGLE, 1.0))
"""Which columns a direction may use, and how far it shrinks their covariance to the identity."""

_FOLDS, _FAR, _LEAST_GAP, _MOST_MARKS, _BY_CHANCE = 5, 1e4, 0.25, 2, 0.05


@dataclass(frozen=True, eq=False)
class Direction:
    """A score of numbers: each is standardised, shortened if it is far out, and weighted."""

    middles: Floats
    scales: Floats
    weights: Floats
    shorten: bool

    def __call__(self, rows: Floats) -> Floats:
        return _standardised(rows, self.middles, self.scales, self.shorten) @ self.weights


@dataclass(frozen=True)
class Mark:
    """A mark that is more often on the first data set, or on the other one, and how far apart that puts them."""

    text: str
    on_one: bool
    separation: float


@dataclass(frozen=True, eq=False)
class Witness:
    """A score that is larger on the first data set, cuts of it, and marks that are more often on one of the two.

    ``plain`` is a score that is linear in the numbers, for which Gaussian noise stays Gaussian. ``cuts`` of the other
    has the one in the middle first. ``separation`` is how far apart the better of score and marks puts the
    data sets, in standard deviations, where scores were learned from other fits than those that they are for.
    """

    columns: Columns
    direction: Direction
    plain: Direction
    cuts: tuple[float, ...]
    marks: tuple[Mark, ...]
    separation: float

    @classmethod
    def learned(cls, ones: Sequence[Released], others: Sequence[Released]) -> Witness:
        """Learn from what fits on both data sets have released."""
        columns = _common(ones, others)
        rows = _matrix([*ones, *others], columns)
        of_one = np.arange(len(rows)) < len(ones)
        found = dict.fromkeys(_CANDIDATES, 0.0)
        for candidate in _CANDIDATES if rows.shape[1] else ():
            held_out = _out_of_fold(*candidate, rows, of_one)
            found[candidate] = separation(held_out[of_one], held_out[~of_one])
        chosen = max(_CANDIDATES, key=found.__getitem__)
        plain = max((one for one in _CANDIDATES if one[0] == _PLAIN), key=found.__getitem__)
        if found[chosen] < found[plain] + _BY_CHANCE:
            chosen = plain
        direction = _fitted(*chosen, rows, of_one)
        scores, marks = direction(rows), tuple(_telling_marks(ones, others))
        most = max([found[chosen], 0.0, *(mark.separation for mark in marks)])
        cuts = _cuts(scores[of_one], scores[~of_one])
        return cls(columns, direction, _fitted(*plain, rows, of_one), cuts, marks, most)

    def scores(self, found: Sequence[Released]) -> Floats:
        """Return the score of each release."""
        return self.direction(_matrix(found, self.columns))

    def both_scores(self, found: Sequence[Released]) -> Floats:
        """Return the score of each release, and the one that is linear in its numbers, as two columns."""
        rows = _matrix(found, self.columns)
        return np.column_stack([self.direction(rows), self.plain(rows)])


def separation(ones: Floats, others: Floats) -> float:
    """Return how far two samples lie apart, in standard deviations: the larger of two estimates, shrunk a little."""
    if not len(ones) or not len(others):
        return 0.0
    cuts = np.unique(np.concatenate([ones, others]))
    cuts = (cuts[1:] + cuts[:-1]) / 2
    if not len(cuts):
        return 0.0
    true = (np.searchsorted(np.sort(ones), cuts) * -1.0 + len(ones) + 0.5) / (len(ones) + 1)
    false = (np.searchsorted(np.sort(others), cuts) * -1.0 + len(others) + 0.5) / (len(others) + 1)
    inner = (np.minimum(true, false) < 0.9) & (np.maximum(true, false) > 0.1)
    by_cut = float((ndtri(true) - ndtri(false))[inner].max(initial=0.0))
    spread = np.sqrt((ones.var() + others.var()) / 2)
    by_mean = float((ones.mean() - others.mean()) / spread) if spread > 0 else by_cut
    # a cut is chosen as the best of many, so by itself it flatters; a mean does not see what has no Gaussian shape
    return max(by_mean, by_cut - 2.0 / np.sqrt(min(len(ones), len(others)))) if by_mean < 3 else by_mean


def _common(ones: Sequence[Released], others: Sequence[Released]) -> Columns:
    sizes = [{(name, len(values)) for name, values in one.numbers.items()} for one in (*ones, *others)]
    return tuple(sorted(set.intersection(*sizes))) if sizes else ()


def _matrix(found: Sequence[Released], columns: Columns) -> Floats:
    """Return a row of numbers for each release: entries, and logarithms of their sizes; 0 for what is missing."""
    width = sum(size for _, size in columns)
    rows = np.full((len(found), width), np.nan)
    for row, one in zip(rows, found, strict=True):
        start = 0
        for name, size in columns:
            values = one.numbers.get(name)
            if values is not None and len(values) == size:
                row[start : start + size] = values
            start += size
    with np.errstate(divide="ignore", over="ignore"):
        sizes = np.clip(np.log(np.abs(rows)), -800.0, 800.0)
    return np.concatenate([rows, sizes], axis=1)


def _standardised(rows: Floats, middles: Floats, scales: Floats, shorten: bool) -> Floats:
    with np.errstate(all="ignore"):
        found = (rows - middles) / scales
    found = np.where(rows == middles, 0.0, found)  # where both are infinite, too
    found = np.clip(np.nan_to_num(found, nan=0.0, posinf=_FAR, neginf=-_FAR), -_FAR, _FAR)
    return np.arcsinh(found) if shorten else found


def _moments(rows: Floats, of_one: Sides) -> tuple[Floats, Floats]:
    """Return the middle of each column and its scale: within a data set, where it varies there, or between both."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns without a number
        finite = np.where(np.isfinite(rows), rows, np.nan)
        middles = _median(finite)
        within = np.concatenate([finite[side] - _median(finite[side]) for side in (of_one, ~of_one)])
        robust = 1.4826 * _median(np.abs(within))
        spread = np.nan_to_num(robust, nan=0.0)
        usual = np.sqrt(np.nan_to_num(np.nanmean(np.clip(within, -1e150, 1e150) ** 2, axis=0), nan=0.0))
        spread = np.where(spread > 0, spread, usual)
        between = np.nan_to_num(np.nanmax(np.abs(finite - middles), axis=0), nan=0.0)
    scales = np.where(spread > 1e-12 * between, spread, between * 1e-3)
    return np.nan_to_num(middles, nan=0.0), np.where(scales > 0, scales, 1.0)


def _median(values: Floats) -> Floats:
    return np.asarray(np.nanmedian(values, axis=0), dtype=np.float64)


def _fitted(columns: str, shrinkage: float, rows: Floats, of_one: Sides) -> Direction:
    """Return the direction of a discriminant analysis, or of the column that tells most by itself."""
    middles, scales = _moments(rows, of_one)
    shorten = columns in (_SHORT, _LOGARITHMS)
    standard = _standardised(rows, middles, scales, shorten)
    gap = standard[of_one].mean(axis=0) - standard[~of_one].mean(axis=0)
    if columns == _SINGLE:
        ranks = rankdata(standard, axis=0)
        lead = ranks[of_one].mean(axis=0) - ranks[~of_one].mean(axis=0)
        most = np.flatnonzero(np.abs(lead) >= np.abs(lead).max(initial=0.0))
        chosen = most[np.argmax(np.abs(gap[most]))] if len(most) else 0
        return Direction(middles, scales, np.sign(lead) * (np.arange(len(gap)) == chosen), shorten)
    if columns != _LOGARITHMS:
        gap[len(gap) // 2 :] = 0.0
    within = np.concatenate([standard[side] - standard[side].mean(axis=0) for side in (of_one, ~of_one)])
    within *= gap != 0
    # (s I + (1 - s) W'W/n)^-1 g without a matrix of all columns: there may be more of them than fits
    n, kept = len(within), (1 - shrinkage) / len(within)
    inner = np.linalg.solve(np.eye(n) * shrinkage + kept * (within @ within.T), within @ gap)
    return Direction(middles, scales, (gap - kept * (within.T @ inner)) / shrinkage, shorten)


def _out_of_fold(columns: str, shrinkage: float, rows: Floats, of_one: Sides) -> Floats:
    """Return a score for each row by a direction that was learned from others, in standard deviations of these."""
    found = np.zeros(len(rows))
    places = np.zeros(len(rows), dtype=np.intp)
    for side in (of_one, ~of_one):
        places[side] = np.arange(side.sum()) % _FOLDS
    for fold in range(_FOLDS):
        out = places == fold
        if not out.any() or not of_one[~out].any() or of_one[~out].all():
            continue
        direction = _fitted(columns, shrinkage, rows[~out], of_one[~out])
        scores = direction(rows[~out])
        ones, others = scores[of_one[~out]], scores[~of_one[~out]]
        spread = np.sqrt((ones.var() + others.var()) / 2)
        middle = (ones.mean() + others.mean()) / 2
        found[out] = (direction(rows[out]) - middle) / (spread if spread > 0 else 1e-3 * abs(ones.mean() - middle) or 1)
    return found


def _cuts(ones: Floats, others: Floats) -> tuple[float, ...]:
    """Return scores between the two samples, the one in the middle first."""
    if not len(ones) or not len(others):
        return (0.0,)
    middle = (ones.mean() + others.mean()) / 2
    ends = [np.quantile(others, 0.85), np.quantile(others, 0.97), np.quantile(ones, 0.15), np.quantile(ones, 0.03)]
    cuts = [float(middle), *(float(end) for end in ends)]
    return tuple(dict.fromkeys(cuts)) if np.ptp(ones) + np.ptp(others) > 0 else (float(middle),)


def _telling_marks(ones: Sequence[Released], others: Sequence[Released]) -> Iterator[Mark]:
    """Yield the marks that differ most between the two data sets."""
    counts = [Counter(mark for one in some for mark in one.marks) for some in (ones, others)]
    found = []
    for mark in sorted(set(counts[0]) | set(counts[1])):
        apart = _apart(counts[0][mark], len(ones)) - _apart(counts[1][mark], len(others))
        gap = counts[0][mark] / len(ones) - counts[1][mark] / len(others)
        if abs(gap) >= _LEAST_GAP:
            found.append(Mark(mark, gap > 0, abs(apart)))
    yield from sorted(found, key=lambda mark: (-mark.separation, _kind(mark.text), len(mark.text)))[:_MOST_MARKS]


def _kind(mark: str) -> int:
    """Return 0 for what explains other marks, such as parts that are not there after an exception."""
    return 0 if " was raised" in mark or mark.startswith(("warning", "printed")) else 1


def _apart(count: int, of: int) -> float:
    return float(ndtri((count + 0.5) / (of + 1)))
