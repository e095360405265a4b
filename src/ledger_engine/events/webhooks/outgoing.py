"""The deliveries under way to one endpoint: read ahead, with the sender, or not yet recorded."""

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

FIRSTS_AHEAD = 512  # first attempts submitted and without a result
BYTES_AHEAD = 512 * 1024  # characters of their bodies; one of any size is always submitted
ANSWERED_MAX = 10_000  # first attempts with a result while an earlier one has none
RETRIES_AHEAD = 8
NEVER = 2**62


class Demand(NamedTuple):
    """The amounts to read from the database for one endpoint; 0 for nothing."""

    subscription: Subscription
    after: str
    firsts: int
    bytes: int
    retries: int


@dataclass(slots=True, eq=False)
class SentJob:
    """A job that was submitted to the sender, and the delivery it belongs to."""

    outgoing: Outgoing
    message: Message
    is_first: bool
    retries: int
    resends: int
    headers: str


@dataclass(slots=True, eq=False)
class Outgoing:
    """The deliveries of one enabled endpoint. Its events up to `read_to` were read; `cursor` is as stored.

    One that `drains` gets nothing more: once the sender has returned all of its jobs it is removed, and the
    endpoint, if still enabled, starts again from its cursor.
    """

    subscription: Subscription
    target: ParsedUrl
    secret: str
    read_to: str
    cursor: str
    previous: str | None = None  # the secret before the last roll
    may_have_more: bool = True
    looks_at: int = 0  # when to read retries, in the ledger's time
    drains: bool = False
    firsts: dict[str, bool] = field(default_factory=dict)  # by event: whether its result is there
    unanswered: int = 0  # the number of `firsts` without a result, and below it the size of their bodies
    bytes: int = 0
    retrying: set[str] = field(default_factory=set)
    recorded_since_demand: set[str] = field(default_factory=set)  # retries that a read may show as before
    with_sender: int = 0
    _fixed_headers: str = field(init=False)  # headers that are the same for all, as the start of a JSON array

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
        """Return whether the database should be read for this endpoint."""
        return not self.drains and (self._takes_firsts or now >= self.looks_for_retries_at)

    def demand(self, now: int, share: int) -> Demand:
        """Return what may be read; of first attempts at most `share`."""
        firsts = min(share, FIRSTS_AHEAD - self.unanswered) if self._takes_firsts else 0
        # Retries under way are still pending in the database, and come before the other ones.
        retries = RETRIES_AHEAD + len(self.retrying) if now >= self.looks_for_retries_at else 0
        # Reset before reading, so that changes during the read are not missed.
        self.may_have_more = self.may_have_more and not firsts
        self.looks_at = NEVER if retries else self.looks_at
        self.recorded_since_demand.clear()
        return Demand(self.subscription, self.read_to, firsts, BYTES_AHEAD - self.bytes, retries)

    @property
    def _takes_firsts(self) -> bool:
        return (
            self.may_have_more
            and self.unanswered < FIRSTS_AHEAD
            and self.bytes < BYTES_AHEAD
            and len(self.firsts) < ANSWERED_MAX
        )

    @property
    def looks_for_retries_at(self) -> int:
        """When to read retries, unless something happens before."""
        return self.looks_at if len(self.retrying) < RETRIES_AHEAD and not self.drains else NEVER

    def take_feed(self, feed: Feed) -> list[Message]:
        """Count the first attempts that were read as under way; return their messages."""
        self.read_to = feed.read_to
        self.may_have_more = self.may_have_more or feed.more
        for message in feed.messages:
            self.firsts[message.id] = False
            self.bytes += len(message.body)
        self.unanswered += len(feed.messages)
        self.with_sender += len(feed.messages)
        return feed.messages

    def take_retries(self, retries: list[Retry], limit: int, now: int) -> list[Retry]:
        """Return the pending retries that are due, which now count as under way."""
        due: list[Retry] = []
        if len(retries) == limit:  # more may follow, to be read when these are done
            self.looks_at = now
        for retry in retries:
            if retry.due > now:
                self.looks_at = min(self.looks_at, retry.due)
                break
            if retry.message.id in self.retrying or retry.message.id in self.recorded_since_demand:
                continue
            if len(self.retrying) < RETRIES_AHEAD:
                self.retrying.add(retry.message.id)
                due.append(retry)
        self.with_sender += len(due)
        return due

    def job(
        self, number: int, message: Message, attempt: int, *, is_first: bool, now: int, seconds: int
    ) -> AttemptJob:
        """Return the finished request: signed, with the headers of docs/decisions.md#webhooks-delivery.

        `now` is the ledger's time, `seconds` the real time by which receivers judge the request's age.
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
        """Account for a job that the sender has finished; a job that was not made is read again later."""
        if not was_made:
            self.drains = True
        elif job.is_first:
            self.firsts[job.message.id] = True
        if job.is_first:
            self.unanswered -= 1
            self.bytes -= len(job.message.body)

    def answered_to(self) -> str:
        """Return the event up to which all were attempted, whether recorded or not."""
        cursor = self.cursor
        for event, has_answer in self.firsts.items():
            if not has_answer:
                return cursor
            cursor = event
        return max(cursor, self.read_to)

    def recorded_to(self, cursor: str) -> None:
        """Forget the events up to the cursor, because they are recorded now."""
        self.cursor = max(self.cursor, cursor)
        while self.firsts and (event := next(iter(self.firsts))) <= self.cursor:
            del self.firsts[event]

    def give_up(self) -> None:
        """Account for a job whose result cannot be recorded.

        A retry counts as under way until the next deliverer starts, so that it is not sent over and over.
        """
        self.with_sender -= 1

    def is_recorded(self, job: SentJob, retry_at: int | None) -> None:
        """Account for a job whose result is recorded; `retry_at` is when it is due again, if it is."""
        self.with_sender -= 1
        if not job.is_first:
            self.retrying.discard(job.message.id)
            self.recorded_since_demand.add(job.message.id)
            self.looks_at = 0
        if retry_at is not None:
            self.looks_at = min(self.looks_at, retry_at)


def find(unit: Unit, demands: list[Demand]) -> list[tuple[Demand, Feed, list[Retry]]]:
    """Return the database's answer to each demand."""
    nothing = Feed([], "", False)
    return [
        (
            demand,
            attempts.feed(unit, demand.subscription, demand.after, demand.firsts, demand.bytes)
            if demand.firsts
            else nothing,
            attempts.pending(unit, demand.subscription.endpoint, demand.retries) if demand.retries else [],
        )
        for demand in demands
    ]
