"""Differentially private classifiers that are real scikit-learn estimators."""

from .data import Chunks
from .estimators import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
)
from .model_selection import PrivateSearchCV, private_score, search_cost
from .privacy import BudgetExhausted, LedgerError, NotPrivateWarning, PrivacyLedger, PrivacySpent

__all__ = [
    "DPAGDSVC", "BudgetExhausted", "Chunks", "DPAGDLogisticRegression", "DPGradientDescentClassifier",
    "DPLineSearchClassifier", "DPLinearSVC", "DPLogisticRegression", "DPSGDClassifier", "DPSecondOrderClassifier",
    "LedgerError", "NotPrivateWarning", "ObjectivePerturbationClassifier", "OutputPerturbationLogisticRegression",
    "OutputPerturbationSVC", "PrivacyLedger", "PrivacySpent", "PrivateSearchCV", "private_score", "search_cost",
]  # fmt: skip
