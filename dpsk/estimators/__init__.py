"""Thin scikit-learn classifiers over the solvers."""

from .adaptive_gradient import DPAGDSVC, DPAGDLogisticRegression
from .default import DPLinearSVC, DPLogisticRegression
from .gradient_descent import DPGradientDescentClassifier

__all__ = [
    "DPAGDSVC",
    "DPAGDLogisticRegression",
    "DPGradientDescentClassifier",
    "DPLinearSVC",
    "DPLogisticRegression",
]
