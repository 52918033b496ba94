"""Noisy gradient descent as a scikit-learn classifier, every setting open."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sklearn.utils.metaestimators import available_if

from ..losses import Loss
from ..mechanisms.exact import Floats
from ..privacy import GaussianDP
from ..solvers.gradient_descent import GradientDescent
from .base import PrivateClassifier
from .linear import LOSSES, Probabilities, loss_named
from .parameters import PARAMETERS, require_choice, require_number

__all__ = ["DPGradientDescentClassifier"]


def _is_log_loss(self: Any) -> bool:
    if self.loss != "log_loss":
        raise AttributeError(f"probabilities exist for loss='log_loss' only, not for loss={self.loss!r}")
    return True


class DPGradientDescentClassifier(Probabilities, PrivateClassifier):
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
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("loss", self.loss, LOSSES)
        if self.steps is not None:
            require_number("steps", self.steps, 1, kind=Integral)
        require_number("momentum", self.momentum, 0)
        if not self.momentum < 1:
            raise ValueError(f"momentum={self.momentum!r} must lie in [0, 1): at 1 or above steps never die out")
        for name in ("step_size", "gradient_clip"):
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name), 0, open_low=True)
        # what would fail in the middle of a fit fails here, before the ranges and moments are paid for
        if self.gradient_clip is not None and not 2.0**-100 <= self.gradient_clip <= 2.0**100:
            raise ValueError(f"gradient_clip={self.gradient_clip!r} must lie between 2**-100 and 2**100")
        if self.step_size is not None and self.step_size * self.alpha > 2:
            raise ValueError(
                f"step_size={self.step_size!r} with alpha={self.alpha!r}: steps along the penalty would grow without "
                "end. Keep step_size * alpha at most 2"
            )
        require_number("average", self.average, 0, open_low=True)
        if not self.average <= 1:
            raise ValueError(f"average={self.average!r} must lie in (0, 1]: it is a part of the iterates")

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

    @available_if(_is_log_loss)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``; for ``loss="log_loss"``."""
        return super().predict_proba(X)

    @available_if(_is_log_loss)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class; for ``loss="log_loss"``."""
        return super().predict_log_proba(X)
