"""The dispatcher: an ASGI application that serves the operations and passes all other requests to Quart.

For each request Quart starts two tasks and sets up a context, a session and signals. An operation needs none
of this, only its `Call`: posting a transaction takes a third less time without Quart. So the dispatcher
itself finds the operation for each path, and passes only requests for browser pages, such as the sign-in
page, to Quart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from quart import Quart
from werkzeug import exceptions

from ledger_engine.core.errors import LedgerError, NotFound
from ledger_engine.core.tasks import cancel
from ledger_engine.http.errors import UnsupportedMethod
from ledger_engine.http.gate.reply import Reply
from ledger_engine.http.operations import CALL, Call, Operation, Routes, StreamedAnswer
from ledger_engine.http.wire.asgi import Asgi, Receive, Send, until_gone


class Dispatcher:
    """An ASGI application between the gate and Quart; the gate makes the `Call` for each request.

    The constructor adds a rule for each operation to the application's URL map. The endpoint of the rule is
    the name of the operation.
    """

    def __init__(self, app: Quart, resources: Sequence[Routes]) -> None:
        self._quart: Asgi = app.asgi_app
        self._operations = {
            operation.name: operation for resource in resources for operation in resource.operations
        }
        for name, operation in self._operations.items():
            app.add_url_rule(operation.path, name, methods=[operation.method])
        self._public = {operation.path for operation in self._operations.values() if operation.public}
        self._urls = app.url_map.bind("")  # the host is empty, because no rule depends on a host
        # Endpoints by path and method, for rules with at most one variable, such as
        # /v1/accounts/<id>/balance. A lookup here takes a tenth of the time of a lookup in the URL map.
        self._endpoints: dict[tuple[str, str], str] = {
            (rule.rule, method): rule.endpoint
            for rule in app.url_map.iter_rules()
            if rule.rule.count("<") <= 1
            for method in rule.methods or ()
        }

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Reply) -> None:
        if scope["type"] == "lifespan":
            await self._quart(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        call: Call = scope[CALL]
        path, method = scope["path"], scope["method"]
        try:
            operation, parts = self._match(call, path, method)
            if operation is not None:
                call.route = operation.path
                answer = await operation.serve(call, parts, scope["raw_path"], scope["query_string"])
            else:
                await call.receive_body()
        except LedgerError as error:
            await send.answer(*call.refuse(error))
            return
        if operation is None:
            await self._quart(scope, _with_body(call.body, receive), send)
        elif isinstance(answer, StreamedAnswer):
            await _send_stream(answer, method == "HEAD", receive, send)
        else:
            await send.answer(*answer)

    def _match(self, call: Call, path: str, method: str) -> tuple[Operation | None, dict[str, Any]]:
        """Return the requested operation (None for a browser page), and the variable parts of its path.

        Raises NotFound, or UnsupportedMethod if the path accepts only other methods. Under /v1 and /api, a
        request without a valid credential gets AuthenticationError instead of these two errors, except at the
        path of a public operation (docs/interface.md#authentication).
        """
        try:
            endpoint, parts = self._find(path, method)
        except (exceptions.NotFound, exceptions.MethodNotAllowed) as error:
            if f"{path}/".startswith(("/v1/", "/api/")) and path not in self._public:
                call.authenticate()
            if isinstance(error, exceptions.MethodNotAllowed):
                raise UnsupportedMethod(sorted(error.valid_methods or ())) from None
            raise NotFound("path", path) from None
        return self._operations.get(endpoint), dict(parts)

    def _find(self, path: str, method: str) -> tuple[str, Mapping[str, Any]]:
        """Return the endpoint of a path, and the variable parts of the path.

        Raises the errors of werkzeug's `MapAdapter.match`.
        """
        endpoint = self._endpoints.get((path, method))
        if endpoint is not None and "<" not in path:
            return endpoint, {}
        pieces = path.split("/", 4)
        if len(pieces) > 3 and pieces[3]:
            id, pieces[3] = pieces[3], "<id>"
            endpoint = self._endpoints.get(("/".join(pieces), method))
            if endpoint is not None:
                return endpoint, {"id": id}
        # Methods are case-sensitive (RFC 9110, 9.1), but the URL map would treat `get` as `GET`. So for a
        # method that is not in capital letters, look up a method that no rule has.
        return self._urls.match(path, method if method.isupper() else "no method")


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Return a function for Quart: its first call returns the body, and each later call calls `receive`."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive_after_body() -> dict[str, Any]:
        return next(messages, None) or await receive()

    return receive_after_body


async def _send_stream(answer: StreamedAnswer, head_only: bool, receive: Receive, send: Send) -> None:
    """Send the pieces of the answer one by one; stop when the client disconnects.

    The answer to a HEAD request (`head_only`) has no pieces.
    """
    # Close the generator here. A HEAD request never starts the generator, and a generator that was never
    # started does not close itself.
    async with contextlib.aclosing(answer.pieces):
        headers = [(b"content-type", answer.content_type.encode()), *answer.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if not head_only:
            sending = asyncio.ensure_future(_send_pieces(answer, send))
            departure = asyncio.ensure_future(until_gone(receive))
            try:
                await asyncio.wait([sending, departure], return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():
                    return
                sending.result()
            finally:
                await cancel(departure, sending)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_pieces(answer: StreamedAnswer, send: Send) -> None:
    async for piece in answer.pieces:
        await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
