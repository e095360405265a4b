"""The deliverer: passes each endpoint's events to the sender in order, and records the results.

All lasting state is in the database. Each endpoint has a cursor: all events up to the cursor were attempted
or are not wanted. For each endpoint, the `Feeder` reads the events after the cursor, and submits a limited
number of them to the sender. The `recording` module writes the results and the new cursor to the database in
one commit. However a deliverer ends, the next deliverer continues from the stored cursor, so each event is
sent at least once.

If several servers share the ledger, each endpoint belongs to one server, which holds a lease for the
endpoint and renews it. A server that cannot renew its leases stops sending when the leases expire.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from ledger_engine.core.errors import LedgerError
from ledger_engine.core.settings import WEBHOOK_RETRIES_S
from ledger_engine.core.tasks import cancel
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import endpoints
from ledger_engine.events.webhooks.addresses import parse_url
from ledger_engine.events.webhooks.attempts import Feed, Retry
from ledger_engine.events.webhooks.endpoints import Subscription
from ledger_engine.events.webhooks.outgoing import NEVER, Demand, Outgoing, SentJob, find
from ledger_engine.events.webhooks.recording import (
    PACE_S,
    OutcomeBatch,
    Pace,
    Recorder,
    RetryClock,
    store,
    try_step,
    try_until_done,
    wait_to_retry,
)
from ledger_engine.events.webhooks.sender_process import AnySender, MakeSender, SenderProcess
from ledger_engine.events.webhooks.signing import Seal, WrongKey
from ledger_engine.store.engine import Engine

STOP_TIMEOUT_S = 1.0
# Seconds after which the feeder looks for deliveries again, because the commits of other processes wake no
# task in this process.
POLL_INTERVAL_S = 1.0
FIRSTS_AT_ONCE = 90  # first attempts submitted after one read, for all endpoints together
# At this interval, in seconds, the feeder saves the cursors of the endpoints that wanted none of the events
# that were read.
CURSORS_EVERY_S = 60.0

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class Deliverer:
    """Delivers events between `start` and `stop`; `retries_s` are the waits before each retry, in seconds."""

    def __init__(
        self,
        engine: Engine,
        seal: Seal,
        *,
        retries_s: Sequence[float] = WEBHOOK_RETRIES_S,
        make_sender: MakeSender | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._new_clock = partial(RetryClock, engine, retries_s, monotonic)
        self._new_run = partial(_Run, engine, seal, retries_s, make_sender or SenderProcess)
        self._run: _Run | None = None
        engine.listen(self._notice_commit)

    def start(self) -> None:
        """Start delivering. A deliverer can start again after `stop`. This needs a running event loop."""
        self._run = self._new_run(self._new_clock())
        self._run.start()

    async def stop(self) -> None:
        """Stop: wait up to STOP_TIMEOUT_S for the attempts in progress, and record their results.

        The next deliverer makes the attempts that have no recorded result.
        """
        run, self._run = self._run, None
        if run is not None:
            await run.stop()

    def _notice_commit(self, topics: frozenset[str]) -> None:
        if self._run is None:
            return
        if endpoints.TOPIC in topics:
            self._run.feeder.look_everywhere()
        elif outbox.TOPIC in topics:
            self._run.feeder.look_for_events()


class _Run:
    """A run of the deliverer, from a start to the next stop: it has a feeder, a sender and a recorder."""

    def __init__(
        self,
        engine: Engine,
        seal: Seal,
        retries_s: Sequence[float],
        make_sender: MakeSender,
        clock: RetryClock,
    ) -> None:
        jobs: dict[int, SentJob] = {}
        pace = Pace()
        self.clock = clock
        self._recorder = Recorder(engine, retries_s, jobs, clock, pace)
        self._sender = make_sender(self._recorder.take_result)
        self.own = OwnEndpoints(seal, self._sender, EndpointLeases(engine, self._sender))
        self.feeder = Feeder(engine, self.own, self._sender, jobs, clock, pace)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self.feeder.run()),
            asyncio.create_task(self._recorder.run(self.feeder.notice_recorded)),
        ]

    async def stop(self) -> None:
        feeding, recording = self._tasks
        await cancel(feeding)
        await self._sender.stop(STOP_TIMEOUT_S)
        self._recorder.finish()
        await recording
        await try_step(self.feeder.save_cursors)


class EndpointLeases:
    """This server's leases for endpoints. After the leases have expired, the sender starts no attempt."""

    def __init__(self, engine: Engine, sender: AnySender) -> None:
        self._engine = engine
        self._leases = engine.shared_state.leases
        self._sender = sender
        self._names: frozenset[str] = frozenset()  # the leases held after the last call of `take`
        self._sends_until = math.inf  # the time that was last passed to the sender's `send_until`

    async def take(self, in_progress: set[str]) -> list[Subscription]:
        """Acquire leases; return the endpoints to which this server sends, with their current cursors.

        `in_progress` are the endpoints with deliveries in progress. This server keeps the leases of these
        endpoints until all attempts are recorded, even if another server will send to the endpoints next.
        """
        subscriptions = await self._engine.read(endpoints.subscriptions)
        names = {each.endpoint for each in subscriptions}.difference(self._leases.releasing) | in_progress
        names_held = await self._leases.hold("webhooks", names)
        # If this server got a new lease, read the endpoints again: the former holder of the lease may have
        # moved the cursor since the first read.
        if not self._names.issuperset(names_held):
            subscriptions = await self._engine.read(endpoints.subscriptions)
        self._names = frozenset(names_held)
        if self._leases.until != self._sends_until:
            self._sends_until = self._leases.until
            self._sender.send_until(self._sends_until)
        own = self._names.difference(self._leases.releasing)
        return [each for each in subscriptions if each.endpoint in own]


