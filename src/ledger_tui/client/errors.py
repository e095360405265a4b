"""Errors of requests that only the dashboard raises; `ledger_client.errors` contains the others.

The text of each error is one sentence. It may contain text from the server, so before it is drawn,
`formats.text.literal` makes it safe.
"""

from __future__ import annotations

from ledger_client.errors import LedgerError, NotFound

NO_LEDGER = "This is not a ledger's answer. Is the address right?"


class ReadOnly(LedgerError):
    """The dashboard is read-only, or shows an earlier moment; nothing was sent."""


class NoLedger(NotFound):
    """The program that listens at this address is not a ledger."""


class NotOffered(LedgerError):
    """The server lacks a part of the interface that the contract does not require."""
