"""Errors of requests that only the dashboard raises; `ledger_client.errors` contains all other errors.

The text of each error is one sentence. This sentence may contain text from the server, so
`formats.text.literal` makes the sentence safe before the dashboard draws it.
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
