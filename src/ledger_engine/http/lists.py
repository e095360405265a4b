"""Cursor lists: `limit` and a cursor in the query, the list envelope in the answer.

See docs/interface.md#pagination. A page whose texts are long is read and sent in parts, so that it takes
little memory.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from ledger_engine.core.clock import MOMENT_PATTERN, Clock, parse_moment
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.ids import id_pattern
from ledger_engine.http.bodies import Query
from ledger_engine.http.operations import Call, StreamedAnswer, end_of_page, text_of_items
from ledger_engine.store.pages import LIMIT_DEFAULT, LIMIT_MAX, Page, PageRequest

N = TypeVar("N")
T = TypeVar("T")

_WHOLE = re.compile(r"0|[1-9][0-9]*")


def _digits(value: object) -> object:
    """Refuse a text such as `1_0`, `05` or `5.0`: pydantic would accept it, but it is probably a mistake."""
    if isinstance(value, str) and _WHOLE.fullmatch(value) is None:
        raise ValueError("must be a whole number")
    return value


# Checks the text of a number in a query. In an annotation, `DIGITS` comes after the bounds of the number.
DIGITS = BeforeValidator(_digits)
Limit = Annotated[int, Field(ge=1, le=LIMIT_MAX), DIGITS]


# These patterns only appear in the OpenAPI document. The code that uses the fields refuses any other text.
Time = Annotated[str, Field(json_schema_extra={"pattern": MOMENT_PATTERN})]
AccountField = Annotated[str, Field(json_schema_extra={"pattern": id_pattern("acc")})]


class LedgerList(Query):
    """The parameters of a list in the form of the ledger: `limit`, and a cursor for each direction.

    `ending_before` goes beyond the contract.
    """

    limit: Limit = LIMIT_DEFAULT
    starting_after: str | None = None
    ending_before: str | None = None

    def page(self) -> PageRequest:
        """Return the requested page. Raises InvalidRequest if both cursors are given."""
        return page_request(self.limit, "starting_after", self.starting_after, self.ending_before)


class GenericList(Query):
    """The parameters of a list in the generic form: `limit`, and one cursor towards older items."""

    limit: Limit = LIMIT_DEFAULT
    cursor: str | None = None

    def page(self) -> PageRequest:
        """Return the requested page."""
        return PageRequest(self.limit, self.cursor, cursor="cursor")


class LookingBack(Query):
    """A query for objects or lists as they were at the moment `at` (docs/decisions.md#looking-back)."""

    at: Time | None = None

    def moment(self, clock: Clock) -> int | None:
        """Return the moment in milliseconds; None for the present.

        Raises InvalidRequest for a text that is not a time, and for a time in the future.
        """
        return None if self.at is None else moment_until_now(self.at, "at", clock.now())

    async def read_one(self, call: Call, present: Callable[..., N], past: Callable[..., T], id: str) -> N | T:
        """Read one object: with the work `past` if the query names a moment, else with `present`."""
        at = self.moment(call.engine.clock)
        return await (call.read_short(present, id) if at is None else call.read(past, id, at))

    async def read_page(
        self,
        call: Call,
        present: Callable[..., Page[N]],
        past: Callable[..., Page[T]],
        page: PageRequest,
        **filters: Any,
    ) -> Page[N] | Page[T]:
        """Read a page of objects: with the work `past` if the query names a moment, else with `present`."""
        at = self.moment(call.engine.clock)
        if at is not None:
            return await call.read_long(past, page, at, **filters)
        read = call.read_short if page.limit <= LIMIT_DEFAULT else call.read
        return await read(present, page, **filters)

    async def read_in_parts(
        self,
        call: Call,
        present: Callable[..., Page[N]],
        past: Callable[..., Page[T]],
        page: PageRequest,
        **filters: Any,
    ) -> Page[Any] | StreamedAnswer:
        """Read a page as `read_page` does; return an answer in parts if the texts of the page are long."""
        return await in_parts(lambda part: self.read_page(call, present, past, part, **filters), page)


# A function that reads a page; `in_parts` calls it once for each part of the page.
ReadPage = Callable[[PageRequest], Awaitable[Page[Any]]]


async def in_parts(read: ReadPage, request: PageRequest) -> Page[Any] | StreamedAnswer:
    """Return the page that `read` returns; if its texts are long, return an answer in parts instead.

    The server reads and sends the parts of such an answer one after the other.
    """
    request = replace(request, in_parts=True)
    page = await read(request)
    if not page.is_part:
        return page
    parts = _parts(read, request, page)
    pieces = _older_pieces(parts) if request.before is None else _newer_pieces(parts, read)
    return StreamedAnswer("application/json", pieces)


async def _parts(
    read: ReadPage, request: PageRequest, page: Page[Any]
) -> AsyncGenerator[tuple[PageRequest, Page[Any]], None]:
    """Yield the parts of the page for `request`, each with its own request; `page` is the first part.

    The request for a part asks for about twice as many rows as the previous part contained. It does not ask
    for all remaining rows, because the database would then read the long texts of all these rows for every
    part, to find out their lengths (`pages.FIRST_ROWS`).
    """
    rows_left = request.limit
    yield request, page
    while True:
        rows_left -= len(page.items)
        is_cut_short = page.is_part or len(page.items) == request.limit
        if not (rows_left and is_cut_short and page.has_more):
            return
        request = replace(request, limit=min(rows_left, 2 * len(page.items) + 2))
        if request.before is None:
            request = replace(request, after=page.next_cursor)
        else:
            request = replace(request, before=page.next_cursor)
        page = await read(request)
        yield request, page


async def _older_pieces(parts: AsyncIterator[tuple[PageRequest, Page[Any]]]) -> AsyncGenerator[str, None]:
    """Yield the JSON text of the page that consists of these parts, a piece for each part.

    The pieces together are the text that `operations.text_of` would return for the page.
    """
    separator = '{"data":['
    async for _, page in parts:
        if page.items:
            yield separator + text_of_items(page.items)
            separator = ","
    yield end_of_page(page)


async def _newer_pieces(
    parts: AsyncIterator[tuple[PageRequest, Page[Any]]], read: ReadPage
) -> AsyncGenerator[str, None]:
    """Yield the JSON text of a page as `_older_pieces` does, for a request with `before`.

    The parts are read from the oldest item on, but the answer begins with the newest item. So a first pass
    only finds the cursors of the parts, and a second pass reads the parts again in the reverse order. If an
    object changes between the two passes so that the filter no longer selects it, the answer lacks this
    object.
    """
    requests: list[tuple[PageRequest, set[str]]] = []
    async for request, page in parts:
        requests.append((replace(request, limit=len(page.items)), set(map(_id, page.items))))
    end = end_of_page(page)
    yield '{"data":['
    separator = ""
    for part, ids in reversed(requests):
        if ids and (items := [item for item in (await read(part)).items if _id(item) in ids]):
            yield separator + text_of_items(items)
            separator = ","
    yield end


def _id(item: Any) -> str:
    id: str = item["id"] if isinstance(item, dict) else item.id
    return id


def moment_until_now(text: str, param: str, now: int) -> int:
    """Return the time in `text` in milliseconds.

    Raises InvalidRequest, which names the parameter `param`, for a text that is not a time and for a time
    later than `now`.
    """
    moment = parse_moment(text, param)
    if moment > now:
        raise InvalidRequest("invalid_value", f"{param} must not be in the future.", param)
    return moment


def page_request(limit: int, name: str, after: str | None, before: str | None) -> PageRequest:
    """Return the request for a page after or before an id; `name` is the parameter that contained `after`.

    Raises InvalidRequest if both `after` and `before` are given.
    """
    if after is not None and before is not None:
        raise InvalidRequest("invalid_value", f"Give {name} or ending_before, not both.", "ending_before")
    return PageRequest(limit, after, before, name)
