"""Sums over rows that a solver may ask for, each with a proved bound on one row's influence."""

from .gradient import GradientSum
from .line import LossesAlong

__all__ = ["GradientSum", "LossesAlong"]
