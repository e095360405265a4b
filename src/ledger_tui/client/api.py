"""Calls to a ledger server: one connection pool, and one way to read every answer.

`call` tries once. `read` waits for the end of a rate limit or a lost connection, and notes that in the
session, so a list gets its page when the server is back.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ledger_tui.client import past
from ledger_tui.client.errors import (
    NO_LEDGER,
    LedgerError,
    NoLedger,
    NotConnected,
    NotFound,
    NotOffered,
    RateLimited,
    ReadOnly,
    Unreadable,
)
from ledger_tui.client.session import Session
from ledger_tui.client.traffic import Exchange, Traffic, masked
from ledger_tui.client.transport import client_of, decoded

if TYPE_CHECKING:
    from ledger_client.calls import Answer
    from ledger_client.event_stream import StreamMessage
    from ledger_client.ledger import AsyncLedger

_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 5.0)
_MAX_CONNECTIONS = 8
_TAGGED_MAX = 32
_CHANGES_NOTHING = frozenset({"GET", "HEAD"})
# requests that do not change the ledger, though they are POSTs
_ASKS_FOR_TOKENS = frozenset({"/v1/auth/token", "/oauth/token"})


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A 2xx answer: its status, its JSON body and its headers, whose names are in any case."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def record(self) -> dict[str, Any]:
        """Return the body as one object; an empty one when it is not an object."""
        return self.body if isinstance(self.body, dict) else {}


class Api:
    """One server with one credential. Calls made before `open` wait for it."""

    def __init__(self, session: Session, traffic: Traffic) -> None:
        self.session = session
        self._traffic = traffic
        self._client: AsyncLedger | None = None
        # The last answer to each GET, with its ETag: an unchanged answer is not sent again.
        self._tagged: dict[tuple[object, ...], tuple[str, bytes]] = {}
        self.looks_back = False  # whether the server has shown that it does
        self._opened = asyncio.Event()
        self._probe: asyncio.Task[None] | None = None

    async def open(self, url: str, credential: str | None) -> None:
        """Use the server at this root URL; a trailing `/v1` is removed, because each path contains it.

        Raises NotSent when no client can be made for it.
        """
        # Importing httpx takes a tenth of a second, so it happens in a thread, after the first paint.
        await asyncio.to_thread(import_module, "ledger_client.ledger")
        import httpx

        before = self._client
        self._client = client_of(url, credential, limits=httpx.Limits(max_connections=_MAX_CONNECTIONS))
        self._tagged.clear()
        self.session.begin(self._client.url, credential)
        self._opened.set()
        if before is not None:
            await before.close()

    def use(self, credential: str) -> None:
        """Use another credential from now on."""
        assert self._client is not None
        self._client.use(credential)
        self._tagged.clear()
        self.session.credential_changed()

    async def close(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
        if self._client is not None:
            await self._client.close()

    # ------------------------------------------------------------------ calls

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        part: str | None = None,
    ) -> ApiResponse:
        """Send a request once. Raises LedgerError.

        `if_match` is the ETag that the object must still have, or the answer is 412.
        `part` names a part beyond the contract: its absence is NotOffered, not NotFound. During the wait of a
        rate limit the request is sent after it.
        """
        writes = method not in _CHANGES_NOTHING and path not in _ASKS_FOR_TOKENS
        if writes and self.session.moment_ms is not None:
            raise ReadOnly("This is the past: nothing was sent.")
        if writes and self.session.read_only:
            raise ReadOnly("This dashboard is read-only: nothing was sent.")
        await self._opened.wait()
        await self._wait_for_leave()
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        asked = (path, *sorted((params or {}).items()))
        if if_match:
            headers["If-Match"] = if_match
        known = self._tagged.get(asked) if method == "GET" else None
        if known is not None:
            headers["If-None-Match"] = known[0]
        try:
            answer = await self._send(method, path, params, body, headers)
        except LedgerError as error:
            if error.status != 304 or known is None:
                raise self._noted(error, part) from error
            return ApiResponse(200, decoded(known[1]), {"ETag": known[0], **error.headers})
        if method == "GET" and (tag := answer.headers.get("ETag")):
            self._tagged.pop(asked, None)
            self._tagged[asked] = tag, answer.content
            if len(self._tagged) > _TAGGED_MAX:
                del self._tagged[next(iter(self._tagged))]
        return ApiResponse(answer.status, decoded(answer.content), answer.headers)

    async def read(
        self, path: str, params: Mapping[str, str] | None = None, *, part: str | None = None
    ) -> ApiResponse:
        """GET until the server gives a definite answer, through rate limits and lost connections.

        It is as it was at the moment that is shown. Raises Unreadable for an answer that is not read to its
        end, which would be the same again.
        """
        moment = past.shown_moment(self.session)
        if moment is not None:
            params = past.asked_then(path, params, moment)
        while True:
            try:
                answer = await self.call("GET", path, params=params, part=part)
                return answer if moment is None else replace(answer, body=past.as_then(answer.body, moment))
            except RateLimited:
                continue  # call() waits before the next try
            except Unreadable:
                raise
            except NotConnected:
                await self._until_reachable()

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        idempotency_key: str | None,
        *,
        part: str | None = None,
    ) -> ApiResponse:
        """Send a change once.

        After a 429 it waits and sends again, because a refused change was not made. A lost connection raises
        NotConnected, because the change may have been made.
        """
        while True:
            try:
                return await self.call(method, path, body=body, idempotency_key=idempotency_key, part=part)
            except RateLimited:
                continue  # call() waits before the next try

    async def events(self, last_event_id: str | None, *, part: str) -> AsyncIterator[StreamMessage]:
        """Yield what comes over one connection to the live stream.

        Raises LedgerError when the server refuses, or when the connection breaks or is silent for too long.
        """
        await self._opened.wait()
        await self._wait_for_leave()
        assert self._client is not None
        try:
            async for received in self._client.listen(last_event_id):
                yield received
        except LedgerError as error:
            raise self._noted(error, part) from error

    # ------------------------------------------------------------------ inside

    def _noted(self, error: LedgerError, part: str | None) -> LedgerError:
        """Note a refusal in the session, and return the exception that it is here."""
        if isinstance(error, RateLimited):
            self.session.rate_limited(error.retry_after)
        if part is not None and error.status in (404, 405):
            self.session.mark_missing(part)
            return NotOffered(error.message, status=error.status, code=error.code)
        if part is None and isinstance(error, NotFound) and not error.code:
            self.session.saw_no_ledger()
            return error if self.session.known_ledger else NoLedger(NO_LEDGER, status=404)
        return error

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> Answer:
        """Send a request once, and note its answer in the session and the traffic."""
        assert self._client is not None
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        query = f"?{urlencode(params)}" if params else ""
        sent = Exchange(
            method=method,
            url=f"{self.session.url}{path}{query}",
            body=masked(content.decode()) if content else None,
            idempotency_key=headers.get("Idempotency-Key"),
            at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
        started, number = time.perf_counter(), self.session.sent()
        answer: Answer | LedgerError
        try:
            answer = await self._client.request(method, path, body=content, query=params, headers=headers)
        except LedgerError as error:
            answer = error
        finally:
            self.session.done(number)
        problem = str(answer) if answer.status is None else ""
        self._traffic.add(
            replace(
                sent,
                status=answer.status,
                duration_ms=(time.perf_counter() - started) * 1000,
                request_id=answer.headers.get("Request-Id"),
                error=problem,
            )
        )
        if answer.status is not None:
            self.session.answered(answer.status, answer.headers)
        elif not isinstance(answer, Unreadable):
            self.session.lost(problem)
        if isinstance(answer, LedgerError):
            raise answer
        return answer

    async def _wait_for_leave(self) -> None:
        if (seconds := self.session.waiting_seconds) > 0:
            await asyncio.sleep(seconds)

    async def _until_reachable(self) -> None:
        # One probe is sent at a time, however many readers wait.
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._probe_until_answered())
        await asyncio.shield(self._probe)

    async def _probe_until_answered(self) -> None:
        for attempt in itertools.count(1):
            seconds = _BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS)) - 1]
            self.session.will_retry(attempt, seconds)
            await asyncio.sleep(seconds)
            try:
                # The health check is public and has no rate limit; any answer proves that the server is back.
                await self.call("GET", "/api/health")
            except NotConnected:
                continue
            except LedgerError:
                return
            return


def new_idempotency_key() -> str:
    """Return a new idempotency key: 128 random bits."""
    return f"tui-{secrets.token_hex(16)}"
