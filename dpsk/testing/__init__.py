"""Conformance checks for contributors: one call tests whether a new part keeps the promises of the library.

Each check raises AssertionError with a sentence that says what was promised and what happened. Randomness is seeded and
statistical bounds hold with probability at least 1 - ``ERROR_PROBABILITY`` per comparison, so a failure means a bug.

>>> from dpsk.testing import check_loss
>>> from dpsk.losses import Logistic
>>> check_loss(Logistic())
"""

from .check_backends import check_rows
from .check_layers import check_layer, check_network
from .check_losses import check_loss
from .check_mechanisms import check_mechanism, neighbouring_scores, neighbouring_sums
from .check_queries import check_query, check_weights
from .check_solvers import check_solver, find_peeks
from .common import ERROR_PROBABILITY
from .twins import check_company, check_twins, extreme_rows

__all__ = [
    "ERROR_PROBABILITY", "check_company", "check_layer", "check_loss", "check_mechanism", "check_network",
    "check_query", "check_rows",
    "check_solver", "check_twins", "check_weights", "extreme_rows", "find_peeks", "neighbouring_scores",
    "neighbouring_sums",
]  # fmt: skip
