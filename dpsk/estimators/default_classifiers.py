"""The estimators to reach for first: one number to choose, epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..data import PrivateData
from ..losses import Loss, Softmax
from ..mechanisms.samplers import Floats
from ..penalties import Penalty
from ..privacy import ZCDP, Budget, GaussianDP, ObjectiveDP
from ..solvers import Solver
from ..solvers.adaptive_gradient import AdaptiveGradient
from ..solvers.gradient_descent import GradientDescent
from ..solvers.objective_perturbation import ObjectivePerturbation
from .classifier import Facts, PrivateClassifier
from .linear import Probabilities, loss_named
from .objective_perturbation_classifier import objective_budget, public_precision
from .parameters import PARAMETERS, require_choice

__all__ = ["DPLinearSVC", "DPLogisticRegression"]


@dataclass(frozen=True)
class Planned:
    """The solver that the budget was planned for."""

    def iterates(self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]) -> Iterator[Floats]:
        perturbs = isinstance(data.currency, ObjectiveDP)
        solver: Solver = ObjectivePerturbation() if perturbs else GradientDescent()
        return solver.iterates(data, loss, penalty, shape)


SOLVERS: dict[str, Solver] = {
    "auto": Planned(),
    "gradient-descent": GradientDescent(),
    "adaptive-gradient": AdaptiveGradient(),
    "objective-perturbation": ObjectivePerturbation(),
}
"""What ``solver`` may be."""

PRECISE = 12_000.0
"""From which precision on "auto" solves a perturbed objective: benchmarks/results/seat.md."""

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
    solver : {{"auto", "gradient-descent", "adaptive-gradient", "objective-perturbation"}}, default="auto"
        "gradient-descent" is noisy descent on all rows with momentum (:class:`~dpsk.DPGradientDescentClassifier`),
        "adaptive-gradient" DP-AGD (Lee & Kifer 2018), "objective-perturbation" one convex problem with noise inside
        (:class:`~dpsk.ObjectivePerturbationClassifier`; the intercept is penalised, and there is neither a rho nor a
        statement for groups of rows). "auto" is the first, the most accurate where noise matters
        (benchmarks/results/accuracy.md); with two classes and so many rows or so large an epsilon that it hardly does,
        the last, which is faster, and more accurate by up to 0.6 points (benchmarks/results/seat.md). With a
        ``ledger``, which sets the price aside before the data are seen, it is always the first.
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
        require_choice("solver", self.solver, tuple(SOLVERS))
        if self.rho is not None and self.solver == "objective-perturbation":
            raise ValueError(
                f"rho={self.rho!r} cannot be combined with solver='objective-perturbation', which keeps no rho: give "
                "epsilon and delta, or choose another solver"
            )

    def _budget(self, facts: Facts | None = None) -> Budget:
        if self.solver == "objective-perturbation" or self._is_precise(facts):
            if facts is not None and isinstance(self._loss(facts.n_classes), Softmax):
                raise ValueError(
                    f"solver='objective-perturbation' is not proved for a softmax of {facts.n_classes} classes: use "
                    "ObjectivePerturbationClassifier, which sets each class against all others, or another solver"
                )
            return objective_budget(self.epsilon, self.delta, None, facts, replaced=self.adjacency == "replace")
        if self.rho is None and self.solver == "adaptive-gradient":  # half of its price is for choices: rho is cheaper
            return Budget.of(self.epsilon, self.delta, currency=ZCDP())
        return super()._budget(facts)

    def _is_precise(self, facts: Facts | None) -> bool:
        """Return whether "auto" is a perturbed objective; under a durable ledger all is fixed before the data."""
        if not self._may_change_currency() or facts is None or facts.n_classes > 2 or float(self.epsilon) > 1e6:
            return False
        return public_precision(self.epsilon, self.delta, facts, replaced=self.adjacency == "replace") > PRECISE

    def _may_change_currency(self) -> bool:
        return self.solver == "auto" and self.rho is None and self.ledger is None

    def _solver(self) -> Solver:
        return SOLVERS[self.solver]


class DPLogisticRegression(Probabilities, _DefaultClassifier):
    __doc__ = f"""Differentially private logistic regression, for two classes or more. Start here.
    {_PARAMETERS}
    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPLogisticRegression(epsilon=4.0).fit(X, y)
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
