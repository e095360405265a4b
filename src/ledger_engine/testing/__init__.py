"""Tools for testing an app against a ledger: a pytest plugin and its fixtures (docs/testing.md).

pytest loads the plugin in every environment in which this package is installed. So the plugin must load fast:
it imports the other modules only when a test uses a fixture.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_engine.testing.helpers import Clock, Fault, Faults, Snapshots
    from ledger_engine.testing.inbox import Inbox
    from ledger_engine.testing.server import Ledger, LedgerServer

__all__ = ["Clock", "Fault", "Faults", "Inbox", "Ledger", "LedgerServer", "Snapshots"]

_MODULES = {
    "Clock": "helpers",
    "Fault": "helpers",
    "Faults": "helpers",
    "Inbox": "inbox",
    "Ledger": "server",
    "LedgerServer": "server",
    "Snapshots": "helpers",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
