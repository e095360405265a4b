"""The deliveries in progress: they were read from the database, and their results are not recorded yet.

The stored *cursor* of an endpoint is the id of an event. A *first attempt* sends an event after the cursor. A
*retry* is a further attempt of a delivery that is pending (see `attempts`). In each round, the feeder
(`deliver`) gets a `Demand` from each `Outgoing`, and reads the events and retries in the demand. For each
attempt it submits a job to the sender.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ledger_engine import __version__
from ledger_engine.core.records import dumps
from ledger_engine.events.outbox import Message
from ledger_engine.events.webhooks import attempts
from ledger_engine.events.webhooks.addresses import ParsedUrl
from ledger_engine.events.webhooks.attempts import Feed, Retry
from ledger_engine.events.webhooks.endpoints import Subscription
from ledger_engine.events.webhooks.sending import AttemptJob
from ledger_engine.events.webhooks.signing import signed_headers
from ledger_engine.store import Unit

# Limits for one endpoint.
FIRSTS_AHEAD = 512  # first attempts that are submitted and have no result yet
# Once the bodies of these attempts have this many characters in total, no more first attempts are read.
BYTES_AHEAD = 512 * 1024
ANSWERED_MAX = 10_000  # first attempts that have a result, but must wait for the result of an earlier attempt
RETRIES_AHEAD = 8  # retries in progress

NEVER = 2**62  # a time that never comes


class Demand(NamedTuple):
    """How much to read from the database for one endpoint.

    Read events after the event `after`, until there are `firsts` events or until their bodies have `bytes`
    characters. Read at most `retries` pending retries. If `firsts` is 0, read no events; if `retries` is 0,
    read no retries. `retrying` are the events whose retries are in progress.
    """

    subscription: Subscription
    after: str
    firsts: int
    bytes: int
    retries: int
    retrying: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class SentJob:
    """A delivery whose job was submitted to the sender."""

    outgoing: Outgoing
    message: Message
    is_first: bool
    retries: int
    resends: int
    headers: str


@dataclass(slots=True, eq=False)
class Outgoing:
    """The deliveries of one enabled endpoint.

    The endpoint's events up to `read_to` were read; `cursor` is the stored cursor.

    An `Outgoing` that `drains` submits no more jobs, and is removed when the results of all its jobs are
    recorded. If the endpoint is enabled at that time, a new `Outgoing` starts from the stored cursor.
    """

    subscription: Subscription
    target: ParsedUrl
    secret: str
    read_to: str
    cursor: str
    previous: str | None = None  # the secret before the last roll
    may_have_more: bool = True
    next_read_at: int = 0  # the ledger's time at which retries are read next
    drains: bool = False
    # The events whose first attempts are in progress, and whether each attempt has a result.
    firsts: dict[str, bool] = field(default_factory=dict)
    unanswered: int = 0  # how many of `firsts` have no result
    bytes: int = 0  # the total length of the bodies of the `firsts` without a result, in characters
    retrying: set[str] = field(default_factory=set)  # the events whose retries are in progress
    # Events whose retries were recorded since the last demand. A read that began before the recording may
    # still return these retries as pending.
    recorded_since_demand: set[str] = field(default_factory=set)
    unrecorded: int = 0  # jobs whose results are not recorded yet
    # The headers that are the same for all events, as the beginning of a JSON array.
    _fixed_headers: str = field(init=False)

    def __post_init__(self) -> None:
        self._fixed_headers = dumps(
            [
                ("Host", self.target.host_header),
                ("User-Agent", f"ledger-engine/{__version__}"),
                ("Content-Type", "application/json"),
                ("Accept-Encoding", "identity"),
            ]
        )[:-1]

    def has_demand(self, now: int) -> bool:
        """Return whether the database should be read for this endpoint; `now` is the ledger's time."""
        return not self.drains and (self._takes_firsts or now >= self.next_possible_read_at)

    def demand(self, now: int, share: int) -> Demand:
        """Return how much to read, with at most `share` first attempts; `now` is the ledger's time."""
        firsts = min(share, FIRSTS_AHEAD - self.unanswered) if self._takes_firsts else 0
        # Add the number of retries in progress: these retries are still pending in the database, and a read
        # returns them before all other retries.
        retries = RETRIES_AHEAD + len(self.retrying) if now >= self.next_possible_read_at else 0
        # Reset these fields before the read, so that changes during the read are not missed.
        self.may_have_more = self.may_have_more and not firsts
        self.next_read_at = NEVER if retries else self.next_read_at
        self.recorded_since_demand.clear()
        bytes_left = BYTES_AHEAD - self.bytes
        return Demand(self.subscription, self.read_to, firsts, bytes_left, retries, frozenset(self.retrying))

    @property
    def _takes_firsts(self) -> bool:
        return (
            self.may_have_more
            and self.unanswered < FIRSTS_AHEAD
            and self.bytes < BYTES_AHEAD
            and len(self.firsts) < ANSWERED_MAX
        )

    @property
    def next_possible_read_at(self) -> int:
        """Return the ledger's time at which retries are read next, unless something changes earlier."""
        return self.next_read_at if len(self.retrying) < RETRIES_AHEAD and not self.drains else NEVER

    def take_feed(self, feed: Feed) -> list[Message]:
        """Note that the first attempts in the feed are in progress from now on; return their messages."""
        self.read_to = feed.read_to
        self.may_have_more = self.may_have_more or feed.more
        for message in feed.messages:
            self.firsts[message.id] = False
            self.bytes += len(message.body)
        self.unanswered += len(feed.messages)
        self.unrecorded += len(feed.messages)
        return feed.messages

    def take_retries(self, retries: list[Retry], limit: int, now: int) -> list[Retry]:
        """Return the retries that are due, and note that they are in progress from now on.

        `retries` are the pending retries that were read from the database, the earliest due first; at most
        `limit` were read.
        """
        due: list[Retry] = []
        if len(retries) == limit:  # more retries may follow; read them as soon as fewer are in progress
            self.next_read_at = now
        for retry in retries:
            if retry.due > now:
                self.next_read_at = min(self.next_read_at, retry.due)
                break
            if retry.message.id in self.retrying or retry.message.id in self.recorded_since_demand:
                continue
            if len(self.retrying) < RETRIES_AHEAD:
                self.retrying.add(retry.message.id)
                due.append(retry)
        self.unrecorded += len(due)
        return due

    def job(
        self, number: int, message: Message, attempt: int, *, is_first: bool, now: int, seconds: int
    ) -> AttemptJob:
        """Return the job for an attempt: a signed request with all its headers.

        See docs/decisions.md#webhooks-delivery. `now` is the ledger's time. `seconds` is the real Unix time;
        receivers compare it with their own clocks.
        """
        body = message.body.encode()
        previous = self.previous if now < self.subscription.previous_until else None
        signatures = signed_headers(self.secret, previous, message.id, seconds, body)
        if message.traceparent is not None:
            signatures.append(("traceparent", message.traceparent))
        # None of these values contains a character that JSON would escape.
        headers = (
            f'{self._fixed_headers},["Content-Length","{len(body)}"],["Ledger-Event-Id","{message.id}"]'
            f',["Ledger-Event-Type","{message.type}"],["Ledger-Attempt","{attempt}"],'
            + ",".join(f'["{name}","{value}"]' for name, value in signatures)
            + "]"
        )
        return AttemptJob(
            number,
            self.subscription.endpoint,
            is_first,
            self.subscription.livemode,
            self.target.host,
            self.target.port,
            self.target.tls,
            self.target.path,
            headers,
            message.body,
        )

    def take_back(self, job: SentJob, *, was_made: bool) -> None:
        """Note that the sender has returned a job.

        If the attempt was not made, this `Outgoing` drains, so that the endpoint's next `Outgoing` reads the
        event again.
        """
        if not was_made:
            self.drains = True
        elif job.is_first:
            self.firsts[job.message.id] = True
        if job.is_first:
            self.unanswered -= 1
            self.bytes -= len(job.message.body)

    def answered_to(self) -> str:
        """Return the event to which the cursor can move.

        Every wanted event up to this event has a result, recorded or not.
        """
        cursor = self.cursor
        for event, has_answer in self.firsts.items():
            if not has_answer:
                return cursor
            cursor = event
        return max(cursor, self.read_to)

    def note_cursor(self, cursor: str) -> None:
        """Forget the events up to the cursor, because they are recorded now."""
        self.cursor = max(self.cursor, cursor)
        while self.firsts and (event := next(iter(self.firsts))) <= self.cursor:
            del self.firsts[event]

    def give_up(self) -> None:
        """Note that the result of a job cannot be recorded.

        If the job is a retry, its event stays in `retrying` until the next deliverer starts. Otherwise the
        retry would be sent again and again.
        """
        self.unrecorded -= 1

    def note_recorded(self, job: SentJob, retry_at: int | None) -> None:
        """Note that the result of a job is recorded.

        `retry_at` is the ledger's time at which the delivery is due again; None if nothing more is sent.
        """
        self.unrecorded -= 1
        if not job.is_first:
            self.retrying.discard(job.message.id)
            self.recorded_since_demand.add(job.message.id)
            self.next_read_at = 0
        if retry_at is not None:
            self.next_read_at = min(self.next_read_at, retry_at)


def find(unit: Unit, demands: list[Demand]) -> list[tuple[Demand, Feed, list[Retry]]]:
    """Read the first attempts and the retries that each demand asks for; return them with the demand."""
    nothing = Feed([], "", False)
    return [
        (
            demand,
            attempts.feed(unit, demand.subscription, demand.after, demand.firsts, demand.bytes)
            if demand.firsts
            else nothing,
            attempts.pending(unit, demand.subscription.endpoint, demand.retries, demand.retrying)
            if demand.retries
            else [],
        )
        for demand in demands
    ]
