"""Attempts: what is to be sent next to which endpoint, and what came of it.

First attempts go by the endpoint's cursor and need no row until they are made. From then on a delivery's
row says how it stands: `succeeded`, `failed` for good, or `pending` with the next attempt's time. All
of it is in the database, so whatever process sends next goes on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_engine.core.records import dumps
from ledger_engine.database import Unit, Value, kept_time
from ledger_engine.database.books import OF_BOOK
from ledger_engine.events import bodies
from ledger_engine.events.outbox import Message
from ledger_engine.events.webhooks.endpoints import Subscription

JUMP_MS = 30_000  # between the ledger's time and the one that passed; less is a clock being kept right
_ROWS = 32  # events read at once: a body may be as large as a request
_LOOKED_THROUGH_MAX = 2000  # events of other kinds passed over in one work


@dataclass(frozen=True, slots=True)
class Feed:
    """The endpoint's next first attempts, in order. All its events up to `read_to` were looked at, and
    there may be `more` behind."""

    messages: list[Message]
    read_to: str
    more: bool


@dataclass(frozen=True, slots=True)
class Retry:
    """A pending delivery. It has had `attempts`, `retries` of them since it was last sent anew."""

    delivery: str
    message: Message
    attempts: int
    retries: int
    due: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attempt that was made. `error` is None for a success; `retry_in_ms` is None for the last try."""

    endpoint: str
    project: str
    livemode: bool
    event: str
    retries: int
    attempted_at: int
    latency_ms: int
    status: int | None
    error: str | None
    request_headers: list[tuple[str, str]]
    response_headers: list[tuple[str, str]] | None
    response_body: str | None
    retry_in_ms: int | None


def feed(unit: Unit, subscription: Subscription, after: str, count_max: int, bytes_left: int) -> Feed:
    """The next events behind `after` that the endpoint wants and has no delivery of: up to `room` of them,
    and no more once their bodies have `bytes_room` characters."""
    kinds = sorted(subscription.kinds or ())
    names = ", ".join(f":kind{position}" for position in range(len(kinds)))
    wanted = "1" if subscription.kinds is None else f"e.type IN ({names})"
    parameters: dict[str, Value] = {f"kind{position}": kind for position, kind in enumerate(kinds)}
    parameters |= {"project": subscription.project, "livemode": subscription.livemode}
    parameters |= {"endpoint": subscription.endpoint, "rows": _ROWS}
    messages: list[Message] = []
    looked_through = 0
    while len(messages) < count_max and bytes_left > 0 and looked_through < _LOOKED_THROUGH_MAX:
        rows = unit.execute(
            f"SELECT {bodies.COLUMNS}, :livemode AS livemode, {wanted} AS wanted, d.id AS delivery"
            f" FROM events AS e {bodies.JOIN}"
            " LEFT JOIN deliveries AS d ON d.endpoint = :endpoint AND d.event = e.id"
            f" WHERE e.{OF_BOOK} AND e.id > :after ORDER BY e.id LIMIT :rows",
            parameters | {"after": after},
        )
        for row in rows:
            if row["wanted"] and row["delivery"] is None:
                if len(messages) == count_max or bytes_left <= 0:
                    return Feed(messages, after, True)
                body = bodies.body_of(row)
                messages.append(Message(row["id"], row["type"], body))
                bytes_left -= len(body)
            after = row["id"]
        looked_through += len(rows)
        if len(rows) < _ROWS:
            return Feed(messages, after, False)
    return Feed(messages, after, True)


def pending(unit: Unit, endpoint: str, limit: int, held_before: int = 0) -> list[Retry]:
    """Return the endpoint's pending deliveries that are due first.

    Leave out those last attempted before the ledger's time `held_before`, unless somebody asked for them
    to be sent again.
    """
    rows = unit.execute(
        f"SELECT d.id AS delivery, d.attempts, d.retries, d.due, d.livemode, {bodies.COLUMNS}"
        " FROM deliveries AS d JOIN books AS b ON b.project = d.project AND b.livemode = d.livemode"
        f" JOIN events AS e ON e.book = b.book AND e.id = d.event {bodies.JOIN}"
        " WHERE d.endpoint = :endpoint AND d.status = 'pending'"
        " AND (d.retries = 0 OR d.attempted_at >= :held_before) ORDER BY d.due LIMIT :limit",
        {"endpoint": endpoint, "limit": limit, "held_before": held_before},
    )
    put_off = kept_time.get(unit).put_off
    return [
        Retry(
            row["delivery"],
            Message(row["id"], row["type"], bodies.body_of(row)),
            row["attempts"],
            row["retries"],
            row["due"] + put_off,
        )
        for row in rows
    ]


