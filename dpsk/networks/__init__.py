"""Networks of layers whose signals, slopes and sums are exact, so that what a row adds depends on that row alone."""

from .activations import ACTIVATIONS, Activation
from .dense import Dense
from .layer import Layer, RowGradients, Unweighted, Weighted
from .network import Network

__all__ = ["ACTIVATIONS", "Activation", "Dense", "Layer", "Network", "RowGradients", "Unweighted", "Weighted"]
