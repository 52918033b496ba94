"""DP-AGD as scikit-learn classifiers: logistic regression and linear support vector machine."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

from ..losses import Hinge, Logistic, Loss, OneVsRest, Softmax
from ..mechanisms.exact import Floats
from ..privacy import ZCDP, Budget
from ..solvers.adaptive_gradient import AdaptiveGradient
from .base import PrivateClassifier, require_choice, require_number

__all__ = ["DPAGDSVC", "DPAGDLogisticRegression"]

_PARAMETERS = """
    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        The privacy guarantee of the fit. Choose delta well below 1/n_samples.
    rho : float or None, default=None
        The budget as zero-concentrated differential privacy. If given it is used and ``epsilon`` is ignored; the
        epsilon reported is what rho guarantees at ``delta``.
    alpha : float, default=1e-3
        Strength of the L2 penalty on the mean loss: the objective is mean(loss) + alpha/2 * ||coef||^2, so
        ``alpha = 1 / (C * n_samples)`` in terms of scikit-learn's C.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    data_norm : float or None, default=None
        A public bound on the l2 norm of a row; longer rows are scaled down to it. None: no bound is needed.
    classes : array-like or None, default=None
        All labels that may occur. None: the labels seen, which are then treated as public.
    adjacency : {"zero-out", "replace"}, default="zero-out"
        Neighbouring data sets differ by one row that leaves every sum, or by one row replaced. The latter needs
        about twice the noise.
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
    random_state : int or None, default=None
        None: secure noise from the operating system. An int makes the fit reproducible and NOT private.
    verbose : int, default=0
        1 prints progress at every tenth of the budget, 2 at every iterate. Only released values are shown.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    privacy_spent_ : PrivacySpent
        The guarantee (fixed before the fit) and the releases that were made under it. ``privacy_spent_.statement()`` is
        a paragraph for a report.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), if X had string column names

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
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.data_norm = data_norm
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

    def _budget(self) -> Budget:
        if self.rho is None:
            return Budget.of(self.epsilon, self.delta, currency=ZCDP(), conversion=self.conversion)
        return super()._budget()

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


class DPAGDLogisticRegression(_AdaptiveGradientClassifier):
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
    >>> model = DPAGDLogisticRegression(epsilon=3.0, random_state=0).fit(MinMaxScaler().fit_transform(X), y)
    >>> model.privacy_spent_.epsilon
    3.0
    """

    def _loss(self, n_classes: int) -> Loss:
        return Logistic() if n_classes == 2 else Softmax(n_classes)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``."""
        scores = self.decision_function(X)
        probabilities: Floats
        if scores.ndim == 1:
            probabilities = np.column_stack([expit(-scores), expit(scores)])
        else:
            probabilities = softmax(scores, axis=1)
        return probabilities

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        scores = self.decision_function(X)
        logarithms: Floats
        if scores.ndim == 1:
            logarithms = np.column_stack([log_expit(-scores), log_expit(scores)])
        else:
            logarithms = log_softmax(scores, axis=1)
        return logarithms


class DPAGDSVC(_AdaptiveGradientClassifier):
    __doc__ = f"""Linear support vector machine by differentially private adaptive gradient descent.

    Hinge loss; several classes by the average of one-vs-rest losses, on one budget. For more than a few classes
    :class:`DPAGDLogisticRegression`, whose softmax shares more between classes, is far more accurate.

    Columns should be on one public scale, about [0, 1].
    {_PARAMETERS}
    """

    def _loss(self, n_classes: int) -> Loss:
        return Hinge() if n_classes == 2 else OneVsRest(Hinge(), n_classes)
