"""Evaluation of classifiers on private held-out rows: one release, all metrics with intervals."""

from .adjusted import PrivateCalibration, PrivateThreshold
from .curves import PrecisionRecallCurve, RocCurve
from .displays import (
    PrivateCalibrationDisplay,
    PrivateConfusionMatrixDisplay,
    PrivatePrecisionRecallDisplay,
    PrivateRocCurveDisplay,
)
from .evaluate import private_evaluation
from .evidence import Estimate
from .results import BestThreshold, ConfusionMatrix, PrivateEvaluation
from .several_classes import MulticlassEvaluation
from .sureness import CalibrationCurve
from .two_classes import BinaryEvaluation

__all__ = [
    "BestThreshold", "BinaryEvaluation", "CalibrationCurve", "ConfusionMatrix", "Estimate", "MulticlassEvaluation",
    "PrecisionRecallCurve", "PrivateCalibration", "PrivateCalibrationDisplay", "PrivateConfusionMatrixDisplay",
    "PrivateEvaluation", "PrivatePrecisionRecallDisplay", "PrivateRocCurveDisplay", "PrivateThreshold", "RocCurve",
    "private_evaluation",
]  # fmt: skip
