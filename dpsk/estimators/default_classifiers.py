"""The estimators to reach for first: one number to choose, epsilon."""

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..objectives import Linear
from ..privacy import ZCDP, GaussianDP
from ..privacy.allowance import Allowance
from ..privacy.units import ROW
from ..requirements import choice
from ..solvers import Solver
from ..solvers.adaptive_gradient import AdaptiveGradient
from ..solvers.calibrated import Calibrated
from ..solvers.gradient_descent import GradientDescent
from ..solvers.objective_perturbation import ObjectivePerturbation
from .budgets import WithExactModel, WithRho, budget_of, is_exact, objective_budget, public_precision
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import LossNamed, Probabilities

SOLVERS: dict[str, Solver] = {
    "gradient-descent": GradientDescent(),
    "adaptive-gradient": AdaptiveGradient(),
    "objective-perturbation": ObjectivePerturbation(),
}
"""What ``solver`` may be, besides "auto"."""

PRECISE = 12_000.0
"""From which precision on "auto" solves a perturbed objective: benchmarks/results/seat.md."""


class _DefaultClassifier(WithRho, WithExactModel):
    """The parameters that both estimators share.

    Parameters
    ----------
    solver : {"auto", "gradient-descent", "adaptive-gradient", "objective-perturbation"}
        "gradient-descent" is noisy descent on all rows with momentum (:class:`~dpsk.DPGradientDescentClassifier`),
        "adaptive-gradient" DP-AGD (Lee & Kifer 2018), "objective-perturbation" one convex problem with noise inside
        (:class:`~dpsk.ObjectivePerturbationClassifier`; the intercept is penalised, and there is neither a rho nor a
        statement for groups of rows). "auto" is the first, the most accurate where noise matters
        (benchmarks/results/accuracy.md). With two classes and so many rows or so large an epsilon that noise hardly
        matters it is the last, which is faster, and more accurate by up to 0.6 points (benchmarks/results/seat.md), but
        is not proved for persons with several rows. A ledger that is kept in rho or mu**2 refuses that one: name a
        solver there.
    """

    standardize: str | None = "private"
    solver: str = choice("auto", "auto", *SOLVERS)

    _loss = "log_loss"

    def _plan(self, facts: Facts | Unknown) -> Plan:
        if self.rho is not None and self.solver == "objective-perturbation":
            raise ValueError(
                f"rho={self.rho!r} cannot be combined with solver='objective-perturbation', which keeps no rho: give "
                "epsilon and delta, or choose another solver"
            )
        encoding = with_parameters_of(self, LinearEncoding)
        objective = Linear(LossNamed(self._loss), l2_of(self))
        # half of the price of DP-AGD is for choices: rho is cheaper
        currency = ZCDP() if self.solver == "adaptive-gradient" else GaussianDP()
        budget, name = budget_of(self, currency), self.solver
        if name == "auto":
            name = "objective-perturbation" if self._is_precise(facts) else "gradient-descent"
        if name == "objective-perturbation" and budget is not None:
            if facts.n_classes > 2 and self._loss == "log_loss":
                raise ValueError(
                    f"solver='objective-perturbation' is not proved for a softmax of {facts.n_classes} classes: use "
                    "ObjectivePerturbationClassifier, which sets each class against all others, or another solver"
                )
            budget = objective_budget(self, facts)
        return Plan(Calibrated(SOLVERS[name]), objective, encoding, budget)

    def _is_precise(self, facts: Facts | Unknown) -> bool:
        """Return whether noise hardly matters to a problem that objective perturbation solves."""
        if self.rho is not None or is_exact(self) or float(self.epsilon) > 1e6:
            return False
        if isinstance(self.ledger, Allowance):  # a search plans the budgets of its runs before it sees the data
            return False
        return facts.n_classes == 2 and facts.unit == ROW and public_precision(self, facts) > PRECISE


class DPLogisticRegression(Probabilities, _DefaultClassifier):
    """Differentially private logistic regression, for two classes or more. Start here.

    Nothing has to be tuned: clip, step size and number of steps follow from the numbers of rows, columns and classes,
    the budget, and noisy statistics that the budget pays for. Columns need no scaling and no bounds, though public
    ``bounds`` save a part of the budget where they are known. Probabilities are calibrated within the budget
    (``calibration_``), and ``intercept_`` is where the likeliest class changes; ``coef_`` is what the solver found.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPLogisticRegression(epsilon=4.0).fit(X, y)
    >>> model.privacy_spent_.epsilon
    4.0
    """


class DPLinearSVC(Probabilities, _DefaultClassifier):
    """Differentially private linear support vector machine; several classes are one-vs-rest, on one budget.

    The hinge has its corner rounded (Chaudhuri, Monteleoni & Sarwate 2011), so that descent does not stall on it.
    Nothing has to be tuned, as for :class:`~dpsk.DPLogisticRegression`. Scores are no log-odds: ``predict_proba`` rests
    on a calibration within the budget of the fit, and for ``epsilon=inf`` on exact counts.
    """

    _loss = "huber_hinge"
