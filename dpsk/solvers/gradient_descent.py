"""Noisy gradient descent on all rows, with momentum and an averaged tail, on a schedule fixed before the run.

Full batches need no sampling argument: T releases of Gaussian DP mu_t compose to sqrt(sum mu_t^2) exactly (Dong, Roth &
Su 2022), so T steps cost what one step of the same total precision would, and averaging undoes the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..data import PrivateData
from ..losses import Loss
from ..mechanisms import Gaussian
from ..mechanisms.samplers import Floats
from ..penalties import Penalty
from ..queries import GradientSum
from .precision import gradient_precision, typical_norm

__all__ = ["GradientDescent"]

# The rule of the defaults; benchmarks/results/tuning.md shows what becomes of other values.
STEPS, FEWEST, MOST = 100, 30, 300  # at precision 84
CLIP, SMALLEST, LARGEST = 0.18, 0.1, 1.0  # at precision 42
REACH = 20.0  # at precision 42, growing with it
PACE = 5.0  # with momentum 0.9, stable unless one direction has more than 3.8/5 of all the variance


@dataclass(frozen=True)
class GradientDescent:
    """Heavy-ball descent in which every step buys an equal part of what is left of the budget.

    What is None is set from public facts (rows, weights, budget, loss) and one noisy count of row norms. All of it
    hangs on the precision of one gradient bought with the whole budget (:func:`gradient_precision`).

    Parameters
    ----------
    steps : int or None
        Number of gradients. None: 100 at precision 84, growing like its root, between 30 and 300: the more noise, the
        earlier the descent has to stop.
    momentum : float
        The part of the last step that is repeated, in [0, 1).
    step_size : float or None
        None: pace / (curvature of the loss * squared norm of a typical row + curvature of the penalty), with a pace
        that grows with the precision and the number of columns, up to 5.
    gradient_clip : float or None
        Bound on one row's gradient norm. None: between 0.1 and 1 times the gradient of a typical row at its steepest;
        smaller where there is more noise.
    average : float
        The last part of the iterates whose mean is the result, in (0, 1].
    """

    steps: int | None = None
    momentum: float = 0.9
    step_size: float | None = None
    gradient_clip: float | None = None
    average: float = 0.5

    def iterates(self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]) -> Iterator[Floats]:
        norm = typical_norm(data) if self.gradient_clip is None or self.step_size is None else 1.0
        precision = gradient_precision(data, math.prod(shape))
        steps = self.steps or int(np.clip(STEPS * math.sqrt(precision / 84), FEWEST, MOST))
        steepest = norm * (loss.lipschitz if math.isfinite(loss.lipschitz) else 1.0)
        clip = self.gradient_clip or steepest * float(np.clip(CLIP * (precision / 42) ** 0.4, SMALLEST, LARGEST))
        # A direction of average curvature (a typical row's, spread over all columns) is followed ``reach`` times as far
        # as one step of size 1/curvature would: further than noise lets us see, descent only gathers noise.
        reach = REACH * precision / 42
        pace = min(PACE, reach * shape[0] * (1 - self.momentum) / steps)
        # a loss with a kink counts as curved as one that is rounded over a unit of margin
        length = pace / (min(loss.typical_curvature, 1.0) * norm**2 + penalty.smoothness)
        step_size = self.step_size or min(length, 1 / max(penalty.smoothness, 1e-300))
        mechanism = Gaussian.priced(data.remaining / steps * (1 - 1e-12), data.currency)
        w, velocity, mean = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        first = steps - math.ceil(self.average * steps)
        for step in range(steps):
            noisy = data.release(data.measure(GradientSum(loss, w, clip=clip)), mechanism)
            velocity = self.momentum * velocity - step_size * (noisy / data.n_rows + penalty.gradient(w))
            w = w + velocity
            if step < first:
                yield w
            else:
                mean = mean + (w - mean) / (step - first + 1)
                yield mean
