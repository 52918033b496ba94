"""What solvers minimise: models that hand out queries."""

from .linear import Linear, LinearObjective

__all__ = ["Linear", "LinearObjective"]
