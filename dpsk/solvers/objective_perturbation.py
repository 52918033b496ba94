"""Objective perturbation: one convex problem with noise inside, solved once (Chaudhuri, Monteleoni & Sarwate 2011).

Gaussian noise and the tight accounting are those of :mod:`dpsk.privacy.perturbation`. New here is that each row's loss
is flattened where its gradient would exceed a clip: what noisy gradient descent gains by clipping, without its steps.
"""

import math
from dataclasses import dataclass

from ..data import Facts
from ..data.private import PrivateData
from ..losses import Loss
from ..minimizers import PerturbedMinima, largest_curvature, require_perturbable, slope_at_zero
from ..objectives import LinearObjective
from ..privacy import Currency, ObjectiveDP
from ..requirements import clip
from .precision import gradient_precision, typical_norm
from .solver import Iterates, Solver

# Chosen on the data sets of benchmarks/results/seat.md.
# The clip, of a typical row's norm: at precision 42, and how it grows. Beyond the slope of the loss at margin 0, half
# for the logistic loss, nothing is gained even without noise.
CLIP, GROWTH, SMALLEST = 0.3, 0.35, 0.15
PRECISE, LARGEST = 1500.0, 4.0  # from which precision on rows longer than typical ones are left longer, and how much
LARGEST_LOG_DETERMINANT = 6.0  # a penalty below beta/400 does little but make the problem hard to solve
SHIFT_SHARE = 0.01  # of what the minimum costs, for the noise that covers the error of the solver


@dataclass(frozen=True)
class ObjectivePerturbation(Solver):
    """The minimiser of a perturbed objective, bought with all that is left of the budget.

    The budget must be kept in :class:`~dpsk.privacy.ObjectiveDP`, which says what is set aside for determinants: of
    log(1 + beta/lam), summed over classes. That sets the penalty lam, unless the penalty given is more.

    Parameters
    ----------
    gradient_clip : float or None
        Bound on one row's gradient norm, in the units that are fitted. None: a part of a typical row's norm, at most
        its gradient on the boundary: more accurate, but probabilities are then more extreme (up to 0.79 where a
        logistic model says 0.7).
    """

    gradient_clip: float | None = clip(None)

    def require(self, loss: Loss, facts: Facts, currency: Currency) -> None:
        if not isinstance(currency, ObjectiveDP):
            raise ValueError(f"objective perturbation needs a budget kept in ObjectiveDP, not in {currency.name}")
        require_perturbable(loss)
        if facts.unit != "row":
            raise ValueError(
                f"objective perturbation is proved where one row is protected, not a {facts.unit} with all rows: these "
                "change a determinant by more than one row may. Use solver='gradient-descent' of DPLogisticRegression "
                "or DPLinearSVC, or OutputPerturbationLogisticRegression"
            )

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        currency, loss, shape = data.currency, objective.loss, objective.shape
        if not isinstance(currency, ObjectiveDP):
            raise ValueError(f"objective perturbation needs a budget kept in ObjectiveDP, not in {currency.name}")
        typical, precision = typical_norm(data), gradient_precision(data, objective.n_weights)
        longest = typical * min(max(1.0, math.sqrt(precision / PRECISE)), LARGEST)
        part = min(max(CLIP * (precision / 42) ** GROWTH, SMALLEST), slope_at_zero(loss))
        clip = min(self.gradient_clip or part * typical, longest)
        beta = largest_curvature(loss, clip, longest)
        n_minima = math.prod(shape[1:])
        log_determinant = min(currency.log_determinant / n_minima, LARGEST_LOG_DETERMINANT)
        demanded = beta / math.expm1(data.share(of=log_determinant, solved=True))
        price = data.share(solved=True)
        minima = PerturbedMinima(
            loss,
            data.n_units,
            shape[0],
            clip=clip,
            longest=longest,
            penalty=max(
                demanded, n_minima * data.n_rows * objective.penalty.smoothness
            ),  # the loss is the mean over classes
            strength=math.sqrt((1 - SHIFT_SHARE) * price),
            shift=math.sqrt(SHIFT_SHARE * price),
            adjacency=data.adjacency,
        )
        yield data.draw(minima)
        return None
