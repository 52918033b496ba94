"""Noisy gradient descent on all rows, with momentum and an averaged tail, on a schedule fixed before the run.

Full batches need no sampling argument: T releases of Gaussian DP mu_t compose to sqrt(sum mu_t^2) exactly (Dong, Roth &
Su 2022), so T steps cost what one step of the same total precision would, and averaging undoes the rest.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..data.private import PrivateData
from ..mechanisms import Gaussian
from ..objectives import LinearObjective
from ..requirements import clip, integer, number, part
from .descent_noise import DescentNoise, Trace, first_averaged, tapered
from .precision import deviation, gradient_precision, typical_norm
from .solver import Diagnostics, Iterates, Solver

# The rule of the defaults; benchmarks/results/tuning.md shows what becomes of other values.
STEPS, FEWEST, MOST = 100, 30, 300  # at precision 84
CLIP, SMALLEST, LARGEST = 0.18, 0.1, 1.0  # at precision 42
REACH = 20.0  # at precision 42, growing with it
TAPERED, EVEN = 120.0, 240.0  # up to which precision the taper is full, and from which on there is none
PACE = 5.0  # with momentum 0.9, stable unless one direction has more than 3.8/5 of all the variance


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Heavy-ball descent whose steps share what is left of the budget: equally, or late ones get less.

    What is None is set from public facts (rows, weights, budget, loss) and one noisy count of row norms. All of it
    hangs on the precision of one gradient bought with the whole budget (:func:`gradient_precision`).

    Parameters
    ----------
    steps : int or None
        Number of gradients. None: 30 to 300, the more the less noise there is (100 at precision 84, growing like its
        root).
    momentum : float
        The part of the last step that is repeated, in [0, 1).
    step_size : float or None
        Length of a step. None: from the loss, the penalty and the noisy norm of a typical row: pace / curvature, with a
        pace that grows with the precision and the number of columns, up to 5.
    gradient_clip : float or None
        Bound on one row's gradient norm, in the units that are fitted. None: 0.1 to 1 times the gradient of a typical
        row at its steepest, the smaller the more noise there is.
    average : float
        The last part of the iterates whose mean is the result, in (0, 1].
    taper : float or None
        How much of the price of an early gradient a late one does without, in [0, 1). From where averaging begins,
        prices fall in stages along a line, to about 1 - ``taper`` times the first price. Few averaged iterates answer a
        late gradient, so its noise does less harm. 0: all cost the same. None: 1 up to precision 120, 0 from 240 on,
        and on a line between.
    reach : float
        How far directions are followed that noise hardly lets us see, as a multiple of what suits a table of numbers.
    traced : int
        Into how many parts the run is cut, of which mean weights and mean gradients are kept, to tell afterwards how
        noisy the result is. 0: nothing is kept.
    """

    steps: int | None = integer(None)
    momentum: float = number(0.9, below=1)
    step_size: float | None = number(None, open_low=True)
    gradient_clip: float | None = clip(None)
    average: float = part(0.5)
    reach: float = number(1.0, open_low=True)
    taper: float | None = number(None, below=1)
    traced: int = integer(0, 0)

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        penalty, shape = objective.penalty, objective.shape
        norm = typical_norm(data) if self.gradient_clip is None or self.step_size is None else 1.0
        precision = gradient_precision(data, objective.n_weights)
        steps = self.steps or int(np.clip(STEPS * math.sqrt(precision / 84), FEWEST, MOST))
        part = float(np.clip(CLIP * (precision / 42) ** 0.4, SMALLEST, LARGEST))
        clip = self.gradient_clip or objective.steepest(norm) * part
        # A direction of average curvature (a typical row's, spread over all columns) is followed ``reach`` times as far
        # as one step of size 1/curvature would: further than noise lets us see, descent only gathers noise.
        reach = self.reach * REACH * precision / 42
        pace = min(PACE, reach * shape[0] * (1 - self.momentum) / steps)
        length = pace / objective.curvature(norm)
        step_size = self.step_size or min(length, 1 / max(penalty.smoothness, 1e-300))
        first = first_averaged(steps, self.average)
        fall = float(np.clip((EVEN - precision) / (EVEN - TAPERED), 0, 1))
        taper = fall if self.taper is None else self.taper
        prices = tapered(steps, first, taper)
        total, different = prices.sum(), {*prices.tolist()}
        bought = {price: Gaussian.priced(data.share(total / price), data.currency) for price in different}
        mechanisms = [bought[price] for price in prices.tolist()]
        w, velocity, mean = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        trace = Trace.of(steps, self.traced, shape)
        for step in range(steps):
            query = objective.gradient(w, clip=clip)
            noisy = data.release(data.measure(query), mechanisms[step])
            trace.add(step, w, noisy / data.n_rows)
            velocity = self.momentum * velocity - step_size * (noisy / data.n_rows + penalty.gradient(w))
            w = w + velocity
            if step < first:
                yield w
            else:
                mean = mean + (w - mean) / (step - first + 1)
                yield mean
        if not self.traced:
            return None
        noise = deviation(mechanisms[0], query.sensitivity(data.adjacency)) * query.unit / data.n_rows
        curvature = min(objective.loss.typical_curvature, 1.0)
        known = DescentNoise(
            steps,
            step_size,
            self.momentum,
            self.average,
            noise,
            clip / norm,
            curvature,
            penalty.smoothness,
            trace,
            taper=taper,
        )
        return Diagnostics({"descent_noise": known})
