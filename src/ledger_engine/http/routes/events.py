"""Routes of events; all of them go beyond the contract."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from quart import Response

from ledger_engine.access import credentials
from ledger_engine.core.clock import parse_moment
from ledger_engine.core.errors import LedgerError
from ledger_engine.database.pages import Page
from ledger_engine.events import outbox
from ledger_engine.events.following import Followers
from ledger_engine.events.outbox import Event
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.events.webhooks.deliveries import Delivery
from ledger_engine.http.bodies import Body, Query
from ledger_engine.http.lists import GenericList
from ledger_engine.http.operations import Call, Routes, shown

routes = Routes("events", "/v1")

KEEP_ALIVE_S = 15.0  # proxies close what is silent for a minute or half of one
CHECKED_EVERY_S = 1.0  # a revoked key is refused within a second, on a stream too (decisions.md 14)
AT_ONCE = 16  # events that are read for a listener before it has taken the ones before


class ResendFailed(Body):
    since: str
    endpoint: str | None = None


class OneEndpoint(Query):
    endpoint: str | None = None


@dataclass(slots=True)
class Resent:
    """The deliveries of the event that are sent again."""

    data: list[Delivery]


@dataclass(slots=True)
class ResentFailed:
    """How many deliveries are sent again."""

    deliveries: int


@routes.add(
    "GET", "/events", needs="read:projects", query=GenericList, answer=Event, paged=True, beyond_contract=True
)
async def list_events(call: Call, query: GenericList) -> Page[Event]:
    """List the events, newest first."""
    return await call.read(outbox.page, query.page())


@routes.add(
    "GET", "/events/stream", needs="read:projects", also_as=("text/event-stream",), beyond_contract=True
)
async def stream_events(call: Call) -> Response:
    """Follow the events as they happen, as server-sent events."""
    followers = Followers.of(call.engine)
    followers.require_room(call.authenticate().project)
    cursor = await call.read(outbox.resume, call.header(b"last-event-id"))
    response = Response(_messages(call, followers, cursor), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # nginx would gather what is to be seen at once
    response.timeout = None
    return response


@routes.add("GET", "/events/<id>", needs="read:projects", answer=Event, beyond_contract=True)
async def get_event(call: Call, id: str) -> Event:
    """Get one event."""
    return await call.read(outbox.get, id)


@routes.add(
    "POST",
    "/events/<id>/resend",
    needs="write:projects",
    query=OneEndpoint,
    answer=Resent,
    beyond_contract=True,
)
async def resend_event(call: Call, id: str, query: OneEndpoint) -> dict[str, object]:
    """Send an event again, now: to one endpoint, or to every enabled one that wants its kind."""
    sent = await call.write(deliveries.resend, id, query.endpoint, call.idempotency_key)
    return {"data": [shown(delivery) for delivery in sent]}


@routes.add(
    "POST",
    "/events/resend",
    needs="write:projects",
    body=ResendFailed,
    answer=ResentFailed,
    beyond_contract=True,
)
async def resend_failed(call: Call, body: ResendFailed) -> ResentFailed:
    """Send again, now, what was last attempted since a time and failed."""
    since = parse_moment(body.since, "since")
    count = await call.write(deliveries.resend_failed, since, body.endpoint, call.idempotency_key)
    return ResentFailed(count)


async def _messages(call: Call, followers: Followers, cursor: str) -> AsyncIterator[str]:
    """The session's secret, then every event behind the cursor until the listener or the server goes.

    What a listener has not taken yet is not read: a slow one costs a few events of memory.
    """
    secret = endpoints.new_secret()
    value = (call.header(b"authorization") or "").partition(" ")[2]
    spoke_at = checked_at = time.monotonic()
    # Revoked, expired, the storage is lost, or others took the last places since this one was let in: a
    # listener that comes again is told.
    with contextlib.suppress(LedgerError), followers.one_more(call.authenticate().project):
        # The id lets a listener that loses the line before the first event resume from here.
        yield _message("session", cursor, {"secret": secret})
        while not followers.ended:
            change = followers.next_change()
            now = time.monotonic()
            if now - checked_at >= CHECKED_EVERY_S:
                checked_at = now
                await call.engine.read(partial(credentials.find, value=value))
            batch = await call.read(outbox.after, cursor, AT_ONCE)
            for event in batch:
                signed = {"body": event.body, "signature": endpoints.sign(secret, event.body.encode())}
                yield _message("event", event.id, signed)
                cursor, spoke_at = event.id, now
            if not batch:
                if now - spoke_at >= KEEP_ALIVE_S:
                    spoke_at = now
                    yield ": nothing happened\n\n"
                await followers.wait_for(change)


def _message(kind: str, id: str, data: dict[str, Any]) -> str:
    """One server-sent event. JSON in ASCII is one line to every reader: some take U+2028 for a line's end."""
    return f"id: {id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
