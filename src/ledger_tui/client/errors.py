"""The errors of requests to a server: the errors of `ledger_client.errors`, and the dashboard's own.

The text of each is one sentence, to be shown on the screen (after `literal`).
"""

from __future__ import annotations

from ledger_client.errors import AlreadyDone as AlreadyDone
from ledger_client.errors import ApiError as ApiError
from ledger_client.errors import AuthenticationError as AuthenticationError
from ledger_client.errors import Conflict as Conflict
from ledger_client.errors import InvalidRequest as InvalidRequest
from ledger_client.errors import LedgerError as LedgerError
from ledger_client.errors import NotConnected as NotConnected
from ledger_client.errors import NotFound as NotFound
from ledger_client.errors import NotSent as NotSent
from ledger_client.errors import PermissionDenied as PermissionDenied
from ledger_client.errors import RateLimited as RateLimited
from ledger_client.errors import Unreadable as Unreadable

NO_LEDGER = "This is not a ledger's answer. Is the address right?"


class ReadOnly(LedgerError):
    """The dashboard is read-only; nothing was sent."""


class NoLedger(NotFound):
    """Another program listens at this address."""


class NotOffered(LedgerError):
    """This server lacks this part beyond the contract."""
