"""Networks of layers whose signals, slopes and sums are exact, so that what a row adds depends on that row alone."""

from .activations import ACTIVATIONS, Activation
from .convolution import Convolution, FormedGradients
from .dense import Dense
from .layer import Layer, RowGradients, Unweighted, Weighted
from .network import Network
from .pooling import MaxPooling
from .trained import TrainedNetwork

__all__ = [
    "ACTIVATIONS", "Activation", "Convolution", "Dense", "FormedGradients", "Layer", "MaxPooling", "Network",
    "RowGradients", "TrainedNetwork", "Unweighted", "Weighted",
]  # fmt: skip
