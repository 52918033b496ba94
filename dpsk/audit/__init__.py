"""Audits: attacks on a whole fit, and the epsilon that they prove."""
