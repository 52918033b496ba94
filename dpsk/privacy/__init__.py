"""Costs, conversions, budgets and reports: everything that is arithmetic about privacy and nothing that sees data."""

from .amplification import BatchCost, Sampling, best_order
from .costs import (
    BoundedRangeCost,
    Cost,
    DiscoveryCost,
    GaussianCost,
    GaussianThresholdCost,
    LaplaceThresholdCost,
    PureCost,
)
from .currencies import ZCDP, Currency, GaussianDP, PureDP, RenyiDP
from .discovery import Discovery
from .durable.ledger_file import LedgerError
from .durable.store import PrivacyLedger
from .durable.terms import Spend
from .ledger import Budget, BudgetExhausted, Ledger, Release
from .perturbation import ObjectiveDP, PerturbedMinimaCost
from .report import NotPrivateWarning, PrivacySpent

__all__ = [
    "ZCDP", "BatchCost", "BoundedRangeCost", "Budget", "BudgetExhausted", "Cost", "Currency", "Discovery",
    "DiscoveryCost", "GaussianCost",
    "GaussianDP", "GaussianThresholdCost", "LaplaceThresholdCost", "Ledger", "LedgerError", "NotPrivateWarning",
    "ObjectiveDP", "PerturbedMinimaCost", "PrivacyLedger", "PrivacySpent", "PureCost", "PureDP", "Release",
    "RenyiDP", "Sampling", "Spend", "best_order",
]  # fmt: skip