def record(unit: Unit, outcomes: Sequence[Outcome], now: int) -> None:
    """Record attempts that were made, and when the next ones are due, counted from the moment `now`."""
    put_off = kept_time.get(unit).put_off
    attempts: list[dict[str, Value]] = []
    for outcome in outcomes:
        if outcome.error is None:
            status, due = "succeeded", None
        elif outcome.retry_in_ms is not None:
            status, due = "pending", now + outcome.retry_in_ms - put_off
        else:
            status, due = "failed", None
        row = unit.first(
            "INSERT INTO deliveries (id, project, livemode, endpoint, event, status, attempts, retries, due,"
            " attempted_at, created) VALUES (:id, :project, :livemode, :endpoint, :event, :status, 1,"
            " :retries, :due, :attempted_at, :now) ON CONFLICT (endpoint, event) DO UPDATE SET"
            " attempts = deliveries.attempts + 1, status = excluded.status, retries = excluded.retries,"
            " due = excluded.due, attempted_at = excluded.attempted_at RETURNING id, attempts",
            {
                "id": unit.new_id("dlv"),
                "project": outcome.project,
                "livemode": outcome.livemode,
                "endpoint": outcome.endpoint,
                "event": outcome.event,
                "status": status,
                "retries": outcome.retries + (status == "pending"),
                "due": due,
                "attempted_at": outcome.attempted_at,
                "now": now,
            },
        )
        assert row is not None
        attempts.append(_attempt_row(row["id"], row["attempts"], outcome))
    unit.execute_many(
        "INSERT INTO delivery_attempts (delivery, number, attempted_at, latency_ms, status, error,"
        " request_headers, response_headers, response_body) VALUES (:delivery, :number, :attempted_at,"
        " :latency_ms, :status, :error, :request_headers, :response_headers, :response_body)",
        attempts,
    )


def last_pending_attempt(unit: Unit) -> int:
    """Return when the last attempt was made of what is pending, by the ledger's time; 0 for never."""
    row = unit.first("SELECT max(attempted_at) AS last FROM deliveries WHERE status = 'pending'")
    return 0 if row is None or row["last"] is None else int(row["last"])


def spread_overdue(unit: Unit, endpoint: str, before: int, first_at: int, pace_ms: int, limit: int) -> int:
    """Put up to `limit` of the endpoint's deliveries that were due `before` at one distance from another, in
    their order; return how many."""
    put_off = kept_time.get(unit).put_off
    rows = unit.execute(
        "SELECT id FROM deliveries WHERE endpoint = :endpoint AND status = 'pending' AND due < :before"
        " ORDER BY due LIMIT :limit",
        {"endpoint": endpoint, "before": before - put_off, "limit": limit},
    )
    changed: list[dict[str, Value]] = [
        {"id": row["id"], "due": first_at - put_off + place * pace_ms} for place, row in enumerate(rows)
    ]
    unit.execute_many("UPDATE deliveries SET due = :due WHERE id = :id", changed)
    return len(rows)


def go_by_real_time(unit: Unit, real_time: int) -> None:
    """Have what is pending due at the real time that was meant, however far the ledger's time is ahead of it
    by now."""
    by = unit.now - real_time - kept_time.get(unit).put_off
    if abs(by) > JUMP_MS:
        # The ledger's clock has not jumped, so for how long endpoints have failed stays as it is.
        kept_time.put_off(unit, by)


def postpone(unit: Unit, by: int) -> None:
    """Put off everything pending by so many milliseconds: the clock was set forward, no time has passed.

    What is pending may be much, so no delivery is changed: each is due at its `due` and `put_off` together.
    """
    kept_time.put_off(unit, by)
    unit.execute(
        "UPDATE webhook_endpoints SET failing_since = failing_since + :by WHERE failing_since IS NOT NULL",
        {"by": by},
    )


def _attempt_row(delivery: str, number: int, outcome: Outcome) -> dict[str, Value]:
    answered = outcome.response_headers is not None
    return {
        "delivery": delivery,
        "number": number,
        "attempted_at": outcome.attempted_at,
        "latency_ms": outcome.latency_ms,
        "status": outcome.status,
        "error": outcome.error,
        "request_headers": dumps(outcome.request_headers),
        "response_headers": dumps(outcome.response_headers) if answered else None,
        "response_body": outcome.response_body,
    }
