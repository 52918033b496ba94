"""Reports for people who decide: what a model or a ledger promises, in words, pictures and numbers."""

from .privacy_report import PrivacyReport

__all__ = ["PrivacyReport"]
