"""Thin scikit-learn classifiers over the solvers."""

from .adaptive_gradient import DPAGDSVC, DPAGDLogisticRegression
from .default import DPLinearSVC, DPLogisticRegression
from .gradient_descent import DPGradientDescentClassifier
from .line_search import DPLineSearchClassifier
from .objective_perturbation import ObjectivePerturbationClassifier
from .output_perturbation import OutputPerturbationLogisticRegression, OutputPerturbationSVC
from .second_order import DPSecondOrderClassifier
from .sgd import DPSGDClassifier

__all__ = [
    "DPAGDSVC",
    "DPAGDLogisticRegression",
    "DPGradientDescentClassifier",
    "DPLineSearchClassifier",
    "DPLinearSVC",
    "DPLogisticRegression",
    "DPSGDClassifier",
    "DPSecondOrderClassifier",
    "ObjectivePerturbationClassifier",
    "OutputPerturbationLogisticRegression",
    "OutputPerturbationSVC",
]
