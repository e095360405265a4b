"""Sends requests to a ledger server, with one connection pool, and reads all answers in the same way.

`call` sends a request once. `read` sends a GET request, and sends it again after a rate limit or a lost
connection, until the server answers. The session notes each wait, so that the screen can show the wait.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ledger_client.errors import LedgerError, NotConnected, NotFound, RateLimited, Unreadable
from ledger_tui.client import past
from ledger_tui.client.errors import NO_LEDGER, NoLedger, NotOffered, ReadOnly
from ledger_tui.client.session import Session
from ledger_tui.client.traffic import Traffic
from ledger_tui.client.transport import client_of, decoded

if TYPE_CHECKING:
    from ledger_client.calls import Answer
    from ledger_client.event_stream import StreamMessage
    from ledger_client.exchanges import SentRequest
    from ledger_client.ledger import AsyncLedger

# the pauses before each try to reach a lost server again; the last pause is repeated
_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 5.0)
_MAX_CONNECTIONS = 8
_CHANGES_NOTHING = frozenset({"GET", "HEAD"})
# POST requests that do not change the ledger
_ASKS_FOR_TOKENS = frozenset({"/v1/auth/token", "/oauth/token"})


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A 2xx answer: its status, its JSON body and its headers.

    Upper and lower case do not matter in the names of the headers.
    """

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def record(self) -> dict[str, Any]:
        """The body as a JSON object; {} if the body is not an object."""
        return self.body if isinstance(self.body, dict) else {}


class Api:
    """One server with one credential. A call made before `open` waits until `open` has succeeded."""

    def __init__(self, session: Session, traffic: Traffic) -> None:
        self.session = session
        self._traffic = traffic
        self._client: AsyncLedger | None = None
        self.looks_back = False  # whether the server has proved that it can show the past
        self._opened = asyncio.Event()
        self._probe: asyncio.Task[None] | None = None

    async def open(self, url: str, credential: str | None) -> None:
        """Use the server at this root URL, without a trailing `/v1`, because request paths contain `/v1`.

        Raises NotSent if no client can be made for this URL and credential.
        """
        # Importing httpx takes a tenth of a second, so it happens in a thread, after the first paint.
        await asyncio.to_thread(import_module, "ledger_client.ledger")
        import httpx

        before = self._client
        limits = httpx.Limits(max_connections=_MAX_CONNECTIONS)
        self._client = client_of(url, credential, limits=limits, on_exchange=self._note_exchange)
        self.session.begin(self._client.url, credential)
        self._opened.set()
        if before is not None:
            await before.close()

    def use(self, credential: str) -> None:
        """Use another credential from now on."""
        assert self._client is not None
        self._client.use(credential)
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

        `if_match` is the ETag that the object must still have; if the object has another ETag, the server
        answers 412. Pass `part` if the request needs a part of the interface that the contract does not
        require; `part` is the name of this part. If the server lacks the part, `call` then raises NotOffered
        instead of NotFound. If the rate limit requires a wait, `call` waits before it sends the request.
        """
        writes = method not in _CHANGES_NOTHING and path not in _ASKS_FOR_TOKENS
        if writes and self.session.moment_ms is not None:
            raise ReadOnly("This is the past: nothing was sent.")
        if writes and self.session.read_only:
            raise ReadOnly("This dashboard is read-only: nothing was sent.")
        await self._opened.wait()
        await self._wait_for_rate_limit()
        assert self._client is not None
        headers = {"If-Match": if_match} if if_match else {}
        number = self.session.sent()
        try:
            answer = await self._client.request(
                method, path, body=body, query=params, headers=headers, key=idempotency_key or None
            )
        except LedgerError as error:
            raise self._note_refusal(error, part) from error
        finally:
            self.session.done(number)
        return ApiResponse(answer.status, decoded(answer.content), answer.headers)

    async def read(
        self, path: str, params: Mapping[str, str] | None = None, *, part: str | None = None
    ) -> ApiResponse:
        """Send a GET request; send it again after a rate limit or a lost connection, until an answer arrives.

        The answer describes the moment that the screen shows. An answer that cannot be read raises Unreadable
        at once, because another attempt would fail in the same way.
        """
        moment = past.shown_moment(self.session)
        if moment is not None:
            params = past.params_at(path, params, moment)
        while True:
            try:
                answer = await self.call("GET", path, params=params, part=part)
                return answer if moment is None else replace(answer, body=past.body_at(answer.body, moment))
            except RateLimited:
                continue  # call() waits before the next try
            except Unreadable:
                raise
            except NotConnected:
                await self._wait_until_reachable()

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        idempotency_key: str | None,
        *,
        part: str | None = None,
    ) -> ApiResponse:
        """Send a change. After a 429 the server has not made the change, so wait and send the change again.

        A lost connection raises NotConnected: the server may have made the change before the connection was
        lost.
        """
        while True:
            try:
                return await self.call(method, path, body=body, idempotency_key=idempotency_key, part=part)
            except RateLimited:
                continue  # call() waits before the next try

    async def events(self, last_event_id: str | None, *, part: str) -> AsyncIterator[StreamMessage]:
        """Connect to the live stream of events, and yield its messages.

        Raises LedgerError when the server refuses, or when the connection breaks or is silent for too long.
        """
        await self._opened.wait()
        await self._wait_for_rate_limit()
        assert self._client is not None
        try:
            async for message in self._client.listen(last_event_id):
                yield message
        except LedgerError as error:
            raise self._note_refusal(error, part) from error

    # ------------------------------------------------------------------ inside

    def _note_refusal(self, error: LedgerError, part: str | None) -> LedgerError:
        """Note a refusal in the session, and return the exception to raise for it."""
        if isinstance(error, RateLimited):
            self.session.rate_limited(error.retry_after)
        if part is not None and error.status in (404, 405):
            self.session.mark_missing(part)
            return NotOffered(error.message, status=error.status, code=error.code)
        if part is None and isinstance(error, NotFound) and not error.code:
            self.session.saw_no_ledger()
            return error if self.session.known_ledger else NoLedger(NO_LEDGER, status=404)
        return error

    def _note_exchange(self, request: SentRequest, answer: Answer | LedgerError) -> None:
        """Note an attempt and its answer in the traffic and the session."""
        self._traffic.add(request)
        if answer.status is not None:
            self.session.answered(answer.status, answer.headers)
        elif not isinstance(answer, Unreadable):
            self.session.lost(request.error)

    async def _wait_for_rate_limit(self) -> None:
        if (seconds := self.session.waiting_seconds) > 0:
            await asyncio.sleep(seconds)

    async def _wait_until_reachable(self) -> None:
        # Send only one probe at a time, even if several readers wait.
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
