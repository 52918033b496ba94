"""Noisy gradient descent as a scikit-learn classifier, every setting open."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..losses import Loss
from ..privacy import GaussianDP
from ..solvers.gradient_descent import GradientDescent
from .classifier import PrivateClassifier
from .linear import SMOOTH_LOSSES, ProbabilitiesOfLogLoss, loss_named
from .parameters import PARAMETERS, require_choice, require_clip, require_number, require_part, require_stable_steps

__all__ = ["DPGradientDescentClassifier"]


class DPGradientDescentClassifier(ProbabilitiesOfLogLoss, PrivateClassifier):
    __doc__ = f"""Linear classifier by noisy gradient descent on all rows, with momentum and an averaged tail.

    The schedule is fixed before the run and accounted exactly: T gradients with noise of sigma_t clips are mu-GDP with
    mu^2 = sum 1/sigma_t^2 (Dong, Roth & Su 2022). Every setting that is None follows from public facts and small
    releases; :class:`~dpsk.DPLogisticRegression` and :class:`~dpsk.DPLinearSVC` are this with nothing to set.

    Parameters
    ----------
    {PARAMETERS["budget or exact"]}
    loss : {{"log_loss", "huber_hinge"}}, default="log_loss"
        Logistic loss (softmax for several classes), or the hinge with a rounded corner (one-vs-rest).
    {PARAMETERS["rho"]}
    alpha : float, default=1e-4
        Strength of the L2 penalty on the mean loss: alpha/2 * ||coef||^2, in the units that are fitted.
    steps : int or None, default=None
        Number of gradients. None: 30 to 300, the more the less noise there is.
    momentum : float, default=0.9
        The part of the last step that is repeated, in [0, 1).
    step_size : float or None, default=None
        None: from the loss and the noisy norm of a typical row.
    gradient_clip : float or None, default=None
        Bound on one row's gradient norm, in the units that are fitted. None: a part of a typical row's largest
        gradient, the smaller the more noise there is.
    average : float, default=0.5
        The last part of the iterates whose mean is the model, in (0, 1].
    {PARAMETERS["columns"] % '"private"'}
    {PARAMETERS["data"]}
    {PARAMETERS["running"]}
    """

    _currency = GaussianDP()
    _exact_at_infinity = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str = "log_loss",
        rho: float | None = None,
        alpha: float = 1e-4,
        steps: int | None = None,
        momentum: float = 0.9,
        step_size: float | None = None,
        gradient_clip: float | None = None,
        average: float = 0.5,
        bounds: Any = None,
        standardize: str | None = "private",
        fit_intercept: bool = True,
        data_norm: float | None = None,
        classes: Any = None,
        adjacency: str = "zero-out",
        ledger: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.rho = rho
        self.alpha = alpha
        self.steps = steps
        self.momentum = momentum
        self.step_size = step_size
        self.gradient_clip = gradient_clip
        self.average = average
        self.bounds = bounds
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.data_norm = data_norm
        self.classes = classes
        self.adjacency = adjacency
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("loss", self.loss, SMOOTH_LOSSES)
        if self.steps is not None:
            require_number("steps", self.steps, 1, kind=Integral)
        require_number("momentum", self.momentum, 0)
        if not self.momentum < 1:
            raise ValueError(f"momentum={self.momentum!r} must lie in [0, 1): at 1 or above steps never die out")
        # what would fail in the middle of a fit fails here, before the ranges and moments are paid for
        if self.gradient_clip is not None:
            require_clip("gradient_clip", self.gradient_clip)
        if self.step_size is not None:
            require_number("step_size", self.step_size, 0, open_low=True)
            require_stable_steps("step_size", self.step_size, self.alpha)
        require_part("average", self.average)

    def _loss(self, n_classes: int) -> Loss:
        return loss_named(self.loss, n_classes)

    def _solver(self) -> GradientDescent:
        return GradientDescent(
            steps=self.steps,
            momentum=self.momentum,
            step_size=self.step_size,
            gradient_clip=self.gradient_clip,
            average=self.average,
        )
