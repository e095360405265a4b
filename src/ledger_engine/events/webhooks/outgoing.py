"""The deliveries in progress to one endpoint: read ahead, passed to the sender, or not yet recorded."""

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

FIRSTS_AHEAD = 512  # first attempts that are submitted and have no result yet
BYTES_AHEAD = 512 * 1024  # characters of the bodies of these attempts; a single body may be larger
ANSWERED_MAX = 10_000  # first attempts with a result that wait for the result of an earlier first attempt
RETRIES_AHEAD = 8
NEVER = 2**62


class Demand(NamedTuple):
    """How much to read from the database for one endpoint; 0 means nothing.

    `retrying` are the events whose retries are in progress.
    """

    subscription: Subscription
    after: str
    firsts: int
    bytes: int
    retries: int
    retrying: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class SentJob:
    """A job that was submitted to the sender, and its delivery."""

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

    If it `drains`, no more jobs are submitted for it, and it is removed when the sender has returned all its
    jobs. If the endpoint is still enabled then, a new `Outgoing` starts from the endpoint's cursor.
    """

    subscription: Subscription
    target: ParsedUrl
    secret: str
    read_to: str
    cursor: str
    previous: str | None = None  # the secret before the last roll
    may_have_more: bool = True
    looks_at: int = 0  # the ledger's time at which retries are read next
    drains: bool = False
    firsts: dict[str, bool] = field(default_factory=dict)  # by event: whether the first attempt has a result
    unanswered: int = 0  # how many of `firsts` have no result; `bytes` is the total size of these bodies
    bytes: int = 0
    retrying: set[str] = field(default_factory=set)
    # Retries recorded since the last demand: a read that began earlier may still return them as pending.
    recorded_since_demand: set[str] = field(default_factory=set)
    with_sender: int = 0
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
        """Return whether the database should be read for this endpoint."""
        return not self.drains and (self._takes_firsts or now >= self.looks_for_retries_at)

    def demand(self, now: int, share: int) -> Demand:
        """Return how much to read, with at most `share` first attempts."""
        firsts = min(share, FIRSTS_AHEAD - self.unanswered) if self._takes_firsts else 0
        # Retries in progress are still pending in the database, and a read returns them before the other
        # retries.
        retries = RETRIES_AHEAD + len(self.retrying) if now >= self.looks_for_retries_at else 0
        # Reset before reading, so that changes during the read are not missed.
        self.may_have_more = self.may_have_more and not firsts
        self.looks_at = NEVER if retries else self.looks_at
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
    def looks_for_retries_at(self) -> int:
        """Return the time at which retries are read next, unless something happens before that time."""
        return self.looks_at if len(self.retrying) < RETRIES_AHEAD and not self.drains else NEVER

    def take_feed(self, feed: Feed) -> list[Message]:
        """Count the first attempts that were read as in progress; return their messages."""
        self.read_to = feed.read_to
        self.may_have_more = self.may_have_more or feed.more
        for message in feed.messages:
            self.firsts[message.id] = False
            self.bytes += len(message.body)
        self.unanswered += len(feed.messages)
        self.with_sender += len(feed.messages)
        return feed.messages

    def take_retries(self, retries: list[Retry], limit: int, now: int) -> list[Retry]:
        """Return the pending retries that are due, and count them as in progress."""
        due: list[Retry] = []
        if len(retries) == limit:  # more retries may follow; read them when these are done
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
        """Return the finished request, signed and with the headers of docs/decisions.md#webhooks-delivery.

        `now` is the ledger's time. `seconds` is the real time; receivers compare it with their own clocks.
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
        """Note that the sender has finished a job; a job that was not made is read again later."""
        if not was_made:
            self.drains = True
        elif job.is_first:
            self.firsts[job.message.id] = True
        if job.is_first:
            self.unanswered -= 1
            self.bytes -= len(job.message.body)

    def answered_to(self) -> str:
        """Return the last event up to which every wanted event was attempted, recorded or not."""
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
        """Note that the result of a job cannot be recorded.

        A retry then stays in progress until the next deliverer starts, so that it is not sent again and
        again.
        """
        self.with_sender -= 1

    def is_recorded(self, job: SentJob, retry_at: int | None) -> None:
        """Note that the result of a job is recorded; `retry_at` is when its delivery is due again."""
        self.with_sender -= 1
        if not job.is_first:
            self.retrying.discard(job.message.id)
            self.recorded_since_demand.add(job.message.id)
            self.looks_at = 0
        if retry_at is not None:
            self.looks_at = min(self.looks_at, retry_at)


def find(unit: Unit, demands: list[Demand]) -> list[tuple[Demand, Feed, list[Retry]]]:
    """Read what each demand asks for; return it with the demand."""
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
