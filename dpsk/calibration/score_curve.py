"""The curve from scores to log-odds that noisy counts of rows by label and score support.

It is found by penalised likelihood. The logarithm of its slope changes along the scores as a random walk does, and it
starts from a straight line that is usual at this precision. Each cell counts as much as the part of its variance that
is chance and not noise. So the curve is bent where counts are precise, a straight line where they are less so, and
nearly level, at the noisy share of the label, where scores say little.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..mechanisms.samplers import Floats

# Chosen on Adult, Bank, IPUMS-BR, some of their rows, and made tables (benchmarks/results/probabilities.md).
USUAL = 60.0  # the precision at which scores are usually twice too large
DOUBT = 0.7  # of the logarithm of the usual slope
SHIFT = 0.5  # by how much log-odds at the mean score differ from the usual ones
BEND = 0.2  # of the logarithm of the slope, along one unit of score
STEEPEST, FLATTEST = 2.0, 0.002  # the slopes there may be, in natural ones
SMOOTH = 0.05  # of all rows: by how much counts of neighbouring cells differ from the mean of their neighbours
SEEN = 2.0  # standard deviations of the noise, that a cell needs to have any rows
SURE = 0.1  # of the variance of all labels, that labels in a cell have at least
OVERFITTED = 0.64  # how many weights are fitted to chance: this much less than mu^2 n of them
_LEVEL, _ROUNDS, _STEPS, _LONGEST = 1e-4, 5, 30, 2.0


@dataclass(frozen=True)
class Known:
    """What is known beside the counts, all of it public.

    ``noise`` is the standard deviation of one count, ``n_rows`` what all rows weigh. ``precision`` is how many typical
    gradients outweigh the noise of one weight, if the budget bought a single one, and ``n_weights`` their number: 0
    for rows that no weight was fitted to.
    ``natural`` is the slope of log-odds by score without noise. A curve that is ``fixed`` is 0 at the score 0.
    """

    noise: float
    n_rows: float
    precision: float
    n_weights: int
    natural: float
    fixed: bool

    @property
    def usual(self) -> float:
        """The slope that is usual: the noisier the weights, the larger are scores."""
        usual = 1 / (1 + math.sqrt(USUAL * math.sqrt(self.n_weights) / self.precision))
        return self.natural * max(usual, 2 * FLATTEST)

    @property
    def overfitted(self) -> float:
        """How many of the weights are fitted to chance, in so far as noise does not hide it."""
        if not self.n_weights:
            return 0.0
        return 1 / (1 / self.n_weights + OVERFITTED * self.n_rows / self.precision**2)


def rows_in(counts: Floats, known: Known) -> Floats:
    """Return about how many rows each cell has: the sums of its counts, smoothed as far as they are noise."""
    sums, size = counts.sum(axis=0), counts.shape[1]
    second = np.diff(np.eye(size), 2, axis=0)
    smooth = np.linalg.inv(np.eye(size) + 2 * (known.noise / (SMOOTH * known.n_rows)) ** 2 * second.T @ second)
    rows = np.maximum(smooth @ sums - SEEN * known.noise * np.sqrt(2 * np.square(smooth).sum(axis=1)), 0)
    found: Floats = known.n_rows * (rows / rows.sum() if rows.sum() > 0 else np.full(size, 1 / size))
    return found


class _Line:
    """All curves: their log-odds at the cells follow from numbers that are standard normal beforehand."""

    def __init__(self, cells: Floats, mean: float, known: Known) -> None:
        gaps, size = np.diff(cells), len(cells)
        at = int(np.clip(np.searchsorted(cells, mean), 1, size - 2))
        sums = np.tril(np.ones((size, size - 1)), -1) * gaps
        part = (mean - cells[at - 1]) / gaps[at - 1]
        self._from_mean = sums - (part * sums[at] + (1 - part) * sums[at - 1])
        walk = np.tril(np.ones((size - 1, size - 2)), -1) * (BEND * np.sqrt((gaps[1:] + gaps[:-1]) / 2))
        self._bends = np.column_stack([np.full(size - 1, DOUBT), walk - walk[at]])
        self._flattest, self._steepest = FLATTEST * known.natural, STEEPEST * known.natural
        self._usual = math.log((known.usual - self._flattest) / (self._steepest - known.usual))
        self._level, self._shift = known.usual * mean, _LEVEL if known.fixed else SHIFT
        self.size = size

    def through(self, at: Floats) -> tuple[Floats, Floats]:
        """Return the log-odds at the cells, and their derivatives."""
        part, most = _probability(self._usual + self._bends @ at[1:]), self._steepest - self._flattest
        slopes = self._flattest + most * part
        log_odds = self._level + self._shift * at[0] + self._from_mean @ slopes
        bent = (self._from_mean * (most * part * (1 - part))) @ self._bends
        return log_odds, np.column_stack([np.full(self.size, self._shift), bent])


@dataclass
class _Problem:
    """The penalised likelihood of noisy counts: ``positive`` of ``rows`` in each cell, which count ``weight`` times.

    What overfitting adds to the slope is taken away by a pull: ``pull * slope / reference``.
    """

    line: _Line
    rows: Floats
    positive: Floats
    weight: Floats
    pull: float = 0.0
    reference: float = 0.0

    def value(self, at: Floats) -> float:
        log_odds, _ = self.line.through(at)
        likelihood = self.weight @ (self.rows * np.logaddexp(0, log_odds) - self.positive * log_odds)
        return float(likelihood + at @ at / 2 + self._pulled(at))

    def _pulled(self, at: Floats) -> float:
        return self.pull * math.exp(DOUBT * (at[1] - self.reference))

    def _hessian(self, at: Floats) -> Floats:
        log_odds, slopes = self.line.through(at)
        sure = _probability(log_odds)
        hessian = np.eye(len(at)) + slopes.T @ ((self.weight * self.rows * sure * (1 - sure))[:, None] * slopes)
        hessian[1, 1] += DOUBT**2 * self._pulled(at)
        return hessian

    def deviation(self, at: Floats, parts: Floats) -> float:
        """Return how uncertain a mean of the log-odds of cells is, given the part of each cell."""
        along = parts @ self.line.through(at)[1]
        return math.sqrt(float(along @ np.linalg.solve(self._hessian(at), along)))

    def minimum(self, at: Floats) -> Floats:
        """Return the minimum near this point, by Newton's method without second derivatives of the curve."""
        for _ in range(_STEPS):
            log_odds, slopes = self.line.through(at)
            gradient = at - slopes.T @ (self.weight * (self.positive - self.rows * _probability(log_odds)))
            gradient[1] += DOUBT * self._pulled(at)
            step = np.linalg.solve(self._hessian(at), -gradient)
            length, value, fall = min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300)), self.value(at), gradient @ step
            while self.value(at + length * step) > value + 1e-4 * length * fall and length > 1e-6:
                length /= 2
            at = at + length * step
            if -fall < 1e-8:
                break
        return at


