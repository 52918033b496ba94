"""How far probabilities can be trusted: calibration, log-loss and Brier score, from counts by label and bin.

Within a bin, probabilities are known as far as the bin and the finer look at the scores tell. Log-odds beyond +-8 count
as +-8: no row then costs more than 8.0004.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..mechanisms.samplers import Floats
from .counts import on_simplex
from .evidence import Estimate, Evidence, estimate
from .rates import ratio
from .release import LARGEST, LIKELIHOODS, Released

WORST = float(np.log1p(np.exp(LARGEST)))


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """How often rows of a bin belong to the class, beside the probability that they were given.

    ``predicted`` holds the mean probability of each bin, ``observed`` the part that belongs to the class, with their
    common ``band``, and ``counts`` how many units there are. ``edges`` are the probabilities between the bins.
    """

    edges: Floats
    predicted: Floats
    observed: Floats
    band: Floats
    counts: Floats
    confidence: float


class Sureness:
    """The bins of a table whose first axis says whether a row belongs to the class that its probability is for."""

    def __init__(self, released: Released, evidence: Evidence) -> None:
        self.released, self.evidence = released, evidence
        self.counts = evidence.counts.reshape(2, -1, evidence.counts.shape[-1]).sum(axis=1)
        several = released.asked.positive is None
        least = -np.log(released.asked.n_classes - 1) if several else -LARGEST  # the likeliest class has 1/K at least
        ends = np.clip(np.concatenate([[-LARGEST], released.edges, [LARGEST]]), least, LARGEST)
        self.low, self.high = ends[:-1], ends[1:]
        self.fine = np.clip((released.grid[1:] + released.grid[:-1]) / 2, least, LARGEST)
        self.home = np.searchsorted(released.edges, self.fine, side="right")  # the bin of each fine cell

    def _means(self, of: Callable[[Floats], Floats], weight: Callable[[Floats], Floats]) -> Floats:
        """Return the mean over the rows of each bin of a function of their scores, as the finer look has them."""
        spread = on_simplex(self.released.spread.counts, self.evidence.sample.n) * weight(self.fine)
        total = np.bincount(self.home, spread, minlength=len(self.low))
        sums = np.bincount(self.home, spread * of(self.fine), minlength=len(self.low))
        middle = of((self.low + self.high) / 2)
        means: Floats = np.divide(sums, total, out=middle, where=total > 1e-9)
        low, high = np.sort([of(self.low), of(self.high)], axis=0)
        return np.clip(means, low, high)

    def log_loss(self) -> Estimate:
        """Return the mean of -log of the probability of the true label."""
        return self._mean(lambda score: np.log1p(np.exp(-score)), WORST)

    def brier(self) -> Estimate:
        """Return the mean squared difference of label and probability."""
        return self._mean(lambda score: expit(-score) ** 2, 1.0)

    def _mean(self, loss: Callable[[Floats], Floats], largest: float) -> Estimate:
        """Return the mean of a loss that falls in the score of the true label."""
        shape = (2, *(1 for _ in self.evidence.counts.shape[1:-1]), len(self.low))
        ends = np.array([[loss(-self.low), loss(-self.high)], [loss(self.high), loss(self.low)]])
        low, high = (np.broadcast_to(ends[:, k].reshape(shape), self.evidence.counts.shape) for k in (0, 1))
        wrong = self._means(lambda score: loss(-score), lambda score: expit(-score))
        middle = np.array([wrong, self._means(loss, expit)])
        value = float((middle * self.counts).sum()) / self.evidence.sample.n
        return self.evidence.mean(value, low, high, largest)

    def curve(self) -> CalibrationCurve:
        """Return observed frequencies by bin."""
        error = self.evidence.error / len(self.low)
        label, _, bins = (
            index.reshape(self.evidence.counts.shape)
            for index in np.indices((2, self.evidence.counts[0].size // len(self.low), len(self.low)))
        )
        found = []
        for k in range(len(self.low)):
            hits, misses = (label == 1) & (bins == k), (label == 0) & (bins == k)
            value = ratio(self.counts[1, k], self.counts[:, k].sum())
            found.append(self.evidence.part(value, (hits, misses), error=error))
        return CalibrationCurve(
            expit(self.released.edges),
            self._means(expit, np.ones_like),
            np.array([rate.value for rate in found]),
            np.array([rate.interval for rate in found]),
            self.counts.sum(axis=0),
            1 - self.evidence.error,
        )

    def ece(self) -> Estimate:
        """Return the expected calibration error over the bins of the curve: the mean distance of label and probability.

        In each bin the sum of labels less probabilities is known up to noise. Distances are as likely as not larger
        with noise, so its part is taken off in the estimate.
        """
        n, level = self.evidence.sample.n, self.evidence.level
        probability, fine = self._means(expit, np.ones_like), expit(self.fine)
        noisy = level.counts.reshape(2, -1, len(self.low))
        of_cells = np.array([-probability, 1 - probability])
        of_fine = fine - probability[self.home]
        gap = (of_cells[:, None] * noisy).sum(axis=(0, 1))
        gap -= np.bincount(self.home, of_fine * self.released.spread.counts, minlength=len(self.low))
        variance = 2 * level.scale**2 * noisy.shape[1] * (of_cells**2).sum(axis=0)
        scale = self.released.spread.scale
        variance += 2 * scale**2 * np.bincount(self.home, of_fine**2, minlength=len(self.low))
        spread = np.maximum((of_cells**2 * np.maximum(self.counts, 1.0)).sum(axis=0), 1.0)
        width = np.diff(expit(np.clip(self.released.grid, -LARGEST, LARGEST))) / 2
        unseen = float(width @ on_simplex(self.released.spread.counts, n)) + self.evidence.sample.lost
        distance, error = float(np.abs(gap).sum()), self.evidence.error
        value = float(np.sqrt(np.maximum(gap**2 - variance, 0.0)).sum())

        def within(deviations: Floats) -> tuple[float, float]:
            far = _distance(deviations, error) + unseen
            return max(0.0, distance - far) / n, min(n, distance + far) / n

        return estimate(min(value / n, 1.0), within(np.sqrt(variance + spread)), within(np.sqrt(variance)))


def _distance(deviations: Floats, error: float) -> float:
    """Return what the sum of distances from 0 of such variables exceeds with probability ``error`` at most.

    It is the bound of Chernoff for Laplace variables, whose tails are the heavier ones. Distances are then exponential.
    """
    scales = deviations / np.sqrt(2)
    slopes = np.linspace(0.01, 0.99, 99) / scales.max()
    return float(((np.log(1 / error) - np.log1p(-np.outer(slopes, scales)).sum(axis=1)) / slopes).min())


def likelihood(evidence: Evidence) -> Estimate:
    """Return the log-loss of several classes, from counts of rows by the log-odds of their true class."""
    ends = np.concatenate([[-LARGEST], LIKELIHOODS, [LARGEST]])
    loss = np.log1p(np.exp(-ends))
    value = float((loss[1:] + loss[:-1]) @ evidence.counts) / 2 / evidence.sample.n
    return evidence.mean(value, loss[1:], loss[:-1], WORST)
