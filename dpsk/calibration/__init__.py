"""Calibrations: public maps from scores to log-odds, and the curve that noisy counts support."""

from .maps import BOUND, Curve, Temperature
from .score_curve import Known, curve

__all__ = ["BOUND", "Curve", "Known", "Temperature", "curve"]