class OwnEndpoints:
    """The endpoints to which this server sends, each with its deliveries in progress."""

    def __init__(self, seal: Seal, sender: AnySender, leases: EndpointLeases) -> None:
        self.outgoing: dict[str, Outgoing] = {}
        self.changed = True  # whether endpoints may have changed since the last call of `follow`
        self._seal = seal
        self._sender = sender
        self._leases = leases
        # The stored secrets of endpoints to which nothing can be sent, because the secret or the URL is
        # unreadable. The error is logged only once for each of these secrets.
        self._unreadable: set[str] = set()

    def expect_more(self) -> None:
        """Make the feeder read the events of every endpoint again."""
        for outgoing in self.outgoing.values():
            outgoing.may_have_more = True

    def expect_changes(self) -> None:
        """Make the feeder read the endpoints, their events and their retries again."""
        self.changed = True
        self.expect_more()
        for outgoing in self.outgoing.values():
            outgoing.next_read_at = 0

    async def seal_secrets(self, engine: Engine) -> None:
        """Encrypt with the present key all endpoints' secrets that are not yet encrypted with this key."""
        secrets = await engine.read(endpoints.sealed_secrets)
        for id, secret in [*secrets, *await engine.read(endpoints.sealed_previous_secrets)]:
            if (new_form := self._seal.reseal(secret)) is not None:
                await engine.write(partial(endpoints.replace_sealed, id=id, old=secret, new=new_form))

    async def follow(self) -> None:
        """Add new endpoints, and let removed endpoints drain, as the class `Outgoing` explains.

        An endpoint that has a new secret or was enabled again drains first, and is then added again.
        """
        if not self.changed:
            return
        self.changed = False
        subscriptions = {each.endpoint: each for each in await self._leases.take(set(self.outgoing))}
        for id, outgoing in list(self.outgoing.items()):
            subscription = subscriptions.get(id)
            if subscription is None or not subscription.is_sent_as(outgoing.subscription):
                outgoing.drains = True
                self._sender.drop(id)
            if outgoing.drains and outgoing.unrecorded == 0:
                del self.outgoing[id]
        for id, new_subscription in subscriptions.items():
            if id not in self.outgoing and (new := self._open(new_subscription)) is not None:
                self.outgoing[id] = new

    def _open(self, subscription: Subscription) -> Outgoing | None:
        try:
            secret = self._seal.open(subscription.secret)
            target = parse_url(subscription.url, livemode=subscription.livemode)
        except (WrongKey, LedgerError) as error:
            if subscription.secret not in self._unreadable:
                log.error(
                    "nothing is sent to %s: its secret or URL cannot be read: %s",
                    subscription.endpoint,
                    error,
                )
            self._unreadable.add(subscription.secret)
            return None
        cursor = subscription.cursor
        return Outgoing(subscription, target, secret, cursor, cursor, self._previous_secret(subscription))

    def _previous_secret(self, subscription: Subscription) -> str | None:
        try:
            return None if subscription.previous is None else self._seal.open(subscription.previous)
        except WrongKey:
            # LEDGER_SECRET_KEY was changed, and the endpoint's secret was rolled to make the endpoint work
            # again. The previous secret cannot be read any more; only the present secret signs.
            return None


