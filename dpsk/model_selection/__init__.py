"""The cost of choosing and scoring models: searches before they run, and accuracies that are paid for."""

from ..privacy.repetition import Poisson, TruncatedNegativeBinomial
from .cross_validation import PrivateCrossValidation, private_cross_validate
from .independent_rows import IndependentRows
from .privacy_cost import PrivacyCost, privacy_cost
from .score import PrivateScore, private_score
from .search import NothingSelected, PrivateSearchCV
from .search_cost import SearchCost, search_cost
from .together import CrossValidationCost

__all__ = [
    "CrossValidationCost", "IndependentRows", "NothingSelected", "Poisson", "PrivacyCost", "PrivateCrossValidation",
    "PrivateScore", "PrivateSearchCV", "SearchCost", "TruncatedNegativeBinomial", "privacy_cost",
    "private_cross_validate", "private_score", "search_cost",
]  # fmt: skip
