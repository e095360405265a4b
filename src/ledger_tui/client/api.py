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
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ledger_tui.client import past
from ledger_tui.client.errors import (
    CannotSend,
    ClientError,
    NoLedger,
    NotFound,
    NotOffered,
    NotThen,
    Problem,
    RateLimited,
    ReadOnly,
    Unreachable,
    Unreadable,
    is_problem,
    refusal,
)
from ledger_tui.client.session import Session
from ledger_tui.client.traffic import Exchange, Traffic, masked
from ledger_tui.client.transport import decoded, is_address, make_client, transport_errors

if TYPE_CHECKING:
    import httpx

    from ledger_client.answers import Client
    from ledger_client.event_stream import ServerSentEvent

TIMEOUT_SECONDS = 20.0
_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 5.0)
_MAX_CONNECTIONS = 8
_TAGGED_MAX = 32
_CHANGES_NOTHING = frozenset({"GET", "HEAD"})
# requests that do not change the ledger, though they are POSTs
_ASKS_FOR_TOKENS = frozenset({"/v1/auth/token", "/oauth/token"})


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A 2xx answer: its status, its JSON body and its headers (lower-case names)."""

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
        self._client: Client | None = None
        # What was answered last to a GET, with its ETag: an unchanged answer is not sent again.
        self._tagged: dict[tuple[object, ...], tuple[str, bytes]] = {}
        self.later: past.Later | None = None  # of the moment shown, on a server with the contract alone
        self._opened = asyncio.Event()
        self._probe: asyncio.Task[None] | None = None

    async def open(self, url: str, credential: str | None) -> None:
        """Use the server at this root URL; a trailing `/v1` is removed, as it is part of each path.

        Raises CannotSend when no client can be made for it.
        """
        # Importing httpx takes a tenth of a second, so it happens in a thread, after the first paint.
        await asyncio.to_thread(__import__, "httpx")
        import httpx

        root = server_root(url)
        if not is_address(root):
            raise CannotSend(f"{root} is not the address of a server.")
        before = self._client
        self._client = make_client(
            base_url=root,
            auth=bearer(credential),
            timeout=TIMEOUT_SECONDS,
            limits=httpx.Limits(max_connections=_MAX_CONNECTIONS),
            headers={"User-Agent": "ledger-tui", "Accept": "application/json"},
            event_hooks={"request": [_start_clock], "response": [self._note_answer]},
        )
        self._tagged.clear()
        self.session.begin(root, credential)
        self._opened.set()
        if before is not None:
            await before.aclose()

    def use(self, credential: str) -> None:
        """Use another credential from now on."""
        assert self._client is not None
        self._client.auth = bearer(credential)
        self._tagged.clear()
        self.session.credential_changed()

    async def close(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
        if self._client is not None:
            await self._client.aclose()

    # ------------------------------------------------------------------ calls

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        part: str | None = None,
    ) -> ApiResponse:
        """Send a request once. Raises ClientError.

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
        content = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        if content is not None:
            headers["Content-Type"] = "application/json"
        asked = (path, *sorted((params or {}).items()))
        known = self._tagged.get(asked) if method == "GET" else None
        if known is not None:
            headers["If-None-Match"] = known[0]
        response = await self._send(method, path, params, content, headers)
        if response.status_code == 304 and known is not None:
            status, text = 200, known[1]
        elif response.is_success:
            status, text = response.status_code, response.content
            if method == "GET" and (tag := response.headers.get("ETag")):
                self._tagged.pop(asked, None)
                self._tagged[asked] = tag, text
                if len(self._tagged) > _TAGGED_MAX:
                    del self._tagged[next(iter(self._tagged))]
        else:
            raise self._refused(response, part)
        answer_headers = {name.lower(): value for name, value in response.headers.items()}
        return ApiResponse(status, decoded(text), answer_headers)

    async def read(
        self, path: str, params: Mapping[str, str] | None = None, *, part: str | None = None
    ) -> ApiResponse:
        """GET until the server gives a definite answer, through rate limits and lost connections.

        It is as it was at the moment that is shown. Raises Unreadable for an answer that is not read to its
        end, which would be the same again.
        """
        moment = past.shown_moment(self.session)
        looks_back = past.PART not in self.session.missing_parts
        if moment is not None:
            if not looks_back and past.is_only_now(path):
                raise NotThen(Problem(404, "", past.NOT_THEN, None))
            params = past.asked_then(path, params, moment, looks_back=looks_back)
        while True:
            try:
                answer = await self.call("GET", path, params=params, part=part)
                return answer if moment is None else replace(answer, body=past.as_then(answer.body, moment))
            except RateLimited:
                continue  # call() waits before the next try
            except Unreadable:
                raise
            except Unreachable:
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
        Unreachable, because the change may have been made.
        """
        while True:
            try:
                return await self.call(method, path, body=body, idempotency_key=idempotency_key, part=part)
            except RateLimited:
                continue  # call() waits before the next try

    async def events(
        self, path: str, headers: Mapping[str, str], *, part: str, silence_seconds: float
    ) -> AsyncIterator[ServerSentEvent]:
        """Yield the server-sent events that have data, as they arrive.

        Raises ClientError when the server refuses; Unreachable when the connection breaks or is silent for
        too long.
        """
        await self._opened.wait()
        await self._wait_for_leave()
        import httpx

        from ledger_client.event_stream import events

        assert self._client is not None
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=silence_seconds)
        with transport_errors():
            async with self._client.stream("GET", path, headers=dict(headers), timeout=timeout) as response:
                if not response.is_success:
                    raise self._refused(response, part)
                async for event in events(response):
                    yield event
        raise Unreachable("the server closed the connection")

    # ------------------------------------------------------------------ inside

    def _refused(self, response: httpx.Response, part: str | None) -> ClientError:
        """Return the exception for an answer that is not 2xx, and note it in the session."""
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = decoded(response.content)
        error = refusal(response.status_code, body, headers)
        if isinstance(error, RateLimited):
            self.session.rate_limited(error.retry_after)
        if part is not None and (isinstance(error, NotFound) or error.status == 405):
            self.session.mark_missing(part)
            return NotOffered(error.problem)
        if part is None and isinstance(error, NotFound) and not is_problem(body):
            self.session.saw_no_ledger()
            return error if self.session.known_ledger else NoLedger(error.problem)
        return error

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> httpx.Response:
        assert self._client is not None
        with transport_errors():
            request = self._client.build_request(
                method, path, params=dict(params or {}), content=content, headers=dict(headers)
            )
        number = self.session.sent()
        try:
            with transport_errors():
                return await self._client.send(request)
        except Unreachable as error:
            self._note(request, None, str(error))
            if not isinstance(error, Unreadable):
                self.session.lost(str(error))
            raise
        finally:
            self.session.done(number)

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
            except Unreachable:
                continue
            except ClientError:
                return
            return

    async def _note_answer(self, response: httpx.Response) -> None:
        self.session.answered(response.status_code, response.headers)
        self._note(response.request, response)

    def _note(self, request: httpx.Request, response: httpx.Response | None, error: str = "") -> None:
        content = request.content
        self._traffic.add(
            Exchange(
                method=request.method,
                url=str(request.url),
                body=masked(content.decode()) if content else None,
                idempotency_key=request.headers.get("Idempotency-Key"),
                status=response.status_code if response is not None else None,
                duration_ms=(time.perf_counter() - request.extensions.get("started", 0.0)) * 1000,
                request_id=response.headers.get("Request-Id") if response is not None else None,
                error=error,
                at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            )
        )


def bearer(credential: str | None) -> Callable[[httpx.Request], httpx.Request]:
    """Return what signs requests with a key or an access token: the scheme, exactly one space, no quotes."""

    def sign(request: httpx.Request) -> httpx.Request:
        if credential:
            request.headers["Authorization"] = f"Bearer {credential}"
        return request

    return sign


def new_idempotency_key() -> str:
    """Return a new idempotency key: 128 random bits."""
    return f"tui-{secrets.token_hex(16)}"


def server_root(url: str) -> str:
    """Return `http://host:8700` for `http://host:8700/v1/`: the ledger's prefix is part of each path."""
    root = url.rstrip("/")
    return root.removesuffix("/v1")


async def _start_clock(request: httpx.Request) -> None:
    request.extensions["started"] = time.perf_counter()
