"""The cost of choosing and scoring models: searches before they run, and accuracies that are paid for."""

from ..privacy.repetition import Poisson, TruncatedNegativeBinomial
from .independent_rows import IndependentRows
from .score import PrivateScore, private_score
from .search import NothingSelected, PrivateSearchCV
from .search_cost import SearchCost, search_cost

__all__ = [
    "IndependentRows", "NothingSelected", "Poisson", "PrivateScore", "PrivateSearchCV", "SearchCost",
    "TruncatedNegativeBinomial", "private_score", "search_cost",
]  # fmt: skip
