"""Differentially private classifiers that are real scikit-learn estimators."""

from .estimators import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
)
from .privacy import BudgetExhausted, PrivacySpent

__all__ = [
    "DPAGDSVC",
    "BudgetExhausted",
    "DPAGDLogisticRegression",
    "DPGradientDescentClassifier",
    "DPLineSearchClassifier",
    "DPLinearSVC",
    "DPLogisticRegression",
    "DPSGDClassifier",
    "ObjectivePerturbationClassifier",
    "PrivacySpent",
]
