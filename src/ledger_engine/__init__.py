"""The ledger: engine, HTTP interface and administration."""

__version__ = "1.0.0"
