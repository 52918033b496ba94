"""Thin scikit-learn classifiers over the solvers."""

from .adaptive_gradient import DPAGDSVC, DPAGDLogisticRegression

__all__ = ["DPAGDSVC", "DPAGDLogisticRegression"]