def curve(counts: Floats, edges: Floats, known: Known) -> tuple[Floats, Floats, float]:
    """Return scores and the log-odds there, both increasing, for noisy counts of both labels between edges.

    The last number tells how uncertain the log-odds at the score 0 are: their variance, in parts of their square.
    """
    cells, rows = (edges[1:] + edges[:-1]) / 2, rows_in(counts, known)
    mean = 0.0 if known.fixed else float(rows @ cells) / known.n_rows
    share = float(np.clip(0.5 + (counts[1] - counts[0]).sum() / (2 * known.n_rows), 0.01, 0.99))
    line, at = _Line(cells, mean, known), np.zeros(len(cells))
    sure, least = np.full(len(cells), share), SURE * share * (1 - share)
    problem = _Problem(line, rows, counts[1], rows)
    for k in range(_ROUNDS):
        chance = np.maximum(sure * (1 - sure), least) * rows
        noise = known.noise**2 * (sure**2 + (1 - sure) ** 2)
        problem.weight = chance / (chance + noise + 1e-300)
        # so many of the rows that are thought to be there, as noisy counts of both labels agree with
        problem.positive = counts[1] + sure * (rows - counts.sum(axis=0))
        at = problem.minimum(at)
        log_odds, _ = line.through(at)
        sure = _probability(log_odds)
        if k == _ROUNDS // 2:
            spread = chance * (log_odds - rows @ log_odds / known.n_rows) ** 2
            problem.pull = known.overfitted * float(problem.weight @ spread / max(spread.sum(), 1e-300))
            problem.reference = float(at[1])
    log_odds, middle = line.through(at)[0], np.array([np.interp(0.0, cells, unit) for unit in np.eye(len(cells))])
    at_zero = float(middle @ log_odds)
    uncertain = problem.deviation(at, middle) ** 2 / max(at_zero**2, 1e-300)
    return cells, log_odds, uncertain


def _probability(log_odds: Floats) -> Floats:
    sure: Floats = np.exp(-np.logaddexp(0, -log_odds))
    return sure
