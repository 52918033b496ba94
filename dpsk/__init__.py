"""Differentially private classifiers that are real scikit-learn estimators."""

from .estimators import DPAGDSVC, DPAGDLogisticRegression
from .privacy import BudgetExhausted, PrivacySpent

__all__ = ["DPAGDSVC", "BudgetExhausted", "DPAGDLogisticRegression", "PrivacySpent"]
