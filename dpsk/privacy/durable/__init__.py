"""The durable ledger: one budget, in one file, for every fit on the same data."""

from .store import PrivacyLedger, as_ledger, require_room, set_aside, without_path
from .terms import Spend

__all__ = ["PrivacyLedger", "Spend", "as_ledger", "require_room", "set_aside", "without_path"]
