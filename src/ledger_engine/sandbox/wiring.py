"""The test helpers in the application: their routes, and what wraps the gate and the dispatcher."""

from __future__ import annotations

from typing import Any

from ledger_engine.http.gate.gate import Gate
from ledger_engine.http.wire.asgi import Asgi, Receive, Send
from ledger_engine.sandbox.guard import Guard, is_helper
from ledger_engine.sandbox.helpers import Helpers
from ledger_engine.sandbox.routes import routes
from ledger_engine.store.engine import Engine

__all__ = ["guard", "outside", "routes"]

_STREAM = "/v1/events/stream"  # it ends when the ledger is replaced, so nobody waits for it


def guard(dispatcher: Asgi, engine: Engine) -> Guard:
    """Return what the gate passes requests on to."""
    helpers = Helpers.of(engine)
    return Guard(dispatcher, helpers.faults, helpers.turnstile)


def outside(gate: Gate, engine: Engine) -> Asgi:
    """Return the application, whose requests wait while the ledger is replaced."""
    helpers = Helpers.of(engine)
    helpers.when_restored.append(gate.begin_anew)
    turnstile = helpers.turnstile

    async def passed(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or is_helper(path):
            await gate(scope, receive, send)
        elif path == _STREAM:
            await turnstile.wait()
            await gate(scope, receive, send)
        else:
            async with turnstile.passing():
                await gate(scope, receive, send)

    return passed
