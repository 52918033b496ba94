"""Output perturbation: one convex problem, solved exactly enough, and noise on its minimiser (Lowy & Razaviyayn 2021).

The idea is that of Chaudhuri, Monteleoni & Sarwate (2011). As in :mod:`dpsk.solvers.objective_perturbation` losses are
flattened where a row's gradient would exceed a clip, so that noise is scaled to the clip.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..data import Facts
from ..data.private import PrivateData
from ..losses import Loss
from ..mechanisms import Gaussian, NormGamma
from ..minimizers import Minimizer, RegularizedSum, TiltedSum, slope_at_zero
from ..minimizers.descent import METHODS
from ..objectives import LinearObjective
from ..privacy import Currency, PureDP
from ..requirements import choice, clip, number
from .precision import typical_norm
from .solver import Diagnostics, Iterates, Solver

# Chosen on Adult, Bank and IPUMS (benchmarks/results/tuning_output.md).
CLIP = 0.6  # of the gradient of a typical row on the boundary
REACH, REACH_OF_BOUND = 50.0, 100.0  # the margin that the theorems' ball reaches at a typical row, or at a bound
HEAVY = 0.5  # of all weight that one row may have before a tilted fit warns
TILTED = 0.05  # of that where losses are tilted: what one row may weigh grows with it (benchmarks/results/beyond.md)


@dataclass(frozen=True)
class OutputPerturbation(Solver):
    """The minimiser of a regularised sum of losses, released once with all that is left of the budget.

    Parameters
    ----------
    target : {"empirical", "population", None}
        Which loss the strength of the penalty is chosen for, by the theorems of Lowy & Razaviyayn (2021). None: the
        penalty given is used as it is.
    radius : float or None
        The norm that weights are projected to after the noise, in the units that are fitted, and the radius R of the
        theorems. None: no projection; the theorems then get a radius of 100/``data_norm``, or of 50 over the norm of a
        typical row, and a twentieth of that for a tilted objective.
    gradient_clip : float or None
        Bound on one row's gradient norm, in the units that are fitted. None: 0.6 of the gradient of a typical row on
        the boundary. A large one bounds nothing beyond what the loss does.
    longest : float or None
        A public norm that rows are shortened to. None: a typical one, found by a noisy count.
    method : str
        How the minimum is found; one of :data:`dpsk.minimizers.descent.METHODS`.
    objective : callable
        The sum that is minimised, the ``kind`` of a :class:`~dpsk.minimizers.Minimizer`.
    reach : float
        The R of the theorems where no radius is given, in parts of the usual one.
    """

    target: str | None = choice("empirical", "empirical", "population", or_none=True)
    radius: float | None = clip(None)
    gradient_clip: float | None = clip(None)
    longest: float | None = clip(None)
    method: str = choice("newton", *METHODS)
    objective: Callable[..., RegularizedSum] = RegularizedSum
    reach: float = number(1.0, open_low=True)

    def require(self, loss: Loss, facts: Facts, currency: Currency) -> None:
        if facts.remote and not math.isfinite(loss.smoothness):
            raise ValueError(
                "loss='hinge' needs all rows in one process, where a number for each is at hand: use "
                "loss='huber_hinge' on a Dask cluster, or a numpy.memmap or dpsk.Chunks instead of it"
            )
        if facts.unit == "row" and not facts.weighted:
            return
        if isinstance(self.objective(loss, facts.n_rows, 1, clip=1.0, longest=1.0, penalty=1.0), TiltedSum):
            given = "sample_weight" if facts.unit == "row" else f"the protection of a {facts.unit} with all rows"
            raise ValueError(
                f"{given} cannot be combined with objective='tilted': what a tilted row weighs depends on all others, "
                "and no theorem covers weights beside that. Use objective='erm'"
            )

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        loss, shape = objective.loss, objective.shape
        longest = typical_norm(data) if self.longest is None else self.longest
        radius = self.radius or self.reach * (REACH if self.longest is None else REACH_OF_BOUND) / longest
        n, n_units = data.n_rows, data.n_units
        extent = self.objective(loss, n_units, shape[0], clip=longest, longest=longest, penalty=n).extent
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
            what = self.objective(loss, n_units, shape[0], clip=clip, longest=longest, penalty=alpha * n)
            part = norm / n * what.moved(data.adjacency) * what.penalty / what.clip
            return strength(what.clip, what.beta, radius, part, n if self.target == "population" else None)

        n_problems = math.prod(shape[1:])
        # the loss is the mean over classes
        alpha = n_problems * objective.penalty.smoothness if self.target is None else consistent(wanted)
        minimum = Minimizer(
            loss,
            n_units,
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
        return Diagnostics(doubts=self.doubts(minimum.objective))

    def doubts(self, what: RegularizedSum) -> tuple[str, ...]:
        """Return what is questionable about a tilt, as far as is known beforehand."""
        if not isinstance(what, TiltedSum) or what.heaviest <= HEAVY:
            return ()
        return (
            f"tilt={what.tilt:g} with {what.n_rows} rows and alpha={what.penalty / what.n_rows:.2g}: for all that is "
            f"known beforehand one row may have {what.heaviest:.0%} of all weight, and the noise covers that. Lower "
            "tilt, raise alpha, lower gradient_clip, or add rows",
        )


def consistent(wanted: Callable[[float], float]) -> float:
    """Return the x with wanted(x) = x, for a function that grows more slowly than x; of a constant, that constant."""
    low, high = 1e-12, 1e12
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if wanted(middle) > middle else (low, middle)
    return wanted(high)


def strength(lipschitz: float, beta: float, radius: float, part: float, population: float | None = None) -> float:
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
