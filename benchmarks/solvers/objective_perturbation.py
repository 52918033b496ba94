"""Objective perturbation as first published, on rows of unit norm.

Floating-point noise and plain solvers: the guarantees stated are those of the papers for exact arithmetic. The
constant column is part of the row and of its norm, as the proofs ask for.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from .unit_rows import UnitRowsClassifier

__all__ = ["ApproximateMinima", "GaussianObjective", "PureObjective"]


class _PerturbedObjective(UnitRowsClassifier):
    """Minimiser of sum of losses + penalty/2 ||w||^2 + b.w; subclasses say what b and the penalty are."""

    def __init__(self, epsilon=1.0, delta=1e-6, alpha=1e-4, loss="log_loss", random_state=None):
        super().__init__(epsilon, delta, alpha, loss, random_state)

    def _noise(self, n, p, smoothness, rng):
        """Return b, the penalty, and the standard deviation of noise added to the minimiser."""
        raise NotImplementedError

    def _weights(self, rows, loss, rng):
        n, p = rows.shape
        b, penalty, spread = self._noise(n, p, loss.smoothness, rng)

        def objective(w):
            margin = rows @ w
            gradient = rows.T @ loss.slope(margin) + penalty * w + b
            return loss.phi(margin).sum() + penalty / 2 * (w @ w) + b @ w, gradient

        options = {"maxiter": 5_000, "maxfun": 10_000, "ftol": 0.0, "gtol": 1.0 / n}
        w = minimize(objective, np.zeros(p), jac=True, method="L-BFGS-B", options=options).x
        if spread:  # the noise is for gradients of a stated length, which L-BFGS does not look at
            w = _refined(rows, loss, penalty, b, w, 1 / n)
        return w + spread * rng.normal(size=p)


def _refined(rows, loss, penalty, b, w, tolerance):
    """Return a point near w where the gradient of the perturbed objective is no longer than the tolerance."""

    def gradient(w):
        return rows.T @ loss.slope(rows @ w) + penalty * w + b

    here = gradient(w)
    for _ in range(100):
        if np.linalg.norm(here) <= tolerance:
            return w
        hessian = (rows.T * loss.curvature(rows @ w)) @ rows + penalty * np.eye(len(w))
        way, step = np.linalg.solve(hessian, here), 1.0
        while np.linalg.norm(there := gradient(w - step * way)) > (1 - step / 4) * np.linalg.norm(here) and step > 1e-9:
            step /= 2
        w, here = w - step * way, there
    raise RuntimeError(f"no gradient as short as {tolerance:g} was found; nothing is returned")


class PureObjective(_PerturbedObjective):
    """Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 2: pure epsilon-DP for replaced rows.

    b has density proportional to exp(-epsilon' ||b|| / 2).
    """

    def _noise(self, n, p, smoothness, rng):
        c, lam = smoothness, self.alpha
        left = self.epsilon - math.log(1 + 2 * c / (n * lam) + (c / (n * lam)) ** 2)
        if left <= 0:
            lam = c / (n * math.expm1(self.epsilon / 4))
            left = self.epsilon / 2
        direction = rng.normal(size=p)
        b = direction / np.linalg.norm(direction) * rng.gamma(p, 2 / left)
        return b, n * lam, 0.0


class GaussianObjective(_PerturbedObjective):
    """Kifer, Smith & Thakurta (2012): (epsilon, delta)-DP for a row that leaves, with Gaussian b and a penalty of
    2 * smoothness / epsilon.
    """

    def _noise(self, n, p, smoothness, rng):
        sigma = math.sqrt(8 * math.log(2 / self.delta) + 4 * self.epsilon) / self.epsilon
        return sigma * rng.normal(size=p), max(n * self.alpha, 2 * smoothness / self.epsilon), 0.0


class ApproximateMinima(_PerturbedObjective):
    """AMP (Iyengar et al. 2019), not tuned: (epsilon, delta)-DP for replaced rows, the minimum being approximate.

    One part of the budget is for b, which also pays for the determinant, the other for what is left of the gradient, up
    to 1/n^2 of the mean loss: each of two neighbours may be tolerance/penalty away from its minimum, so they are up to
    twice that apart. How the budget is split is fixed: 99 % for b, of which half, but all except .999 if that is more,
    is for the determinant.
    """

    def _noise(self, n, p, smoothness, rng):
        first, second = 0.99 * self.epsilon, 0.01 * self.epsilon
        determinant = max(first / 2, first - 0.999)
        penalty = max(n * self.alpha, 2 * smoothness / determinant)  # a row changes the Hessian by rank one, so r = 2
        delta = self.delta / 2
        sigma = 2 * (1 + math.sqrt(2 * math.log(1 / delta))) / (first - determinant)
        tolerance = 1 / n  # of the sum
        spread = 2 * tolerance / penalty * (1 + math.sqrt(2 * math.log(1 / delta))) / second
        return sigma * rng.normal(size=p), penalty, spread
