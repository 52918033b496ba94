"""Counts of rows by label, by score and label, and by cell: class weights, calibration, evaluation."""

import numpy as np

from ..data.grid import weights_on_grid
from ..data.private import Query
from ..data.rows import Chunk, RawChunk
from ..data.weights import counts
from ..elementwise import exp, log
from ..losses import sum_of_classes
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from ..privacy.neighbours import Adjacency

_BITS = 20


class ClassCounts(Query):
    """Counts of rows by label.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.14)
    A leaving row lowers one count by 1, a replaced row moves 1 from one count to another.
    """

    label = "class counts"
    weighed = True
    unit = 2.0**-_BITS

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def sensitivity(self, adjacency: str) -> Sensitivity:
        return _of_one_cell(adjacency)

    def __call__(self, chunk: Chunk) -> Integers:
        codes = (chunk.y > 0).astype(np.int64) if chunk.n_classes is None else chunk.y
        return counts(codes, chunk.weights, self.n_classes, _BITS)


class Outcomes(Query):
    """Counts of rows by label and by how sure a linear model is, on a fine grid.

    With two classes there are two lines, for the labels -1 and 1, with the score of the row. With more there are two
    lines for wrong and right predictions, with the log-odds of the class that is predicted. ``edges`` are the ends of
    the cells of a line, in order; what lies beyond counts as in the first or last.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.11)
    A leaving row lowers one count by 1, a replaced row moves 1 from one cell to another.
    """

    label = "outcomes"
    weighed = True
    unit = 2.0**-_BITS
    evaluations = 1

    def __init__(self, w: Floats, edges: Floats) -> None:
        self.w, _ = weights_on_grid(w)
        self.edges = np.array(edges, dtype=np.float64)

    def sensitivity(self, adjacency: str) -> Sensitivity:
        return _of_one_cell(adjacency)

    def __call__(self, chunk: Chunk) -> Integers:
        scores = chunk.scores(self.w)
        if scores.ndim == 1:
            line = (chunk.y > 0).astype(np.int64)
        else:
            line = (scores.argmax(axis=1) == chunk.y).astype(np.int64)
            scores = log_odds_of_winner(scores)
        n_cells = len(self.edges) - 1
        cell = np.searchsorted(self.edges[1:-1], scores, side="right")
        cells = counts(line * n_cells + cell, chunk.weights, 2 * n_cells, _BITS)
        return cells.reshape(*cells.shape[:-1], 2, n_cells)


class CellCounts(Query):
    """Counts of rows by a cell that was found beforehand: each row has one entry, the number of its cell.

    Numbers begin at 1, because entries that are 0 are not stored.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.15)
    A leaving row lowers one count by 1, a replaced row moves 1 from one cell to another.
    """

    weighed = True
    unit = 2.0**-_BITS

    def __init__(self, n_cells: int, label: str) -> None:
        self.n_cells, self.label = n_cells, label

    def sensitivity(self, adjacency: str) -> Sensitivity:
        return _of_one_cell(adjacency)

    def __call__(self, chunk: RawChunk) -> Integers:
        if not isinstance(chunk, RawChunk) or chunk.n_features != 1 or (chunk.counts != 1).any():
            raise ValueError(f"{self.label} are counted of one column, with the number of a cell in each row")
        cells = np.clip(chunk.values.astype(np.int64) - 1, 0, self.n_cells - 1)
        return counts(cells, chunk.weights, self.n_cells, _BITS)


def _of_one_cell(adjacency: str) -> Sensitivity:
    """Return the sensitivity of counts where a row lies in one cell."""
    one, parts = 2**_BITS, Adjacency(adjacency).parts
    l2 = one if parts == 1 else float(np.nextafter(np.sqrt(2) * one, np.inf))
    return Sensitivity(l1=parts * one, l2=l2, linf=one, monotone=Adjacency(adjacency).monotone)


def log_odds_of_winner(scores: Floats) -> Floats:
    """Return for each row the logarithm of p / (1 - p), where p is the softmax of its largest score."""
    winner = scores.argmax(axis=1)
    odds = exp(scores - scores.max(axis=1, keepdims=True))
    odds[np.arange(len(odds)), winner] = 0.0
    sure: Floats = -log(np.maximum(sum_of_classes(odds), 2.0**-100))
    return sure
