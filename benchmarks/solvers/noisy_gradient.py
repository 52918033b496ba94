"""DP-GD: private gradient descent whose iterates are sorted through afterwards (Wang, Chen & Xu 2019).

Short steps against noisy gradients for as many iterations as the worst case needs; then noisy Hessians of the iterates
whose noisy gradient was short, the shortest first, until one passes. Accounting and Hessian noise are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..inside import BudgetExhausted, Constants, Diagnostics, Gaussian, SecondOrder, Solver, SymmetricGaussian

__all__ = ["NoisyGradient"]


@dataclass(frozen=True)
class NoisyGradient(Solver):
    """Half of the budget for T gradients, half for up to T Hessians, T of the short-step method."""

    eps_g: float
    eps_h: float
    longest: float

    def iterates(self, data, objective):
        penalty, known = objective.penalty, Constants.of(objective.loss, objective.penalty, self.longest)
        steps = max(SecondOrder(line_search=False).most_steps(known, self.eps_g, self.eps_h))
        price = data.share(2 * steps, solved=True)
        of_gradient, of_hessian = (kind.priced(price, data.currency) for kind in (Gaussian, SymmetricGaussian))
        w, seen = objective.start(), []
        for _ in range(steps):
            sums = data.measure(objective.gradient(w, clip=known.gradient))
            gradient = data.release(sums, of_gradient) / data.n_rows + penalty.gradient(w)
            seen.append((np.linalg.norm(gradient), len(seen), w))
            w = w - gradient / known.smoothness
            yield w
        try:
            for length, _, w in sorted(seen):
                if length > self.eps_g:
                    break
                sums = data.measure(objective.hessian(w, clip=known.hessian))
                hessian = data.release(sums, of_hessian) / data.n_rows + np.diag(penalty.curvature(w))
                if np.linalg.eigvalsh(hessian)[0] >= -self.eps_h:
                    yield w
                    return Diagnostics({"reached": True})
        except BudgetExhausted:
            pass
        return Diagnostics({"reached": False})
