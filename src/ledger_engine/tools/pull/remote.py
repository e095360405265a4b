"""Any ledger server as its clients see it: lists, page by page, within its rate limit.

Only the endpoints of the contract are expected; a list that is not there, or that the key may not read, is
not shown.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from ledger_client.answers import LIST_BYTES_MAX, Client, Unread
from ledger_client.parsing import parsed
from ledger_engine.core.errors import Conflict

PAGE = 100  # records: the most that a list gives at once
RETRIES_S = (0.5, 1, 2, 5, 10)  # waits after a failure of the network or of the server
REFUSALS_MAX = 60  # answers 429 in a row; each says how long to wait
WAIT_MAX_S = 65.0  # for the next window of a minute
ANSWER_BYTES_MAX = LIST_BYTES_MAX
ANSWER_SECONDS_MAX = 300.0
SHARE = 0.9  # of the rate limit; the rest is left to others who use the same key
_CURSOR_LOST = (400, 404, 410, 422)
_NOT_SHOWN = (403, 404, 405, 501)
_RETRIED = (429, *(status for status in range(500, 600) if status != 501))


class PullFailed(Conflict):
    """The pull cannot go on; what was read so far is kept."""

    def __init__(self, message: str) -> None:
        super().__init__("not_recoverable", message)


class CursorLost(PullFailed):
    """The server does not know the cursor, which may be one that it gave long ago."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of the server: its `kind`, the prefix of its ids, and how it is read.

    `by` is the parameter that takes the cursor. A list that is `required` is in the contract's ledger, and
    `grows` means that its records never change, so that only those after the newest one known are read.
    """

    kind: str
    prefix: str
    path: str
    by: str
    required: bool = False
    grows: bool = False


# In the order in which they are read: what a record refers to is read after it, and so is there.
LISTS = (
    ListOf("events", "evt", "/v1/events", "cursor", grows=True),
    ListOf("orders", "ord", "/api/orders", "cursor"),
    ListOf("users", "usr", "/api/users", "page"),
    ListOf("invoices", "inv", "/v1/invoices", "starting_after"),
    ListOf("transactions", "txn", "/v1/transactions", "starting_after", required=True, grows=True),
    ListOf("accounts", "acc", "/v1/accounts", "starting_after", required=True, grows=True),
)


@dataclass(frozen=True, slots=True)
class PageRead:
    """One page of a list, as the server has sent it. `after` is the next cursor, None at the end."""

    records: list[dict[str, Any]]
    after: str | None


class Remote:
    """A server at `url`, asked with `key`. Use it as an asynchronous context manager.

    Requests are spread evenly over the rate limit that the answers report, which also keeps them within the
    burst of a second. `sleep` waits, and `transport` carries the requests, by default over the network.
    """

    def __init__(
        self,
        url: str,
        key: str,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/").removesuffix("/v1").rstrip("/")
        self._key = key
        self._sleep = sleep
        self._transport = transport
        self._next_at = 0.0
        self._client: Client | None = None

    async def __aenter__(self) -> Remote:
        headers = {
            "Authorization": f"Bearer {self._key}",
            "User-Agent": "ledger-engine pull",
        }
        # As in `listen`: the proxies in the environment are not meant for this server.
        self._client = Client(
            bytes_max=ANSWER_BYTES_MAX,
            seconds_max=ANSWER_SECONDS_MAX,
            headers=headers,
            trust_env=False,
            timeout=30,
            transport=self._transport,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def page(self, listed: ListOf, cursor: str | None, **narrowed: str) -> PageRead | None:
        """Return a page of the list, the newest without a cursor; None when the server does not show it.

        `narrowed` are further parameters. Raises CursorLost and PullFailed.
        """
        params = {"per_page" if listed.by == "page" else "limit": str(PAGE)} | narrowed
        if cursor is not None:
            params[listed.by] = cursor
        response = await self._get(listed.path, params)
        if cursor is not None and listed.by != "page" and response.status_code in _CURSOR_LOST:
            raise CursorLost(f"{self.url}{listed.path}: {_refusal(response)}")
        if response.status_code in _NOT_SHOWN and not listed.required:
            return None
        if response.status_code != 200:
            raise PullFailed(f"{self.url}{listed.path}: {_refusal(response)}")
        found = _json(response)
        envelope = found if isinstance(found, dict) else {"data": found}
        records = envelope.get("data")
        if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
            raise PullFailed(f"{self.url}{listed.path} did not answer with a list. Is it a ledger?")
        after = None
        if listed.by == "page":
            number = int(cursor or "1")
            after = str(number + 1) if len(records) == PAGE else None
        elif envelope.get("has_more") is True:
            after = envelope.get("next_cursor")
            if not isinstance(after, str) or not after or after == cursor:
                raise PullFailed(f"{self.url}{listed.path} has more, but no cursor to continue from.")
        return PageRead(records, after)

    async def get(self, path: str, **params: str) -> dict[str, Any] | None:
        """Return the JSON object at `path`, None when it is not shown. Raises PullFailed."""
        response = await self._get(path, params)
        if response.status_code in _NOT_SHOWN:
            return None
        if response.status_code != 200:
            raise PullFailed(f"{self.url}{path}: {_refusal(response)}")
        found = _json(response)
        if not isinstance(found, dict):
            raise PullFailed(f"{self.url}{path} did not answer with an object. Is it a ledger?")
        return found

    async def _get(self, path: str, params: dict[str, str]) -> httpx.Response:
        """Ask, again and again where that can help; the answer is neither 429 nor 5xx."""
        assert self._client is not None
        failures = refusals = 0
        while True:
            await self._wait_for_turn()
            try:
                response = await self._client.get(self.url + path, params=params)
            except Unread as error:
                raise PullFailed(f"{self.url}{path}: {error}.") from None
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
            else:
                if response.status_code == 429 and refusals < REFUSALS_MAX:
                    refusals += 1
                    await self._sleep(_seconds(response.headers.get("Retry-After"), 1.0))
                    continue
                self._note_limit(response)
                if response.status_code not in _RETRIED:
                    return response
                reason = _refusal(response)
            if failures == len(RETRIES_S):
                raise PullFailed(
                    f"{self.url} cannot be read: {reason}. Run the command again to go on from here."
                )
            await self._sleep(RETRIES_S[failures])
            failures += 1

    async def _wait_for_turn(self) -> None:
        wait = self._next_at - time.monotonic()
        if wait > 0:
            await self._sleep(wait)

    def _note_limit(self, response: httpx.Response) -> None:
        """Set when the next request may be sent, by the limit that the answer tells."""
        limit = _number(response.headers.get("X-RateLimit-Limit"))
        remaining = _number(response.headers.get("X-RateLimit-Remaining"))
        wait = 0.0 if not limit else 60 / (limit * SHARE)
        if remaining == 0:  # others use the key too
            reset = _number(response.headers.get("X-RateLimit-Reset")) or 0
            wait = max(wait, min(max(reset - time.time(), 1.0), WAIT_MAX_S))
        self._next_at = time.monotonic() + min(wait, WAIT_MAX_S)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


def _seconds(text: str | None, otherwise: float) -> float:
    number = _number(text)
    return otherwise if number is None else min(max(float(number), otherwise), WAIT_MAX_S)


def _json(response: httpx.Response) -> Any:
    """Return the answer's JSON. Raises PullFailed for what no ledger can hold, too."""
    try:
        found = parsed(response.content)
        if _can_be_held(found):
            return found
    except ValueError:
        pass
    raise PullFailed(f"{response.url.host} did not answer with JSON. Is it a ledger?")


def _can_be_held(value: Any) -> bool:
    """Return whether no text has U+0000 and each number is finite. Raises ValueError for a lone surrogate."""
    if isinstance(value, str):
        return b"\0" not in value.encode()
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_can_be_held, value))
    if isinstance(value, dict):
        return all(map(_can_be_held, value)) and all(map(_can_be_held, value.values()))
    return True


def _refusal(response: httpx.Response) -> str:
    """Return what a server that refuses says, in words."""
    try:
        body = parsed(response.content)
        error = body["error"]
        message = error["message"] if isinstance(error, dict) else body["message"]
        return f"{response.status_code}: {message}"
    except (ValueError, KeyError, TypeError):
        return f"it answered {response.status_code}"
