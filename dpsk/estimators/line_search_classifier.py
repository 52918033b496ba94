"""Private line search on random batches as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np

from .._sklearn_compat import CALLER_OF_FIT
from ..data import Table
from ..data.tables import Coding
from ..losses import Loss
from ..privacy import Ledger
from ..solvers.line_search import LineSearch
from .linear import LOSSES, ProbabilitiesOfLogLoss, loss_named
from .parameters import PARAMETERS, require_choice, require_clip, require_number, require_part, require_stable_steps
from .sampled import SampledClassifier

__all__ = ["DPLineSearchClassifier"]

_CHOICES = {
    "search": ("armijo-svt", "exponential"),
    "noise": ("laplace", "gaussian"),
    "gains": ("per-unit", "clipped"),
    "increase": ("auto", "angle", "always", "never", "merge"),
    "first_price": ("even", "paper"),
}


class DPLineSearchClassifier(ProbabilitiesOfLogLoss, SampledClassifier):
    __doc__ = f"""Linear classifier by noisy gradients of random batches and a private line search: DP-BLSGD.

    Each update measures a gradient and looks for the first step, from long to short, that lowers the objective enough;
    the search costs the same however many steps it tries. Where it finds none, the gradient is measured again and more
    is paid from then on. ``sampling_rate=1.0`` is the version on all rows, DP-BLGD; ``clip_decay=0.05`` DP-BLSGD-AC.
    Columns should be on one public scale, about [0, 1], or be standardised privately (``standardize="private"``, which
    is more accurate). :class:`~dpsk.DPLogisticRegression` is more accurate still, and needs no choices.

    The budget is kept at one Renyi order that is chosen before the fit for ``splits`` updates (as rho where
    ``sampling_rate=1.0``), so that prices may adapt while the guarantee stays fixed.

    Parameters
    ----------
    {PARAMETERS["budget"]}
    {PARAMETERS["losses"]}
    alpha : float, default=1e-3
        Strength of the L2 penalty on the mean loss: alpha/2 * ||coef||^2.
    {PARAMETERS["sampling"]}
    search : {{"armijo-svt", "exponential"}}, default="armijo-svt"
        Backtracking until a noisy Armijo condition holds (the paper's), or the exponential mechanism over the same
        steps and staying.
    noise : {{"laplace", "gaussian"}}, default="laplace"
        Noise of the backtracking search. Gaussian noise pays for each step that may be tried.
    gains : {{"per-unit", "clipped"}}, default="per-unit"
        What backtracking compares: each row's gain per unit of step length, on the objective of the clipped gradients,
        whose noise shrinks with the step; or the difference of clipped losses, the paper's.
    splits : float, default=200
        Planned updates: how many the budget would last if every search succeeded at once and prices never grew.
    first_price : {{"even", "paper"}}, default="even"
        The first update costs an even share of the budget, or, where that is less, what the paper starts with: mu of
        the gradient and epsilon of the search are epsilon / (2 * splits).
    search_share : float, default=0.5
        Epsilon of a search as a multiple of mu, the sensitivity over the noise of a gradient; 1 in the paper.
    gradient_clip, loss_clip : float, default=1.5 and 3.0
        Bounds on one row's gradient norm, and on its loss where losses are clipped (``search="exponential"``,
        ``gains="clipped"``). Larger ones are clipped.
    step_max, shrink, candidates : float, float, int, default=3.0, 0.8 and 15
        Steps tried: step_max * shrink**i for i below candidates.
    sufficient : float, default=0.5
        The part of the linear decrease that a step has to keep, in (0, 1).
    adapt_every, growth : int, float, default=10 and 1.2
        After so many updates ``step_max`` falls to ``growth`` times the largest step taken meanwhile, if that is less.
    increase : {{"auto", "angle", "always", "never", "merge"}}, default="auto"
        What follows a failed search besides measuring the gradient again. "angle" looks at the angle between the two
        measurements: far apart, gradients were too noisy and get dearer; close together, the search was, and gets
        dearer. "always" makes gradients dearer, "never" nothing. "merge" spends ``increase_by`` of the gradient's price
        on the second measurement, weights the two by price, and keeps paying for both. "auto" is "angle" on random
        batches and "merge" on all rows, as in the paper. Prices rise only while ten updates are left.
    increase_by : float, default=0.3
        How much more, relative to the price.
    clip_decay : float, default=0.0
        By how much the clips shrink in an update that raised the price of gradients, in [0, 1).
    fallback : bool, default=False
        Take the shortest step where the search finds none, instead of measuring again.
    {PARAMETERS["columns"] % "None"}
    {PARAMETERS["data"]}
    {PARAMETERS["running"]}

    References
    ----------
    Chen & Lee (2020), Stochastic adaptive line search for differentially private optimization.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dpsk import DPLineSearchClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPLineSearchClassifier(epsilon=3.0).fit(MinMaxScaler().fit_transform(X), y)
    >>> model.privacy_spent_.epsilon
    3.0
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str = "log_loss",
        alpha: float = 1e-3,
        sampling_rate: float = 0.1,
        sampling: str = "poisson",
        search: str = "armijo-svt",
        noise: str = "laplace",
        gains: str = "per-unit",
        splits: float = 200,
        first_price: str = "even",
        search_share: float = 0.5,
        gradient_clip: float = 1.5,
        loss_clip: float = 3.0,
        step_max: float = 3.0,
        shrink: float = 0.8,
        candidates: int = 15,
        sufficient: float = 0.5,
        adapt_every: int = 10,
        growth: float = 1.2,
        increase: str = "auto",
        increase_by: float = 0.3,
        clip_decay: float = 0.0,
        fallback: bool = False,
        bounds: Any = None,
        standardize: str | None = None,
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
        self.alpha = alpha
        self.sampling_rate = sampling_rate
        self.sampling = sampling
        self.search = search
        self.noise = noise
        self.gains = gains
        self.splits = splits
        self.first_price = first_price
        self.search_share = search_share
        self.gradient_clip = gradient_clip
        self.loss_clip = loss_clip
        self.step_max = step_max
        self.shrink = shrink
        self.candidates = candidates
        self.sufficient = sufficient
        self.adapt_every = adapt_every
        self.growth = growth
        self.increase = increase
        self.increase_by = increase_by
        self.clip_decay = clip_decay
        self.fallback = fallback
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
        require_choice("loss", self.loss, LOSSES)
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        require_number("splits", self.splits, 1)
        for name in ("search_share", "step_max", "increase_by"):
            require_number(name, getattr(self, name), 0, open_low=True)
        require_number("growth", self.growth, 1)
        for name in ("gradient_clip", "loss_clip"):
            require_clip(name, getattr(self, name))
        for name in ("candidates", "adapt_every"):
            require_number(name, getattr(self, name), 1, kind=Integral)
        for name in ("shrink", "sufficient"):
            require_part(name, getattr(self, name), whole=False)
        require_number("clip_decay", self.clip_decay, 0)
        if not self.clip_decay < 1:
            raise ValueError(f"clip_decay={self.clip_decay!r} must lie in [0, 1): clips shrink to 1 - clip_decay")
        if self.step_max * self.shrink ** (self.candidates - 1) < 2.0**-60 or self.step_max > 2.0**60:
            raise ValueError(
                f"step_max={self.step_max!r}, shrink={self.shrink!r} and candidates={self.candidates!r} lead to steps "
                "beyond 2**-60 or 2**60: use fewer candidates, or a larger shrink"
            )
        if not isinstance(self.fallback, bool | np.bool_):
            raise ValueError(f"fallback={self.fallback!r} must be True or False")
        if self.fallback:
            shortest = self.step_max * self.shrink ** (self.candidates - 1)
            require_stable_steps("the shortest step", shortest, self.alpha)

    def _loss(self, n_classes: int) -> Loss:
        return loss_named(self.loss, n_classes)

    def _solver(self) -> LineSearch:
        increase = self.increase
        if increase == "auto":
            increase = "merge" if self.sampling_rate == 1 else "angle"
        return LineSearch(
            sampling=self._sampling(),
            search=self.search,
            noise=self.noise,
            splits=self.splits,
            first_price=self.first_price,
            search_share=self.search_share,
            gradient_clip=self.gradient_clip,
            loss_clip=self.loss_clip,
            gains=self.gains,
            step_max=self.step_max,
            shrink=self.shrink,
            candidates=self.candidates,
            sufficient=self.sufficient,
            adapt_every=self.adapt_every,
            growth=self.growth,
            increase=increase,
            increase_by=self.increase_by,
            clip_decay=self.clip_decay,
            fallback=bool(self.fallback),
        )

    def _learn(self, table: Table, coding: Coding, n_classes: int | None, ledger: Ledger, *rest: Any) -> Any:
        learned = super()._learn(table, coding, n_classes, ledger, *rest)
        updates = sum(release.count for release in ledger.releases if release.label == "gradient and search")
        if updates < self.splits / 10 and ledger.charged > ledger.budget.limit / 2:
            warnings.warn(
                f"{updates} of {self.splits:g} planned updates were made: most of the budget went into searches that "
                "found no step. Columns on one scale (standardize='private'), a larger gradient_clip, more candidates "
                "or fallback=True help",
                UserWarning,
                stacklevel=CALLER_OF_FIT + 2,
            )
        return learned
