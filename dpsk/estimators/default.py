"""The estimators to reach for first: one number to choose, epsilon."""

from __future__ import annotations

from typing import Any

from ..losses import Loss
from ..privacy import ZCDP, Budget, GaussianDP
from ..solvers import Solver
from ..solvers.adaptive_gradient import AdaptiveGradient
from ..solvers.gradient_descent import GradientDescent
from .base import PrivateClassifier
from .linear import Probabilities, loss_named
from .parameters import PARAMETERS, require_choice

__all__ = ["DPLinearSVC", "DPLogisticRegression"]

SOLVERS: dict[str, Solver] = {"gradient-descent": GradientDescent(), "adaptive-gradient": AdaptiveGradient()}
"""What ``solver`` may be besides "auto"."""

_PARAMETERS = f"""
    Nothing has to be tuned: clip, step size and number of steps follow from the numbers of rows, columns and classes,
    the budget, and noisy statistics that the budget pays for. Columns need no scaling and no bounds, though public
    ``bounds`` save a part of the budget where they are known.

    Parameters
    ----------
    {PARAMETERS["budget or exact"]}
    {PARAMETERS["rho"]}
    alpha : float, default=1e-4
        Strength of the L2 penalty on the mean loss: alpha/2 * ||coef||^2, so ``alpha = 1 / (C * n_samples)`` in
        terms of scikit-learn's C.
    {PARAMETERS["columns"] % '"private"'}
    {PARAMETERS["data"]}
    solver : {{"auto", "gradient-descent", "adaptive-gradient"}}, default="auto"
        "gradient-descent" is noisy descent on all rows with momentum (:class:`~dpsk.DPGradientDescentClassifier`),
        "adaptive-gradient" DP-AGD (Lee & Kifer 2018). "auto" is the former: it is at least as accurate wherever we
        measured (benchmarks/results/accuracy.md).
    {PARAMETERS["running"]}
"""


class _DefaultClassifier(PrivateClassifier):
    """The parameters that both estimators share."""

    _currency = GaussianDP()
    _exact_at_infinity = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        rho: float | None = None,
        alpha: float = 1e-4,
        bounds: Any = None,
        standardize: str | None = "private",
        fit_intercept: bool = True,
        data_norm: float | None = None,
        classes: Any = None,
        adjacency: str = "zero-out",
        solver: str = "auto",
        ledger: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.alpha = alpha
        self.bounds = bounds
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.data_norm = data_norm
        self.classes = classes
        self.adjacency = adjacency
        self.solver = solver
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("solver", self.solver, ("auto", *SOLVERS))

    def _budget(self) -> Budget:
        if self.rho is None and self.solver == "adaptive-gradient":  # half of its price is for choices: rho is cheaper
            return Budget.of(self.epsilon, self.delta, currency=ZCDP())
        return super()._budget()

    def _solver(self) -> Solver:
        return SOLVERS["gradient-descent" if self.solver == "auto" else self.solver]


class DPLogisticRegression(Probabilities, _DefaultClassifier):
    __doc__ = f"""Differentially private logistic regression, for two classes or more. Start here.
    {_PARAMETERS}
    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPLogisticRegression(epsilon=4.0, random_state=0).fit(X, y)
    >>> model.privacy_spent_.epsilon
    4.0
    """

    def _loss(self, n_classes: int) -> Loss:
        return loss_named("log_loss", n_classes)


class DPLinearSVC(_DefaultClassifier):
    __doc__ = f"""Differentially private linear support vector machine; several classes are one-vs-rest, on one budget.

    The hinge has its corner rounded (Chaudhuri, Monteleoni & Sarwate 2011), so that descent does not stall on it.
    {_PARAMETERS}
    """

    def _loss(self, n_classes: int) -> Loss:
        return loss_named("huber_hinge", n_classes)
