"""Private solvers: one published algorithm each, in plain loops over releases."""

from .solver import Diagnostics, Result, Solver, run

__all__ = ["Diagnostics", "Result", "Solver", "run"]
