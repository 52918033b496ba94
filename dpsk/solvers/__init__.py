"""One algorithm per file, each readable beside its paper's pseudo-code."""

from .solver import Solver, run

__all__ = ["Solver", "run"]
