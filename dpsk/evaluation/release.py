"""What is released of held-out rows, level by level: each row is in one cell of every level.

A count of right and wrong predictions has a large share of its own, because a sum over many noisy cells would be far
less precise. Two small looks at the scores say where bins should lie. Then rows are counted by label and bin.

====================== ==================================================== =======
level                  cells                                                share
====================== ==================================================== =======
accuracy               wrong, right                                         .6
range of scores        64 public cells of log-odds, or octaves of scores    .025
spread of scores       four even cells a bin, in the range that was found   .025
table, two classes     label and bin (and predicted label, if unknown)      .35
table, several classes right or wrong, and bin of the winner's probability  .1
confusion, several     true class and predicted class                       .16
likelihood, several    bin of the probability of the true class             .09
====================== ==================================================== =======

The shares but the first are parts of what ``accuracy_share`` leaves.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Door, RawRows
from ..data.persons import Persons
from ..data.weights import Weights
from ..mechanisms import Laplace
from ..mechanisms.additive import noise_scale
from ..mechanisms.samplers import Floats, Integers
from ..privacy import Budget
from ..queries import CellCounts
from ..requirements import require_part
from .counts import on_simplex
from .opinions import ABOVE_ZERO, Asked, Opinions

# Parts of what the count of right predictions leaves.
LOOK = 1 / 16  # for each of two looks at the scores
CONFUSION, LIKELIHOOD = 0.4, 0.225  # with several classes

CELLS = 64  # of the look at the range
BINS, MOST_BINS = 4.0, 64  # of the table: where a look has a precision of 1, and at most
FINER = 4  # cells of the look at the spread, by bin
LARGEST = 8.0  # log-odds beyond which all count as one
LIKELIHOODS = np.linspace(-LARGEST, LARGEST, 33)[1:-1]
_LOG_ODDS: Floats = np.linspace(-LARGEST, LARGEST, CELLS + 1)
_OCTAVES: Floats = 2.0 ** np.concatenate([np.arange(-16.0, 9.0), np.arange(12.0, 45.0, 4.0)])
_CLEAR, _USUAL = 4.0, 4.0  # deviations of the noise; up to where scores lie if that is not clear
_OUTSIDE = 0.01  # of the rows, on either side of the range in which bins lie
_EVERYWHERE = 0.02  # of the weight of all cells, spread evenly: what nothing was seen of has bins, too


@dataclass(frozen=True)
class Level:
    """Noisy counts of units by cell, and the scale of the Laplace noise in each."""

    counts: Floats
    scale: float


NOTHING = Level(np.zeros(0), 1.0)


@dataclass(frozen=True)
class Released:
    """All that is known of the held-out rows.

    Parameters
    ----------
    asked : Asked
        What the model was asked.
    n_rows, n_units : int
        The public numbers of rows, and of units, rows or persons.
    accuracy : Level
        Counts of wrong and right predictions.
    edges : ndarray
        The edges between bins of scores, rising.
    table : Level
        With a positive class, counts by label, predicted label and bin; the predicted label has one place where it
        follows from the bin. With several classes, counts by right prediction and bin.
    grid, spread : ndarray and Level
        The edges of fine cells of scores, and the counts in them.
    confusion, likelihood : Level
        With several classes, counts by true and predicted class, and by the log-odds of the true class.
    """

    asked: Asked
    n_rows: int
    n_units: int
    accuracy: Level
    edges: Floats
    table: Level
    grid: Floats
    spread: Level
    confusion: Level = NOTHING
    likelihood: Level = NOTHING


def sides(asked: Asked) -> int:
    """Return how many places the predicted label has in the table."""
    return 1 if asked.joined or asked.positive is None else 2


def require_shares(budget: Budget, accuracy_share: Any, adjacency: str) -> None:
    """Raise ValueError unless the share is a part, and every level's part of the budget buys noise on the grid."""
    require_part("accuracy_share", accuracy_share, whole=False)
    smallest = min(accuracy_share, (1 - accuracy_share) * LOOK)
    Laplace(budget.epsilon * smallest).check(CellCounts(1, "cells").sensitivity(adjacency))


class Releases:
    """Buys one level after the other with a pure budget."""

    def __init__(self, door: Door, persons: Persons | None, n_rows: int) -> None:
        self._door, self.n_units = door, n_rows if persons is None else persons.n
        self._weights = None if persons is None else Weights(persons.weights, persons)

    def level(self, cells: Integers, shape: tuple[int, ...], share: float | None, label: str) -> Level:
        """Count rows by cell, with this share of the whole budget; None: with all that is left."""
        data = self._door.open(RawRows((cells + 1.0)[:, None], weights=self._weights))
        price = data.share() if share is None else data.portion(1 / share)
        mechanism = Laplace.priced(price, data.currency)
        sealed = data.measure(CellCounts(math.prod(shape), label))
        scale = noise_scale(sealed.sensitivity.l1, mechanism.epsilon) * sealed.unit
        return Level(data.release(sealed, mechanism).reshape(shape), scale)


