"""Output perturbation: one convex problem, solved exactly enough, and noise on its minimiser (Lowy & Razaviyayn 2021).

The idea is that of Chaudhuri, Monteleoni & Sarwate (2011). As in :mod:`dpsk.solvers.objective_perturbation` losses are
flattened where a row's gradient would exceed a clip, so that noise is scaled to the clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from ..data import PrivateData
from ..losses import Loss
from ..mechanisms import Gaussian, NormGamma
from ..mechanisms.samplers import Floats
from ..minimizers import Minimizer, RegularizedSum, slope_at_zero
from ..penalties import Penalty
from ..privacy import PureDP
from .precision import typical_norm

__all__ = ["OutputPerturbation"]

# Chosen on Adult, Bank and IPUMS (benchmarks/results/tuning_output.md).
CLIP = 0.6  # of the gradient of a typical row on the boundary
REACH, REACH_OF_BOUND = 50.0, 100.0  # the margin that the theorems' ball reaches at a typical row, or at a bound
TILTED = 0.05  # of that where losses are tilted: what one row may weigh grows with it (benchmarks/results/beyond.md)


@dataclass(frozen=True)
class OutputPerturbation:
    """The minimiser of a regularised sum of losses, released once with all that is left of the budget.

    Parameters
    ----------
    target : {"empirical", "population", None}
        Which loss the strength of the penalty is chosen for, by the theorems of Lowy & Razaviyayn (2021). None: the
        penalty given is used as it is.
    radius : float or None
        What the weights of each class are projected to after the noise, and the R of the theorems.
    gradient_clip : float or None
        Bound on one row's gradient norm. None: a part of the gradient of a typical row on the boundary.
    longest : float or None
        A public norm that rows are shortened to. None: a typical one, found by a noisy count.
    method : str
        How the minimum is found; one of :data:`dpsk.minimizers.descent.METHODS`.
    objective : callable
        The sum that is minimised, the ``kind`` of a :class:`~dpsk.minimizers.Minimizer`.
    reach : float
        The R of the theorems where no radius is given, in parts of the usual one.
    """

    target: str | None = "empirical"
    radius: float | None = None
    gradient_clip: float | None = None
    longest: float | None = None
    method: str = "newton"
    objective: Callable[..., RegularizedSum] = RegularizedSum
    reach: float = 1.0

    def iterates(
        self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]
    ) -> Generator[Floats, None, RegularizedSum]:
        longest = typical_norm(data) if self.longest is None else self.longest
        radius = self.radius or self.reach * (REACH if self.longest is None else REACH_OF_BOUND) / longest
        n = data.n_rows
        extent = self.objective(loss, n, shape[0], clip=longest, longest=longest, penalty=n).extent
        clip = self.gradient_clip or CLIP * slope_at_zero(loss) * extent
        noise: Gaussian | NormGamma
        if isinstance(data.currency, PureDP):
            noise = NormGamma.priced(data.remaining, data.currency)
            norm = math.prod(shape) / noise.epsilon
        else:
            noise = Gaussian.priced(data.remaining, data.currency)
            norm = math.sqrt(2 * math.prod(shape)) / noise.mu

        def wanted(alpha: float) -> float:
            """Return the lambda for the noise that this one leads to."""
            what = self.objective(loss, n, shape[0], clip=clip, longest=longest, penalty=alpha * n)
            part = norm / n * what.moved(data.adjacency) * what.penalty / what.clip
            return strength(what.clip, what.beta, radius, part, n if self.target == "population" else None)

        n_problems = math.prod(shape[1:])
        # the loss is the mean over classes
        alpha = n_problems * penalty.smoothness if self.target is None else consistent(wanted)
        minimum = Minimizer(
            loss,
            n,
            shape[0],
            clip=clip,
            longest=longest,
            penalty=alpha * n,
            method=self.method,
            kind=self.objective,
        )
        noise.check(minimum.sensitivity(data.adjacency), shape)  # before all the work
        w = data.release(data.measure(minimum), noise)
        if self.radius is not None:
            w = w * np.minimum(1.0, self.radius / np.maximum(np.linalg.norm(w, axis=0), self.radius))
        yield w
        return minimum.objective


def consistent(wanted: Callable[[float], float]) -> float:
    """Return the x with wanted(x) = x, for a function that grows more slowly than x; of a constant, that constant."""
    low, high = 1e-12, 1e12
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if wanted(middle) > middle else (low, middle)
    return wanted(high)


def strength(lipschitz: float, beta: float, radius: float, part: float, population: int | None = None) -> float:
    """Return the lambda of Lowy & Razaviyayn (2021), on the mean loss.

    Theorems 3.4 and 3.5 for the empirical loss, without smoothness (beta = inf) and with; section 4 for that of the
    population that so many rows come from. ``part`` is d/(epsilon n) for pure noise; for Gaussian noise their
    sqrt(d)(c + sqrt(c^2 + epsilon))/epsilon is sqrt(2 d) standard deviations at sensitivity 1, which we have exactly.
    """
    sampling = 0.0 if population is None else population**-0.5
    if math.isfinite(beta):
        return float((beta * lipschitz**2 / radius**2) ** (1 / 3) * (part ** (2 / 3) + sampling))
    if population is None:
        return lipschitz / radius / math.sqrt(1 + 1 / part)
    return lipschitz / radius * (math.sqrt(part) + sampling)
