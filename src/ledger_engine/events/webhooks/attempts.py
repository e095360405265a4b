"""Attempts to deliver events: reads the next attempts of each endpoint, and records the results.

Each endpoint has a cursor: all wanted events up to the cursor were attempted (see `endpoints`). So the first
attempts that are still to be made are for events after the cursor. A delivery gets its row in the database
when its first attempt is recorded. From then on the row holds the state: `succeeded`, `failed` for good, or
`pending` with the time of the next attempt. All state is in the database, so the next process continues where
the last process stopped.

A delivery or its endpoint may change while an attempt runs. So an attempt carries the counts of resends and
restores that were stored when the attempt was read, and `record` compares them with the present counts. If
the delivery was resent during the attempt, it stays due; if the endpoint was deleted, the delivery gets no
retry.

There is one exception to the rule that the first recorded attempt creates the row. If an event after the
cursor is resent before its first attempt is recorded, the resend creates the row, with 0 attempts. `pending`
leaves this row out until the first attempt is recorded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger_engine.events import outbox
from ledger_engine.events.outbox import Message
from ledger_engine.events.webhooks import endpoints
from ledger_engine.events.webhooks.endpoints import Subscription
from ledger_engine.store import Unit, Value
from ledger_engine.store.books import OF_BOOK
from ledger_engine.store.rows import any_of

_ROWS = 32  # events that one statement reads
# The most events that one call of `feed` reads; the endpoint may want none of them.
_LOOKED_THROUGH_MAX = 2000


@dataclass(frozen=True, slots=True)
class Feed:
    """The events for an endpoint's next first attempts, in order.

    `read_to` is the last event that was read, wanted or not; `more` means that further events may follow. For
    each event that was resent before its first attempt, `resends` has the number of its resends.
    """

    messages: list[Message]
    read_to: str
    more: bool
    resends: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retry:
    """A pending delivery; its next attempt is due at `due`, in milliseconds.

    `attempts` counts all attempts, and `retries` only the attempts since the last resend. `resends` counts
    how often the delivery was resent.
    """

    delivery: str
    message: Message
    attempts: int
    retries: int
    due: int
    resends: int


class Respread(NamedTuple):
    """An overdue delivery with its new due time; `was` is its former due time."""

    delivery: str
    was: int
    due: int


@dataclass(slots=True)
class Outcome:
    """The result of one attempt. `error` is None for a success; `retry_in_ms` is None if no retry follows.

    The headers are the JSON text of an array of pairs. The delivery's count `resends` and the endpoint's
    counts `enables` and `restores` have the values that were stored when the attempt was read.
    """

    endpoint: str
    project: str
    livemode: bool
    event: str
    retries: int
    attempted_at: int
    latency_ms: int
    status: int | None
    error: str | None
    request_headers: str
    response_headers: str | None
    response_body: str | None
    retry_in_ms: int | None
    resends: int
    enables: int
    restores: int


class _StoredDelivery(NamedTuple):
    """The id of a stored delivery, the number of its attempts and the number of its resends."""

    id: str
    attempts: int
    resends: int


def feed(unit: Unit, subscription: Subscription, after: str, count_max: int, characters_left: int) -> Feed:
    """Return the next events after `after` that the endpoint wants and that were not attempted yet.

    Stop after `count_max` events, or once the bodies in the result have `characters_left` characters.
    """
    type_list, parameters = any_of(sorted(subscription.kinds or ()))
    types_match = "TRUE" if subscription.kinds is None else f"e.type IN ({type_list})"
    parameters |= {"project": subscription.project, "livemode": subscription.livemode, "rows": _ROWS}
    # Usually the endpoint has no delivery for an event after `after`, and the statement needs no join. But
    # after a restart some of these events may have been attempted before, and a resend may have created the
    # row of a delivery. In these cases the join finds the deliveries.
    not_attempted = join = ""
    resends = "0"
    if _latest(unit, subscription.endpoint) > after:
        not_attempted = " AND coalesce(d.attempts, 0) = 0"
        join = " LEFT JOIN deliveries AS d ON d.endpoint = :endpoint AND d.event = e.id"
        resends = "coalesce(d.resends, 0)"
        parameters["endpoint"] = subscription.endpoint
    messages: list[Message] = []
    resent: dict[str, int] = {}
    looked_through = 0
    while len(messages) < count_max and characters_left > 0 and looked_through < _LOOKED_THROUGH_MAX:
        rows = unit.execute(
            f"SELECT {outbox.SHORT_COLUMNS}, :livemode AS livemode, e.book,"
            f" {types_match}{not_attempted} AS wanted, {resends} AS resends, e.traceparent"
            f" FROM events AS e {outbox.JOIN}{join}"
            f" WHERE e.{OF_BOOK} AND e.id > :after ORDER BY e.id LIMIT :rows",
            parameters | {"after": after},
        )
        for row in rows:
            if row["wanted"]:
                if len(messages) == count_max or characters_left <= 0:
                    return Feed(messages, after, True, resent)
                if row["resends"]:
                    resent[row["id"]] = row["resends"]
                body = outbox.whole_body(unit, row)
                messages.append(Message(row["id"], row["type"], body, row["traceparent"]))
                characters_left -= len(body)
            after = row["id"]
        looked_through += len(rows)
        if len(rows) < _ROWS:
            return Feed(messages, after, False, resent)
    return Feed(messages, after, True, resent)


def pending(unit: Unit, endpoint: str, limit: int, in_progress: Collection[str] = ()) -> list[Retry]:
    """Return the endpoint's pending deliveries in the order in which they are due.

    If an event after the endpoint's cursor was resent before its first attempt, its delivery is left out
    until the first attempt is recorded. `in_progress` are the events whose retries are in progress. The
    caller already has the bodies of these events, so their long bodies are returned as ''.
    """
    rows = unit.execute(
        f"SELECT {outbox.SHORT_COLUMNS}, d.id AS delivery, d.attempts, d.retries, d.resends, d.due,"
        " d.livemode, e.book, e.traceparent"
        " FROM deliveries AS d JOIN books AS b ON b.project = d.project AND b.livemode = d.livemode"
        f" JOIN events AS e ON e.book = b.book AND e.id = d.event {outbox.JOIN}"
        " WHERE d.endpoint = :endpoint AND d.status = 'pending'"
        " AND (d.attempts > 0 OR d.event <= (SELECT cursor FROM webhook_endpoints WHERE id = :endpoint))"
        " ORDER BY d.due LIMIT :limit",
        {"endpoint": endpoint, "limit": limit},
    )
    return [
        Retry(
            row["delivery"],
            Message(
                row["id"],
                row["type"],
                outbox.body_of(row) if row["id"] in in_progress else outbox.whole_body(unit, row),
                row["traceparent"],
            ),
            row["attempts"],
            row["retries"],
            row["due"],
            row["resends"],
        )
        for row in rows
    ]


def record(unit: Unit, outcomes: Sequence[Outcome], now: int) -> set[tuple[str, str]]:
    """Record attempts; each retry is due `retry_in_ms` after `now`, which is in milliseconds.

    Attempts for events that do not exist are left out: a failover of the database may have lost these events.
    A delivery that was resent during the attempt stays due; the function returns the endpoint and the event
    of each such delivery. If the endpoint was deleted during the attempt, a failure is final, even if the
    endpoint was restored since.
    """
    outcomes = _with_existing_events(unit, outcomes)
    rows = _stored_deliveries(unit, outcomes)
    restores = endpoints.restores(unit, {outcome.endpoint for outcome in outcomes})
    resent: set[tuple[str, str]] = set()
    new: list[tuple[Value, ...]] = []
    updates: list[dict[str, Value]] = []
    attempts: list[tuple[Value, ...]] = []
    for outcome in outcomes:
        if outcome.error is None:
            status, due = "succeeded", None
        elif outcome.retry_in_ms is not None and outcome.restores == restores.get(outcome.endpoint):
            status, due = "pending", now + outcome.retry_in_ms
        else:
            status, due = "failed", None
        retries = outcome.retries + (status == "pending")
        delivery, attempts_made, resends = rows.get(
            (outcome.endpoint, outcome.event), _StoredDelivery("", 0, 0)
        )
        number = attempts_made + 1
        if delivery:
            if resends != outcome.resends:
                resent.add((outcome.endpoint, outcome.event))
            row: dict[str, Value] = {"id": delivery, "status": status, "attempts": number, "retries": retries}
            updates.append(
                row | {"due": due, "attempted_at": outcome.attempted_at, "resends": outcome.resends}
            )
        else:
            delivery = unit.new_id("dlv")
            of = (delivery, outcome.project, outcome.livemode, outcome.endpoint, outcome.event)
            new.append((*of, status, number, retries, due, outcome.attempted_at, now))
        attempts.append(
            (
                delivery,
                number,
                outcome.attempted_at,
                outcome.latency_ms,
                outcome.status,
                outcome.error,
                outcome.request_headers,
                outcome.response_headers,
                outcome.response_body,
            )
        )
    unit.insert_many("deliveries", _DELIVERY, new)
    unit.execute_many(
        "UPDATE deliveries SET attempts = :attempts, attempted_at = :attempted_at,"
        " status = CASE WHEN resends = :resends THEN :status ELSE status END,"
        " retries = CASE WHEN resends = :resends THEN :retries ELSE retries END,"
        " due = CASE WHEN resends = :resends THEN :due ELSE due END WHERE id = :id",
        updates,
    )
    unit.insert_many("delivery_attempts", _ATTEMPT, attempts)
    return resent


def spread_overdue(unit: Unit, endpoint: str, pace_ms: int) -> list[Respread]:
    """Return new due times for the endpoint's overdue deliveries, in the present order of the deliveries.

    The first delivery is due now, and the others follow at intervals of `pace_ms`. The function includes the
    deliveries that an earlier call has spread, even if they are not due yet. Otherwise the deliveries that
    became overdue since the earlier call would be sent between the spread deliveries. The function recognises
    a spread delivery by its due time, which is a multiple of `pace_ms`. A few other deliveries have such a
    due time by chance, and the function includes these deliveries too. The function stores nothing; `set_due`
    stores the new due times.
    """
    now = unit.now
    rows = unit.execute(
        "SELECT id, due FROM deliveries WHERE endpoint = :endpoint AND status = 'pending'"
        " AND (due < :now OR due % :pace = 0) ORDER BY due",
        {"endpoint": endpoint, "now": now, "pace": pace_ms},
    )
    # The first multiple of the pace that is at least `pace_ms` from now.
    second_due = (-(-now // pace_ms) + 1) * pace_ms
    return [
        Respread(row["id"], row["due"], second_due + (number - 1) * pace_ms if number else now)
        for number, row in enumerate(rows)
    ]


def set_due(unit: Unit, spread: Sequence[Respread]) -> None:
    """Store new due times, except for deliveries that were sent or resent since `spread_overdue` ran."""
    unit.execute_many(
        "UPDATE deliveries SET due = :due WHERE id = :id AND status = 'pending' AND due = :was",
        [{"id": each.delivery, "was": each.was, "due": each.due} for each in spread],
    )


def _with_existing_events(unit: Unit, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes whose events exist."""
    of_book: defaultdict[tuple[str, bool], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        of_book[outcome.project, outcome.livemode].append(outcome)
    outcomes_to_record: list[Outcome] = []
    for (project, livemode), book_outcomes in of_book.items():
        for first in range(0, len(book_outcomes), _READ_TOGETHER):
            chunk = book_outcomes[first : first + _READ_TOGETHER]
            parameters: dict[str, Value] = dict.fromkeys(_EVENTS) | {"project": project, "livemode": livemode}
            parameters |= {name: outcome.event for name, outcome in zip(_EVENTS, chunk, strict=False)}
            event_ids = {row["id"] for row in unit.execute(_READ_EVENTS, parameters)}
            outcomes_to_record += [outcome for outcome in chunk if outcome.event in event_ids]
    return outcomes_to_record


def _stored_deliveries(unit: Unit, outcomes: Sequence[Outcome]) -> dict[tuple[str, str], _StoredDelivery]:
    """Return the stored deliveries to which these outcomes belong, by endpoint and event."""
    # Most outcomes are of first attempts. The event of such an outcome is later than all events that have a
    # stored delivery to the endpoint, so the outcome has no stored delivery. So if an endpoint has many
    # outcomes, this function first reads the latest event with a stored delivery, and then looks for the
    # deliveries of outcomes up to this event only.
    counts = Counter(outcome.endpoint for outcome in outcomes)
    latest = {id: _latest(unit, id) for id, count in counts.items() if count >= _MANY}
    candidates = [
        outcome for outcome in outcomes if outcome.event <= latest.get(outcome.endpoint, outcome.event)
    ]
    rows: dict[tuple[str, str], _StoredDelivery] = {}
    for first in range(0, len(candidates), _READ_TOGETHER):
        # Unused parameters stay None, so that the same statement serves any number of events.
        parameters = dict(_NOTHING)
        for number, outcome in enumerate(candidates[first : first + _READ_TOGETHER]):
            parameters[_ENDPOINTS[number]] = outcome.endpoint
            parameters[_EVENTS[number]] = outcome.event
        for row in unit.execute(_READ_DELIVERIES, parameters):
            rows[row["endpoint"], row["event"]] = _StoredDelivery(row["id"], row["attempts"], row["resends"])
    return rows


def _latest(unit: Unit, endpoint: str) -> str:
    """Return the latest event that has a stored delivery to the endpoint; "" if there is none."""
    sql = "SELECT event FROM deliveries WHERE endpoint = :endpoint ORDER BY event DESC LIMIT 1"
    row = unit.first(sql, {"endpoint": endpoint})
    return "" if row is None else str(row["event"])


_DELIVERY = (
    "id", "project", "livemode", "endpoint", "event", "status", "attempts", "retries", "due", "attempted_at",
    "created",
)  # fmt: skip
_ATTEMPT = (
    "delivery", "number", "attempted_at", "latency_ms", "status", "error", "request_headers",
    "response_headers", "response_body",
)  # fmt: skip
# If an endpoint has at least this many outcomes, `_stored_deliveries` first reads the endpoint's latest event
# that has a stored delivery.
_MANY = 8
_READ_TOGETHER = 50  # deliveries that one statement reads
_ENDPOINTS = [f"endpoint_{number}" for number in range(_READ_TOGETHER)]
_EVENTS = [f"event_{number}" for number in range(_READ_TOGETHER)]
_NOTHING: dict[str, Value] = dict.fromkeys(_ENDPOINTS + _EVENTS)
_PAIRS = ", ".join(f"(:{endpoint}, :{event})" for endpoint, event in zip(_ENDPOINTS, _EVENTS, strict=True))
_READ_EVENTS = (
    f"SELECT id FROM events WHERE {OF_BOOK} AND id IN ({', '.join(f':{event}' for event in _EVENTS)})"
)
_READ_DELIVERIES = (
    f"WITH wanted (endpoint, event) AS (VALUES {_PAIRS})"
    " SELECT d.id, d.endpoint, d.event, d.attempts, d.resends FROM wanted AS w CROSS JOIN deliveries AS d"
    " WHERE d.endpoint = w.endpoint AND d.event = w.event"
)
