"""One algorithm per file, each readable beside its paper's pseudo-code."""

from .base import Solver, run

__all__ = ["Solver", "run"]
