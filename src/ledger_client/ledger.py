"""The clients. `AsyncLedger` sends the requests; `Ledger` runs an `AsyncLedger` in a thread and waits."""

from __future__ import annotations

import json
import os
from asyncio import sleep
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx

from ledger_client import answers, event_stream
from ledger_client.addresses import is_address, root_of
from ledger_client.answer_cache import AnswerCache, key_of, with_newer_headers
from ledger_client.calls import ATTEMPTS, Answer, ApiCall, path_to, require_success
from ledger_client.errors import ApiError, LedgerError, NotConnected, NotSent, RateLimited, Unreadable
from ledger_client.event_stream import StreamMessage
from ledger_client.exchanges import SentRequest
from ledger_client.methods import in_thread
from ledger_client.records import TokenPair
from ledger_client.service import AllResources
from ledger_client.tokens import Tokens, TokenStore

T = TypeVar("T")

SECONDS_MAX = 60.0  # the longest time for one whole answer
SILENCE_S = 45.0  # the server writes to a stream every 15 seconds, so after 45 the connection is dead
# the waits before the first, second, … new connection to a stream; the last wait is repeated
RECONNECTS_S = (0.5, 1, 2, 5, 10)


class AsyncLedger(AllResources["AsyncLedger"]):
    """A client of a ledger server; the key selects the project and mode.

    Close each client, or use `async with`. If a request exceeds the rate limit, the client sends the request
    again. If the answer is lost or a 5xx, the client sends the request again only if this is safe (see
    `ApiCall`). `attempts` is the maximum number of attempts, including the first. Each POST carries an
    idempotency key, yours or a new key, so the POST takes effect once. Every method raises LedgerError.

    `key` is an API key, an access token, a TokenPair, or a TokenStore. Several processes can share the tokens
    in a TokenStore. For tokens of an app, pass the app's `client_id` too. The client counts the `expires_in`
    of a pair from the moment when it gets the pair, and refreshes the pair five minutes before the access
    token expires. It calls `on_refresh` with each new pair: store the pair in this function.

    The client calls `on_exchange` after each attempt, with the SentRequest and the answer or the error, but
    not for the live stream or a cancelled attempt. The client caches answers with an ETag, so the server
    sends such an answer again only after a change. The client passes `settings` to httpx.AsyncClient, for
    instance `verify`, `proxy` and `trust_env`.
    """

    def __init__(
        self,
        url: str,
        key: str | TokenPair | TokenStore | None = None,
        *,
        client_id: str | None = None,
        on_refresh: Callable[[TokenPair], object] = lambda pair: None,
        attempts: int = ATTEMPTS,
        on_exchange: Callable[[SentRequest, Answer | LedgerError], object] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(self, blocks=False)
        self.url = root_of(url)
        if not is_address(self.url):
            raise NotSent(f"{self.url} is not the address of a server.")
        self._attempts = attempts
        self._on_exchange = on_exchange
        self._cache = AnswerCache()
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
            self._http = answers.BoundedClient(base_url=self.url, **self._settings)
        # These errors mean that the setting of a proxy, or of the trusted certificate authorities, is wrong.
        except (httpx.InvalidURL, ValueError, OSError, ImportError) as error:
            raise NotSent(f"Cannot connect: {error}") from error

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def use(self, key: str) -> None:
        """Use this key or access token for all later requests."""
        self._key, self._tokens = key, None
        # Requests under way were sent with the former key, so their answers go to the former cache.
        self._cache = AnswerCache()

    async def send(self, call: ApiCall[T]) -> T:
        """Send a request, repeat it as `ApiCall` allows, and return the result.

        If an attempt took effect but its answer was lost, return the object that this attempt made.
        """
        if self._attempts > 1:
            call.make_repeatable()
        while True:
            try:
                return call.result_of(await self._answer_to(call))
            except LedgerError as error:
                wait = call.wait_after(error, self._attempts)
                if wait is None:
                    return await self._earlier_result(call, error)
            await sleep(wait)

    async def _earlier_result(self, call: ApiCall[T], error: LedgerError) -> T:
        """Return the result of an earlier attempt of this call. Raises `error` if there is no such result."""
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
        except LedgerError:  # the object was deleted, or is not at this path
            raise error from None

    async def _answer_to(self, call: ApiCall[Any]) -> Answer:
        """Send one attempt and return its answer, or the cached answer after a 304. Raises LedgerError."""
        # keep this cache: `use` may replace `self._cache` before the answer comes
        cache, place = self._cache, key_of(call)
        stored_answer = None if place is None else cache.find(place)
        conditions = {} if stored_answer is None else {"if-none-match": stored_answer.headers["ETag"]}
        at, start = datetime.now(UTC), perf_counter()
        answer: Answer | LedgerError
        try:
            response = await self._ask(call, conditions)
            answer = Answer(response.status_code, response.headers, response.content)
        except LedgerError as error:
            answer = error
        if self._on_exchange is not None:
            self._on_exchange(self._sent(call, answer, at, perf_counter() - start), answer)
        if isinstance(answer, LedgerError):
            raise answer
        if answer.status == 304 and stored_answer is not None:
            answer = with_newer_headers(stored_answer, answer.headers)
        require_success(answer)
        if place is not None and answer.headers.get("ETag"):
            cache.store(place, answer)
        return answer

    def _sent(
        self, call: ApiCall[Any], answer: Answer | LedgerError, at: datetime, seconds: float
    ) -> SentRequest:
        try:
            content, _type = call.content
        except ValueError:  # JSON cannot express the body, so nothing was sent
            content = None
        return SentRequest(
            method=call.method,
            url=f"{self.url}{call.path}" + (f"?{urlencode(call.query)}" if call.query else ""),
            body=content.decode("utf-8", "replace") if content else None,
            idempotency_key=call.key,
            status=answer.status,
            duration_ms=seconds * 1000,
            request_id=answer.headers.get("Request-Id"),
            error=str(answer) if answer.status is None else "",
            at=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )

    async def _ask(
        self, call: ApiCall[Any], conditions: Mapping[str, str], *, stream: bool = False, **timeouts: Any
    ) -> httpx.Response:
        """Send one attempt and return its answer of any status. Raises LedgerError if no answer comes."""
        if self._process != os.getpid():  # after a fork the connections still belong to the parent process
            self._open()
        headers = {**call.headers, **conditions}
        key = self._key if self._tokens is None or call.is_anonymous else await self._tokens.access()
        if key is not None and not call.is_anonymous:
            headers["authorization"] = f"Bearer {key}"
        try:
            content, media_type = call.content
            if content is not None:
                headers["content-type"] = media_type
            # httpx removes the query of a path if the parameters are an empty mapping.
            query = call.query or None
            request = self._http.build_request(
                call.method, call.path, params=query, headers=headers, content=content, **timeouts
            )
            return await self._http.send(request, stream=stream)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            raise answers.no_answer(error) from error

    async def listen(self, last_event_id: str | None = None) -> AsyncGenerator[StreamMessage, None]:
        """Yield the messages of one connection to the live stream.

        Raises LedgerError when the connection ends.
        """
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        call = ApiCall(lambda answer: None, "GET", "/v1/events/stream", headers=headers)
        answer = await self._ask(call, {}, stream=True, timeout=httpx.Timeout(30, read=SILENCE_S))
        if not answer.is_success:
            require_success(Answer(answer.status_code, answer.headers, answer.content))
        session = event_stream.StreamSession()
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
        """Yield the messages of the live stream without end; after a lost connection, connect again.

        Before each new connection the client calls `on_loss` with the reason and the seconds to wait. Raises
        LedgerError for a refusal, such as `invalid_cursor` if the server has deleted the event after which
        the stream should go on.
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


class Ledger(AllResources["Ledger"]):
    """A client like AsyncLedger, but its methods wait for the answer. Several threads may use one client.

    Close each client, or use `with`. All Ledgers of a process share one thread, in which an event loop runs
    their requests.
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
