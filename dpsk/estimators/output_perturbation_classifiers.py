"""Output perturbation as scikit-learn classifiers: the family with pure epsilon, delta = 0."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from .._sklearn_compat import CALLER_OF_FIT
from ..losses import Hinge, HuberHinge, Logistic, Loss, MarginLoss, OneVsRest, SquaredHinge
from ..minimizers import AttackedSum, RegularizedSum, TiltedSum
from ..minimizers.descent import METHODS
from ..privacy import Budget, GaussianDP, PureDP, conversions
from ..solvers import Solver
from ..solvers.exponential import ExponentialSampling
from ..solvers.output_perturbation import TILTED, OutputPerturbation
from .classifier import Facts, PrivateClassifier
from .linear import Probabilities
from .parameters import PARAMETERS, require_choice, require_clip

__all__ = ["OutputPerturbationLogisticRegression", "OutputPerturbationSVC"]

HINGES: dict[str, MarginLoss] = {"huber_hinge": HuberHinge(), "squared_hinge": SquaredHinge(), "hinge": Hinge()}
HEAVY = 0.5  # of all weight that one row may have before a tilted fit warns
DATA_NORM = 1.0  # the default, which bounds and standardisation replace

_FIRST = """epsilon, delta : float, default=1.0 and 0.0
        The privacy guarantee of the fit. With ``delta=0`` it is pure: noise has a density that falls with its norm
        (Chaudhuri, Monteleoni & Sarwate 2011). With a delta well below 1/n_samples noise is Gaussian, and smaller where
        there are many columns. ``epsilon=inf`` fits the exact model instead, without noise, standardisation, bounds,
        ``data_norm``, clip or radius and with a penalty of 1e-4 for "auto", and says that it is not private."""
_OBJECTIVE = """objective : {"erm", "tilted", "adversarial"}, default="erm"
        What is minimised. "erm": the mean of the losses of rows. "tilted": ``log(mean(exp(tilt * loss)))/tilt``,
        between the mean and the largest loss, so that groups with few rows and large losses count for more (Li,
        Beirami, Sanjabi & Smith 2020). A row can then weigh more than others, and the noise covers the most it can.
        "adversarial": the mean of the largest losses that rows have within ``attack_radius`` of where they are.
    tilt : float > 0, default=1.0
        For ``objective="tilted"``. The larger it is, the more the largest losses count, and the more noise is needed.
    attack_radius : float > 0, default=0.1
        For ``objective="adversarial"``: how far rows can be moved, in the units that are fitted. These are those of X,
        after long rows are scaled down to ``data_norm``; with ``bounds`` a column's unit is the distance from 0 (or the
        bound nearest to it) to its farther bound, and with ``standardize`` roughly its standard deviation.
    attack_norm : {2, inf}, default=2
        The norm of that distance: the l2 norm of all changes, or the largest change of any column."""
_MECHANISM = """mechanism : {"noise", "exponential", "localization"}, default="noise"
        How the minimum is made private. "noise" is output perturbation. "exponential" draws weights instead, with
        probabilities that fall exponentially with the loss (their Algorithm 9, after Bassily, Smith & Thakurta 2014):
        exactly, for two classes, ``delta=0`` and a few columns; it refuses what could take more than 100,000 proposals.
        "localization" spends half of the budget on a ball to draw from (Algorithm 11), and can do more columns. How
        long a draw takes depends on the data. ``alpha="auto"`` is then the least penalty that keeps the minimum within
        ``radius``, or, without one, where the margin of the longest row is 10; ``gradient_clip`` does not apply."""
_MIDDLE = f"""alpha : "auto" or float > 0, default="auto"
        Strength of the L2 penalty on the mean loss, on all weights, in the units that are fitted. The guarantee rests
        on it: half of it doubles the noise. "auto" takes the one of Theorems 3.4 and 3.5 of Lowy & Razaviyayn (2021),
        from public facts, for a tilted objective the one that they give for the noise it leads to.
    target : {{"empirical", "population"}}, default="empirical"
        Which loss "auto" has in mind, that of the rows or that of the population they come from: the latter adds
        1/sqrt(n_samples) for it (their section 4).
    radius : float or None, default=None
        The norm that weights are projected to after the noise, in the units that are fitted, and the radius of the
        theorems. None: no projection; the theorems then get a radius of 100/``data_norm``, or of 50 over
        the norm of a typical row, and a twentieth of that for a tilted objective.
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

    objective: str
    tilt: float
    attack_radius: float
    attack_norm: float
    alpha: Any
    target: str
    radius: float | None
    gradient_clip: float | None
    noise: str
    solver: str
    mechanism: str = "noise"

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
        require_choice("objective", self.objective, ("erm", "tilted", "adversarial"))
        for name in ("tilt", "attack_radius"):
            require_clip(name, getattr(self, name))
        if isinstance(self.attack_norm, bool) or self.attack_norm not in (2, math.inf):
            raise ValueError(f"attack_norm={self.attack_norm!r} must be 2 or inf")
        if self.objective != "erm" and self._is_exact():
            raise ValueError(
                f"epsilon=inf with objective={self.objective!r}: the exact model is for objective='erm'. A large "
                "epsilon comes as near to the minimum as you like"
            )
        if self.objective == "tilted" and self.solver in ("katyusha", "stochastic-subgradient"):
            raise ValueError(
                f"solver={self.solver!r} with objective='tilted': parts of the rows do not estimate its gradient. Use "
                "'newton', 'agd' or 'subgradient'"
            )
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
        if facts is not None and facts.n_classes > 2 and self.mechanism != "noise":
            raise ValueError(
                f"mechanism={self.mechanism!r} is for two classes, but there are {facts.n_classes}: use "
                "mechanism='noise'"
            )
        if self.delta == 0:
            return Budget.of(self.epsilon, self.delta, currency=PureDP())
        budget = Budget.of(self.epsilon, self.delta, currency=self._currency)
        if self.noise == "exact":
            return budget
        mu = conversions.paper_mu(budget.epsilon, budget.delta)
        return Budget(budget.epsilon, budget.delta, self._currency, mu * mu)

    def _solver(self) -> Solver:
        data_norm = self._row_bound()
        longest = None if data_norm is None else math.hypot(data_norm, bool(self.fit_intercept))
        automatic = isinstance(self.alpha, str)
        if self.mechanism != "noise":
            return ExponentialSampling(self.mechanism == "localization", automatic, self.radius, longest)
        return OutputPerturbation(
            target=self.target if automatic else None,
            radius=self.radius,
            gradient_clip=self.gradient_clip,
            longest=longest,
            method=self.solver,
            objective=self._objective(),
            reach=TILTED if self.objective == "tilted" else 1.0,
        )

    def _objective(self) -> Callable[..., RegularizedSum]:
        if self.objective == "tilted":
            return functools.partial(TiltedSum, tilt=self.tilt)
        if self.objective == "adversarial":
            constant = bool(self.fit_intercept)
            return functools.partial(AttackedSum, radius=self.attack_radius, norm=self.attack_norm, constant=constant)
        return RegularizedSum

    def _returned(self, known: RegularizedSum | None) -> None:
        if isinstance(known, TiltedSum) and known.heaviest > HEAVY:
            warnings.warn(
                f"tilt={self.tilt:g} with {known.n_rows} rows and alpha={known.penalty / known.n_rows:.2g}: for all "
                f"that is known beforehand one row may have {known.heaviest:.0%} of all weight, and the noise covers "
                "that. Lower tilt, raise alpha, lower gradient_clip, or add rows",
                UserWarning,
                stacklevel=CALLER_OF_FIT + 2,
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
    {_OBJECTIVE}
    {_MECHANISM}
    {_MIDDLE}
    {_COLUMNS}
    {_DATA}
    {PARAMETERS["running"]}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import OutputPerturbationLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OutputPerturbationLogisticRegression(epsilon=4.0, standardize="private").fit(X, y)
    >>> model.privacy_spent_.delta
    0.0
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        objective: str = "erm",
        tilt: float = 1.0,
        attack_radius: float = 0.1,
        attack_norm: float = 2,
        mechanism: str = "noise",
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
        self.objective = objective
        self.tilt = tilt
        self.attack_radius = attack_radius
        self.attack_norm = attack_norm
        self.mechanism = mechanism
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
        require_choice("mechanism", self.mechanism, ("noise", "exponential", "localization"))
        if self.mechanism == "noise":
            return
        for name, value, only in (
            ("delta", self.delta, 0),
            ("objective", self.objective, "erm"),
            ("gradient_clip", self.gradient_clip, None),
            ("radius", None if isinstance(self.alpha, str) else self.radius, None),
        ):
            if value != only:
                beside = " beside a number for alpha" if name == "radius" else ""
                raise ValueError(
                    f"mechanism={self.mechanism!r} cannot be combined with {name}={value!r}{beside}: it is built for "
                    f"{name}={only!r}. Use that, or mechanism='noise'"
                )

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
    {_OBJECTIVE}
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
        objective: str = "erm",
        tilt: float = 1.0,
        attack_radius: float = 0.1,
        attack_norm: float = 2,
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
        self.objective = objective
        self.tilt = tilt
        self.attack_radius = attack_radius
        self.attack_norm = attack_norm
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
        if self.objective != "erm" and self.loss == "hinge":
            raise ValueError(
                f"objective={self.objective!r} with loss='hinge': it is built for smooth losses; use 'huber_hinge'"
            )

    def _check_remote(self) -> None:
        if self.loss == "hinge":
            raise ValueError(
                "loss='hinge' needs all rows in one process, where a number for each is at hand: use "
                "loss='huber_hinge' on a Dask cluster, or a numpy.memmap or dpsk.Chunks instead of it"
            )

    def _margin_loss(self) -> MarginLoss:
        return HINGES[self.loss]
