"""Thin scikit-learn classifiers over the solvers."""

from .adaptive_gradient_classifiers import DPAGDSVC, DPAGDLogisticRegression
from .default_classifiers import DPLinearSVC, DPLogisticRegression
from .gradient_descent_classifier import DPGradientDescentClassifier
from .line_search_classifier import DPLineSearchClassifier
from .objective_perturbation_classifier import ObjectivePerturbationClassifier
from .output_perturbation_classifiers import OutputPerturbationLogisticRegression, OutputPerturbationSVC
from .second_order_classifier import DPSecondOrderClassifier
from .sgd_classifier import DPSGDClassifier

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