def release(buy: Releases, seen: Opinions, asked: Asked, accuracy_share: float) -> Released:
    """Return all levels, bought with the whole budget."""
    rest, right, n_units = 1 - accuracy_share, seen.right.astype(np.int64), buy.n_units
    accuracy = buy.level(right, (2,), accuracy_share, "right predictions")
    size, public, found = (
        (seen.score, _LOG_ODDS, _range) if asked.is_probability else (np.abs(seen.score), _OCTAVES, _range_of_octaves)
    )
    grid = found(_look(buy, size, public, LOOK * rest, "range of scores"), n_units)
    spread = _look(buy, seen.score, grid, LOOK * rest, "spread of scores")
    edges = _edges(spread, grid, n_units, asked)
    bins, n_bins, several = np.searchsorted(edges, seen.score, side="right"), len(edges) + 1, dict[str, Level]()
    if asked.positive is not None:
        shape: tuple[int, ...] = (2, sides(asked), n_bins)
        places: tuple[Integers, ...] = (seen.true, np.minimum(seen.predicted, sides(asked) - 1), bins)
    else:
        n_classes = asked.n_classes
        pairs = seen.true * n_classes + seen.predicted
        several["confusion"] = buy.level(pairs, (n_classes, n_classes), CONFUSION * rest, "confusion matrix")
        likelihoods = np.searchsorted(LIKELIHOODS, seen.of_true, side="right")
        share = LIKELIHOOD * rest
        several["likelihood"] = buy.level(likelihoods, (len(LIKELIHOODS) + 1,), share, "likelihood of labels")
        shape, places = (2, n_bins), (right, bins)
    table = buy.level(np.ravel_multi_index(places, shape), shape, None, "table of scores")
    return Released(asked, len(right), n_units, accuracy, edges, table, grid, spread, **several)


def _look(buy: Releases, score: Floats, edges: Floats, share: float, label: str) -> Level:
    """Count rows by the cells between edges; the first and last take what lies beyond."""
    return buy.level(np.searchsorted(edges[1:-1], score, side="right"), (len(edges) - 1,), share, label)


def _bins(n_units: int, scale: float) -> int:
    """Return a number of bins that grows with the precision of a look.

    With more bins the order of rows is known better, and counts are less precise. One error falls as the other rises:
    they are alike where the number of bins grows with the third root.
    """
    return int(np.clip(round(BINS * (n_units / scale) ** (1 / 3)), 4, MOST_BINS))


def _range(level: Level, n_units: int) -> Floats:
    """Return the edges of even cells over the range in which nearly all log-odds lie."""
    part = np.cumsum(on_simplex(level.counts, n_units)) / n_units
    first = max(0, int(np.searchsorted(part, _OUTSIDE)) - 1)
    last = min(len(part) - 1, int(np.searchsorted(part, 1 - _OUTSIDE)) + 1)
    return np.linspace(_LOG_ODDS[first], _LOG_ODDS[last + 1], FINER * _bins(n_units, level.scale) + 1)


def _range_of_octaves(level: Level, n_units: int) -> Floats:
    """Return the edges of even cells to both sides of 0, up to an octave that nearly all scores lie below.

    Octaves are left out from the largest on, as long as noise may be all that there is.
    """
    above, n_octaves = np.cumsum(level.counts[::-1]), np.arange(1, len(_OCTAVES))
    clear = above > _OUTSIDE * n_units + _CLEAR * level.scale * np.sqrt(2 * n_octaves)
    end = _OCTAVES[::-1][np.argmax(clear)] if clear.any() else _USUAL
    return np.linspace(-end, end, FINER * _bins(n_units, level.scale) + 1)


def _edges(level: Level, grid: Floats, n_units: int, asked: Asked) -> Floats:
    """Return edges between bins of equal weight. Rows near a probability of 1/2 weigh more, where labels overlap.

    So a rare class gets as many bins as a frequent one.
    """
    weight = on_simplex(level.counts, n_units)
    if asked.is_probability:
        middles = (grid[1:] + grid[:-1]) / 2
        weight = weight / np.cosh(middles / 2)  # in proportion to the root of p (1 - p)
    weight = weight + _EVERYWHERE * weight.mean()
    parts, n_bins = np.cumsum(weight)[:-1] / weight.sum(), _bins(n_units, level.scale)
    chosen = grid[1 + np.searchsorted(parts, np.arange(1, n_bins) / n_bins).clip(0, len(grid) - 3)]
    if asked.positive is not None and (asked.joined or asked.is_probability):
        cut, width = ABOVE_ZERO if asked.joined else 0.0, grid[1] - grid[0]
        chosen = np.append(chosen[np.abs(chosen) > width], cut)  # the model's own threshold, and no sliver beside it
    return np.unique(chosen)
