"""The terminal dashboard of a ledger server."""

__version__ = "1.0.0"
