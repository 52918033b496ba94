"""What solvers minimise: models that hand out queries."""

from .linear import Linear, LinearObjective
from .network_objective import NetworkModel, NetworkObjective, Perceptron
from .objective import Model, Objective

__all__ = ["Linear", "LinearObjective", "Model", "NetworkModel", "NetworkObjective", "Objective", "Perceptron"]
