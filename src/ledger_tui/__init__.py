"""The terminal dashboard of a ledger server."""

__version__ = "0.1.0"
