"""Routes of history: differences between two moments, the request log, the transparency log.

All of them go beyond the contract.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.ids import CHANGED, ChangedId
from ledger_engine.events import request_log
from ledger_engine.events.outbox import Event
from ledger_engine.events.request_log import LoggedRequest, RequestWithEvents
from ledger_engine.http.errors import Rendered
from ledger_engine.http.lists import DIGITS, GenericList, LookingBack, Time, moment_until_now
from ledger_engine.http.operations import Call, Routes, StreamedAnswer, end_of_page, text_of_items
from ledger_engine.ledger import differences
from ledger_engine.ledger.differences import Change, ChangeCount, ChangedPage, Summary
from ledger_engine.limits import Semaphore
from ledger_engine.log import stored, tiles
from ledger_engine.store.pages import Page, PageRequest

# At most this many requests of one project for /v1/diff may count changes at the same time, because each
# count keeps the ids of all changed objects in memory.
DIFFERENCES_OF_ONE_MAX = 2

# Differences between two moments


diff_routes = Routes("diff", "/v1")


class Between(GenericList):
    cursor: Annotated[str, Field(json_schema_extra={"pattern": CHANGED})] | None = None
    from_: Time = Field(alias="from")
    to: Time


@dataclass(slots=True)
class Difference:
    """The changes between two moments; `summary` counts all of them, on every page."""

    data: list[Change]
    has_more: bool
    next_cursor: ChangedId | None
    summary: Summary


@diff_routes.add("GET", "/diff", answer=Difference)
async def get_diff(call: Call, query: Between) -> StreamedAnswer:
    """List the objects that changed between two moments, with their states at both moments."""
    now = call.engine.clock.now()
    start = moment_until_now(query.from_, "from", now)
    end = moment_until_now(query.to, "to", now)
    if start > end:
        raise InvalidRequest("invalid_value", "from must not be later than to.", "from")
    pieces = _difference(call, start, end, query.page())
    # Count the changes now, because an error can become an error answer only before the answer begins.
    await anext(pieces)
    return StreamedAnswer("application/json", pieces)


async def _difference(call: Call, start: int, end: int, request: PageRequest) -> AsyncGenerator[str, None]:
    """Yield an empty piece once the changes are counted, then the JSON text of the page, part by part.

    Raises Full, and InvalidRequest `invalid_cursor`, before the first piece.
    """
    async with call.long_read():
        page = await _changed_page(call, start, end, request)
        yield ""
        yield '{"data":['
        sent = 0
        while sent < len(page.postings):
            texts = await call.read_step(differences.next_changes, page, sent)
            yield ("," if sent else "") + text_of_items(texts)
            sent += len(texts)
        yield end_of_page(Page([], page.next_cursor is not None, page.next_cursor), page.summary)


async def _changed_page(call: Call, start: int, end: int, request: PageRequest) -> ChangedPage:
    counting = Semaphore(f"differences/{call.authenticate().project}", DIFFERENCES_OF_ONE_MAX)
    async with call.engine.shared_state.semaphores.hold(counting, wait=True):
        count = ChangeCount(start, end)
        while count.after is not None:
            count.add(await call.read_step(differences.next_rows, count))
        return await call.read_step(differences.changed_page, count, request)


# The request log


request_routes = Routes("requests", "/v1")


class ListRequests(GenericList, LookingBack):
    status: Annotated[int, Field(ge=100, le=599), DIGITS] | None = None
    method: str | None = None
    path: str | None = None


@request_routes.add("GET", "/requests")
async def list_requests(call: Call, query: ListRequests) -> Page[LoggedRequest]:
    """List the requests of the last 7 days, newest first."""
    at = query.moment(call.engine.clock)
    return await call.read_long(
        request_log.page, query.page(), status=query.status, method=query.method, path=query.path, at=at
    )


@request_routes.add("GET", "/requests/<id>")
async def get_request(call: Call, id: str) -> RequestWithEvents:
    """Get one request with the events it caused."""
    return await call.read(request_log.get, id)


@request_routes.add("GET", "/requests/<id>/events")
async def list_request_events(call: Call, id: str, query: GenericList) -> Page[Event]:
    """List the events that one request caused, newest first."""
    return await call.read_long(request_log.events_of, query.page(), id)


# The transparency log: its checkpoint, its tiles, and proofs, in the formats of C2SP


log_routes = Routes("log", "/v1")

_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_BYTES = (b"content-type", b"application/octet-stream")
_CHANGING = (b"cache-control", b"no-store")
_UNCHANGING = (b"cache-control", b"private, max-age=31536000, immutable")


@log_routes.add("GET", "/log/checkpoint", also_as=("text/plain",), of_log=True)
async def get_checkpoint(call: Call) -> Rendered:
    """Get the last checkpoint of the log, with the signatures of witnesses so far."""
    note = await call.read(stored.checkpoint_note)
    return 200, [_TEXT, _CHANGING], note.encode()


@log_routes.add("GET", "/log/tile/<path:tile>", also_as=("application/octet-stream",))
async def get_tile(call: Call, tile: str) -> Rendered:
    """Get a tile of hashes, or a bundle of entries."""
    place = tiles.parse(tile)
    if place is None:
        raise NotFound("tile", tile)
    return 200, [_BYTES, _UNCHANGING], await call.read_long(stored.tile_content, place)


@log_routes.add("GET", "/events/<id>/proof", also_as=("text/plain",), of_log=True)
async def get_event_proof(call: Call, id: str) -> Rendered:
    """Get the proof that an event is in the log."""
    proof = await call.read(stored.proof_of_event, id)
    return 200, [_TEXT, _CHANGING], proof.encode()


@log_routes.add("GET", "/transactions/<id>/proof", also_as=("text/plain",), of_log=True)
async def get_transaction_proof(call: Call, id: str) -> Rendered:
    """Get the proof that the event of a transaction is in the log."""
    proof = await call.read(stored.proof_of_transaction, id)
    return 200, [_TEXT, _CHANGING], proof.encode()
