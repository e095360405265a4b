"""Reads a trace: the requests that concern one object, the changes by each request, the events, and their
deliveries.

`read_trace` sends a limited number of requests, one after the other, and yields the trace after each part.
`nodes.py` draws a trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote

from ledger_client.errors import InvalidRequest, LedgerError, NotFound, PermissionDenied
from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.records import Record, records_of
from ledger_tui.client.totals import moment
from ledger_tui.client.traffic import OWN_PREFIX
from ledger_tui.formats.text import literal
from ledger_tui.resources.proofs import PART, read_proof
from ledger_tui.resources.webhooks import subject

# Fields that never differ, or whose difference says nothing about a change.
_NOT_COMPARED = frozenset({"id", "object", "livemode", "created"})
_DEPTH_MAX = 4


@dataclass(frozen=True)
class TraceStep:
    """One request, or one command, with the events that it caused, oldest first.

    Three fields hold data about these events, by the id of the event, as far as the data was read. `before`
    holds the state that the event's object had before the event. `deliveries` holds the deliveries of the
    event. `entries` holds the number of the event in the transparency log. A field whose name begins with
    `no_` gives the reason why a part is missing.
    """

    request_id: str | None
    request: Record | None = None
    no_request: str = ""
    events: tuple[Record, ...] = ()
    more_events: int = 0
    no_events: str = ""
    before: Mapping[str, Record] = field(default_factory=dict)
    deliveries: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    no_deliveries: str = ""
    entries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """The trace of `record`, an object of `kind`.

    `more_steps` is the number of earlier steps that are left out, and `requests` the number of requests that
    were sent to read the trace.
    """

    kind: str
    record: Record
    steps: tuple[TraceStep, ...] = ()
    more_steps: int = 0
    endpoints: Mapping[str, Record] = field(default_factory=dict)
    problem: str = ""
    requests: int = 0
    complete: bool = False

    @property
    def record_id(self) -> str:
        return str(self.record.get("id", ""))

    def deliveries(self) -> Iterator[Record]:
        """Yield every known delivery."""
        for step in self.steps:
            for deliveries in step.deliveries.values():
                yield from deliveries

    def settled(self, now: float) -> bool:
        """Return whether this trace will probably not change after `now`, in Unix time by the ledger's clock.

        A new event has no deliveries yet, and gets none if no endpoint accepts the type of the event. So an
        event without deliveries counts as settled only after some time.
        """
        waits = any(delivery.get("status") == "pending" for delivery in self.deliveries())
        to_come = any(
            step.deliveries.get(str(event.get("id"))) == ()  # the deliveries were read, and none exist
            and now - (moment(event.get("created")) or 0.0) < _DELIVERIES_WITHIN_SECONDS
            for step in self.steps
            for event in step.events
        )
        return not (waits or to_come or any(step.no_request == NOT_LOGGED for step in self.steps))


_DELIVERIES_WITHIN_SECONDS = 30.0
NOT_LOGGED = "not in the request log (yet)"


class FieldChange(NamedTuple):
    """One field that differs. `before` or `after` is None if the field was absent or null at that time."""

    name: str
    before: Any
    after: Any


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """Return the fields that differ, in the order of `after`; fields of an inner object have dotted names."""
    old, new = dict(_fields(before)), dict(_fields(after))
    names = [*new, *(name for name in old if name not in new)]
    return [
        FieldChange(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name) and name not in _NOT_COMPARED
    ]


def _fields(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict) and depth < _DEPTH_MAX:
            yield from _fields(value, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", value


def balance_before(transaction: Mapping[str, Any]) -> int | None:
    """Return the account's balance before a transaction; None if the record does not contain the figures."""
    after, amount, kind = (transaction.get(name) for name in ("balance_after", "amount", "type"))
    if not isinstance(after, int) or not isinstance(amount, int) or kind not in ("credit", "debit"):
        return None
    return after - amount if kind == "credit" else after + amount


