"""Gradient descent with noise on what it ends with, on rows of unit norm.

Three members of the family of output perturbation that bound how far a row moves an iterate instead of a minimum. The
objective is mean(loss) + alpha/2 ||w||^2, constant included; a step of length eta <= 1/(smoothness + alpha) brings
two points closer by 1 - eta alpha at least (Hardt, Recht & Singer 2016), and a replaced row moves a step over a batch
of b rows by 2 eta/b at most. Sensitivities are the sums of these, so never more than the closed forms of the papers.
Guarantees are for replaced rows and exact arithmetic: noise is drawn in floating point. Where a paper has the classical
formula of Gaussian noise, which is not private for epsilon > 1, noise is exactly what (epsilon, delta) asks for.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from ..inside import MarginLoss, gaussian_mu
from .unit_rows import UnitRowsClassifier

__all__ = ["OutputGradientDescent", "PermutedGradientDescent", "RandomizedSensitivity", "sensitivities"]


def sensitivities(steps: np.ndarray, batch: int, n_batches: int, alpha: float, average: int = 1) -> np.ndarray:
    """Return how far a replaced row moves the mean of the last ``average`` iterates, for each batch it may be in.

    Batches are visited in the same order in every pass, so step t sees batch ``t % n_batches``.
    """
    moved, total = np.zeros(n_batches), np.zeros(n_batches)
    for t, step in enumerate(steps):
        moved *= 1 - step * alpha
        moved[t % n_batches] += 2 * step / batch
        if t >= len(steps) - average:
            total += moved / average
    return total


class _NoisyIterate(UnitRowsClassifier):
    """Batches in one random order, ``passes`` times, then noise; subclasses say how long steps are and how noisy."""

    batch: int | None = 50
    passes = 10

    def _steps(self, count: int, longest: float) -> np.ndarray:
        """Return the length of every step, none above ``longest``."""
        raise NotImplementedError

    def _noise(self, moved, p, rng):
        """Return the noise for what a row moves, by its batch: here for the worst of batches."""
        worst = moved.max()
        if self.delta > 0:
            return rng.normal(size=p) * worst / gaussian_mu(self.epsilon, self.delta)
        direction = rng.normal(size=p)
        return direction / np.linalg.norm(direction) * rng.gamma(p, worst / self.epsilon)

    def _averaged(self, n_batches):
        """Return how many of the last iterates are averaged."""
        return 1

    def descend(self, batches: np.ndarray, loss: MarginLoss) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of the last iterates, and how far a replaced row moves it, for each batch it may be in."""
        n_batches, size, p = batches.shape
        steps = self._steps(self.passes * n_batches, 1 / (loss.smoothness + self.alpha))
        last = self._averaged(n_batches)
        w, mean = np.zeros(p), np.zeros(p)
        for t, step in enumerate(steps):
            some = batches[t % n_batches]
            w = w - step * (self.alpha * w + some.T @ loss.slope(some @ w) / size)
            if t >= len(steps) - last:
                mean += w / last
        return mean, sensitivities(steps, size, n_batches, self.alpha, last)

    def _weights(self, rows, loss, rng):
        n, p = rows.shape
        size = n if self.batch is None else self.batch
        n_batches = n // size  # of one size; what is left over is not used
        order = rng.permutation(n)[: n_batches * size].reshape(n_batches, size)
        mean, moved = self.descend(rows[order], loss)
        return mean + self._noise(moved, p, rng)


class OutputGradientDescent(_NoisyIterate):
    """OutPert-GD (Zhang, Zheng, Mou & Wang 2017): epsilon-DP, or (epsilon, delta)-DP.

    A hundred steps of 1/(smoothness + alpha) over all rows.
    """

    batch = None
    passes = 100

    def _steps(self, count, longest):
        return np.full(count, longest)


class PermutedGradientDescent(_NoisyIterate):
    """Permutation-based SGD (Wu, Li, Kumar, Chaudhuri, Jha & Naughton 2017): epsilon-DP, or (epsilon, delta)-DP.

    Ten passes over batches of 50 with steps of min(1/(smoothness + alpha), 1/(alpha t)). The bound holds for every
    order of the rows.
    """

    def _steps(self, count, longest):
        return np.minimum(longest, 1 / (self.alpha * np.arange(1, count + 1)))


class RandomizedSensitivity(_NoisyIterate):
    """RSGD (Chen, Lee & Kifer 2019): (epsilon, delta)-DP by Rényi differential privacy; delta must be positive.

    The batch that a row is in is random and secret, so what is released is a mixture of Gaussians, one shift for each
    batch. exp((a - 1) D_a) is jointly convex, so D_a is at most ``log(mean_j exp(a (a - 1) s_j^2 / (2 sigma^2)))/(a -
    1)`` over the sensitivities s_j. Where shifts hardly differ, as with a small alpha, exact Gaussian noise for the
    worst batch is less, and is taken. Constant steps of 10/sqrt(number of steps), at most 1/(smoothness + alpha), and
    the iterates of the last pass are averaged. Idea and averaging are the paper's, whose text we did not have: steps
    and constants are ours.
    """

    def _steps(self, count, longest):
        return np.full(count, min(longest, 10 / math.sqrt(count)))

    def _averaged(self, n_batches):
        return n_batches

    def mixture_epsilon(self, sigma: float, moved: np.ndarray) -> float:
        """Return the epsilon of noise of this size, by the best of many Rényi orders."""
        orders = np.concatenate([1 + np.geomspace(0.01, 1, 40), np.geomspace(2.1, 2000, 200)])
        exponents = np.multiply.outer(orders * (orders - 1), moved**2 / (2 * sigma**2))
        divergence = (logsumexp(exponents, axis=1) - math.log(len(moved))) / (orders - 1)
        left = (math.log(1 / self.delta) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
        return float((divergence + left).min())

    def _noise(self, moved, p, rng):
        if not self.delta > 0:
            raise ValueError(f"delta={self.delta!r} must be positive: a mixture of Gaussians is not purely private")
        low, high = moved.max() * 1e-3, moved.max() * 1e6
        for _ in range(60):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.mixture_epsilon(middle, moved) > self.epsilon else (low, middle)
        return rng.normal(size=p) * min(high, moved.max() / gaussian_mu(self.epsilon, self.delta))
