"""Sums over rows that a solver may ask for, each with a proved bound on one row's influence."""

from .adversarial import AttackedSum
from .armijo import ArmijoGains
from .exponential import SampledWeights
from .gradient import GradientSum
from .hessian import HessianSum
from .histograms import Magnitudes, Positions, RowNorms
from .line import LossesAlong
from .minimizers import Minimizer, PerturbedMinima
from .moments import Moments
from .objectives import RegularizedSum, largest_curvature, slope_at_zero
from .successes import Successes
from .tilted import TiltedSum

__all__ = [
    "ArmijoGains",
    "AttackedSum",
    "GradientSum",
    "HessianSum",
    "LossesAlong",
    "Magnitudes",
    "Minimizer",
    "Moments",
    "PerturbedMinima",
    "Positions",
    "RegularizedSum",
    "RowNorms",
    "SampledWeights",
    "Successes",
    "TiltedSum",
    "largest_curvature",
    "slope_at_zero",
]
