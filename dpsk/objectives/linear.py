"""The objective of linear models: the mean loss of rows, and a penalty."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data import RowMap
from ..losses import Loss
from ..mechanisms.samplers import Floats
from ..penalties import Penalty
from ..queries import ArmijoGains, GradientSum, HessianSum, LossesAlong, Outcomes
from .objective import Model, Objective


@dataclass(frozen=True)
class LinearObjective(Objective):
    """``mean(loss(X @ w)) + penalty(w)`` for weights of shape (p,), or (p, K) for K classes."""

    linear = True

    loss: Loss
    penalty: Penalty
    shape: tuple[int, ...]

    def of_weighed(self, multiple: float) -> "LinearObjective":
        return replace(self, penalty=self.penalty.divided(multiple))

    def attributes(self, w: Floats, how: RowMap) -> dict[str, Any]:
        coef, intercept = how.in_user_units(w)
        return {"coef_": coef, "intercept_": intercept, "waves_": how.waves}

    def start(self) -> Floats:
        return np.zeros(self.shape)

    def gradient(self, w: Floats, *, clip: float) -> GradientSum:
        return GradientSum(self.loss, w, clip=clip)

    def hessian(self, w: Floats, *, clip: float) -> HessianSum:
        """Return the query for the sum of clipped Hessians of the loss."""
        return HessianSum(self.loss, w, clip=clip)

    def losses_along(self, w: Floats, step: Floats, multiples: Sequence[float] | Floats, *, clip: float) -> LossesAlong:
        return LossesAlong(self.loss, w, step, multiples, clip=clip)

    def gains(self, w: Floats, direction: Floats, steps: Floats, *, clip: float, per_unit: bool = True) -> ArmijoGains:
        return ArmijoGains(self.loss, w, direction, steps, clip=clip, per_unit=per_unit)

    def outcomes(self, w: Floats, edges: Floats) -> Outcomes:
        """Return the query for the counts of rows by label and by how sure the model is."""
        return Outcomes(w, edges)

    def steepest(self, norm: float) -> float:
        """Return the largest gradient of the loss at a row of this norm."""
        return norm * (self.loss.lipschitz if math.isfinite(self.loss.lipschitz) else 1.0)

    def curvature(self, norm: float) -> float:
        """Return a typical second derivative where rows have this norm.

        A loss with a kink counts as curved as one that is rounded over a unit of margin.
        """
        return min(self.loss.typical_curvature, 1.0) * norm**2 + self.penalty.smoothness


@dataclass(frozen=True)
class Linear(Model):
    """A linear model before the data are known: a loss for every number of classes, and a penalty."""

    linear = True

    loss_for: Callable[[int], Loss]
    penalty: Penalty

    def on(self, n_parameters: int, n_classes: int) -> LinearObjective:
        shape = (n_parameters,) if n_classes == 2 else (n_parameters, n_classes)
        return LinearObjective(self.loss_for(n_classes), self.penalty, shape)
