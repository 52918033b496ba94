"""The estimator for raw tables: strings, numbers, dates and missing entries as they are."""

from typing import Any

from ..data import Facts, Unknown
from ..encodings.tabular import TabularEncoding, currency_for
from ..objectives import Linear
from ..privacy import Budget
from ..solvers.calibrated import SHARE, Calibrated
from ..solvers.gradient_descent import GradientDescent
from .classifier import PrivateClassifier
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import LossNamed, Probabilities

REACH = 0.4  # of the descent, beside that for tables of numbers: hats overlap, and steps along their sums are long


class DPTabularClassifier(Probabilities, PrivateClassifier):
    """Differentially private classifier for raw tables."""

    columns: Any = "auto"

    def _plan(self, facts: Facts | Unknown) -> Plan:
        encoding = with_parameters_of(self, TabularEncoding)
        objective = Linear(LossNamed("log_loss"), l2_of(self))
        solver = Calibrated(GradientDescent(reach=REACH, spare=SHARE))
        currency = currency_for(facts, float(self.epsilon), float(self.delta), self.adjacency)
        return Plan(solver, objective, encoding, Budget.of(self.epsilon, self.delta, currency=currency))
