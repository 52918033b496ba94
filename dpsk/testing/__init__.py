"""Conformance checks for contributors: one call tells whether a new part keeps the promises of the house.

Each check raises AssertionError with a sentence that says what was promised and what happened. Randomness is seeded and
statistical bounds hold with probability at least 1 - ``ERROR_PROBABILITY`` per comparison, so a failure means a bug.

>>> from dpsk.testing import check_loss
>>> from dpsk.losses import Logistic
>>> check_loss(Logistic())
"""

from .common import ERROR_PROBABILITY
from .losses import check_loss
from .mechanisms import check_mechanism, neighbouring_scores, neighbouring_sums
from .queries import check_query
from .rows import check_rows
from .solvers import check_solver, find_peeks
from .twins import check_company, check_twins, extreme_rows

__all__ = [
    "ERROR_PROBABILITY",
    "check_company",
    "check_loss",
    "check_mechanism",
    "check_query",
    "check_rows",
    "check_solver",
    "check_twins",
    "extreme_rows",
    "find_peeks",
    "neighbouring_scores",
    "neighbouring_sums",
]
