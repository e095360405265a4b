"""The ledger: engine, HTTP interface and administration."""

__version__ = "0.1.0"
