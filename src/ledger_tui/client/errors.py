"""The errors of requests to a server: those of `ledger_client.errors`, by the names used here, and some more.

The text of each is one sentence, to be shown on the screen (after `literal`).
"""

from __future__ import annotations

from ledger_client.errors import AlreadyDone, Conflict, NotFound, RateLimited, Unreadable
from ledger_client.errors import ApiError as ServerError
from ledger_client.errors import AuthenticationError as Unauthorized
from ledger_client.errors import InvalidRequest as Invalid
from ledger_client.errors import LedgerError as ClientError
from ledger_client.errors import NotConnected as Unreachable
from ledger_client.errors import NotSent as CannotSend
from ledger_client.errors import PermissionDenied as Forbidden

NO_LEDGER = "This is not a ledger's answer. Is the address right?"

__all__ = [
    "AlreadyDone", "CannotSend", "ClientError", "Conflict", "Forbidden", "Invalid", "NoLedger", "NotFound",
    "NotOffered", "NotThen", "RateLimited", "ReadOnly", "ServerError", "Unauthorized", "Unreachable",
    "Unreadable",
]  # fmt: skip


class ReadOnly(ClientError):
    """The dashboard is read-only; nothing was sent."""


class NoLedger(NotFound):
    """Another program listens at this address."""


class NotOffered(ClientError):
    """This server does not have this part beyond the contract."""


class NotThen(NotOffered):
    """This server shows only the present state of this; nothing was sent."""
