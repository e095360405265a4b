"""From ASGI to an operation and back, by the short way.

Quart would start two tasks for each request and set up a context, a session and signals around its
handler. An operation needs none of them: the gate has read the body before, and a Call holds all the
rest. So what Quart's URL map knows as an operation is served here in one coroutine, which takes a
third off the time of a posting; pages, and paths that are none, take Quart's own way.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from quart import Quart, Response
from quart.asgi import ASGIHTTPConnection
from quart.wrappers.response import DataBody
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter

from ledger_engine.core.errors import LedgerError
from ledger_engine.http.errors import Rendered, render
from ledger_engine.http.operations import CALL, Route
from ledger_engine.http.protocol.asgi import send_answer, until_gone
from ledger_engine.http.protocol.gate import HEALTH


class Connection(ASGIHTTPConnection):
    """One HTTP request; Quart makes one for each (its `asgi_http_class`)."""

    async def __call__(self, receive: Any, send: Any) -> None:
        route, parts = self._match()
        scope = cast(dict[str, Any], self.scope)
        answer: Rendered | Response | None = None
        try:
            if route is not None:
                answer = await route.serve(scope[CALL], parts, scope["query_string"])
            elif _needs_credential(scope["path"]):
                scope[CALL].authenticate()
        except LedgerError as error:
            answer = render(error, scope["path"])
        if answer is None:
            await self._serve_by_quart(receive, send)
        elif isinstance(answer, Response) and scope["method"] == "HEAD":
            # A stream for nobody would never end.
            headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif isinstance(answer, Response):
            await self._stream(answer, receive, send)
        else:
            await send_answer(answer, send)

    def _match(self) -> tuple[Route | None, dict[str, Any]]:
        app, asked = cast(HasMatcher, self.app), (self.scope["path"], self.scope["method"])
        known = app.whole_paths.get(asked)
        if known is not None:
            return known, {}
        try:
            endpoint, parts = app.matcher.match(*asked)
        except HTTPException:
            return None, {}
        route = app.view_functions[endpoint]
        if not isinstance(route, Route):
            return None, {}
        if not parts:
            app.whole_paths[asked] = route
        return route, dict(parts)

    async def _serve_by_quart(self, receive: Any, send: Any) -> None:
        request = self._create_request_from_scope(send)
        request.body.append(cast(dict[str, Any], self.scope)[CALL].body)
        request.body.set_complete()
        response = cast(Response, await self.app.handle_request(request))
        if isinstance(response.response, DataBody):
            await self._send_response(send, response)
        else:
            await self._stream(response, receive, send)

    async def _stream(self, response: Response, receive: Any, send: Any) -> None:
        """Send piece by piece, and stop when the client goes away."""
        sending = asyncio.ensure_future(self._send_response(send, response))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            gone.cancel()
            sending.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)


def _needs_credential(path: str) -> bool:
    """Whether a request is refused without one though there is no such path or method: to the directory every
    request needs one but for the health check (interface.md, Authentication 9)."""
    return path.startswith("/api/") and path != HEALTH


class HasMatcher(Quart):
    """An app that keeps its URL map bound: no route depends on the host.

    `whole_paths` are the routes found so far whose path has no part that varies, by path and method.
    """

    matcher: MapAdapter
    whole_paths: dict[tuple[str, str], Route]
