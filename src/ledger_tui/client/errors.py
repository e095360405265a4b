"""The dashboard's own errors of requests to a server, next to those of `ledger_client.errors`.

The text of each error is one sentence for the screen (after `literal`).
"""

from __future__ import annotations

from ledger_client.errors import LedgerError, NotFound

NO_LEDGER = "This is not a ledger's answer. Is the address right?"


class ReadOnly(LedgerError):
    """The dashboard is read-only, or shows an earlier moment; nothing was sent."""


class NoLedger(NotFound):
    """Another program than a ledger listens at this address."""


class NotOffered(LedgerError):
    """The server lacks the requested part of the interface, which goes beyond the contract."""
