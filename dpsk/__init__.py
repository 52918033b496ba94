"""Differentially private classifiers that are real scikit-learn estimators."""

from .data import Categories, Chunks, Date, Number, Text
from .estimators import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    EffectsDisplay,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
)
from .evaluation import (
    PrivateCalibration,
    PrivateCalibrationDisplay,
    PrivateConfusionMatrixDisplay,
    PrivatePrecisionRecallDisplay,
    PrivateRocCurveDisplay,
    PrivateThreshold,
    private_evaluation,
)
from .model_selection import IndependentRows, PrivateSearchCV, private_score, search_cost
from .privacy import BudgetExhausted, LedgerError, NotPrivateWarning, PrivacyLedger, PrivacySpent
from .reports import PrivacyReport

__all__ = [
    "DPAGDSVC", "BudgetExhausted", "Categories", "Chunks", "DPAGDLogisticRegression", "DPGradientDescentClassifier",
    "DPLineSearchClassifier", "DPLinearSVC", "DPLogisticRegression", "DPSGDClassifier", "DPSecondOrderClassifier",
    "DPTabularClassifier", "Date", "EffectsDisplay", "IndependentRows", "LedgerError", "NotPrivateWarning", "Number",
    "ObjectivePerturbationClassifier", "OutputPerturbationLogisticRegression", "OutputPerturbationSVC", "PrivacyLedger",
    "PrivacyReport", "PrivacySpent", "PrivateCalibration", "PrivateCalibrationDisplay", "PrivateConfusionMatrixDisplay",
    "PrivatePrecisionRecallDisplay", "PrivateRocCurveDisplay", "PrivateSearchCV", "PrivateThreshold", "Text",
    "private_evaluation", "private_score", "search_cost",
]  # fmt: skip
