"""Any ledger server as its clients see it: lists, page by page, within its rate limit.

Only the endpoints of the contract are expected; a list that is not there, or that the key may not read, is
not shown.
"""

from __future__ import annotations

import math
import re
import time
from asyncio import sleep
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from ledger_client.answers import LIST_BYTES_MAX
from ledger_client.calls import Answer, Page, page_of
from ledger_client.errors import LedgerError, Unreadable, seconds
from ledger_client.ledger import AsyncLedger
from ledger_engine.core.errors import Conflict

PAGE = 100  # records: the most that a list gives at once
WAIT_MAX_S = 65.0  # for the next window of a minute
ANSWER_BYTES_MAX = LIST_BYTES_MAX
ANSWER_SECONDS_MAX = 300.0
SHARE = 0.9  # of the rate limit; the rest is left to others who use the same key
_UNFIT = re.compile("[\\0\ud800-\udfff]")
_CURSOR_LOST = (400, 404, 410, 422)
_NOT_SHOWN = (403, 404, 405, 501)


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


class Remote:
    """A server at `url`, asked with `key`. Use it as an asynchronous context manager.

    Requests are spread evenly over the rate limit that the answers report, which also keeps them within the
    burst of a second. `transport` carries the requests, by default over the network.
    """

    def __init__(self, url: str, key: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # As in `listen`: the proxies in the environment are not meant for this server.
        self._ledger = AsyncLedger(
            url,
            key,
            bytes_max=ANSWER_BYTES_MAX,
            seconds_max=ANSWER_SECONDS_MAX,
            headers={"User-Agent": "ledger-engine pull"},
            trust_env=False,
            transport=transport,
        )
        self.url = self._ledger.url
        self._next_at = 0.0

    async def __aenter__(self) -> Remote:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._ledger.close()

    async def page(self, listed: ListOf, cursor: str | None, **narrowed: str) -> Page | None:
        """Return a page of the list, the newest without a cursor; None when the server does not show it.

        `narrowed` are further parameters. Raises CursorLost and PullFailed.
        """
        size = "per_page" if listed.by == "page" else "limit"
        try:
            found = await self._get(listed.path, {size: str(PAGE)} | narrowed | {listed.by: cursor})
            return page_of(found, listed.by, cursor, PAGE)
        except LedgerError as error:
            if cursor is not None and listed.by != "page" and error.status in _CURSOR_LOST:
                raise CursorLost(f"{self.url}{listed.path}: {_reason(error)}") from None
            if error.status in _NOT_SHOWN and not listed.required:
                return None
            raise self._failed(listed.path, error) from None

    async def get(self, path: str) -> dict[str, Any] | None:
        """Return the JSON object at `path`, None when it is not shown. Raises PullFailed."""
        try:
            found = await self._get(path, {})
        except LedgerError as error:
            if error.status in _NOT_SHOWN:
                return None
            raise self._failed(path, error) from None
        if not isinstance(found, dict):
            raise PullFailed(f"{self.url}{path} did not answer with an object. Is it a ledger?")
        return found

    async def _get(self, path: str, params: Mapping[str, str | None]) -> Any:
        """Return the JSON of an answer, sent for when it is time. Raises LedgerError."""
        wait = self._next_at - time.monotonic()
        if wait > 0:
            await sleep(wait)
        answer = await self._ledger.request("GET", path, query=params)
        self._note_limit(answer)
        found = answer.json
        if not _can_be_held(found):
            raise Unreadable("The answer has what no ledger can hold. Is it a ledger?")
        return found

    def _failed(self, path: str, error: LedgerError) -> PullFailed:
        if isinstance(error, Unreadable) or (error.status is not None and error.status < 429):
            return PullFailed(f"{self.url}{path}: {_reason(error)}")
        return PullFailed(
            f"{self.url} cannot be read: {_reason(error)}. Run the command again to go on from here."
        )

    def _note_limit(self, answer: Answer) -> None:
        """Set when the next request may be sent, by the limit that the answer tells."""
        limit = seconds(answer.headers.get("X-RateLimit-Limit"))
        wait = 60 / (limit * SHARE) if limit else 0.0
        if answer.headers.get("X-RateLimit-Remaining") == "0":  # others use the key too
            reset = seconds(answer.headers.get("X-RateLimit-Reset"))
            wait = max(wait, min(max(reset - time.time(), 1.0), WAIT_MAX_S))
        self._next_at = time.monotonic() + min(wait, WAIT_MAX_S)


def _reason(error: LedgerError) -> str:
    if error.status is None or isinstance(error, Unreadable):
        return str(error)
    return f"{error.status}: {error}" if error.code else f"it answered {error.status}"


def _can_be_held(value: Any) -> bool:
    """Return whether no text has U+0000 or half a character, and each number is finite."""
    if isinstance(value, str):
        return _UNFIT.search(value) is None
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_can_be_held, value))
    if isinstance(value, dict):
        return all(map(_can_be_held, value)) and all(map(_can_be_held, value.values()))
    return True
