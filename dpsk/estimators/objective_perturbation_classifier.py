"""Objective perturbation as a scikit-learn classifier."""

from __future__ import annotations

import math
from typing import Any

from ..losses import HuberHinge, Logistic, Loss, MarginLoss, OneVsRest
from ..privacy import Budget, ObjectiveDP, conversions
from ..solvers.objective_perturbation import LARGEST_LOG_DETERMINANT, PRECISE, ObjectivePerturbation
from .classifier import Facts, PrivateClassifier
from .linear import SMOOTH_LOSSES, ProbabilitiesOfLogLoss
from .parameters import PARAMETERS, require_choice, require_clip, require_part

__all__ = ["ObjectivePerturbationClassifier", "objective_budget", "public_precision"]


# Of epsilon, for determinants: where noise matters, and where it hardly does
DETERMINANT_SHARE, LARGEST_SHARE = 0.15, 0.5


def public_precision(epsilon: float, delta: float, facts: Facts, *, replaced: bool) -> float:
    """Return how many typical gradients outweigh the noise of a class's weights, if the budget bought a single one."""
    mu = conversions.gaussian_mu(float(epsilon), float(delta)) / (2 if replaced else 1)
    return mu * facts.n_rows / math.sqrt(facts.n_weights)


def objective_budget(
    epsilon: float, delta: float, share: float | None, facts: Facts | None, *, replaced: bool
) -> Budget:
    """Return the budget of a fit that ends in perturbed minima, one per class where there are more than two."""
    Budget.of(epsilon, delta)  # or its error
    epsilon, n_minima, precision = float(epsilon), 1, 0.0
    if facts is not None:
        n_minima = 1 if facts.n_classes == 2 else facts.n_classes
        precision = public_precision(epsilon, delta, facts, replaced=replaced) if delta > 0 else 0.0
    if share is None:
        share = min(max(1.0, precision / PRECISE) * DETERMINANT_SHARE, LARGEST_SHARE)
        share = min(share, LARGEST_LOG_DETERMINANT * n_minima / epsilon)
    currency = ObjectiveDP.plan(epsilon, delta, share * epsilon, n_minima, replaced=replaced)
    return Budget.of(epsilon, delta, currency=currency)


class ObjectivePerturbationClassifier(ProbabilitiesOfLogLoss, PrivateClassifier):
    __doc__ = f"""Linear classifier by objective perturbation: a random linear term, one convex problem, solved once.

    Chaudhuri, Monteleoni & Sarwate (2011) and Kifer, Smith & Thakurta (2012), with the exact profile of Gaussian noise
    instead of closed bounds, with rows shortened to a noisy typical norm, and with losses flattened where a row's
    gradient would exceed a clip. The solver's error has a sure bound, and a little more noise covers it. Several
    classes are one-vs-rest, on one budget: the softmax has no such theorem.

    Parameters
    ----------
    {PARAMETERS["budget or exact"]}
    loss : {{"log_loss", "huber_hinge"}}, default="log_loss"
        Logistic loss, or the hinge with a rounded corner.
    alpha : float, default=1e-4
        Strength of the L2 penalty on the mean loss, on all weights, in the units that are fitted. The guarantee asks
        for a penalty by itself; this one counts where it is larger.
    gradient_clip : float or None, default=None
        Bound on one row's gradient norm, in the units that are fitted. None: a part of a typical row's norm, at most
        its gradient on the boundary: more accurate, but probabilities are then more extreme (up to 0.79 where a
        logistic model says 0.7).
    determinant_share : float or None, default=None
        The part of epsilon, in (0, 1), that pays for the curvature of the objective: the larger, the less penalty is
        needed and the more noise. None: 0.15, and up to 0.5 where many rows or a large epsilon leave little noise.
    {PARAMETERS["columns"] % '"private"'}
    {PARAMETERS["penalised data"]}
    {PARAMETERS["running"]}
    """

    _exact_at_infinity = True
    _one_vs_rest = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str = "log_loss",
        alpha: float = 1e-4,
        gradient_clip: float | None = None,
        determinant_share: float | None = None,
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
        self.alpha = alpha
        self.gradient_clip = gradient_clip
        self.determinant_share = determinant_share
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
        require_choice("loss", self.loss, SMOOTH_LOSSES)
        if self.gradient_clip is not None:
            require_clip("gradient_clip", self.gradient_clip)
        if self.determinant_share is not None:
            require_part("determinant_share", self.determinant_share, whole=False)

    def _loss(self, n_classes: int) -> Loss:
        loss: MarginLoss = Logistic() if self.loss == "log_loss" else HuberHinge()
        return loss if n_classes == 2 else OneVsRest(loss, n_classes)

    def _budget(self, facts: Facts | None = None) -> Budget:
        replaced = self.adjacency == "replace"
        return objective_budget(self.epsilon, self.delta, self.determinant_share, facts, replaced=replaced)

    def _solver(self) -> ObjectivePerturbation:
        return ObjectivePerturbation(self.gradient_clip)
