"""Bounded sums over rows that a solver may ask for, each with a proved bound on one row's influence."""

from .armijo import ArmijoGains
from .gradient import GradientSum
from .hessian import HessianSum
from .histograms import Magnitudes, Positions, PositionsOfSome, RowNorms, Successes
from .line import LossesAlong
from .middles import Middles
from .moments import Moments
from .network_gains import NetworkGains, NetworkLosses
from .network_gradient import NetworkGradient
from .outcomes import CellCounts, ClassCounts, Outcomes

__all__ = [
    "ArmijoGains", "CellCounts", "ClassCounts", "GradientSum", "HessianSum", "LossesAlong", "Magnitudes", "Middles",
    "Moments", "NetworkGains", "NetworkGradient", "NetworkLosses", "Outcomes", "Positions", "PositionsOfSome",
    "RowNorms", "Successes",
]  # fmt: skip
