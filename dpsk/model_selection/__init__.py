"""What choosing and judging models costs: searches before they run, and accuracies that are paid for."""

from .score import PrivateScore, private_score
from .search_cost import SearchCost, search_cost

__all__ = ["PrivateScore", "SearchCost", "private_score", "search_cost"]
