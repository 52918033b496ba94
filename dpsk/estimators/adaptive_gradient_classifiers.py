"""DP-AGD as scikit-learn classifiers: logistic regression and linear support vector machine."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..losses import Hinge, Loss, OneVsRest
from ..privacy import ZCDP, Budget
from ..solvers.adaptive_gradient import AdaptiveGradient
from .classifier import Facts, PrivateClassifier
from .linear import Probabilities, loss_named
from .parameters import PARAMETERS, require_choice, require_number

__all__ = ["DPAGDSVC", "DPAGDLogisticRegression"]

_PARAMETERS = f"""
    Parameters
    ----------
    {PARAMETERS["budget"]}
    {PARAMETERS["rho"]}
    alpha : float, default=1e-3
        Strength of the L2 penalty on the mean loss: the objective is mean(loss) + alpha/2 * ||coef||^2, so
        ``alpha = 1 / (C * n_samples)`` in terms of scikit-learn's C.
    {PARAMETERS["columns"] % "None"}
    {PARAMETERS["data"]}
    splits : float, default=60
        About how many iterations the budget would last if prices never grew.
    gamma : float, default=0.1
        How much more is paid to measure a direction again that turned out bad.
    gradient_clip, loss_clip : float, default=3.0
        Bounds on one row's gradient norm and loss. Larger ones are clipped.
    selection : {"exponential", "laplace", "permute-and-flip"}, default="exponential"
        How the step is chosen privately. "laplace" is the paper's.
    conversion : {"exact", "paper"}, default="exact"
        How (epsilon, delta) becomes a budget. "paper" is the smaller one of the paper. Not used if rho is given.
    step_max : float, default=2.0
        The largest step tried at first; the range adapts.
    first_noise : float or None, default=0.1
        The first gradients are bought precise enough that their noise is at most this much of ``gradient_clip`` per
        row, if the budget allows. None: the paper's price.
    batch_size : int or None, default=None
        Rows per iteration. None: all. Smaller batches save time on large data, not budget: each release costs as much
        as on all rows, so the noise per row grows like n_samples/batch_size. Use tens of thousands at least.
    {PARAMETERS["running"]}

    References
    ----------
    Lee & Kifer (2018), Concentrated differentially private gradient descent with adaptive per-iteration privacy
    budget.
"""


class _AdaptiveGradientClassifier(PrivateClassifier):
    """The parameters that both estimators share."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        rho: float | None = None,
        alpha: float = 1e-3,
        fit_intercept: bool = True,
        data_norm: float | None = None,
        bounds: Any = None,
        standardize: str | None = None,
        classes: Any = None,
        adjacency: str = "zero-out",
        splits: float = 60,
        gamma: float = 0.1,
        gradient_clip: float = 3.0,
        loss_clip: float = 3.0,
        selection: str = "exponential",
        conversion: str = "exact",
        step_max: float = 2.0,
        first_noise: float | None = 0.1,
        batch_size: int | None = None,
        ledger: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.data_norm = data_norm
        self.bounds = bounds
        self.standardize = standardize
        self.classes = classes
        self.adjacency = adjacency
        self.splits = splits
        self.gamma = gamma
        self.gradient_clip = gradient_clip
        self.loss_clip = loss_clip
        self.selection = selection
        self.conversion = conversion
        self.step_max = step_max
        self.first_noise = first_noise
        self.batch_size = batch_size
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("splits", self.splits, 1)
        for name in ("gamma", "gradient_clip", "loss_clip", "step_max"):
            require_number(name, getattr(self, name), 0, open_low=True)
        require_choice("selection", self.selection, ("exponential", "laplace", "permute-and-flip"))
        require_choice("conversion", self.conversion, ("exact", "paper"))
        if self.first_noise is not None:
            require_number("first_noise", self.first_noise, 0, open_low=True)
        if self.batch_size is not None:
            require_number("batch_size", self.batch_size, 1, kind=Integral)

    def _budget(self, facts: Facts | None = None) -> Budget:
        if self.rho is None:
            return Budget.of(self.epsilon, self.delta, currency=ZCDP(), conversion=self.conversion)
        return super()._budget(facts)

    @property
    def _row_major(self) -> bool:  # type: ignore[override]
        return self.batch_size is not None

    def _solver(self) -> AdaptiveGradient:
        return AdaptiveGradient(
            splits=self.splits,
            gamma=self.gamma,
            gradient_clip=self.gradient_clip,
            loss_clip=self.loss_clip,
            selection=self.selection,
            step_max=self.step_max,
            first_noise=self.first_noise,
            batch_size=self.batch_size,
        )


class DPAGDLogisticRegression(Probabilities, _AdaptiveGradientClassifier):
    __doc__ = f"""Logistic regression by differentially private adaptive gradient descent.

    Two classes use the logistic loss, more the softmax, on one budget. Columns should be on one public scale, about
    [0, 1]: privacy does not depend on it, accuracy does.
    {_PARAMETERS}
    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dpsk import DPAGDLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPAGDLogisticRegression(epsilon=3.0).fit(MinMaxScaler().fit_transform(X), y)
    >>> model.privacy_spent_.epsilon
    3.0
    """

    def _loss(self, n_classes: int) -> Loss:
        return loss_named("log_loss", n_classes)


class DPAGDSVC(_AdaptiveGradientClassifier):
    __doc__ = f"""Linear support vector machine by differentially private adaptive gradient descent.

    Hinge loss; several classes by the average of one-vs-rest losses, on one budget. For more than a few classes
    :class:`DPAGDLogisticRegression`, whose softmax shares more between classes, is far more accurate.

    Columns should be on one public scale, about [0, 1].
    {_PARAMETERS}
    """

    def _loss(self, n_classes: int) -> Loss:
        return Hinge() if n_classes == 2 else OneVsRest(Hinge(), n_classes)