class Feeder:
    """Submits deliveries to the sender while `run` runs; `jobs` holds the submitted jobs by number."""

    def __init__(
        self,
        engine: Engine,
        own: OwnEndpoints,
        sender: AnySender,
        jobs: dict[int, SentJob],
        clock: RetryClock,
        pace: Pace,
    ) -> None:
        self._engine = engine
        self._own = own
        self._sender = sender
        self._jobs = jobs
        self._clock = clock
        self._pace = pace
        self._numbers = itertools.count(1)
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Submit all deliveries that are due, until cancelled."""
        await try_until_done(self._clock.begin)
        await try_step(partial(self._own.seal_secrets, self._engine))
        polled_at = saved_cursors_at = time.monotonic()
        while True:
            now = time.monotonic()  # not the ledger's time, which may be frozen
            if now - polled_at >= POLL_INTERVAL_S:
                polled_at = now
                self.look_everywhere()
            if now - saved_cursors_at >= CURSORS_EVERY_S:
                saved_cursors_at = now
                await try_step(self.save_cursors)
            self._woken.clear()
            if not await try_step(self._look):
                await wait_to_retry()
            self._pace.measure()
            await asyncio.sleep(self._pace.pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wait_s()):
                    await self._woken.wait()

    def look_for_events(self) -> None:
        """Look for events of every endpoint, because new events were recorded."""
        if self._own.outgoing:
            self._own.expect_more()
            self._woken.set()

    def look_everywhere(self) -> None:
        """Look for events and retries of every endpoint, because anything may have changed."""
        self._own.expect_changes()
        self._woken.set()

    def notice_recorded(self, any_drains: bool) -> None:
        """Continue, because results were recorded.

        `any_drains` is true if some of the results belong to an `Outgoing` that drains.
        """
        self._own.changed |= any_drains
        self._woken.set()

    async def save_cursors(self) -> None:
        """Save the cursors of endpoints that wanted none of the events that were read."""
        # An endpoint with deliveries in progress is left out: recording their results saves its cursor.
        cursors = {
            id: outgoing.read_to
            for id, outgoing in self._own.outgoing.items()
            if not outgoing.drains and not outgoing.firsts and outgoing.read_to != outgoing.cursor
        }
        if cursors:
            await self._engine.write(
                partial(store, batch=OutcomeBatch([], cursors), now=self._clock.followed_to)
            )
            for id, cursor in cursors.items():
                self._own.outgoing[id].note_cursor(cursor)

    async def _look(self) -> None:
        """Submit deliveries for each endpoint, up to the number that it may have in progress."""
        now = await self._clock.follow()
        await self._own.follow()
        if not self._own.outgoing or not self._sender.is_ready:
            return
        demanding = [outgoing for outgoing in self._own.outgoing.values() if outgoing.has_demand(now)]
        share = max(1, FIRSTS_AT_ONCE // max(1, len(demanding)))
        demands = [outgoing.demand(now, share) for outgoing in demanding]
        if demands:
            find_all = partial(find, demands=demands)
            for demand, feed, retries in await self._engine.read(find_all):
                self._hand_over(demand, feed, retries, now)

    def _hand_over(self, demand: Demand, feed: Feed, retries: list[Retry], now: int) -> None:
        outgoing = self._own.outgoing.get(demand.subscription.endpoint)
        if outgoing is None or outgoing.drains or outgoing.subscription is not demand.subscription:
            return
        times = self._engine.clock.now(), int(time.time())
        if demand.firsts:
            for message in outgoing.take_feed(feed):
                job = SentJob(outgoing, message, True, 0, feed.resends.get(message.id, 0), "")
                self._submit(job, 1, *times)
        if demand.retries:
            for retry in outgoing.take_retries(retries, demand.retries, now):
                job = SentJob(outgoing, retry.message, False, retry.retries, retry.resends, "")
                self._submit(job, retry.attempts + 1, *times)
        if outgoing.may_have_more:
            self._woken.set()

    def _submit(self, sent_job: SentJob, attempt: int, now: int, seconds: int) -> None:
        number = next(self._numbers)
        job = sent_job.outgoing.job(
            number, sent_job.message, attempt, is_first=sent_job.is_first, now=now, seconds=seconds
        )
        sent_job.headers = job.headers
        self._jobs[number] = sent_job
        self._sender.submit(job)

    def _wait_s(self) -> float:
        """Return the seconds after which the feeder must look again, even if nothing wakes it."""
        outgoing = self._own.outgoing.values()
        if outgoing and not self._sender.is_ready:
            return PACE_S
        soonest = min((each.next_possible_read_at for each in outgoing), default=NEVER)
        return min(POLL_INTERVAL_S, max(0.0, (soonest - self._engine.clock.now()) / 1000))
