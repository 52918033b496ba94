"""Second-order private descent as a scikit-learn classifier."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

from .._sklearn_compat import CALLER_OF_FIT
from ..data import Table
from ..data.tables import Coding
from ..losses import Logistic, Loss, MarginLoss, OneVsRest, Sigmoid
from ..penalties import Bounded, Penalty
from ..privacy import Ledger, Sampling
from ..solvers.certificate import Certificate
from ..solvers.second_order import LONGEST, SHORTEST, Constants, SecondOrder
from .linear import ProbabilitiesOfLogLoss
from .parameters import PARAMETERS, require_choice, require_number, require_part
from .sampled import SampledClassifier

__all__ = ["DPSecondOrderClassifier"]

_METHODS = ("opt", "opt-ls", "opt-b", "2opt", "2opt-ls", "2opt-b")
_MOST_WEIGHTS = 3000  # of a class: a Hessian has their square


class DPSecondOrderClassifier(ProbabilitiesOfLogLoss, SampledClassifier):
    __doc__ = f"""Linear classifier by private descent to a second-order solution of a smooth, non-convex objective.

    Noisy gradients are followed while they are long; where one is short, a noisy Hessian tells whether the point is a
    saddle, and descent leaves along its most negative curvature, or whether the fit is done: gradient norm at most
    ``eps_g``, no curvature below ``-eps_h``. The fit stops there, whatever is left of the budget, and ``certificate_``
    says what is then known about the model. The guarantee is that of the whole budget.

    Several classes are fitted one against the rest, jointly on one budget. Columns should be on one public scale, about
    [0, 1], or be standardised privately. The Hessian has a row and a column for every weight of a class: up to
    {_MOST_WEIGHTS:,} columns.

    Parameters
    ----------
    {PARAMETERS["budget"]}
    loss : {{"log_loss", "sigmoid"}}, default="log_loss"
        The logistic loss, or 1/(1 + exp(margin)), which is bounded and not convex: rows far on the wrong side count no
        more than others there.
    penalty : {{"nonconvex", "l2"}}, default="nonconvex"
        ``alpha * sum(coef^2/(1 + coef^2))``, which shrinks small coefficients and lets large ones be, or ``alpha/2 *
        ||coef||^2``, both added to the mean loss.
    alpha : float, default=1e-3
        Strength of the penalty.
    method : {{"2opt-ls", "2opt", "2opt-b", "opt-ls", "opt", "opt-b"}}, default="2opt-ls"
        "opt" takes steps as short as the worst case asks for, "-ls" looks for long ones by a private search, "-b" takes
        derivatives of random batches. "2" stands for two phases: most of the budget for a plan of few steps, the rest
        for as many as the worst case may need.
    eps_g : float or None, default=None
        Tolerance for the norm of the gradient of the mean objective, noise included. None: so small that noise is
        about 0.8 of it, from public facts.
    eps_h : float or None, default=None
        Tolerance for negative eigenvalues of the Hessian. None: sqrt(M * eps_g), with M the Lipschitz constant of the
        Hessian that follows from the loss, the penalty and the longest row.
    sampling_rate : float, default=0.1
        The part of the rows that a batch holds, drawn secretly and anew each time; for the methods "-b" only.
    sampling : {{"poisson", "without-replacement"}}, default="poisson"
        "poisson" keeps each row independently, for ``adjacency="zero-out"``. "without-replacement" draws batches of a
        fixed size, protects replaced rows under either adjacency and needs far more noise.
    first_phase : float, default=0.75
        The part of the budget of the first of two phases.
    hessian_share : float, default=0.25
        The part of a phase's budget that is planned for Hessians. What they do not need is left for gradients.
    search_share : float, default=0.3
        What a search costs, as a part of the price of a gradient.
    confidence : float, default=0.95
        The probability with which the bounds in ``certificate_`` hold.
    {PARAMETERS["columns"] % '"private"'}
    {PARAMETERS["data"]}
    {PARAMETERS["running"]}
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

    _one_vs_rest = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str = "log_loss",
        penalty: str = "nonconvex",
        alpha: float = 1e-3,
        method: str = "2opt-ls",
        eps_g: float | None = None,
        eps_h: float | None = None,
        sampling_rate: float = 0.1,
        sampling: str = "poisson",
        first_phase: float = 0.75,
        hessian_share: float = 0.25,
        search_share: float = 0.3,
        confidence: float = 0.95,
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
        self.penalty = penalty
        self.alpha = alpha
        self.method = method
        self.eps_g = eps_g
        self.eps_h = eps_h
        self.sampling_rate = sampling_rate
        self.sampling = sampling
        self.first_phase = first_phase
        self.hessian_share = hessian_share
        self.search_share = search_share
        self.confidence = confidence
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
        require_choice("method", self.method, _METHODS)
        super()._check_parameters()
        require_choice("loss", self.loss, ("log_loss", "sigmoid"))
        require_choice("penalty", self.penalty, ("nonconvex", "l2"))
        for name in ("eps_g", "eps_h"):
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name), 0, open_low=True)
        for name in ("first_phase", "hessian_share", "confidence"):
            require_part(name, getattr(self, name), whole=False)
        require_number("search_share", self.search_share, 0, open_low=True)
        if self.data_norm is not None and not SHORTEST <= self.data_norm <= LONGEST:
            raise ValueError(
                f"data_norm={self.data_norm!r} must lie between 2**-40 and 2**40: Hessians grow with its square. Bring "
                "the columns to a scale of about [0, 1]"
            )

    def _check_size(self, n_rows: int, n_features: int) -> None:
        super()._check_size(n_rows, n_features)
        if n_features >= _MOST_WEIGHTS:
            raise ValueError(
                f"X has {n_features} columns, and a Hessian the square of that: DPSecondOrderClassifier takes fewer "
                f"than {_MOST_WEIGHTS}. Use DPLogisticRegression, which needs gradients only"
            )

    def _loss(self, n_classes: int) -> Loss:
        loss: MarginLoss = Logistic() if self.loss == "log_loss" else Sigmoid()
        return loss if n_classes == 2 else OneVsRest(loss, n_classes)

    def _penalty(self) -> Penalty:
        if self.penalty == "l2":
            return super()._penalty()
        return Bounded(float(self.alpha), free_intercept=bool(self.fit_intercept))

    def _sampling(self) -> Sampling:
        return super()._sampling() if self.method.endswith("-b") else Sampling(1.0)

    def _solver(self) -> SecondOrder:
        longest = None if self.data_norm is None else math.hypot(float(self.data_norm), bool(self.fit_intercept))
        solver = SecondOrder(
            sampling=self._sampling(),
            line_search=self.method.endswith("-ls"),
            phases=2 if self.method.startswith("2") else 1,
            eps_g=self.eps_g,
            eps_h=self.eps_h,
            longest=longest,
            first_phase=self.first_phase,
            hessian_share=self.hessian_share,
            search_share=self.search_share,
            confidence=self.confidence,
        )
        if solver.sampling.rate == 1:
            return solver
        # the order of the budget is chosen for the first phase, with a guess where nothing is known
        known = Constants.of(self._loss(2), self._penalty(), longest or 2.0)
        eps_g = self.eps_g or known.gradient / 50
        count = solver.few_steps if solver.phases == 2 else solver.most_steps
        steps, _ = count(known, eps_g, self.eps_h or math.sqrt(known.jerk * eps_g))
        return replace(solver, batches=float(min(2 * steps, 2_000)))

    def _returned(self, known: Certificate) -> None:
        self.certificate_ = known

    def _learn(self, table: Table, coding: Coding, n_classes: int | None, ledger: Ledger, *rest: Any) -> Any:
        w, columns = super()._learn(table, coding, n_classes, ledger, *rest)
        if not hasattr(self, "certificate_"):  # a callback stopped the fit
            self.certificate_ = Certificate(False, self.eps_g, self.eps_h, self.confidence)
        if not w.any():
            # without eps_g the tolerance follows from the noise; only columns fitted as they are have a scale
            remedy = "raise epsilon, add rows or use fewer columns" if self.eps_g is None else "lower eps_g"
            if self.standardize is None and self.bounds is None:
                remedy += ", or bring columns to a scale of about [0, 1] (standardize='private')"
            warnings.warn(
                "weights of 0 are within the tolerances already, and the fit ended there: every row gets the same "
                f"score. To get further, {remedy}",
                UserWarning,
                stacklevel=CALLER_OF_FIT + 2,
            )
        return w, columns
