"""What the estimators of output perturbation share: the family with pure epsilon, delta = 0."""

import functools
import math
from collections.abc import Callable
from dataclasses import field
from numbers import Real
from typing import Any

import numpy as np

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..minimizers import AttackedSum, RegularizedSum, TiltedSum
from ..minimizers.descent import METHODS
from ..objectives import Linear
from ..penalties import L2
from ..privacy import Budget, GaussianDP, PureDP, conversions
from ..requirements import checked, choice, clip, require_clip
from ..solvers.output_perturbation import TILTED, OutputPerturbation
from .budgets import WithExactModel, budget_of, is_exact
from .plan import Plan, with_parameters_of
from .probabilities import LossNamed

DATA_NORM = 1.0  # the default, which bounds and standardisation replace


def _require_norm(name: str, value: Any) -> None:
    if isinstance(value, bool) or value not in (2, math.inf):
        raise ValueError(f"{name}={value!r} must be 2 or inf")


def _require_penalty(name: str, value: Any) -> None:
    if isinstance(value, str) and value == "auto":
        return
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not number or not 1e-12 <= float(value) <= 1e12:
        raise ValueError(f"{name}={value!r} must be 'auto' or lie between 1e-12 and 1e12")


class OutputPerturbed(WithExactModel):
    """Base of estimators by output perturbation.

    Parameters
    ----------
    epsilon, delta : float
        The privacy guarantee of the fit. With ``delta=0`` it is pure: noise has a density that falls with its norm
        (Chaudhuri, Monteleoni & Sarwate 2011). With a delta well below 1/n_samples noise is Gaussian, and smaller where
        there are many columns. ``epsilon=inf`` fits the exact model instead, without noise, standardisation, bounds,
        ``data_norm``, clip or radius and with a penalty of 1e-4 for "auto", and says that it is not private.
    objective : {"erm", "tilted", "adversarial"}
        What is minimised. "erm": the mean of the losses of rows. "tilted": ``log(mean(exp(tilt * loss)))/tilt``,
        between the mean and the largest loss, so that groups with few rows and large losses count for more (Li,
        Beirami, Sanjabi & Smith 2020). A row can then weigh more than others, and the noise covers the most it can.
        "adversarial": the mean of the largest losses that rows have within ``attack_radius`` of where they are.
    tilt : float > 0
        For ``objective="tilted"``. The larger it is, the more the largest losses count, and the more noise is needed.
    attack_radius : float > 0
        For ``objective="adversarial"``: how far rows can be moved, in the units that are fitted. These are those of X,
        after long rows are scaled down to ``data_norm``; with ``bounds`` a column's unit is the distance from 0 (or the
        bound nearest to it) to its farther bound, and with ``standardize`` roughly its standard deviation.
    attack_norm : {2, inf}
        The norm of that distance: the l2 norm of all changes, or the largest change of any column.
    alpha : "auto" or float > 0
        Strength of the L2 penalty on the mean loss, on all weights, in the units that are fitted. The guarantee rests
        on it: half of it doubles the noise. "auto" takes the one of Theorems 3.4 and 3.5 of Lowy & Razaviyayn (2021),
        from public facts, for a tilted objective the one that they give for the noise it leads to.
    target : {"empirical", "population"}
        Which loss "auto" has in mind, that of the rows or that of the population they come from: the latter adds
        1/sqrt(n_samples) for it (their section 4).
    noise : {"exact", "paper"}
        The Gaussian noise for a positive delta: exactly as much as the guarantee needs, or the closed formula of the
        paper, at delta = 1e-6 1.12 times as much for epsilon = 4, 1.20 times for 1, 1.38 times for 0.1.
    solver : {"newton", "agd", "katyusha", "subgradient", "stochastic-subgradient"}
        How the minimum is found. All end in the same certified point, up to its tolerance; the first is the fastest,
        and with a penalty that is small beside ``data_norm`` squared the last two may take minutes.
    fit_intercept : bool
        Whether to fit an intercept, which is penalised like the other weights: the guarantee needs that.
    data_norm : float or None
        A public bound on the l2 norm of a row; longer rows are scaled down to it, each on its own, in ``fit`` and in
        predictions. ``bounds`` and ``standardize``, which look at columns, take its place (another value than 1.0 is
        refused beside them), and None asks for it: a typical norm is then found by a noisy count.
    """

    delta: float = field(default=0.0, kw_only=False)
    objective: str = choice("erm", "erm", "tilted", "adversarial")
    tilt: float = clip(1.0)
    attack_radius: float = clip(0.1)
    attack_norm: float = checked(2, _require_norm)
    alpha: float | str = checked("auto", _require_penalty)  # type: ignore[assignment]
    target: str = choice("empirical", "empirical", "population")
    radius: float | None = None
    gradient_clip: float | None = None
    noise: str = choice("exact", "exact", "paper")
    solver: str = choice("newton", *METHODS)
    data_norm: float | None = DATA_NORM

    _described_by = (OutputPerturbation,)
    _loss = "log_loss"

    @property
    def _automatic(self) -> bool:
        """Whether theorems choose the penalty."""
        return isinstance(self.alpha, str)

    def _plan(self, facts: Facts | Unknown) -> Plan:
        encoding, longest = self._encoding()
        solver = with_parameters_of(
            self,
            OutputPerturbation,
            target=self.target if self._automatic else None,
            longest=longest,
            method=self.solver,
            objective=self._minimised(),
            reach=TILTED if self.objective == "tilted" else 1.0,
        )
        return Plan(solver, self._model(), encoding, self._budget())

    def _model(self) -> Linear:
        alpha = 1e-4 if self._automatic else float(self.alpha)  # without noise theorems have nothing to say
        return Linear(LossNamed(self._loss, one_vs_rest=True), L2(alpha, free_intercept=bool(self.fit_intercept)))

    def _encoding(self) -> tuple[LinearEncoding, float | None]:
        """Return the encoding, and the norm of the longest row that there may be, None if there is none."""
        replaced = self.data_norm == DATA_NORM and (self.bounds is not None or self.standardize is not None)
        data_norm = None if replaced else self.data_norm
        if data_norm is not None:
            require_clip("data_norm", data_norm)
        encoding = with_parameters_of(self, LinearEncoding, data_norm=data_norm)
        return encoding, None if data_norm is None else math.hypot(data_norm, bool(self.fit_intercept))

    def _minimised(self) -> Callable[..., RegularizedSum]:
        """Return the kind of sum that is minimised."""
        if self.objective == "erm":
            return RegularizedSum
        if self.objective == "tilted" and self.class_weight is not None:
            raise ValueError(
                f"class_weight={self.class_weight!r} cannot be combined with objective='tilted': what a tilted row "
                "weighs depends on all others, and no theorem covers weights beside that. Use objective='erm'"
            )
        if is_exact(self):
            raise ValueError(
                f"epsilon=inf with objective={self.objective!r}: the exact model is for objective='erm'. A large "
                "epsilon comes as near to the minimum as you like"
            )
        if self.objective == "adversarial":
            constant = bool(self.fit_intercept)
            return functools.partial(AttackedSum, radius=self.attack_radius, norm=self.attack_norm, constant=constant)
        if self.solver in ("katyusha", "stochastic-subgradient"):
            raise ValueError(
                f"solver={self.solver!r} with objective='tilted': parts of the rows do not estimate its gradient. Use "
                "'newton', 'agd' or 'subgradient'"
            )
        return functools.partial(TiltedSum, tilt=self.tilt)

    def _budget(self) -> Budget | None:
        budget = budget_of(self, PureDP() if self.delta == 0 else GaussianDP())
        if budget is None or self.delta == 0 or self.noise == "exact":
            return budget
        mu = conversions.paper_mu(budget.epsilon, budget.delta)
        return Budget(budget.epsilon, budget.delta, GaussianDP(), mu * mu)
