"""Differentially private classifiers that are real scikit-learn estimators."""

from .audits import AuditDisplay, AuditResult, audit
from .data import Categories, Chunks, Date, Number, Text
from .estimators import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPConvolutionalClassifier,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    EffectsDisplay,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    register_onnx,
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
from .export import TRUSTED_TYPES
from .model_selection import (
    IndependentRows,
    PrivateSearchCV,
    privacy_cost,
    private_cross_validate,
    private_score,
    search_cost,
)
from .pipelines import PrivatePipeline, check_pipeline, make_pipeline
from .privacy import BudgetExhausted, LedgerError, NotPrivateWarning, PrivacyLedger, PrivacySpent
from .reports import PrivacyReport
from .testing import check_twins

__all__ = [
    "DPAGDSVC", "TRUSTED_TYPES", "AuditDisplay", "AuditResult", "BudgetExhausted", "Categories", "Chunks",
    "DPAGDLogisticRegression", "DPConvolutionalClassifier", "DPGradientDescentClassifier",
    "DPLineSearchClassifier", "DPLinearSVC", "DPLogisticRegression", "DPMLPClassifier", "DPSGDClassifier",
    "DPSecondOrderClassifier", "DPTabularClassifier", "Date", "EffectsDisplay",
    "IndependentRows", "LedgerError", "NotPrivateWarning", "Number",
    "ObjectivePerturbationClassifier", "OutputPerturbationLogisticRegression", "OutputPerturbationSVC",
    "PrivacyLedger", "PrivacyReport", "PrivacySpent", "PrivateCalibration", "PrivateCalibrationDisplay",
    "PrivateConfusionMatrixDisplay", "PrivatePipeline", "PrivatePrecisionRecallDisplay", "PrivateRocCurveDisplay",
    "PrivateSearchCV", "PrivateThreshold", "Text", "audit", "check_pipeline", "check_twins", "make_pipeline",
    "privacy_cost", "private_cross_validate", "private_evaluation", "private_score", "register_onnx", "search_cost",
]  # fmt: skip
