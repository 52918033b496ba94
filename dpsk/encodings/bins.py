"""Bins of a quantity, from noisy counts of its cells: where its numbers lie, and bins of about equal mass."""

import math
from typing import Any

import numpy as np

from ..mechanisms.samplers import Floats

_RUNS = (1, 2, 4, 8)  # cells that are looked at together, because numbers may be spread thinly
# Thresholds are in standard deviations of the noise of a count.
LEAST_SURE = 3.0  # for a filled cell, where many rows have not been found otherwise
AROUND, LIKELY = 8, 1.5  # a cell at most so far from a filled one needs this much only
EXPLAINED = 0.7  # the part of the rows that filled cells should hold
MANY = 6.0  # fewer rows than this are not searched for
TOLD = 2.5  # for the likeliest run, where no cell is filled for sure
FAINT = 3.5  # a bin that holds less may be empty
DOUBTED = 2.8  # a run beside the fullest bin that holds more shows that there are several numbers
NEAR = 300.0  # knots become one where they are this many times nearer than even ones would be


def seen(counts: Floats, noise: float, sure: float, runs: tuple[int, ...] = _RUNS) -> Any:
    """Return which cells hold something: those in a run of so many cells that noise hardly explains.

    Cells that were found with a shorter run do not count for a longer one.
    """
    held, left = np.zeros(len(counts), dtype=bool), counts.astype(np.float64)
    for run in runs:
        total = np.concatenate([[0.0], np.cumsum(left)])
        for start in np.flatnonzero(total[run:] - total[:-run] > max(sure * noise * math.sqrt(run), 1.5)):
            held[start : start + run] |= left[start : start + run] > (0 if run == 1 else noise)
        left[held] = 0.0
    return held


def filled(edges: Floats, counts: Floats, noise: float, total: float) -> Floats:
    """Return the mass of each cell of a first look: 0 for cells of which noise may be all.

    A cell has to be surely filled. Near one that is, less is enough. About ``total`` rows have a number other than 0.
    Where many of them are not found so, less is enough everywhere. The cell of 0, which has no width, is left out.
    """
    counts = np.where(np.diff(edges) > 0, counts, 0.0)
    surest = 1 + math.sqrt(2 * math.log(len(_RUNS) * len(counts)))
    least = LEAST_SURE if total > MANY * noise else surest
    for sure in np.linspace(surest, least, 5):
        held = seen(counts, noise, sure)
        near = np.convolve(held, np.ones(2 * AROUND + 1), mode="same") > 0
        mass = np.where(held | (near & (counts > LIKELY * noise)), np.maximum(counts, 0), 0.0)
        if mass.sum() >= EXPLAINED * total:
            break
    if not mass.any() and total > MANY * noise:
        return np.where(_likeliest(counts, noise), 1.0, 0.0)
    return mass


def _likeliest(counts: Floats, noise: float) -> Any:
    """Return the run of 8 or 16 cells that stands out most from the noise, if one does at all."""
    held, best = np.zeros(len(counts), dtype=bool), TOLD
    total = np.concatenate([[0.0], np.cumsum(counts)])
    for run in (8, 16):
        score = (total[run:] - total[:-run]) / (noise * math.sqrt(run))
        if score.max() > best:
            best, start = float(score.max()), int(score.argmax())
            held = (np.arange(len(counts)) >= start) & (np.arange(len(counts)) < start + run)
    return held


def smoothed(counts: Floats, noise: float) -> Floats:
    """Return the mass of bins that were made to hold about the same: counts drawn to their mean as noise demands.

    Bins that may be empty are, where another one holds a hundred times as much.
    """
    mean = max(counts.mean(), 0.01 * noise)  # something was seen here before
    spread = float(np.square(counts - mean).sum())
    kept = max(0.0, 1 - noise**2 * (len(counts) - 1) / spread) if spread else 0.0
    faint = (counts < FAINT * noise) & (counts < 0.01 * counts.max())
    return np.where(faint, 0.0, np.maximum(mean + kept * (counts - mean), 0))


def even_bins(edges: Floats, mass: Floats, n_bins: int) -> Floats:
    """Return the ends of about ``n_bins`` bins of equal mass, which lies evenly within a cell.

    Where there is none: even bins over [-1, 1]. A cell without a width (that of 0) has none here.
    """
    mass = np.where(np.diff(edges) > 0, mass, 0.0)
    if not mass.any():
        return np.linspace(-1, 1, n_bins + 1)
    return _quantiles(edges, mass, np.linspace(0, 1, n_bins + 1))


def _quantiles(edges: Floats, mass: Floats, parts: Floats) -> Floats:
    """Return, in order and without repetition, where these parts of the mass end."""
    total = np.concatenate([[0.0], np.cumsum(mass)])
    filled = np.flatnonzero(mass)
    # gaps are no place for an end: the mass before and after a gap ends and begins at its sides
    at, before = list[float](), list[float]()
    for cell in filled:
        at += [edges[cell], edges[cell + 1]]
        before += [total[cell], total[cell + 1]]
    ends: Floats = np.unique(np.interp(parts * total[-1], before, at))
    return ends


def is_one_number(counts: Floats, noise: float) -> bool:
    """Return whether all that was counted may lie in one bin, as far as the noise lets us see."""
    rest = counts.copy()
    rest[counts.argmax()] = 0.0
    return not seen(rest, noise, DOUBTED, (*_RUNS, 16, 32)).any()


def knots_of(edges: Floats, mass: Floats, n_knots: int, *, zero: bool) -> Floats:
    """Return up to so many knots, with even parts of the mass between them, and one at 0 if that is asked for.

    A number that many rows have gets one knot. So knots that are very near to one another become one.
    """
    n_knots, even = min(n_knots, int(np.count_nonzero(mass))), mass
    for _ in range(3):
        even = np.minimum(even, even.sum() / n_knots)
    knots = _quantiles(edges, even, (np.arange(n_knots) + 0.5) / n_knots)
    if zero:
        knots = np.union1d(knots, [0.0])
    low, high = _quantiles(edges, mass, np.array([0.01, 0.99]))[[0, -1]]
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    apart = (high - low) / (NEAR * n_knots)
    kept = knots[:1]
    for knot in knots[1:]:
        if knot - kept[-1] > apart:
            kept = np.append(kept, knot)
        elif knot == 0:
            kept[-1] = 0.0
    return kept


def ends_of(edges: Floats, mass: Floats, outside: float) -> tuple[float, float]:
    """Return the ends beyond which so small a part of the mass lies, on either side."""
    low, high = _quantiles(edges, mass, np.array([outside, 1 - outside]))[[0, -1]]
    return float(low), float(high)
