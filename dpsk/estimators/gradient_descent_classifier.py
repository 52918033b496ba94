"""Noisy gradient descent as a scikit-learn classifier, every setting open."""

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..objectives import Linear
from ..privacy import GaussianDP
from ..requirements import choice, flag, require_stable_steps
from ..solvers.calibrated import Calibrated
from ..solvers.gradient_descent import GradientDescent
from .budgets import WithExactModel, WithRho, budget_of
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import SMOOTH_LOSSES, LossNamed, ProbabilitiesIfCalibrated


class DPGradientDescentClassifier(ProbabilitiesIfCalibrated, WithRho, WithExactModel):
    """Linear classifier by noisy gradient descent on all rows, with momentum and an averaged tail.

    The schedule is fixed before the run and accounted exactly: T gradients with noise of sigma_t clips are mu-GDP with
    mu^2 = sum 1/sigma_t^2 (Dong, Roth & Su 2022). Every setting that is None follows from public facts and small
    releases; :class:`~dpsk.DPLogisticRegression` and :class:`~dpsk.DPLinearSVC` are this with nothing to set.

    Parameters
    ----------
    loss : {"log_loss", "huber_hinge"}
        Logistic loss (softmax for several classes), or the hinge with a rounded corner (one-vs-rest).
    calibrate : bool
        Whether a part of the budget is held back to make probabilities right (``calibration_``): 2 %, and up to 10 %
        where there are few rows, or epsilon is small. Without it there are probabilities for "log_loss" only, and
        noise makes them too extreme.
    """

    loss: str = choice("log_loss", *SMOOTH_LOSSES)
    standardize: str | None = "private"
    steps: int | None = None
    momentum: float = 0.9
    step_size: float | None = None
    gradient_clip: float | None = None
    average: float = 0.5
    taper: float | None = None
    calibrate: bool = flag(True)

    _described_by = (GradientDescent,)

    def _plan(self, facts: Facts | Unknown) -> Plan:
        solver = with_parameters_of(self, GradientDescent)
        if self.step_size is not None:
            require_stable_steps("step_size", self.step_size, self.alpha)
        encoding = with_parameters_of(self, LinearEncoding)
        objective = Linear(LossNamed(self.loss), l2_of(self))
        budget = budget_of(self, GaussianDP())
        return Plan(Calibrated(solver) if self.calibrate else solver, objective, encoding, budget)
