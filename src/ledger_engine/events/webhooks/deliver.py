"""The deliverer: passes each endpoint's events to the sender in order, and records the results.

It keeps no state of its own. What to send is read from the database after each endpoint's cursor, somewhat
ahead of the sender; the results are written there together with the cursor, in one commit. However it ends,
the next deliverer continues from there, so that each event is sent at least once.

Where several servers share the ledger, each endpoint is one server's, which has a lease for it. Nothing is
sent after the lease has ended, unless it was renewed.

While the machine's clock is not trusted (`timekeeping`), the retries that were pending at the start are held
back. First attempts continue in order, and so do their retries.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ledger_engine.core.errors import LedgerError, StorageUnavailable
from ledger_engine.core.settings import WEBHOOK_RETRIES_S
from ledger_engine.core.tasks import cancel
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import endpoints
from ledger_engine.events.webhooks.addresses import parse_url
from ledger_engine.events.webhooks.attempts import Feed, Outcome, Retry
from ledger_engine.events.webhooks.endpoints import Subscription
from ledger_engine.events.webhooks.outgoing import NEVER, Demand, Outgoing, Sent, find
from ledger_engine.events.webhooks.recording import GONE, OutcomeBatch, Recording, store
from ledger_engine.events.webhooks.retry_clock import RetryClock
from ledger_engine.events.webhooks.sealing import Seal, WrongKey, is_sealed
from ledger_engine.events.webhooks.sender_process import MakeSender, new_sender
from ledger_engine.events.webhooks.sending import SendResult
from ledger_engine.store.engine import Engine

JITTER = 0.1  # share of the wait added at random, so that what failed together is retried apart
POLL_INTERVAL_S = 1.0  # to find what other processes wrote, which wakes nobody here
PACE_S = 0.01  # pause between two reads or two records, so that each covers more
BUSY_PACE_S = 0.05  # the same while the event loop is busy, as requests come before webhooks
BUSY = 0.2  # share of the time; sending alone to one endpoint uses a third of that
FIRSTS_AT_ONCE = 90  # first attempts submitted after one read, for all endpoints together
CURSORS_EVERY_S = 60.0  # how often to save cursors of endpoints that want none of the events
STOP_TIMEOUT_S = 1.0
RETRY_AFTER_S = 1.0
RECORDED_AT_ONCE = 200

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class Deliverer:
    """Delivers from `start` to `stop`; `retries_s` are the waits before each retry, in seconds."""

    def __init__(
        self,
        engine: Engine,
        seal: Seal,
        *,
        retries_s: Sequence[float] = WEBHOOK_RETRIES_S,
        make_sender: MakeSender | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        real_time: Callable[[], int] | None = None,
    ) -> None:
        self._engine = engine
        self._leases = engine.shared.leases
        self._held: frozenset[str] = frozenset()  # the endpoints with a lease at the last look
        self._sends_until = math.inf  # as the sender knows it
        self._seal = seal
        self._retries_s = retries_s
        self._make_sender = make_sender or new_sender
        self._sender = self._make_sender(self._take_answer)
        self._outgoing: dict[str, Outgoing] = {}
        self._sent: dict[int, Sent] = {}  # by job number: submitted, without a result yet
        self._answers: list[tuple[SendResult, int]] = []  # with the time of each result
        self._unreadable: set[str] = set()  # sealed secrets that an error was logged for
        self._looked_at = time.perf_counter(), time.thread_time()
        self._is_busy = False
        self._number = 0
        self._woken = asyncio.Event()
        self._answered = asyncio.Event()
        self._endpoints_changed = True
        self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []
        self._clock = RetryClock(engine, retries_s, monotonic, real_time or engine.clock.now)
        self._holds_retries = False
        self._releases_retries = False
        engine.listen(self._notice_commit)

    def start(self, *, hold_retries: bool = False) -> None:
        """Start delivering, also again after `stop`; needs a running event loop.

        `hold_retries` holds back those pending now, until `release_retries`.
        """
        if self._stopped:
            self._stopped = False
            self._sender = self._make_sender(self._take_answer)
            self._sends_until = math.inf
            self._outgoing.clear()
            self._sent.clear()
            self._answered.clear()
            self._endpoints_changed = True
        self._holds_retries = hold_retries
        self._tasks = [asyncio.create_task(self._deliver()), asyncio.create_task(self._record())]

    async def stop(self) -> None:
        """Stop: wait a short time for the attempts under way, and record them.

        The next deliverer sends the rest.
        """
        if not self._tasks:
            return
        delivering, recording = self._tasks
        await cancel(delivering)
        await self._sender.stop(STOP_TIMEOUT_S)
        self._stopped = True
        self._answered.set()
        await recording
        await _try_step(self._keep_cursors)

    def release_retries(self) -> None:
        """Send the retries that were held back, if any."""
        self._releases_retries = self._holds_retries
        self._woken.set()

    def _notice_commit(self, topics: frozenset[str]) -> None:
        if endpoints.TOPIC in topics:
            self._look_everywhere()
        elif outbox.TOPIC in topics and self._outgoing:
            for outgoing in self._outgoing.values():
                outgoing.may_have_more = True
            self._woken.set()

    def _look_everywhere(self) -> None:
        self._endpoints_changed = True
        for outgoing in self._outgoing.values():
            outgoing.may_have_more = True
            outgoing.looks_at = 0
        self._woken.set()

    # What is to be sent

    async def _deliver(self) -> None:
        await _try_until_done(partial(self._clock.begin, hold=self._holds_retries))
        await _try_step(self._seal_secrets)
        polled_at = kept_cursors_at = time.monotonic()
        while True:
            now = time.monotonic()  # also where the ledger's time stands still
            if now - polled_at >= POLL_INTERVAL_S:
                polled_at = now
                self._look_everywhere()
            if now - kept_cursors_at >= CURSORS_EVERY_S:
                kept_cursors_at = now
                await _try_step(self._keep_cursors)
            self._woken.clear()
            if not await _try_step(self._look):
                await asyncio.sleep(RETRY_AFTER_S)
            await asyncio.sleep(self._pace_s())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s()):
                    await self._woken.wait()

    async def _seal_secrets(self) -> None:
        """Encrypt the secrets that were stored before a key was set."""
        if self._seal.has_key:
            stored = await self._engine.read(endpoints.sealed_secrets)
            for id, secret in [*stored, *await self._engine.read(endpoints.sealed_previous_secrets)]:
                if not is_sealed(secret):
                    sealed = self._seal.close(secret)
                    await self._engine.write(partial(endpoints.replace_sealed, id=id, old=secret, new=sealed))

    async def _look(self) -> None:
        """Submit what there is to send for each endpoint, as far as it may have more under way."""
        if self._releases_retries:
            await self._clock.release()
            self._releases_retries = self._holds_retries = False
            self._look_everywhere()
        now = await self._clock.follow()
        if self._endpoints_changed:
            self._endpoints_changed = False
            self._follow_endpoints(await self._leased())
        if not self._outgoing or not self._sender.is_ready:
            return
        demanding = [outgoing for outgoing in self._outgoing.values() if outgoing.has_demand(now)]
        share = max(1, FIRSTS_AT_ONCE // max(1, len(demanding)))
        demands = [outgoing.demand(now, share) for outgoing in demanding]
        if demands:
            asked = partial(find, demands=demands, held_before=self._clock.held_before)
            for demand, feed, retries in await self._engine.read(asked):
                self._hand_over(demand, feed, retries, now)

    async def _leased(self) -> list[Subscription]:
        """Return the endpoints that are this server's, after a lease was taken with its cursor as of then."""
        found = await self._engine.read(endpoints.subscriptions)
        # Those that drain are kept until all their attempts are recorded.
        names = {each.endpoint for each in found}.difference(self._leases.surplus) | self._outgoing.keys()
        held = await self._leases.hold("webhooks", names)
        if not self._held.issuperset(held):
            found = await self._engine.read(endpoints.subscriptions)
        self._held = frozenset(held)
        if self._leases.until != self._sends_until:
            self._sends_until = self._leases.until
            self._sender.send_until(self._sends_until)
        own = self._held.difference(self._leases.surplus)
        return [each for each in found if each.endpoint in own]

    def _follow_endpoints(self, subscriptions: list[Subscription]) -> None:
        """Add new endpoints, drain those that are gone, and restart those whose secret has changed."""
        wanted = {subscription.endpoint: subscription for subscription in subscriptions}
        for id, outgoing in list(self._outgoing.items()):
            now_wanted = wanted.get(id)
            if now_wanted is None or now_wanted.secret != outgoing.subscription.secret:
                outgoing.drains = True
                self._sender.drop(id)
            if outgoing.drains and outgoing.with_sender == 0:
                del self._outgoing[id]
        for id, subscription in wanted.items():
            if id not in self._outgoing:
                try:
                    secret = self._seal.open(subscription.secret)
                    target = parse_url(subscription.url, livemode=subscription.livemode)
                except (WrongKey, LedgerError) as error:
                    if subscription.secret not in self._unreadable:
                        log.error("nothing is sent to %s: its secret or URL cannot be read: %s", id, error)
                    self._unreadable.add(subscription.secret)
                    continue
                self._outgoing[id] = Outgoing(
                    subscription,
                    target,
                    secret,
                    subscription.cursor,
                    subscription.cursor,
                    self._previous_secret(subscription),
                )

    def _previous_secret(self, subscription: Subscription) -> str | None:
        try:
            return None if subscription.previous is None else self._seal.open(subscription.previous)
        except WrongKey:  # after a change of LEDGER_SECRET_KEY a roll is what makes the endpoint work again
            return None

    def _hand_over(self, demand: Demand, feed: Feed, retries: list[Retry], now: int) -> None:
        outgoing = self._outgoing.get(demand.subscription.endpoint)
        if outgoing is None or outgoing.drains or outgoing.subscription is not demand.subscription:
            return
        times = self._engine.clock.now(), int(time.time())
        if demand.firsts:
            for message in outgoing.take_feed(feed):
                self._submit(Sent(outgoing, message, True, 0, ""), 1, *times)
        if demand.retries:
            for retry in outgoing.take_retries(retries, demand.retries, now):
                sent = Sent(outgoing, retry.message, False, retry.retries, "")
                self._submit(sent, retry.attempts + 1, *times)
        if outgoing.may_have_more:
            self._woken.set()

    def _submit(self, sent: Sent, attempt: int, now: int, seconds: int) -> None:
        self._number += 1
        job = sent.outgoing.job(
            self._number, sent.message, attempt, is_first=sent.is_first, now=now, seconds=seconds
        )
        sent.headers = job.headers
        self._sent[self._number] = sent
        self._sender.submit(job)

    def _pace_s(self) -> float:
        """Return the pause after a read in seconds, by how busy the thread was since the last one."""
        before, self._looked_at = self._looked_at, (time.perf_counter(), time.thread_time())
        passed, worked = (now - then for now, then in zip(self._looked_at, before, strict=True))
        self._is_busy = worked > BUSY * passed
        return BUSY_PACE_S if self._is_busy else PACE_S

    def _rest_s(self) -> float:
        """Return the seconds until something can be due, unless woken before."""
        if self._outgoing and not self._sender.is_ready:
            return PACE_S
        now = self._engine.clock.now()
        soonest = min((outgoing.looks_for_retries_at for outgoing in self._outgoing.values()), default=NEVER)
        return min(POLL_INTERVAL_S, max(0.0, (soonest - now) / 1000))

    async def _keep_cursors(self) -> None:
        """Save how far events were read for endpoints that wanted none of them."""
        # With any event under way or not recorded yet, the cursor is saved when that one is recorded.
        moved = {
            id: outgoing.read_to
            for id, outgoing in self._outgoing.items()
            if not outgoing.drains and not outgoing.firsts and outgoing.read_to != outgoing.cursor
        }
        if moved:
            await self._engine.write(
                partial(store, batch=OutcomeBatch([], moved), now=self._clock.followed_to)
            )
            for id, cursor in moved.items():
                self._outgoing[id].recorded_to(cursor)

    # What came of it

    def _take_answer(self, answer: SendResult) -> None:
        self._answers.append((answer, self._engine.clock.now()))
        self._answered.set()

    async def _record(self) -> None:
        while not (self._stopped and not self._answers):
            await self._answered.wait()
            self._answered.clear()
            answers, self._answers = self._answers[:RECORDED_AT_ONCE], self._answers[RECORDED_AT_ONCE:]
            await _try_step(partial(self._record_answers, answers))
            if self._answers:
                self._answered.set()
            if not self._stopped:
                await asyncio.sleep(BUSY_PACE_S if self._is_busy else PACE_S)

    async def _record_answers(self, answers: list[tuple[SendResult, int]]) -> None:
        done: list[tuple[Sent, Outcome | None]] = []
        for answer, at in answers:
            sent = self._sent.pop(answer.number, None)
            if sent is None:
                log.error("the webhook sender answered a job it was not given: %d", answer.number)
                continue
            sent.outgoing.take_back(sent, made=answer.made)
            done.append((sent, self._outcome(sent, answer, at) if answer.made else None))
        outcomes = [outcome for _, outcome in done if outcome is not None]
        touched = {sent.outgoing.subscription.endpoint: sent.outgoing for sent, _ in done}
        cursors = {id: outgoing.answered_to() for id, outgoing in touched.items()}
        recording = Recording(self._engine, outcomes, cursors)

        async def record() -> None:
            await recording.run(await self._clock.follow())

        while not await _try_step(record):
            if self._stopped:
                return  # the next deliverer sends again what was not recorded
            await asyncio.sleep(RETRY_AFTER_S)
        for id, outgoing in touched.items():
            outgoing.recorded_to(cursors[id])
            self._endpoints_changed |= outgoing.drains
        for sent, outcome in done:
            if outcome is not None and recording.is_given_up(outcome):
                sent.outgoing.give_up()
            else:
                sent.outgoing.is_recorded(sent, None if outcome is None else recording.retry_at(outcome))
        self._woken.set()

    def _outcome(self, sent: Sent, answer: SendResult, at: int) -> Outcome:
        subscription = sent.outgoing.subscription
        retry_in_ms = None
        if answer.error is not None and answer.status != GONE and sent.retries < len(self._retries_s):
            retry_in_ms = round(self._retries_s[sent.retries] * (1000 + random.uniform(0, 1000 * JITTER)))
        return Outcome(
            endpoint=subscription.endpoint,
            project=subscription.project,
            livemode=subscription.livemode,
            event=sent.message.id,
            retries=sent.retries,
            attempted_at=at - answer.latency_ms,
            latency_ms=answer.latency_ms,
            status=answer.status,
            error=answer.error,
            request_headers=sent.headers,
            response_headers=answer.headers,
            response_body=answer.body,
            retry_in_ms=retry_in_ms,
        )


async def _try_until_done(step: Callable[[], Awaitable[object]]) -> None:
    while True:
        if await _try_step(step):
            return
        await asyncio.sleep(RETRY_AFTER_S)


async def _try_step(step: Callable[[], Awaitable[object]]) -> bool:
    """Run the step and return whether it succeeded; log its error otherwise."""
    try:
        await step()
    except StorageUnavailable as error:
        log.warning("webhooks are paused: %s", error)
        return False
    except Exception:
        log.exception("webhooks: a step failed")
        return False
    return True
