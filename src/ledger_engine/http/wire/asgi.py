"""The interface between the server and an application: ASGI and one extension."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ledger_engine.http.wire.head import BadRequest

Asgi = Callable[[Any, Any, Any], Awaitable[None]]  # an application
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]
EXTENSION = "ledger.wire"  # the key in `scope["extensions"]`
# Bytes. The server reads a larger body only when the application wants it, because clients could exhaust the
# memory with larger bodies.
LARGE = 4 * 1024


class Extension(Protocol):
    """Facts about a request that ASGI does not define.

    `refusal` is the reason why the server refuses the head, or None. The server passes a request with a
    `refusal` only to the application that answers refused requests (`serve(refuse=…)`).

    `receive` returns http.disconnect when no more data will arrive. If the reason is an error in the body,
    `body_error` is this error. If the client has disconnected, `body_error` is None.

    `whole` is true when the application can receive the whole body without waiting. For most requests `whole`
    is true from the start, because most bodies arrive together with their head.
    """

    refusal: BadRequest | None
    body_error: BadRequest | None

    @property
    def whole(self) -> bool: ...

    def want(self, *, may_be_large: bool) -> None:
        """Let the server read the rest of the body, in larger pieces if the body may be large.

        If the application does not call `want`, its first call of `receive` that finds no data has the same
        effect. Until one of these calls, the rest of the body costs no memory. So if an application refuses a
        request, it should refuse the request before it calls `want` or `receive`.
        """


def extension_of(scope: dict[str, Any]) -> Extension | None:
    """Return the extension of a request; None if the application runs on another ASGI server."""
    extension: Extension | None = (scope.get("extensions") or {}).get(EXTENSION)
    return extension


async def refuse_plainly(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer a refused request with a 400 in plain text; the default for `serve(refuse=…)`."""
    extension: Extension = scope["extensions"][EXTENSION]
    body = f"{extension.refusal or extension.body_error}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def until_gone(receive: Receive) -> None:
    """Wait until the client disconnects; drop all data that the client still sends."""
    while (await receive())["type"] != "http.disconnect":
        pass