def later(seconds: float) -> str:
    """Return a time difference in at most 8 cells: `+12 ms`, `+5.1 s`, `+5 min`, `+2.0 h` or `+3 d`."""
    if seconds < 0:
        return "−" + later(-seconds)[1:]
    if seconds < 0.9995:
        return f"+{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"+{seconds:.1f} s"
    if seconds < 3570:
        return f"+{seconds / 60:.0f} min"
    if seconds < 35.95 * 3600:
        return f"+{seconds / 3600:.1f} h"
    return f"+{seconds / 86400:.0f} d"


# A trace sends at most a quarter of the requests that the rate limit allows in a minute. But this maximum is
# never below 4 and never above 15.
REQUESTS_MAX = 15
_SHARE = 4
_FEWEST = 4
_EVENTS_SHOWN = 8  # the maximum number of events to show for one request
_STEPS_SHOWN = 5  # the maximum number of requests to show for one object
# If the rate limit is unknown or lower than `_GENEROUS_LIMIT`, the trace pauses between its requests, to stay
# below the burst that the limit allows.
_GENEROUS_LIMIT = 600
_PAUSE_SECONDS = 0.15

NO_EVENTS = "this server shows no events"
_NO_LOG = "this server keeps no request log"
_NO_DELIVERIES = "this server does not show the deliveries of an event"
_NO_ENDPOINTS = "no webhook endpoint is registered"
_NO_OBJECT_FILTER = "this server does not list the events of one object"
_TOO_MANY = "not read: a trace sends at most {} requests here"


class _Without(Exception):
    """A part of the trace is missing; the message gives the reason."""


class _UsedUp(_Without):
    """The trace has already sent its maximum number of requests."""


@dataclass
class _Reader:
    """Sends the requests for one trace, and counts them."""

    api: Api
    most: int
    count: int = 0
    of_object: dict[str, list[Record]] = field(default_factory=dict)

    async def get(self, path: str, part: str | None = None, **params: str) -> Record:
        if self.count >= self.most:
            raise _UsedUp(_TOO_MANY.format(self.most))
        limit = self.api.session.limit
        if self.count and (limit is None or limit < _GENEROUS_LIMIT):
            await asyncio.sleep(_PAUSE_SECONDS)
        self.count += 1
        return (await self.api.read(path, params, part=part)).record

    async def entry_of(self, event_id: str) -> int | None:
        """Return the number of an event in the transparency log; None if the server has no proof of it."""
        if self.count >= self.most or PART in self.api.session.missing_parts:
            raise _UsedUp
        self.count += 1
        proof = await read_proof(self.api, "events", event_id)
        return proof.index if proof is not None else None

    async def listed(self, path: str, part: str, **params: str) -> list[Record]:
        return records_of((await self.get(path, part, **params)).get("data"))

    async def events_of_object(self, object_id: str) -> list[Record]:
        """Return the newest events about an object, newest first."""
        if object_id not in self.of_object:
            try:
                events_listed = await self.listed("/v1/events", "events", object=object_id, limit="100")
            except InvalidRequest:  # the server does not know the parameter `object`
                raise _Without(_NO_OBJECT_FILTER) from None
            # A server that does not know the parameter `object` may ignore this parameter and list all
            # events, so leave out the events about other objects.
            self.of_object[object_id] = [
                each for each in events_listed if subject(each).get("id") == object_id
            ]
        return self.of_object[object_id]


