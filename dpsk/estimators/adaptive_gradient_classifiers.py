"""DP-AGD as scikit-learn classifiers: logistic regression and linear support vector machine."""

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..objectives import Linear
from ..privacy import ZCDP
from ..requirements import choice, number
from ..solvers.adaptive_gradient import AdaptiveGradient
from .budgets import WithRho, budget_of
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import LossNamed, Probabilities


class _AdaptiveGradientClassifier(WithRho):
    """The parameters that both estimators share.

    Parameters
    ----------
    conversion : {"exact", "paper"}
        How (epsilon, delta) becomes a budget. "paper" is the smaller one of the paper. Not used if rho is given.
    """

    alpha: float = number(1e-3)
    splits: float = 60
    gamma: float = 0.1
    gradient_clip: float = 3.0
    loss_clip: float = 3.0
    selection: str = "exponential"
    conversion: str = choice("exact", "exact", "paper")
    step_max: float = 2.0
    first_noise: float | None = 0.1
    batch_size: int | None = None

    _described_by = (AdaptiveGradient,)
    _loss = "log_loss"

    def _plan(self, facts: Facts | Unknown) -> Plan:
        solver = with_parameters_of(self, AdaptiveGradient)
        encoding = with_parameters_of(self, LinearEncoding, row_major=self.batch_size is not None)
        objective = Linear(LossNamed(self._loss), l2_of(self))
        return Plan(solver, objective, encoding, budget_of(self, ZCDP(), conversion=self.conversion))


class DPAGDLogisticRegression(Probabilities, _AdaptiveGradientClassifier):
    """Logistic regression by differentially private adaptive gradient descent.

    Two classes use the logistic loss, more the softmax, on one budget. Columns should be on one public scale, about
    [0, 1]: privacy does not depend on it, accuracy does.

    References
    ----------
    Lee & Kifer (2018), Concentrated differentially private gradient descent with adaptive per-iteration privacy
    budget.

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


class DPAGDSVC(_AdaptiveGradientClassifier):
    """Linear support vector machine by differentially private adaptive gradient descent.

    Hinge loss; several classes by the average of one-vs-rest losses, on one budget. For more than a few classes
    :class:`DPAGDLogisticRegression`, whose softmax shares more between classes, is far more accurate.

    Columns should be on one public scale, about [0, 1].

    References
    ----------
    Lee & Kifer (2018), Concentrated differentially private gradient descent with adaptive per-iteration privacy
    budget.
    """

    _loss = "hinge"
