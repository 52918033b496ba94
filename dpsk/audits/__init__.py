"""Audits: attacks on whole fits, and the epsilon that they prove."""

from .audit_display import AuditDisplay
from .audit_result import AuditResult
from .claims import Claim
from .run_audit import audit

__all__ = ["AuditDisplay", "AuditResult", "Claim", "audit"]
