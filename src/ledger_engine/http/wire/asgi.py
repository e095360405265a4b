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
LARGE = 4 * 1024  # bytes; clients could exhaust the memory with larger bodies


class Extension(Protocol):
    """Facts about a request that ASGI does not define.

    `refusal` is the reason why the head cannot be read; only the application that answers refusals gets such
    a request. After `receive` has returned http.disconnect, `body_error` is the reason why the rest of the
    body cannot be read. `whole` is true when all of the body can be received without waiting; most bodies
    arrive together with their head.
    """

    refusal: BadRequest | None
    body_error: BadRequest | None

    @property
    def whole(self) -> bool: ...

    def want(self, *, may_be_large: bool) -> None:
        """Read the rest of the body, in larger pieces if it may be large.

        Without this call, the first `receive` starts reading. Until then the rest of the body costs no
        memory, so refuse a request before that if possible.
        """


def extension_of(scope: dict[str, Any]) -> Extension | None:
    """Return the extension; None if another server serves the application."""
    extension: Extension | None = (scope.get("extensions") or {}).get(EXTENSION)
    return extension


async def refuse_plainly(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer an unreadable request, for an application that does not answer it itself."""
    extension: Extension = scope["extensions"][EXTENSION]
    body = f"{extension.refusal or extension.body_error}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def until_gone(receive: Receive) -> None:
    """Wait until the client disconnects, and drop whatever it still sends."""
    while (await receive())["type"] != "http.disconnect":
        pass
