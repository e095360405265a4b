"""Answers as ASGI takes them, and the wait for whoever is answered to go away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ledger_engine.http.errors import Rendered

Asgi = Callable[[Any, Any, Any], Awaitable[None]]  # an application
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def send_answer(answer: Rendered, send: Send) -> None:
    """Send an answer that is whole."""
    status, headers, body = answer
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def until_gone(receive: Receive) -> None:
    """Wait until the client goes away; what it still sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
