"""Minimisers of sums over rows with a sure bound on their error, and the releases that are made of them."""

from .adversarial import AttackedSum
from .minimum import Minimizer, PerturbedMinima, require_perturbable
from .regularized import RegularizedSum, largest_curvature, slope_at_zero
from .sampled_weights import SampledWeights
from .tilted import TiltedSum

__all__ = [
    "AttackedSum", "Minimizer", "PerturbedMinima", "RegularizedSum", "SampledWeights", "TiltedSum",
    "largest_curvature", "require_perturbable", "slope_at_zero",
]  # fmt: skip
