"""Output perturbation as scikit-learn classifiers: the family with pure epsilon, delta = 0."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from ..losses import Hinge, HuberHinge, Logistic, Loss, MarginLoss, OneVsRest, SquaredHinge
from ..privacy import Budget, GaussianDP, PureDP, conversions
from ..queries.descent import METHODS
from ..solvers.output_perturbation import OutputPerturbation
from .base import Facts, PrivateClassifier
from .linear import Probabilities
from .parameters import PARAMETERS, require_choice, require_clip

__all__ = ["OutputPerturbationLogisticRegression", "OutputPerturbationSVC"]

HINGES: dict[str, MarginLoss] = {"huber_hinge": HuberHinge(), "squared_hinge": SquaredHinge(), "hinge": Hinge()}
DATA_NORM = 1.0  # the default, which bounds and standardisation replace

_FIRST = """epsilon, delta : float, default=1.0 and 0.0
        The privacy guarantee of the fit. With ``delta=0`` it is pure: noise has a density that falls with its norm
        (Chaudhuri, Monteleoni & Sarwate 2011). With a delta well below 1/n_samples noise is Gaussian, and smaller where
        there are many columns. ``epsilon=inf`` fits the exact model instead, without noise, standardisation, bounds,
        ``data_norm``, clip or radius and with a penalty of 1e-4 for "auto", and says that it is not private."""
_MIDDLE = f"""alpha : "auto" or float > 0, default="auto"
        Strength of the L2 penalty on the mean loss, on all weights, in the units that are fitted. The guarantee rests
        on it: half of it doubles the noise. "auto" takes the one of Theorems 3.4 and 3.5 of Lowy & Razaviyayn (2021),
        from public facts.
    target : {{"empirical", "population"}}, default="empirical"
        Which loss "auto" has in mind, that of the rows or that of the population they come from: the latter adds
        1/sqrt(n_samples) for it (their section 4).
    radius : float or None, default=None
        The norm that weights are projected to after the noise, in the units that are fitted, and the radius of the
        theorems. None: no projection; the theorems then get a radius of 100/``data_norm``, or of 50 over
        the norm of a typical row.
    gradient_clip : float or None, default=None
        Bound on one row's gradient norm, in the units that are fitted. None: 0.6 of the gradient of a typical row on
        the boundary. A large one bounds nothing beyond what the loss does.
    noise : {{"exact", "paper"}}, default="exact"
        The Gaussian noise for a positive delta: exactly as much as the guarantee needs, or the closed formula of the
        paper, at delta = 1e-6 1.12 times as much for epsilon = 4, 1.20 times for 1, 1.38 times for 0.1.
    solver : {{{", ".join(f'"{name}"' for name in METHODS)}}}, default="newton"
        How the minimum is found. All end in the same certified point, up to its tolerance; the first is the fastest,
        and with a penalty that is small beside ``data_norm`` squared the last two may take minutes."""
_COLUMNS = (PARAMETERS["columns"] % "None").replace("fits the columns as they are.", "does not.")
_DATA = PARAMETERS["penalised data"].replace(
    """data_norm : float or None, default=None
        A public bound on the l2 norm of a row; longer rows are scaled down to it, in ``fit`` and in predictions. None:
        no bound is needed. It cannot be combined with ``bounds`` or ``standardize``, which look at columns.""",
    """data_norm : float or None, default=1.0
        A public bound on the l2 norm of a row; longer rows are scaled down to it, each on its own, in ``fit`` and in
        predictions. ``bounds`` and ``standardize``, which look at columns, take its place (another value than 1.0 is
        refused beside them), and None asks for it: a typical norm is then found by a noisy count.""",
)


class _OutputPerturbation(PrivateClassifier):
    """What both estimators share."""

    alpha: Any
    target: str
    radius: float | None
    gradient_clip: float | None
    noise: str
    solver: str

    _currency = GaussianDP()
    _exact_at_infinity = True
    _one_vs_rest = True

    def _row_bound(self) -> float | None:
        replaced = self.data_norm == DATA_NORM and (self.bounds is not None or self.standardize is not None)
        return None if replaced else self.data_norm

    def _check_strength(self) -> None:
        if isinstance(self.alpha, str) and self.alpha == "auto":
            return
        number = isinstance(self.alpha, Real) and not isinstance(self.alpha, bool | np.bool_)
        if not number or not 1e-12 <= self.alpha <= 1e12:
            raise ValueError(f"alpha={self.alpha!r} must be 'auto' or lie between 1e-12 and 1e12")

    def _strength(self) -> float:
        return 1e-4 if isinstance(self.alpha, str) else self.alpha  # without noise theorems have nothing to say

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("target", self.target, ("empirical", "population"))
        require_choice("noise", self.noise, ("exact", "paper"))
        require_choice("solver", self.solver, tuple(METHODS))
        if self.radius is not None:
            require_clip("radius", self.radius)
        if self.data_norm is not None:
            require_clip("data_norm", self.data_norm)
        if self.gradient_clip is not None:
            require_clip("gradient_clip", self.gradient_clip)

    def _budget(self, facts: Facts | None = None) -> Budget:
        if self.delta == 0:
            return Budget.of(self.epsilon, self.delta, currency=PureDP())
        budget = Budget.of(self.epsilon, self.delta, currency=self._currency)
        if self.noise == "exact":
            return budget
        mu = conversions.paper_mu(budget.epsilon, budget.delta)
        return Budget(budget.epsilon, budget.delta, self._currency, mu * mu)

    def _solver(self) -> OutputPerturbation:
        data_norm = self._row_bound()
        return OutputPerturbation(
            target=self.target if isinstance(self.alpha, str) else None,
            radius=self.radius,
            gradient_clip=self.gradient_clip,
            longest=None if data_norm is None else math.hypot(data_norm, bool(self.fit_intercept)),
            method=self.solver,
        )

    def _loss(self, n_classes: int) -> Loss:
        one = self._margin_loss()
        return one if n_classes == 2 else OneVsRest(one, n_classes)

    def _margin_loss(self) -> MarginLoss:
        raise NotImplementedError


class OutputPerturbationLogisticRegression(Probabilities, _OutputPerturbation):
    __doc__ = f"""Logistic regression by output perturbation: the exact model of a regularised problem, and noise.

    Pure epsilon-differential privacy by default. Lowy & Razaviyayn (2021) and Chaudhuri, Monteleoni & Sarwate (2011),
    with a sure certificate that the minimum is reached, with losses flattened where a row's gradient would exceed a
    clip, and with exact Gaussian noise where delta > 0. Several classes are one-vs-rest, on one budget.

    Columns should be on one public scale and rows about as long as ``data_norm``, or use ``standardize="private"``, or
    ``bounds``. By default longer rows are scaled down to norm 1, which leaves little beside the largest column: on raw
    columns such as age and income the model may be no better than the majority, and nothing says so.

    Parameters
    ----------
    {_FIRST}
    {_MIDDLE}
    {_COLUMNS}
    {_DATA}
    {PARAMETERS["running"]}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import OutputPerturbationLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OutputPerturbationLogisticRegression(epsilon=4.0, standardize="private", random_state=0).fit(X, y)
    >>> model.privacy_spent_.delta
    0.0
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        alpha: float | str = "auto",
        target: str = "empirical",
        radius: float | None = None,
        gradient_clip: float | None = None,
        noise: str = "exact",
        solver: str = "newton",
        bounds: Any = None,
        standardize: str | None = None,
        fit_intercept: bool = True,
        data_norm: float | None = DATA_NORM,
        classes: Any = None,
        adjacency: str = "zero-out",
        ledger: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.target = target
        self.radius = radius
        self.gradient_clip = gradient_clip
        self.noise = noise
        self.solver = solver
        self.bounds = bounds
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.data_norm = data_norm
        self.classes = classes
        self.adjacency = adjacency
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    def _margin_loss(self) -> MarginLoss:
        return Logistic()


