"""What solvers minimise: models that hand out queries."""

from .linear import Linear, LinearObjective
from .objective import Model, Objective

__all__ = ["Linear", "LinearObjective", "Model", "Objective"]
