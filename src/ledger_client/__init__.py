"""A client for the ledger's interface: `Ledger` and `AsyncLedger`. It depends on httpx alone.

The dashboard and the commands of the server send their requests with this package. `import ledger_client`
is fast, because httpx is imported only at the first use of a client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_client import errors as errors
    from ledger_client import records as records
    from ledger_client import webhooks as webhooks
    from ledger_client.errors import LedgerError as LedgerError
    from ledger_client.event_types import EVENT_TYPES as EVENT_TYPES
    from ledger_client.ledger import AsyncLedger as AsyncLedger
    from ledger_client.ledger import Ledger as Ledger
    from ledger_client.records import TokenPair as TokenPair
    from ledger_client.tokens import NotStored as NotStored
    from ledger_client.tokens import TokenStore as TokenStore

__version__ = "1.0.0"
_PLACES = {
    "AsyncLedger": "ledger",
    "EVENT_TYPES": "event_types",
    "Ledger": "ledger",
    "LedgerError": "errors",
    "NotStored": "tokens",
    "TokenPair": "records",
    "TokenStore": "tokens",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"ledger_client.{_PLACES[name]}"), name)
    if name in ("errors", "records", "webhooks"):
        return import_module(f"ledger_client.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
