"""The clients: `AsyncLedger` sends the requests; `Ledger` has it do so in a thread, and waits."""

from __future__ import annotations

import json
import os
from asyncio import sleep
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

import httpx

from ledger_client import answers, event_stream
from ledger_client.addresses import is_address, root_of
from ledger_client.calls import ATTEMPTS, Answer, Call, path_to
from ledger_client.errors import ApiError, LedgerError, NotConnected, NotSent, RateLimited, Unreadable
from ledger_client.event_stream import StreamMessage
from ledger_client.methods import in_thread
from ledger_client.records import TokenPair
from ledger_client.service import Everything
from ledger_client.tokens import Tokens, TokenStore

T = TypeVar("T")

SECONDS_MAX = 60.0  # for one answer
SILENCE_S = 45.0  # the stream says something every 15 seconds, so after this time the connection is dead
RECONNECTS_S = (0.5, 1, 2, 5, 10)


class AsyncLedger(Everything["AsyncLedger"]):
    """A ledger server, as a project and mode that the key belongs to. Close it, or use it in `async with`.

    Requests that were refused for their rate, or got no answer, are repeated, `attempts` in all; a POST has
    an idempotency key of its own, or yours, and so happens once. Everything raises LedgerError.

    `key` is an API key, an access token, or a TokenPair. That is refreshed five minutes before it expires,
    where `expires_in` counts from now; `on_refresh` gets each new pair, to store it. Or it is a TokenStore,
    in which several processes share a pair. Tokens of an app need its `client_id`. `settings` are those of
    httpx.AsyncClient, such as `verify`, `proxy` and `trust_env`.
    """

    def __init__(
        self,
        url: str,
        key: str | TokenPair | TokenStore | None = None,
        *,
        client_id: str | None = None,
        on_refresh: Callable[[TokenPair], object] = lambda pair: None,
        attempts: int = ATTEMPTS,
        **settings: Any,
    ) -> None:
        super().__init__(self, blocks=False)
        self.url = root_of(url)
        if not is_address(self.url):
            raise NotSent(f"{self.url} is not the address of a server.")
        self._attempts = attempts
        self._key = key if isinstance(key, str) else None
        self._tokens = None
        if key is not None and not isinstance(key, str):
            exchange = self.tokens.refresh
            if client_id is not None:
                exchange = partial(self.tokens.refresh_oauth, client_id=client_id)
            self._tokens = Tokens(exchange, None if isinstance(key, TokenPair) else key, on_refresh)
            if isinstance(key, TokenPair):
                self._tokens.take(key)
        limits = {"bytes_max": answers.LIST_BYTES_MAX, "seconds_max": SECONDS_MAX, "timeout": 30.0}
        self._settings = {**limits, **settings}
        self._open()

    def _open(self) -> None:
        self._process = os.getpid()
        try:
            self._http = answers.Client(base_url=self.url, **self._settings)
        except (httpx.InvalidURL, ValueError, OSError, ImportError) as error:  # a proxy, the authorities
            raise NotSent(f"Cannot connect: {error}") from error

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def use(self, key: str) -> None:
        """Send another key or access token from now on."""
        self._key, self._tokens = key, None

    async def send(self, call: Call[T]) -> T:
        """Send a request until it is answered, and return its result.

        When an attempt whose answer was lost has had its effect, return what that made.
        """
        if self._attempts > 1:
            call.make_repeatable()
        while True:
            try:
                answer = await self._ask(call)
                return call.result(answer.status_code, answer.headers, answer.content)
            except LedgerError as error:
                wait = call.wait_after(error, self._attempts)
                if wait is None:
                    return await self._made_before(call, error)
            await sleep(wait)

    async def _made_before(self, call: Call[T], error: LedgerError) -> T:
        """Return the result of an earlier attempt of this call. Raises the error when there was none."""
        ids = call.made_before(error)
        if not ids:
            raise error
        root = "/".join(call.path.split("/")[:3])
        try:
            found = [await self.request("GET", path_to(root, id)) for id in ids]
            if call.path.endswith("/batch"):
                found = [Answer(200, {}, json.dumps({"data": [each.json for each in found]}).encode())]
            return call.result_of(found[0])
        except LedgerError:  # what it made is no longer there, or is not shown like this
            raise error from None

    async def _ask(self, call: Call[Any], *, stream: bool = False, **timeouts: Any) -> httpx.Response:
        """Return the answer to one attempt. Raises LedgerError when there is none."""
        if self._process != os.getpid():  # after a fork its connections are the parent's
            self._open()
        headers = dict(call.headers)
        key = self._key if self._tokens is None or call.is_anonymous else await self._tokens.access()
        if key is not None and not call.is_anonymous:
            headers["Authorization"] = f"Bearer {key}"
        body: dict[str, Any] = {"data" if call.is_form else "json": call.body}
        if isinstance(call.body, bytes):
            body, headers["Content-Type"] = {"content": call.body}, "application/json"
        try:
            request = self._http.build_request(
                call.method, call.path, params=call.query, headers=headers, **body, **timeouts
            )
            return await self._http.send(request, stream=stream)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            raise answers.no_answer(error) from error

    async def listen(self, last_event_id: str | None = None) -> AsyncGenerator[StreamMessage, None]:
        """Yield what comes over one connection to the live stream. Raises LedgerError, also at its end."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        call = Call(lambda answer: None, "GET", "/v1/events/stream", headers=headers)
        answer = await self._ask(call, stream=True, timeout=httpx.Timeout(30, read=SILENCE_S))
        if not answer.is_success:
            call.result(answer.status_code, answer.headers, answer.content)
        session = event_stream.Session()
        try:
            async for sent in event_stream.events(answer):
                received = session.read(sent)
                if received is not None:
                    yield received
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise answers.no_answer(error) from error
        finally:
            await answer.aclose()
        raise NotConnected("the server has ended the stream")

    async def follow(
        self,
        last_event_id: str | None = None,
        on_loss: Callable[[LedgerError, float], object] = lambda error, wait: None,
    ) -> AsyncGenerator[StreamMessage, None]:
        """Yield what comes over the live stream, without end; after a lost connection go on where it was.

        `on_loss` gets the reason and the seconds until the next try. Raises LedgerError for a refusal, such
        as `invalid_cursor` when the server no longer has the last event.
        """
        failed = 0
        while True:
            try:
                async for received in self.listen(last_event_id):
                    failed = 0
                    yield received
                    last_event_id = received.id or last_event_id
            except (NotConnected, RateLimited, ApiError) as error:
                if isinstance(error, Unreadable):
                    raise
                wait = RECONNECTS_S[min(failed, len(RECONNECTS_S) - 1)]
                failed += 1
                on_loss(error, wait)
            await sleep(wait)


class Ledger(Everything["Ledger"]):
    """The same as AsyncLedger without `await`: close it, or use it in `with`. Several threads may use it.

    All such clients of a process run in one thread, where the time of a whole answer can be limited.
    """

    def __init__(
        self,
        url: str,
        key: str | TokenPair | TokenStore | None = None,
        *,
        client_id: str | None = None,
        on_refresh: Callable[[TokenPair], object] = lambda pair: None,
        attempts: int = ATTEMPTS,
        **settings: Any,
    ) -> None:
        super().__init__(
            AsyncLedger(url, key, client_id=client_id, on_refresh=on_refresh, attempts=attempts, **settings),
            blocks=True,
        )
        self.url = self._ledger.url

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        in_thread(self._ledger.close())
