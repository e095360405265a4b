"""The gate: what is settled before a request reaches its route, and what every response carries.

It stands around the web framework as plain ASGI, so that its headers are on every answer, the
framework's own errors included: request id, sizes of URL and headers, credential, rate limit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

from ledger_engine.access.credentials import Credential
from ledger_engine.access.limits import PLANS
from ledger_engine.core.errors import InvalidRequest, LedgerError, NotFound, StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.database.engine import Engine
from ledger_engine.events.request_recorder import BODY_KEPT_MAX, Note, RequestRecorder
from ledger_engine.http.errors import HeadersTooLarge, InternalError, UriTooLong, render, render_rate_limited
from ledger_engine.http.operations import CALL, Call
from ledger_engine.http.protocol.asgi import JSON, Asgi, Receive, Send, send_answer, until_gone
from ledger_engine.http.protocol.authentication import Authenticator
from ledger_engine.http.protocol.rate_limits import Verdict, WallClock, Windows
from ledger_engine.http.protocol.request_body import (
    ARRIVAL,
    REFUSAL,
    Arrival,
    ClientGone,
    is_large,
    read_body,
)
from ledger_engine.http.sign_in import html_pages

URL_MAX = 8 * 1024  # bytes (interface.md, Request size)
HEADERS_MAX = 16 * 1024
STRANGERS_AT_ONCE = 64  # large bodies of callers without a good credential that are read at a time
HEALTH = "/api/health"
# Authentication endpoints have a stricter limit, counted per client address (decisions.md 10).
SIGN_IN_PATHS = frozenset({"/v1/auth/token", "/oauth/token", "/oauth/sign-in"})

Scope = dict[str, Any]

log = logging.getLogger("ledger_engine.http")


@dataclass(frozen=True, slots=True)
class AuthRateLimit:
    """Requests to authentication endpoints per client address."""

    per_minute: int = 20
    per_second: int = 5


DEFAULT_AUTH_RATE_LIMIT = AuthRateLimit()


class Gate:
    """Wraps an ASGI application."""

    def __init__(
        self,
        app: Asgi,
        engine: Engine,
        auth_rate_limit: AuthRateLimit,
        wall_clock: WallClock = time.time,
        recorder: RequestRecorder | None = None,
    ) -> None:
        self._app = app
        self._engine = engine
        self._auth_rate_limit = auth_rate_limit
        self._authenticator = Authenticator(engine)
        self._windows = Windows(wall_clock)
        self._ids = IdSource()
        self._recorder = recorder
        self._strangers = asyncio.Semaphore(STRANGERS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, now = time.perf_counter(), self._engine.clock.now()
        request_id = self._ids.new("req", now)
        headers = dict(scope["headers"])
        body, refusal = b"", None
        try:
            _check_head(scope, headers)
            arrival = scope.get("state", _NO_STATE).get(ARRIVAL)
            body = await self._body(receive, headers, arrival, request_id)
        except LedgerError as error:
            refusal = error
        except ClientGone:
            return
        caller = await self._caller(headers.get(b"authorization"), request_id)
        key_too_large = len(headers.get(b"authorization", b"")) > HEADERS_MAX
        if isinstance(refusal, HeadersTooLarge) and key_too_large and isinstance(caller, LedgerError):
            refusal = caller
        verdict = self._count(scope, caller)
        added = [(b"request-id", request_id.encode()), *verdict.headers()]
        status, answer = 0, b""

        async def send_with_headers(message: dict[str, Any]) -> None:
            nonlocal status, answer
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *added]
            elif len(answer) < BODY_KEPT_MAX:
                answer += message["body"][:BODY_KEPT_MAX]
            await send(message)

        try:
            if verdict.wait or refusal is not None:
                accept = headers.get(b"accept", b"")
                await _turn_away(refusal, verdict, scope["path"], accept, receive, send_with_headers)
                return
            scope[CALL] = Call(self._engine, request_id, caller, body, headers)
            await self._app(scope, receive, send_with_headers)
        except Exception:
            log.exception("request %s failed", request_id)
            if status:
                raise
            await send_answer(render(InternalError(request_id), scope["path"]), send_with_headers)
        finally:
            if self._recorder is not None and isinstance(caller, Credential):
                self._recorder.note(
                    Note(
                        request_id,
                        now,
                        time.perf_counter() - began,
                        caller,
                        scope["method"],
                        scope["path"],
                        scope["query_string"],
                        (scope.get("client") or ("",))[0],
                        headers.get(b"authorization", b""),
                        headers.get(b"idempotency-key", b""),
                        body,
                        status,
                        answer,
                    )
                )

    async def _body(
        self, receive: Receive, headers: dict[bytes, bytes], arrival: Arrival | None, request_id: str
    ) -> bytes:
        """The whole body. Large ones of callers that we do not know are read a few at a time: thousands that
        never end would take all memory, each for as long as a body may take."""
        is_here = arrival is not None and arrival.whole
        if is_here or not is_large(headers):
            return await read_body(receive, headers, arrival)
        if isinstance(await self._caller(headers.get(b"authorization"), request_id), Credential):
            return await read_body(receive, headers, arrival)
        async with self._strangers:
            return await read_body(receive, headers, arrival)

    async def _caller(self, header: bytes | None, request_id: str) -> Credential | LedgerError:
        text = None if header is None else header.decode("latin-1")
        known = self._authenticator.remembered(text)
        if known is not None:
            return known
        try:
            return await self._authenticator.find(text or "")
        except Exception:
            log.exception("request %s failed", request_id)
            return InternalError(request_id)

    def _count(self, scope: Scope, caller: Credential | LedgerError) -> Verdict:
        address = (scope.get("client") or ("unknown",))[0]
        if scope["path"] in SIGN_IN_PATHS:
            limit = self._auth_rate_limit
            return self._windows.count(f"auth/{address}", limit.per_minute, limit.per_second)
        if isinstance(caller, Credential):
            who, per_minute, per_second = (
                caller.counted_on,
                caller.limits.requests_per_minute,
                caller.limits.burst,
            )
        else:
            free = PLANS["free"]
            who, per_minute, per_second = f"address/{address}", free.requests_per_minute, free.burst
        # Lost storage is told as that, and not as the rate of those who ask after it.
        if scope["path"] == HEALTH or isinstance(caller, StorageUnavailable):
            return self._windows.look(who, per_minute)
        return self._windows.count(who, per_minute, per_second)


_NO_STATE: dict[str, Any] = {}
# Given twice, each reader could take another one for the one that counts.
_SINGLE = (b"authorization", b"content-type", b"idempotency-key")


def _check_head(scope: Scope, headers: dict[bytes, bytes]) -> None:
    refusal = scope.get("state", _NO_STATE).get(REFUSAL)
    if refusal is not None:
        raise refusal
    if scope["path"].startswith("//"):
        # Quart would take it for the path with one slash, which is not the path counted here.
        raise NotFound("path", scope["path"])
    if len(scope["raw_path"]) + 1 + len(scope["query_string"]) > URL_MAX:
        raise UriTooLong(f"The URL is longer than {URL_MAX} bytes.")
    lines = scope["headers"]
    if sum([len(name) + len(value) + 4 for name, value in lines]) > HEADERS_MAX:
        raise HeadersTooLarge(f"The headers are larger than {HEADERS_MAX} bytes.")
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise InvalidRequest("header_conflict", "Content-Length and Transfer-Encoding cannot stand together.")
    if len(headers) != len(lines):
        names = [name for name, _ in lines]
        for name in _SINGLE:
            if names.count(name) > 1:
                header = name.decode().title()
                raise InvalidRequest("header_conflict", f"{header} is given more than once.", header)


async def _turn_away(
    refusal: LedgerError | None, verdict: Verdict, path: str, accept: bytes, receive: Receive, send: Send
) -> None:
    """Answer a request that comes no further: over its rate, or refused and then not read to its end."""
    if refusal is None or verdict.wait:
        status, headers, body = 429, [JSON], render_rate_limited(verdict.wait)
        if path.startswith("/oauth/") and b"text/html" in accept:
            status, headers, body = html_pages.rate_limited(verdict.wait)
    else:
        status, headers, body = render(refusal, path)
    if refusal is None:
        await send_answer((status, headers, body), send)
        return
    # What follows on the connection is not read as a request either, so it ends. Hypercorn waits for
    # somebody to take what still comes before it closes.
    rest = asyncio.ensure_future(until_gone(receive))
    try:
        await send_answer((status, [*headers, (b"connection", b"close")], body), send)
    finally:
        rest.cancel()
