"""Second-order private descent as a scikit-learn classifier."""

import math

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..objectives import Linear
from ..penalties import L2, Bounded
from ..privacy import ZCDP
from ..requirements import choice, number
from ..solvers.second_order import LONGEST, SHORTEST, SecondOrder
from .plan import Plan, with_parameters_of
from .probabilities import LossNamed, OneVsRestProbabilities, ProbabilitiesOfLogLoss
from .sampled_classifier import SampledClassifier


class DPSecondOrderClassifier(ProbabilitiesOfLogLoss, OneVsRestProbabilities, SampledClassifier):
    """Linear classifier by private descent to a second-order solution of a smooth, non-convex objective.

    Noisy gradients are followed while they are long; where one is short, a noisy Hessian tells whether the point is a
    saddle, and descent leaves along its most negative curvature, or whether the fit is done: gradient norm at most
    ``eps_g``, no curvature below ``-eps_h``. The fit stops there, whatever is left of the budget, and ``certificate_``
    says what is then known about the model. The guarantee is that of the whole budget.

    Several classes are fitted one against the rest, jointly on one budget. Columns should be on one public scale, about
    [0, 1], or be standardised privately. The Hessian has a row and a column for every weight of a class: up to
    3,000 columns.

    Parameters
    ----------
    loss : {"log_loss", "sigmoid"}
        The logistic loss, or 1/(1 + exp(margin)), which is bounded and not convex: rows far on the wrong side count no
        more than others there.
    penalty : {"nonconvex", "l2"}
        ``alpha * sum(coef^2/(1 + coef^2))``, which shrinks small coefficients and lets large ones be, or ``alpha/2 *
        ||coef||^2``, both added to the mean loss.
    alpha : float
        Strength of the penalty.
    method : {"2opt-ls", "2opt", "2opt-b", "opt-ls", "opt", "opt-b"}
        "opt" takes steps as short as the worst case asks for, "-ls" looks for long ones by a private search, "-b" takes
        derivatives of random batches. "2" stands for two phases: most of the budget for a plan of few steps, the rest
        for as many as the worst case may need.
    sampling_rate : float
        The part of the rows that a batch holds, drawn secretly and anew each time; for the methods "-b" only.

    Attributes
    ----------
    certificate_ : Certificate
        Whether the tolerances were reached (``certificate_.reached``) or the budget ended first, and bounds on the true
        gradient norm and smallest eigenvalue at the model that hold with ``confidence``, computed from releases alone.
        ``certificate_.statement()`` is a paragraph for a report. It speaks of the objective in the units that are
        fitted; give ``data_norm`` to have no row clipped in it.

    References
    ----------
    Gao & Wright (2023), Differentially private optimization for smooth nonconvex ERM.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dpsk import DPSecondOrderClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPSecondOrderClassifier(epsilon=3.0).fit(MinMaxScaler().fit_transform(X), y)
    >>> model.privacy_spent_.epsilon
    3.0
    """

    loss: str = choice("log_loss", "log_loss", "sigmoid")
    penalty: str = choice("nonconvex", "nonconvex", "l2")
    alpha: float = number(1e-3)
    standardize: str | None = "private"
    method: str = choice("2opt-ls", "opt", "opt-ls", "opt-b", "2opt", "2opt-ls", "2opt-b")
    eps_g: float | None = None
    eps_h: float | None = None
    first_phase: float = 0.75
    hessian_share: float = 0.25
    search_share: float = 0.3
    confidence: float = 0.95

    _described_by = (SecondOrder,)

    def _plan(self, facts: Facts | Unknown) -> Plan:
        encoding = with_parameters_of(self, LinearEncoding, row_major=self.method.endswith("-b"))
        if self.data_norm is not None and not SHORTEST <= self.data_norm <= LONGEST:
            raise ValueError(
                f"data_norm={self.data_norm!r} must lie between 2**-40 and 2**40: Hessians grow with its square. Bring "
                "the columns to a scale of about [0, 1]"
            )
        penalty = (L2 if self.penalty == "l2" else Bounded)(float(self.alpha), free_intercept=bool(self.fit_intercept))
        objective = Linear(LossNamed(self.loss, one_vs_rest=True), penalty)
        solver = with_parameters_of(
            self,
            SecondOrder,
            sampling=self._sampled(used=self.method.endswith("-b")),
            line_search=self.method.endswith("-ls"),
            phases=2 if self.method.startswith("2") else 1,
            longest=None if self.data_norm is None else math.hypot(float(self.data_norm), bool(self.fit_intercept)),
        ).planned_for(objective.on(1, 2))
        return Plan(solver, objective, encoding, self._sampled_budget(solver, ZCDP()))
