"""Objective perturbation as a scikit-learn classifier."""

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..objectives import Linear
from ..privacy import Budget
from ..requirements import choice, part
from ..solvers.objective_perturbation import ObjectivePerturbation
from .budgets import WithExactModel, is_exact, objective_budget
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import SMOOTH_LOSSES, LossNamed, OneVsRestProbabilities, ProbabilitiesOfLogLoss


class ObjectivePerturbationClassifier(ProbabilitiesOfLogLoss, OneVsRestProbabilities, WithExactModel):
    """Linear classifier by objective perturbation: a random linear term, one convex problem, solved once.

    Chaudhuri, Monteleoni & Sarwate (2011) and Kifer, Smith & Thakurta (2012), with the exact profile of Gaussian noise
    instead of closed bounds, with rows shortened to a noisy typical norm, and with losses flattened where a row's
    gradient would exceed a clip. The solver's error has a sure bound, and a little more noise covers it. Several
    classes are one-vs-rest, on one budget: the softmax has no such theorem.

    Parameters
    ----------
    loss : {"log_loss", "huber_hinge"}
        Logistic loss, or the hinge with a rounded corner.
    alpha : float
        Strength of the L2 penalty on the mean loss, on all weights, in the units that are fitted. The guarantee asks
        for a penalty by itself; this one counts where it is larger.
    determinant_share : float or None
        The part of epsilon, in (0, 1), that pays for the curvature of the objective: the larger, the less penalty is
        needed and the more noise. None: 0.15, and up to 0.5 where many rows or a large epsilon leave little noise.
    fit_intercept : bool
        Whether to fit an intercept, which is penalised like the other weights: the guarantee needs that.
    """

    loss: str = choice("log_loss", *SMOOTH_LOSSES)
    standardize: str | None = "private"
    gradient_clip: float | None = None
    determinant_share: float | None = part(None, whole=False)

    _described_by = (ObjectivePerturbation,)

    def _plan(self, facts: Facts | Unknown) -> Plan:
        solver = with_parameters_of(self, ObjectivePerturbation)
        encoding = with_parameters_of(self, LinearEncoding)
        objective = Linear(LossNamed(self.loss, one_vs_rest=True), l2_of(self))
        if not is_exact(self):
            Budget.of(self.epsilon, self.delta)  # or its error
        return Plan(solver, objective, encoding, objective_budget(self, facts, self.determinant_share))
