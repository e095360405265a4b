"""The clients: `AsyncLedger` sends the requests; `Ledger` runs it in a thread and waits for the results."""

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
SILENCE_S = 45.0  # the server sends something every 15 seconds, so after this time the connection is dead
RECONNECTS_S = (0.5, 1, 2, 5, 10)


class AsyncLedger(Everything["AsyncLedger"]):
    """A ledger server, seen as the project and mode of the key. Close it, or use it in `async with`.

    Requests that exceeded the rate limit or got no answer are repeated, up to `attempts` in all. Each POST
    carries an idempotency key, yours or a new one, so it takes effect once. Every method raises LedgerError.

    `key` is an API key, an access token, a TokenPair, or a TokenStore, in which several processes share a
    pair. A pair is refreshed five minutes before it expires, and its `expires_in` counts from now;
    `on_refresh` gets each new pair, so that you can store it. Tokens of an app need its `client_id`.
    `settings` are passed to httpx.AsyncClient, for instance `verify`, `proxy` and `trust_env`.
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

        If an attempt took effect but its answer was lost, return the object that it made.
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
            answers = [await self.request("GET", path_to(root, id)) for id in ids]
            if call.path.endswith("/batch"):
                answers = [
                    Answer(200, {}, json.dumps({"data": [answer.json for answer in answers]}).encode())
                ]
            return call.result_of(answers[0])
        except LedgerError:  # the object it made was deleted, or takes another form
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
        """Yield the messages of one connection to the live stream. Raises LedgerError, even at its end."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        call = Call(lambda answer: None, "GET", "/v1/events/stream", headers=headers)
        answer = await self._ask(call, stream=True, timeout=httpx.Timeout(30, read=SILENCE_S))
        if not answer.is_success:
            call.result(answer.status_code, answer.headers, answer.content)
        session = event_stream.Session()
        try:
            async for event in event_stream.events(answer):
                message = session.read(event)
                if message is not None:
                    yield message
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
        """Yield the messages of the live stream, without end and through lost connections.

        `on_loss` gets the reason and the seconds until the next try. Raises LedgerError for a refusal, such
        as `invalid_cursor` when the server no longer stores the last event.
        """
        failures = 0
        while True:
            try:
                async for message in self.listen(last_event_id):
                    failures = 0
                    yield message
                    last_event_id = message.id or last_event_id
            except (NotConnected, RateLimited, ApiError) as error:
                if isinstance(error, Unreadable):
                    raise
                wait = RECONNECTS_S[min(failures, len(RECONNECTS_S) - 1)]
                failures += 1
                on_loss(error, wait)
            await sleep(wait)


class Ledger(Everything["Ledger"]):
    """AsyncLedger without `await`: close it, or use it in `with`. Several threads may use it.

    All such clients of a process run in one thread, because there the time of a whole answer can be limited.
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
