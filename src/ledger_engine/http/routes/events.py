"""Routes of events; all of them go beyond the contract."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ledger_engine.access import credentials
from ledger_engine.core.clock import parse_moment
from ledger_engine.core.errors import LedgerError
from ledger_engine.events import outbox
from ledger_engine.events.following import Followers
from ledger_engine.events.outbox import Event
from ledger_engine.events.webhooks import deliveries, endpoints, signatures
from ledger_engine.events.webhooks.deliveries import Delivery
from ledger_engine.http.bodies import Body, Query
from ledger_engine.http.lists import GenericList, LookingBack, page_request
from ledger_engine.http.operations import Call, Routes, Streamed
from ledger_engine.store.pages import Page, PageRequest

routes = Routes("events", "/v1")

KEEP_ALIVE_S = 15.0  # seconds; proxies close connections that are silent for half a minute or a minute
# The key of a stream is checked this often: a revoked key is refused within a second
# (docs/decisions.md#commands).
CHECKED_EVERY_S = 1.0
AT_ONCE = 16  # events that are read ahead for a listener


class ResendFailed(Body):
    since: str
    endpoint: str | None = None


class OneEndpoint(Query):
    endpoint: str | None = None


class ListEvents(GenericList, LookingBack):
    object: str | None = None
    ending_before: str | None = None

    def page(self) -> PageRequest:
        """Return the page that was asked for; raises InvalidRequest when both cursors are given."""
        return page_request(self.limit, "cursor", self.cursor, self.ending_before)


@dataclass(slots=True)
class EventDeliveries:
    """The deliveries of one event, one for each endpoint that it was sent to."""

    data: list[Delivery]


@dataclass(slots=True)
class Resent:
    """The deliveries of the event that are sent again."""

    data: list[Delivery]


@dataclass(slots=True)
class ResentFailed:
    """The number of deliveries that are sent again."""

    deliveries: int


@routes.add("GET", "/events", needs="read:projects")
async def list_events(call: Call, query: ListEvents) -> Page[Event]:
    """List the events, newest first; with `object`, those about the object with this id.

    A program that follows the events keeps the id of the last one it has handled, and asks with it in
    `ending_before` for the page that is just newer.
    """
    at = query.moment(call.engine.clock)
    if query.object is not None:
        return await call.read(outbox.about, query.page(), query.object, at)
    return await call.read(outbox.page, query.page(), at)


# nginx would hold back what should be seen at once.
_UNBUFFERED = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


@routes.add("GET", "/events/stream", needs="read:projects", also_as=("text/event-stream",))
async def stream_events(call: Call) -> Streamed:
    """Follow the events as they happen, as server-sent events."""
    cursor = await call.read(outbox.resume, call.header(b"last-event-id"))
    messages = _messages(call, Followers.of(call.engine), cursor)
    await anext(messages)
    return Streamed("text/event-stream", messages, _UNBUFFERED)


@routes.add("GET", "/events/<id>", needs="read:projects")
async def get_event(call: Call, id: str) -> Event:
    """Get one event."""
    return await call.read_short(outbox.get, id)


@routes.add("GET", "/events/<id>/deliveries", needs="read:projects", answer=EventDeliveries)
async def list_event_deliveries(call: Call, id: str) -> list[Delivery]:
    """List the deliveries of one event with every attempt, in the order of their endpoints."""
    return await call.read(deliveries.of_event, id)


@routes.add("POST", "/events/<id>/resend", needs="write:projects", answer=Resent)
async def resend_event(call: Call, id: str, query: OneEndpoint) -> list[Delivery]:
    """Send an event again, now: to one endpoint, or to every enabled one that wants its type."""
    return await call.write(deliveries.resend, id, query.endpoint, call.idempotency_key)


@routes.add("POST", "/events/resend", needs="write:projects")
async def resend_failed(call: Call, body: ResendFailed) -> ResentFailed:
    """Send again, now, the failed deliveries that were last attempted since a time."""
    since = parse_moment(body.since, "since")
    tenant = call.authenticate()
    key = call.idempotency_key
    return ResentFailed(await deliveries.resend_failed(call.engine, tenant, since, body.endpoint, key))


async def _messages(call: Call, followers: Followers, cursor: str) -> AsyncGenerator[str, None]:
    """Yield the session's secret, then every event after the cursor, until the listener or the server ends.

    The first message is empty: asking for it takes a place among the followers, which is kept until the
    generator ends; raises PermissionDenied if none is free. Events are read only as fast as the listener
    takes them, so a slow one costs the memory of a few events.
    """
    secret = endpoints.new_secret()
    value = (call.header(b"authorization") or "").partition(" ")[2]
    spoke_at = checked_at = time.monotonic()
    async with followers.follow(call.authenticate().project):
        with contextlib.suppress(LedgerError):
            yield ""
            # With this id a listener that loses the connection before the first event can resume from here.
            yield _message("session", cursor, {"secret": secret})
            # The key was revoked or has expired, or the storage is lost: reconnecting answers with that.
            while not followers.ended:
                change = followers.next_change()
                now = time.monotonic()
                if now - checked_at >= CHECKED_EVERY_S:
                    checked_at = now
                    await call.engine.read(partial(credentials.find, value=value))
                messages, looked_at = await call.read(outbox.after, cursor, AT_ONCE)
                for event in messages:
                    signed = {"body": event.body, "signature": signatures.sign(secret, event.body.encode())}
                    yield _message("event", event.id, signed)
                    spoke_at = now
                if now - spoke_at >= KEEP_ALIVE_S:
                    spoke_at = now
                    yield ": nothing happened\n\n"
                if looked_at == cursor:
                    await followers.wait_for(change)
                cursor = looked_at


def _message(kind: str, id: str, data: dict[str, Any]) -> str:
    """Return one server-sent event.

    Its JSON is ASCII, so that it is one line for every reader: some take U+2028 as the end of a line.
    """
    return f"id: {id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
