"""Calls to a ledger server: one long-lived connection pool, every answer read the same way.

`call` tries once. `read` is patient: it waits out a rate limit and a lost connection, and says so in
the session, so a list that wants a page simply gets it when the server is back.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ledger_tui.client.errors import (
    ClientError,
    NoLedger,
    NotFound,
    NotOffered,
    RateLimited,
    ReadOnly,
    Unreachable,
    is_problem,
    refusal,
)
from ledger_tui.state.session import Session
from ledger_tui.state.traffic import Exchange, Traffic, masked

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS = 20.0
_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 5.0)
_MAX_CONNECTIONS = 8
_CHANGES_NOTHING = frozenset({"GET", "HEAD"})
_ASKS_FOR_TOKENS = frozenset({"/v1/auth/token", "/oauth/token"})  # a way to ask, not a change of the ledger


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer: its status, its JSON body and its headers (lower-case names)."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def record(self) -> dict[str, Any]:
        """The body as one object; an answer that is none is read as an empty one."""
        return self.body if isinstance(self.body, dict) else {}


class Api:
    """One server with one credential. Calls made before `open` wait for it."""

    def __init__(self, session: Session, traffic: Traffic) -> None:
        self.session = session
        self._traffic = traffic
        self._client: httpx.AsyncClient | None = None
        self._opened = asyncio.Event()
        self._probe: asyncio.Task[None] | None = None

    async def open(self, url: str, credential: str | None) -> None:
        """Point at a server's root (a trailing `/v1` is its own prefix and not part of it)."""
        # httpx takes a tenth of a second to import: off the event loop, after the first paint.
        await asyncio.to_thread(__import__, "httpx")
        import httpx

        from ledger_tui.client.auth import BearerKey

        root = server_root(url)
        before = self._client
        self._client = httpx.AsyncClient(
            base_url=root,
            auth=BearerKey(credential),
            timeout=TIMEOUT_SECONDS,
            limits=httpx.Limits(max_connections=_MAX_CONNECTIONS),
            headers={"User-Agent": "ledger-tui", "Accept": "application/json"},
            event_hooks={"request": [_start_clock], "response": [self._note_answer]},
        )
        self.session.begin(root, credential)
        self._opened.set()
        if before is not None:
            await before.aclose()

    def use(self, credential: str) -> None:
        """Ask with another credential from now on."""
        from ledger_tui.client.auth import BearerKey

        assert self._client is not None
        self._client.auth = BearerKey(credential)
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
    ) -> Answer:
        """One try. `part` names a part beyond the interface: its absence is NotOffered, not NotFound.

        Raises ClientError. While the server has asked to wait, the try is made after the wait.
        """
        if self.session.read_only and method not in _CHANGES_NOTHING and path not in _ASKS_FOR_TOKENS:
            raise ReadOnly("This dashboard is read-only: nothing was sent.")
        await self._opened.wait()
        await self._wait_for_leave()
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        content = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        if content is not None:
            headers["Content-Type"] = "application/json"
        response = await self._send(method, path, params, content, headers)
        if not response.is_success:
            raise self._refused(response, part)
        answer_headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, _decoded(response.content), answer_headers)

    async def read(
        self, path: str, params: Mapping[str, str] | None = None, *, part: str | None = None
    ) -> Answer:
        """GET until the server has said yes or no: a 429 and a lost connection are waited out."""
        while True:
            try:
                return await self.call("GET", path, params=params, part=part)
            except RateLimited:
                continue  # call() waits before the next try
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
    ) -> Answer:
        """Change something, once. A rate limit is waited out, for what was refused was not done; a lost
        connection is not, for nobody knows whether it was: that is Unreachable."""
        while True:
            try:
                return await self.call(method, path, body=body, idempotency_key=idempotency_key, part=part)
            except RateLimited:
                continue  # call() waits before the next try

    async def lines(
        self, path: str, headers: Mapping[str, str], *, part: str, silence_seconds: float
    ) -> AsyncIterator[bytes]:
        """The lines of an answer without an end, without their line ends, as they come.

        Raises ClientError for a no; Unreachable when the line breaks or is silent for too long.
        """
        import httpx

        await self._opened.wait()
        await self._wait_for_leave()
        assert self._client is not None
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=silence_seconds)
        try:
            async with self._client.stream("GET", path, headers=dict(headers), timeout=timeout) as response:
                if not response.is_success:
                    await response.aread()
                    raise self._refused(response, part)
                # Not httpx's own lines: it also cuts at characters that are lawful inside of a line.
                rest = b""
                async for chunk in response.aiter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield line.removesuffix(b"\r")
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Unreachable(_reason(error)) from error
        raise Unreachable("the server ended it")

    # ------------------------------------------------------------------ inside

    def _refused(self, response: httpx.Response, part: str | None) -> ClientError:
        """The exception for an answer that is not 2xx, noted in the session where it is a state."""
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = _decoded(response.content)
        error = refusal(response.status_code, body, headers)
        if isinstance(error, RateLimited):
            self.session.rate_limited(error.retry_after)
        if part is not None and (isinstance(error, NotFound) or error.status == 405):
            self.session.lacks(part)
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
        import httpx

        assert self._client is not None
        request = self._client.build_request(
            method, path, params=dict(params or {}), content=content, headers=dict(headers)
        )
        number = self.session.sent()
        try:
            return await self._client.send(request)
        except (httpx.HTTPError, httpx.StreamError) as error:
            sentence = _reason(error)
            self._note(request, None, sentence)
            self.session.lost(sentence)
            raise Unreachable(sentence) from error
        finally:
            self.session.done(number)

    async def _wait_for_leave(self) -> None:
        if (seconds := self.session.waiting_seconds) > 0:
            await asyncio.sleep(seconds)

    async def _until_reachable(self) -> None:
        # However many readers wait, one probe asks.
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._probe_until_answered())
        await asyncio.shield(self._probe)

    async def _probe_until_answered(self) -> None:
        for attempt in itertools.count(1):
            seconds = _BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS)) - 1]
            self.session.will_retry(attempt, seconds)
            await asyncio.sleep(seconds)
            try:
                # The health check is public and never refused for its rate; any answer at all will do.
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


def new_idempotency_key() -> str:
    """A key for one intent; 128 random bits."""
    return f"tui-{secrets.token_hex(16)}"


def server_root(url: str) -> str:
    """`http://host:8700/v1/` as `http://host:8700`: the ledger's prefix is part of each path."""
    root = url.rstrip("/")
    return root.removesuffix("/v1")


async def _start_clock(request: httpx.Request) -> None:
    request.extensions["started"] = time.perf_counter()


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):  # not JSON, not UTF-8, nested without end: no ledger answered
        return None


def _reason(error: BaseException) -> str:
    """Why there was no answer, in a few words."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx.UnsupportedProtocol):
        return "not an http(s) address"
    causes = list(_causes(error))
    for kind, words in (
        (ConnectionRefusedError, "connection refused"),
        (socket.gaierror, "no such host"),
        (ssl.SSLError, "no trusted TLS connection"),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            return words
    return "cannot connect" if isinstance(error, httpx.ConnectError) else "connection lost"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and all that led to it; connecting tries several addresses and fails with a group."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__
