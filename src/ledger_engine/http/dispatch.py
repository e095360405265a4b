"""The dispatcher: an ASGI application that serves the operations and passes all other requests to Quart.

For each request Quart starts two tasks and sets up a context, a session and signals. An operation needs none
of these, as its `Call` has all it needs, and without them posting a transaction takes a third less time. So
the operations have a URL map of their own; pages and unknown paths go to Quart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.routing import Map, Rule

from ledger_engine.core.errors import LedgerError
from ledger_engine.core.tasks import cancel
from ledger_engine.http.errors import UnsupportedMethod
from ledger_engine.http.gate.reply import Reply
from ledger_engine.http.operations import CALL, Call, Route, Routes, Streamed
from ledger_engine.http.wire.asgi import Asgi, Receive, Send, until_gone


class Dispatcher:
    """An ASGI application between the gate, which makes the `Call`, and Quart.

    `quart` is Quart's own ASGI application and `pages` the URL map of what it serves.
    """

    def __init__(self, quart: Asgi, pages: Map, resources: Sequence[Routes]) -> None:
        self._quart = quart
        self._pages = pages.bind("")  # no path depends on the host
        self._operations = _map_of(tuple(resources)).bind("")
        self._public = {
            route.operation.path for routes in resources for route in routes.routes if route.operation.public
        }
        # The operations found so far whose path has no variable part, by path and method.
        self._found: dict[tuple[str, str], Route] = {}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Reply) -> None:
        if scope["type"] != "http":
            await self._quart(scope, receive, send)
            return
        call: Call = scope[CALL]
        path, method = scope["path"], scope["method"]
        try:
            route, parts = self._match(call, path, method)
            if route is not None:
                call.route = route.operation.path
                answer = await route.serve(call, parts, scope["raw_path"], scope["query_string"])
            elif call.unread is not None and self._pages.test(path, method):
                await call.receive_body()
        except LedgerError as error:
            await send.answer(*call.refuse(error))
            return
        if route is None:
            await self._quart(scope, _with_body(call.body, receive), send)
        elif isinstance(answer, Streamed):
            await _send_stream(answer, method == "HEAD", receive, send)
        else:
            await send.answer(*answer)

    def _match(self, call: Call, path: str, method: str) -> tuple[Route | None, dict[str, Any]]:
        """Return the requested operation, None if there is none, and the variable parts of its path.

        Raises UnsupportedMethod when the path has other methods. Under /v1 and /api an unknown path or method
        also needs a valid credential (docs/interface.md#authentication).
        """
        known = self._found.get((path, method))
        if known is not None:
            return known, {}
        try:
            route, parts = self._operations.match(path, method)
        except (NotFound, MethodNotAllowed) as error:
            if f"{path}/".startswith(("/v1/", "/api/")) and path not in self._public:
                call.authenticate()
            if isinstance(error, MethodNotAllowed):
                raise UnsupportedMethod(sorted(error.valid_methods or ())) from None
            return None, {}
        if not parts:
            self._found[path, method] = route
        return route, dict(parts)


@cache
def _map_of(resources: tuple[Routes, ...]) -> Map:
    """Return the URL map of the operations. Making it takes most of the time of making an application."""
    rules = [
        Rule(route.operation.path, endpoint=route, methods=[route.operation.method])
        for routes in resources
        for route in routes.routes
    ]
    return Map(rules, merge_slashes=False)


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the body, which was already read, and then later messages."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive_after_body() -> dict[str, Any]:
        return next(messages, None) or await receive()

    return receive_after_body


async def _send_stream(answer: Streamed, head_only: bool, receive: Receive, send: Send) -> None:
    """Send the pieces one by one; stop when the client disconnects."""
    # Closed here, as a generator that was never started would not end by itself.
    async with contextlib.aclosing(answer.pieces):
        headers = [(b"content-type", answer.content_type.encode()), *answer.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if not head_only:
            sending = asyncio.ensure_future(_send_pieces(answer, send))
            gone = asyncio.ensure_future(until_gone(receive))
            try:
                await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():
                    return
                sending.result()
            finally:
                await cancel(gone, sending)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_pieces(answer: Streamed, send: Send) -> None:
    async for piece in answer.pieces:
        await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
