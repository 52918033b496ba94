"""Differentially private classifiers that are real scikit-learn estimators."""

from .estimators import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLogisticRegression,
)
from .privacy import BudgetExhausted, PrivacySpent

__all__ = [
    "DPAGDSVC",
    "BudgetExhausted",
    "DPAGDLogisticRegression",
    "DPGradientDescentClassifier",
    "DPLinearSVC",
    "DPLogisticRegression",
    "PrivacySpent",
]
