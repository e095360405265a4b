"""Sends answers with the headers common to all answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledger_engine.events.request_log import BODY_KEPT_MAX
from ledger_engine.http.wire.asgi import Header, Send

_CLOSE = [(b"connection", b"close")]


@dataclass(slots=True, eq=False)
class Reply:
    """Sends the answer to one request, and adds `common`, the headers common to all answers.

    An application can use this object as its ASGI `send`. The object keeps the answer's status and the first
    bytes of the answer's body for the log. If `refuses` is true, the answer refuses the request, and one of
    its headers tells the client that the connection will be closed.
    """

    send: Send
    common: list[Header]
    refuses: bool
    status: int = 0
    body: bytes = b""

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._headers(message["headers"])
        elif len(self.body) < BODY_KEPT_MAX:
            self.body += message["body"][:BODY_KEPT_MAX]
        await self.send(message)

    async def answer(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a complete answer."""
        self.status, self.body = status, body[:BODY_KEPT_MAX]
        headers = self._headers(headers)
        # Add no Content-Length to a 304: it would have to be the length of the body of a 200 (RFC 9110, 8.6).
        if status != 304:
            headers.append((b"content-length", b"%d" % len(body)))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def _headers(self, headers: list[Header]) -> list[Header]:
        return [*headers, *self.common, *_CLOSE] if self.refuses else [*headers, *self.common]
