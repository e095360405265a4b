"""Sending answers over ASGI, and waiting for the client to disconnect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Asgi = Callable[[Any, Any, Any], Awaitable[None]]  # an application
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]
# The ASGI extension by which our server takes a whole answer in one call: status, headers, body.
WHOLE_ANSWERS = "ledger.answer"
SendWhole = Callable[[int, list[Header], bytes], Awaitable[None]]
REFUSAL = "ledger.refusal"  # the key under which the connection says why the rest cannot be read
ARRIVAL = "ledger.arrival"  # … and this one how much of the body has arrived
LARGE = 4 * 1024  # bytes of a body; larger ones could be used to exhaust the memory
_CLOSE = [(b"connection", b"close")]


class Arrival(Protocol):
    """How much of a request's body has arrived; shared by the connection and the application.

    `whole` is true once all of it can be received without waiting. Most bodies arrive together with their
    head. Of any other the connection reads no more than that until the application asks for it, so that a
    request which is refused without its body costs no memory.
    """

    whole: bool

    def want(self, *, may_be_large: bool = False) -> None:
        """Let the connection read on, in larger pieces if the body may be large."""


class Reply:
    """Send the answer to one request, with the headers that every answer has besides its own.

    It is an ASGI `send`, and keeps the answer's status and the beginning of its body for the log.
    """

    __slots__ = ("added", "body", "status", "_closes", "_kept_max", "_send", "_send_whole")

    def __init__(
        self,
        scope: dict[str, Any],
        send: Send,
        added: list[Header],
        closes: Callable[[], bool],
        kept_max: int,
    ) -> None:
        self.added = added
        self._closes = closes  # whether the connection ends with this answer
        self.status = 0
        self.body = b""
        self._kept_max = kept_max
        self._send = send
        self._send_whole: SendWhole | None = scope.get("extensions", {}).get(WHOLE_ANSWERS)

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._headers(message["headers"])
        elif len(self.body) < self._kept_max:
            self.body += message["body"][: self._kept_max]
        await self._send(message)

    async def answer(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a complete answer."""
        self.status, self.body = status, body[: self._kept_max]
        headers = [*self._headers(headers), (b"content-length", b"%d" % len(body))]
        if self._send_whole is not None:
            await self._send_whole(status, headers, body)
        else:
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _headers(self, headers: list[Header]) -> list[Header]:
        return [*headers, *self.added, *_CLOSE] if self._closes() else [*headers, *self.added]


async def until_gone(receive: Receive) -> None:
    """Wait until the client disconnects; whatever it still sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