def most_requests(limit: int | None) -> int:
    """Return the maximum number of requests for a trace, for a rate limit of `limit` requests a minute."""
    return REQUESTS_MAX if not limit else max(_FEWEST, min(REQUESTS_MAX, limit // _SHARE))


async def read_trace(api: Api, kind: str, record: Record) -> AsyncIterator[Trace]:
    """Yield the trace of an object, event, delivery or request several times, each time with more parts.

    Sends at most `most_requests` requests. If a part cannot be read, the trace contains the reason instead.
    """
    reader = _Reader(api, most_requests(api.session.limit))
    trace = Trace(kind, record)
    yield trace
    try:
        steps, more = await _first_steps(reader, kind, record)
    except (_Without, LedgerError) as error:
        steps, more, trace = [], 0, replace(trace, problem=_why(error, NO_EVENTS))
    trace = replace(trace, steps=tuple(steps), more_steps=more, requests=reader.count)
    yield trace
    no_deliveries: str | None = None  # None until the endpoints are read
    # Read the newest step first, because the maximum number of requests may not be enough for all steps.
    for number in reversed(range(len(steps))):
        for part in (_with_request, _with_events, _with_before):
            steps[number] = await part(reader, steps[number])
        yield replace(trace, steps=tuple(steps), requests=reader.count)
        if no_deliveries is None and steps[number].events:
            endpoints, no_deliveries = await _endpoints(reader)
            trace = replace(trace, endpoints={str(each.get("id")): each for each in endpoints})
        steps[number] = await _with_deliveries(reader, steps[number], no_deliveries or "", record)
        trace = replace(trace, steps=tuple(steps), requests=reader.count)
        yield trace
    # If there are deliveries but no endpoint is registered now, the endpoints were deleted later.
    if any(trace.deliveries()):
        steps = [_after_deletion(step) for step in steps]
    for number in reversed(range(len(steps))):
        steps[number] = await _with_entries(reader, steps[number])
    yield replace(trace, steps=tuple(steps), complete=True, requests=reader.count)


async def _first_steps(reader: _Reader, kind: str, record: Record) -> tuple[list[TraceStep], int]:
    """Return a step for each of the newest requests about the record, oldest first, and the number of earlier
    requests, which are left out.
    """
    record_id = str(record.get("id", ""))
    if kind == "requests":
        own = record_id.startswith(OWN_PREFIX)
        return [TraceStep(record_id, record, _NO_LOG if own else "", no_events=NO_EVENTS if own else "")], 0
    if kind == "events":
        events = [record]
    elif kind == "deliveries":
        events = [await reader.get(f"/v1/events/{quote(str(record.get('event')), safe='')}")]
    else:
        events = (await reader.events_of_object(record_id))[::-1]
    by_request: dict[str, list[Record]] = {}
    for event in events:
        by_request.setdefault(str(event.get("request") or event.get("id")), []).append(event)
    steps = [
        TraceStep(_request_of(events_of_request[0]), events=tuple(events_of_request))
        for events_of_request in by_request.values()
    ]
    return steps[-_STEPS_SHOWN:], max(0, len(steps) - _STEPS_SHOWN)


def _request_of(event: Record) -> str | None:
    request = event.get("request")
    return request if isinstance(request, str) else None  # the server's answer may have any form


async def _endpoints(reader: _Reader) -> tuple[list[Record], str]:
    """Return the endpoints, and the reason why deliveries cannot be read, or "" if they can be read."""
    try:
        endpoints = await reader.listed("/v1/webhook_endpoints", "webhook_endpoints", limit="100")
    except _UsedUp:
        return [], ""
    except LedgerError as error:
        return [], _why(error, _NO_DELIVERIES)
    return endpoints, "" if endpoints else _NO_ENDPOINTS


async def _with_request(reader: _Reader, step: TraceStep) -> TraceStep:
    """Return the step with the log's entry of its request, which lists the ids of the caused events."""
    if step.request_id is None or step.no_request or isinstance((step.request or {}).get("events"), list):
        return step
    try:
        request = await reader.get(f"/v1/requests/{quote(step.request_id, safe='')}")
    except NotFound as error:
        # An error code in the answer means that the log lacks this request. Without a code, the answer does
        # not come from the ledger's interface: the server has no request log.
        return replace(step, no_request=NOT_LOGGED if error.code else _NO_LOG)
    except (_Without, LedgerError) as error:
        return replace(step, no_request=_why(error, _NO_LOG))
    return replace(step, request=request)


async def _with_events(reader: _Reader, step: TraceStep) -> TraceStep:
    """Return the step with all events of its request, up to a maximum."""
    ids = (step.request or {}).get("events")
    if not isinstance(ids, list) or step.no_events:
        return step
    by_id = {str(event.get("id")): event for event in step.events}
    if set(map(str, ids)) - by_id.keys():
        path = f"/v1/requests/{quote(str(step.request_id), safe='')}/events"
        try:
            events_listed = await reader.listed(path, "requests.events", limit=str(_EVENTS_SHOWN))
        except (_Without, LedgerError) as error:
            return replace(step, no_events=_why(error, "this server does not list the events of a request"))
        for event in events_listed:
            if len(by_id) < _EVENTS_SHOWN:
                by_id.setdefault(str(event.get("id")), event)
    events = tuple(by_id[event_id] for event_id in sorted(by_id))
    return replace(step, events=events, more_events=max(0, len(ids) - len(events)))


async def _with_before(reader: _Reader, step: TraceStep) -> TraceStep:
    """Return the step with the earlier state of each object, read from the previous event of the object."""
    before = dict(step.before)
    for event in step.events:
        if str(event.get("type")).endswith(".created"):
            continue
        event_id = str(event.get("id"))
        try:
            about = await reader.events_of_object(str(subject(event).get("id")))
        except (_Without, LedgerError):
            continue
        older = next((each for each in about if str(each.get("id")) < event_id), None)
        if older is not None:
            before[event_id] = subject(older)
    return replace(step, before=before)


async def _with_deliveries(reader: _Reader, step: TraceStep, no_deliveries: str, record: Record) -> TraceStep:
    """Return the step with the deliveries of its events; the deliveries of the traced event are read first.

    `no_deliveries` is a known reason why deliveries cannot be read, or "". If the reason is that no endpoint
    is registered, this function still reads the deliveries, because their endpoints may have been deleted.
    """
    if no_deliveries not in ("", _NO_ENDPOINTS) or not step.events:
        return replace(step, no_deliveries=no_deliveries)
    ids = (record.get("id"), record.get("event"))
    by_event = dict(step.deliveries)
    first = [e for e in step.events if e.get("id") in ids or subject(e).get("id") in ids]
    for event_id in dict.fromkeys(str(e.get("id")) for e in (*first, *step.events)):
        try:
            path = f"/v1/events/{quote(event_id, safe='')}/deliveries"
            by_event[event_id] = tuple(await reader.listed(path, "events.deliveries"))
        except (_Without, LedgerError) as error:
            # If a delivery is traced, `record` is this delivery, so add it without a request.
            if not isinstance(error, _UsedUp) and isinstance(record.get("attempts"), list):
                by_event.setdefault(str(record.get("event")), (record,))
            why = no_deliveries or _why(error, _NO_DELIVERIES)
            return replace(
                step,
                deliveries={} if no_deliveries and not any(by_event.values()) else by_event,
                no_deliveries=why,
            )
    if no_deliveries and not any(by_event.values()):
        return replace(step, no_deliveries=no_deliveries)
    return replace(step, deliveries=by_event)


def _after_deletion(step: TraceStep) -> TraceStep:
    """Remove the reason "no webhook endpoint is registered" from the step, and return the step.

    The endpoints existed at the time of the step and were deleted later. An event without known deliveries
    gets an empty list of deliveries.
    """
    if step.no_deliveries != _NO_ENDPOINTS:
        return step
    unsent: dict[str, tuple[Record, ...]] = {str(event.get("id")): () for event in step.events}
    return replace(step, deliveries=unsent | dict(step.deliveries), no_deliveries="")


async def _with_entries(reader: _Reader, step: TraceStep) -> TraceStep:
    """Return the step with the numbers of its events in the log, as far as the maximum of requests allows."""
    entries: dict[str, int] = {}
    for event in step.events:
        try:
            if (index := await reader.entry_of(str(event.get("id")))) is not None:
                entries[str(event.get("id"))] = index
        except (_UsedUp, LedgerError):
            break
    return replace(step, entries=entries)


def _why(error: Exception, not_offered: str) -> str:
    """Return the reason why a part is missing; `not_offered` is the reason if the server lacks the part."""
    if isinstance(error, NotOffered):
        return not_offered
    if isinstance(error, PermissionDenied):
        return f"not shown to this credential: {literal(error)}"
    if isinstance(error, NotFound):
        return f"no longer exists: {literal(error)}"
    return literal(error)
