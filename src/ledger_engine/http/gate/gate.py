"""The gate: checks each request before it reaches its route, and adds the headers common to all answers.

The gate checks the sizes of URL and headers, the credential and the rate limit. It is a plain ASGI
application around the web framework, so that every answer gets the common headers, including the framework's
own error answers.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

from ledger_engine.access.credentials import Credential
from ledger_engine.access.quotas import PLANS
from ledger_engine.core.errors import NO_MEMORY, InvalidRequest, LedgerError, NotFound, StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.core.logs import FIELDS
from ledger_engine.core.masking import masked
from ledger_engine.core.measuring import RequestMeter
from ledger_engine.events.request_log import RequestRecorder, SeenRequest
from ledger_engine.http.conditions import LISTS, Etags
from ledger_engine.http.errors import InternalError, RateLimited, from_wire
from ledger_engine.http.gate.authentication import Authenticator
from ledger_engine.http.gate.cors import Cors
from ledger_engine.http.gate.reply import Reply
from ledger_engine.http.gate.request_body import (
    ClientGone,
    begin_body,
    check_length,
)
from ledger_engine.http.gate.trace_context import NAME as TRACEPARENT
from ledger_engine.http.gate.trace_context import traceparent_of
from ledger_engine.http.operations import CALL, Call
from ledger_engine.http.wire.asgi import Asgi, Extension, Receive, Send, extension_of
from ledger_engine.http.wire.head import UnknownMethod
from ledger_engine.limits import Full, RateLimits, Verdict
from ledger_engine.store.engine import Engine

# See docs/interface.md#request-size.
URL_MAX = 8 * 1024  # bytes of path and query
HEADERS_MAX = 16 * 1024  # bytes
# Requests for these paths do not count against a rate limit.
HEALTH = frozenset({"/api/health", "/api/health/ready"})
# The authentication endpoints. Their limit is stricter, and their requests are counted per client address
# (docs/decisions.md#rate-limits-auth).
SIGN_IN_PATHS = frozenset({"/v1/auth/token", "/oauth/token", "/oauth/sign-in"})

AsgiScope = dict[str, Any]

log = logging.getLogger("ledger_engine.http")
# Logs one line for each request, at level info. A successful health check is logged at level debug, because a
# proxy sends a health check every second or two.
request_lines = logging.getLogger("ledger_engine.http.requests")


@dataclass(frozen=True, slots=True)
class AuthRateLimit:
    """The limit for requests to authentication endpoints, per client address."""

    per_minute: int = 20
    per_second: int = 5


DEFAULT_AUTH_RATE_LIMIT = AuthRateLimit()


@dataclass(eq=False)
class Gate:
    """An ASGI application that checks each request before it passes the request to `app`.

    `recorder` writes the request log, `cors` makes the CORS headers, and `meter` counts requests for the
    metrics. Each of these three is None if the server does not use it.
    """

    app: Asgi
    engine: Engine
    auth_rate_limit: AuthRateLimit
    rate_limits: RateLimits
    recorder: RequestRecorder | None = None
    cors: Cors | None = None
    meter: RequestMeter | None = None

    def __post_init__(self) -> None:
        self._authenticator = Authenticator(self.engine)
        self._ids = IdSource()
        self._etags = Etags(self.engine)

    def renew_ids_and_tags(self) -> None:
        """Start new series of request ids and tags, because the ledger and its clock were set back.

        Otherwise new ids would still begin with a time later than the clock's new time. Also, a tag that a
        client got before the ledger was set back could match a list that is different now.
        """
        self._ids = IdSource()
        self._etags = Etags(self.engine, token_hex(4))

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, now = time.perf_counter(), self.engine.clock.now()
        request_id = self._ids.new("req", now)
        headers = dict(scope["headers"])
        header = headers.get(b"authorization")
        text = None if header is None else header.decode("latin-1")
        caller = self._authenticator.remembered(text, now) or await self._find(text or "", request_id)
        # Answer a preflight request here and do not count it, because browsers send it without a credential.
        cors = self.cors
        preflight = None if cors is None else cors.preflight(scope["method"], headers)
        verdict = await self._count(scope, caller, only_look=preflight is not None)
        wire = extension_of(scope)
        call = Call(self.engine, request_id, scope["path"], caller, b"", headers, self._etags)
        if TRACEPARENT in headers:
            call.traceparent = traceparent_of(scope["headers"])
        refusal: LedgerError | None = None
        try:
            _check_head(scope, headers, wire)
            await begin_body(call, receive, wire, _address(scope))
        except LedgerError as error:
            # If the Authorization header alone is over the limit, the answer is a 401 and not a 431: no valid
            # credential is so long.
            too_long = error.code == "headers_too_large" and len(header or b"") > HEADERS_MAX
            refusal = caller if too_long and isinstance(caller, LedgerError) else error
        except ClientGone:
            return
        cors_headers = [] if cors is None else cors.headers(headers)
        extra = [(b"request-id", request_id.encode()), *_rate_limit_headers(verdict), *cors_headers]
        is_misread = wire is not None and wire.refusal is not None
        reply = Reply(send, extra, refuses=refusal is not None or is_misread)
        recorder = self.recorder
        try:
            if verdict.wait:
                self._note_refusal("authentication" if scope["path"] in SIGN_IN_PATHS else "requests")
                refusal = RateLimited(verdict.wait)
            if refusal is not None:
                await reply.answer(*call.refuse(refusal))
                return
            if preflight is not None:
                await reply.answer(200, preflight, b"")
                return
            scope[CALL] = call
            await self.app(scope, receive, reply)
        except ClientGone:
            recorder = None
        except Full as error:
            self._note_refusal(error.semaphore.kind)
            reply.common[1:] = [*_rate_limit_headers(replace(verdict, remaining=0)), *cors_headers]
            await reply.answer(*call.refuse(RateLimited(1)))
        except Exception as error:
            log.exception("request %s failed", request_id)
            if reply.status:
                raise
            # If there was too little memory for the answer, the requested change may already be stored.
            without_memory = isinstance(error, MemoryError)
            failure = (
                StorageUnavailable(NO_MEMORY, unknown=True) if without_memory else InternalError(request_id)
            )
            await reply.answer(*call.refuse(failure))
        finally:
            self._note_answer(call, scope, reply, now, time.perf_counter() - began, recorder)

    def _note_answer(
        self,
        call: Call,
        scope: AsgiScope,
        reply: Reply,
        now: int,
        took: float,
        recorder: RequestRecorder | None,
    ) -> None:
        """Count and log a request that began at `now` (milliseconds) and took `took` seconds."""
        caller, headers = call.caller, call.headers
        if reply.status:
            if self.meter is not None:
                self.meter.answered(scope["method"], call.route, reply.status, took)
            _log_request(call, scope, reply.status, took)
        if recorder is not None and isinstance(caller, Credential):
            recorder.note(
                SeenRequest(
                    call.request_id,
                    now,
                    took,
                    caller,
                    scope["method"],
                    scope["path"],
                    scope["query_string"],
                    (scope.get("client") or ("",))[0],
                    headers.get(b"authorization", b""),
                    headers.get(b"idempotency-key", b""),
                    call.body,
                    reply.status,
                    reply.body,
                    call.error_code,
                    call.traceparent,
                )
            )

    def _note_refusal(self, limit: str) -> None:
        if self.meter is not None:
            self.meter.refused(limit)

    async def _find(self, header: str, request_id: str) -> Credential | LedgerError:
        try:
            return await self._authenticator.find(header)
        except Exception:
            log.exception("request %s failed", request_id)
            return InternalError(request_id)

    async def _count(self, scope: AsgiScope, caller: Credential | LedgerError, *, only_look: bool) -> Verdict:
        """Count the request and return the verdict of its rate limit; with `only_look`, do not count it."""
        address = _address(scope)
        if scope["path"] in SIGN_IN_PATHS and not only_look:
            limit = self.auth_rate_limit
            return await self.rate_limits.count(f"auth/{address}", limit.per_minute, limit.per_second)
        who, limits = f"address/{address}", PLANS["free"]
        if isinstance(caller, Credential) and not only_look:
            who, limits = caller.rate_limit_name, caller.limits
        # While the storage is unavailable, requests are not counted: otherwise a client that retries would
        # soon get a 429 instead of the 503.
        if only_look or scope["path"] in HEALTH or isinstance(caller, StorageUnavailable):
            return await self.rate_limits.peek(who, limits.requests_per_minute)
        return await self.rate_limits.count(who, limits.requests_per_minute, limits.burst)


# Matches a host in the form of RFC 3986, 3.2.2, without userinfo. Also matches the empty text, which stands
# for a client that sends no host.
_HOST = re.compile(
    rb"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?", re.ASCII
)
# Headers that a client may send only once, because a proxy and the server could use different values.
_SINGLE = (b"authorization", b"content-type", b"idempotency-key")


def _address(scope: AsgiScope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"


def _rate_limit_headers(verdict: Verdict) -> list[tuple[bytes, bytes]]:
    """Return the headers that show the state of the rate limit. Every answer has these headers."""
    return [
        (b"x-ratelimit-limit", b"%d" % verdict.limit),
        (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
        (b"x-ratelimit-reset", b"%d" % verdict.reset),
    ]


def _check_head(scope: AsgiScope, headers: dict[bytes, bytes], wire: Extension | None) -> None:
    """Raise LedgerError if the URL or the headers of the request must be refused.

    If a header in LISTS is repeated, this also joins its values, and stores the joined value in `headers`.
    """
    refusal = None if wire is None else wire.refusal
    # An unknown method, such as `get` in lowercase, is not refused here: the dispatcher answers it with 405
    # and the path's methods in `Allow`.
    is_for_dispatcher = isinstance(refusal, UnknownMethod) and scope["path"].startswith("/")
    if refusal is not None and not is_for_dispatcher:
        raise from_wire(refusal)
    if scope["path"].startswith("//"):
        # Refuse `//path`: the URL map would treat it as `/path`, but the gate would not choose the rate limit
        # of `/path` for it.
        raise NotFound("path", scope["path"])
    # The server in `wire` already refuses a URL over the limit, but another ASGI server may pass it on.
    query = scope["query_string"]
    if len(scope["raw_path"]) + (len(query) + 1 if query else 0) > URL_MAX:
        raise InvalidRequest("uri_too_long", f"The URL is longer than {URL_MAX} bytes.")
    if _HOST.fullmatch(headers.get(b"host", b"")) is None:
        raise InvalidRequest(
            "invalid_value", "The Host header must be a name or an address, with or without a port.", "Host"
        )
    lines = scope["headers"]
    if sum([len(name) + len(value) + 4 for name, value in lines]) > HEADERS_MAX:
        raise InvalidRequest("headers_too_large", f"The headers are larger than {HEADERS_MAX} bytes.")
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise InvalidRequest(
            "header_conflict", "Content-Length and Transfer-Encoding cannot be sent together."
        )
    if len(headers) != len(lines):
        names = [name for name, _ in lines]
        for name in _SINGLE:
            if names.count(name) > 1:
                header = name.decode().title()
                raise InvalidRequest("header_conflict", f"{header} is given more than once.", header)
        for name in LISTS:
            if name in headers:
                headers[name] = b", ".join([value for line, value in lines if line == name])
    check_length(headers)


def _log_request(call: Call, scope: AsgiScope, status: int, seconds: float) -> None:
    """Write the log line of a request that was answered.

    The line contains the path with secrets masked, and no query, because a query could contain anything.
    """
    level = logging.DEBUG if status == 200 and call.path in HEALTH else logging.INFO
    if not request_lines.isEnabledFor(level):
        return
    fields = {
        "request": call.request_id,
        "method": scope["method"],
        "path": masked(call.path),
        "status": status,
        "duration_ms": round(seconds * 1000, 1),
        "credential": call.caller.id if isinstance(call.caller, Credential) else None,
        "address": _address(scope),
        "traceparent": call.traceparent,
    }
    values = {**fields, "credential": fields["credential"] or "no valid credential"}
    request_lines.log(
        level,
        "%(method)s %(path)s %(status)d in %(duration_ms).1f ms,"
        " %(request)s by %(credential)s from %(address)s",
        values,
        extra={FIELDS: fields},
    )
