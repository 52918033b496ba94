"""Calibrations: increasing maps from the scores of a fitted model to log-odds, and what was released to find them.

They are public, like the weights. A value depends on the scores of its row alone, bit for bit: it takes comparisons,
sums, products and quotients (docs/guarantees.md, 13.7).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BOUND = 8.0
"""Up to where log-odds are as they were found. Beyond they grow by less than 1 more: no row costs a loss above 10."""

_HUGE = 1e100  # scores beyond count as this one, so that infinity has a probability, too


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """The calibration of a model for two classes: an increasing curve from scores to log-odds, 0 at the score 0.

    Call it with scores to get log-odds.

    Parameters
    ----------
    scores, log_odds : ndarray
        Points of the curve, which is linear between them.
    edges, counts, noise : ndarray, ndarray of shape (2, n_cells), float
        What was released: noisy counts of rows by label and score, between these edges of scores (what lies beyond
        counts as in the first or last cell), and the standard deviation of their noise.
    """

    scores: Floats
    log_odds: Floats
    edges: Floats
    counts: Floats
    noise: float

    def __call__(self, scores: Any) -> Floats:
        """Return the log-odds of the second class."""
        scores, zero = _finite(scores), int(np.searchsorted(self.scores, 0.0))
        above = _along(self.scores[zero:], self.log_odds[zero:], scores)
        below = _along(-self.scores[zero::-1], -self.log_odds[zero::-1], -scores)
        return _bounded(np.where(scores > 0, above, -below))

    def __repr__(self) -> str:
        at = ", ".join(f"{score:.2g}: {self(score):.2g}" for score in self.edges[:: max(1, len(self.edges) // 6)])
        return f"Curve(log-odds by score {{{at}}}, from {self.counts.size} counts with noise of {self.noise:.3g} rows)"


@dataclass(frozen=True, eq=False, repr=False)
class Temperature:
    """The calibration of a model for several classes: all scores are multiplied by one factor.

    Call it with scores to get logarithms of probabilities, up to a constant for each row.

    Parameters
    ----------
    factor : float
        Chosen with noise among a few.
    shares : ndarray of shape (n_classes,)
        The shares of the classes, from released counts. The smaller the factor, the more the intercepts were moved, so
        that probabilities are near these shares where the scores say nothing.
    """

    factor: float
    shares: Floats

    def __call__(self, scores: Any) -> Floats:
        """Return the logarithms of the probabilities of all classes, up to a constant."""
        scores = self.factor * _finite(scores)
        return -_bounded(scores.max(axis=1, keepdims=True) - scores)

    def __repr__(self) -> str:
        return f"Temperature(factor={self.factor:.3g}, shares={np.array2string(self.shares, precision=3)})"


def _finite(scores: Any) -> Floats:
    finite: Floats = np.clip(np.asarray(scores, dtype=np.float64), -_HUGE, _HUGE)
    return finite


def _along(points: Floats, values: Floats, x: Floats) -> Floats:
    """Return the values at x, which are linear between points, and beyond the last as before it."""
    at = np.clip(np.searchsorted(points, x, side="right") - 1, 0, len(points) - 2)
    slopes = np.diff(values) / np.diff(points)
    found: Floats = values[at] + slopes[at] * (x - points[at])
    return found


def _bounded(x: Floats) -> Floats:
    """Return what is within the bound as it is, and the rest less than 1 beyond it, in the same order."""
    beyond = np.maximum(np.abs(x) - BOUND, 0)
    found: Floats = np.where(beyond > 0, np.sign(x) * (BOUND + beyond / (1 + beyond)), x)
    return found