class OutputPerturbationSVC(_OutputPerturbation):
    __doc__ = f"""Linear support vector machine by output perturbation: the exact model, and noise.

    Pure epsilon-differential privacy by default. Otherwise as :class:`~dpsk.OutputPerturbationLogisticRegression`,
    also in what it wants of columns: one public scale, ``standardize="private"`` or ``bounds``.

    Parameters
    ----------
    {_FIRST}
    loss : {{"huber_hinge", "squared_hinge", "hinge"}}, default="huber_hinge"
        The hinge with its corner rounded, the squared hinge (its slope at the minimum is bounded, because the minimum
        cannot be far away, and by the clip), or the hinge, whose minimum is certified by a duality gap. That can take
        minutes where the others take a second, above all on standardised columns.
    {_MIDDLE}
    {_COLUMNS}
    {_DATA}
    {PARAMETERS["running"]}
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        loss: str = "huber_hinge",
        alpha: float | str = "auto",
        target: str = "empirical",
        radius: float | None = None,
        gradient_clip: float | None = None,
        noise: str = "exact",
        solver: str = "newton",
        bounds: Any = None,
        standardize: str | None = None,
        fit_intercept: bool = True,
        data_norm: float | None = DATA_NORM,
        classes: Any = None,
        adjacency: str = "zero-out",
        ledger: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.alpha = alpha
        self.target = target
        self.radius = radius
        self.gradient_clip = gradient_clip
        self.noise = noise
        self.solver = solver
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
        require_choice("loss", self.loss, tuple(HINGES))
        if self._is_exact() and self.loss == "hinge":
            raise ValueError("epsilon=inf with loss='hinge': the exact model is for smooth losses; use 'huber_hinge'")

    def _check_remote(self) -> None:
        if self.loss == "hinge":
            raise ValueError(
                "loss='hinge' needs all rows in one process, where a number for each is at hand: use "
                "loss='huber_hinge' on a Dask cluster, or a numpy.memmap or dpsk.Chunks instead of it"
            )

    def _margin_loss(self) -> MarginLoss:
        return HINGES[self.loss]
