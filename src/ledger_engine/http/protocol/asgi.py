"""Sending answers over ASGI, and waiting for the client to disconnect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ledger_engine.http.errors import Rendered

Asgi = Callable[[Any, Any, Any], Awaitable[None]]  # an application
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def send_answer(answer: Rendered, send: Send) -> None:
    """Send a complete answer."""
    status, headers, body = answer
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def until_gone(receive: Receive) -> None:
    """Wait until the client disconnects; whatever it still sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
