"""Costs, conversions, budgets and reports: everything that is arithmetic about privacy and nothing that sees data."""

from .costs import BoundedRangeCost, Cost, GaussianCost, PureCost
from .currencies import ZCDP, Currency, GaussianDP, PureDP, RenyiDP
from .ledger import Budget, BudgetExhausted, Ledger, Release
from .report import PrivacySpent

__all__ = [
    "ZCDP",
    "BoundedRangeCost",
    "Budget",
    "BudgetExhausted",
    "Cost",
    "Currency",
    "GaussianCost",
    "GaussianDP",
    "Ledger",
    "PrivacySpent",
    "PureCost",
    "PureDP",
    "Release",
    "RenyiDP",
]
