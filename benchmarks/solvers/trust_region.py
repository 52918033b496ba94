"""DP-TR: a private trust-region method (Wang & Xu 2021), with the second-order stop that makes it comparable.

Every iteration buys a noisy gradient and a noisy Hessian and solves the trust-region subproblem exactly, in a ball of
fixed radius. Its accounting and its Hessian noise are ours (rho, Frobenius sensitivity without the dimension), which is
kinder to it than its paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..inside import BudgetExhausted, Constants, Diagnostics, Gaussian, Solver, SymmetricGaussian

__all__ = ["TrustRegion", "trust_region_step"]


@dataclass(frozen=True)
class TrustRegion(Solver):
    """T = 6 sqrt(M) f(0) / eps_g^(3/2) iterations of radius sqrt(eps_g / M), half the budget for each derivative."""

    eps_g: float
    eps_h: float
    longest: float

    def iterates(self, data, objective):
        penalty, known = objective.penalty, Constants.of(objective.loss, objective.penalty, self.longest)
        radius = math.sqrt(self.eps_g / known.jerk)
        steps = math.ceil(6 * math.sqrt(known.jerk) * known.start / self.eps_g**1.5)
        price = data.share(2 * (steps + 1), solved=True)
        of_gradient, of_hessian = (kind.priced(price, data.currency) for kind in (Gaussian, SymmetricGaussian))
        w = objective.start()
        try:
            while True:
                sums = data.measure(objective.gradient(w, clip=known.gradient))
                gradient = data.release(sums, of_gradient) / data.n_rows + penalty.gradient(w)
                sums = data.measure(objective.hessian(w, clip=known.hessian))
                hessian = data.release(sums, of_hessian) / data.n_rows + np.diag(penalty.curvature(w))
                values, vectors = np.linalg.eigh(hessian)
                if np.linalg.norm(gradient) <= self.eps_g and values[0] >= -self.eps_h:
                    yield w
                    return Diagnostics({"reached": True})
                w = w + trust_region_step(gradient, values, vectors, radius)
                yield w
        except BudgetExhausted:
            return Diagnostics({"reached": False})


def trust_region_step(gradient, values, vectors, radius):
    """Return the minimiser of g.h + h.Hh/2 over ||h|| <= radius, for H with these eigenvalues and -vectors.

    h = -(H + lam I)^+ g with lam >= max(0, -values[0]) and ||h|| = radius, or lam = 0 and ||h|| < radius; in the hard
    case a multiple of the first eigenvector is added (More & Sorensen 1983).
    """
    g = vectors.T @ gradient
    least = max(0.0, -values[0])

    def length(lam):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.linalg.norm(np.where(g == 0, 0.0, g / (values + lam)))

    lam = least
    if length(least) > radius:
        low, high = least, least + np.linalg.norm(gradient) / radius + 1e-300
        for _ in range(200):
            lam = (low + high) / 2
            low, high = (lam, high) if length(lam) > radius else (low, lam)
        lam = high
    shifted = values + lam
    h = np.where(shifted > 0, -g / np.where(shifted > 0, shifted, 1.0), 0.0)
    if least > 0 and lam == least:  # the hard case: the boundary is reached along the first eigenvector
        h[0] += math.sqrt(max(radius**2 - h @ h, 0.0))
    return vectors @ h
