"""The deliverer: hands each endpoint's events to the sender in their order, and records what comes of it.

It holds no truth of its own. What is to be sent is read from the database behind each endpoint's cursor,
some ahead of the sender; what was sent is written there, and the cursor with it, in one commit. Whenever
it ends, however that comes, the next one goes on there: each event at least once.

Retries are due by the ledger's clock, which is what is stored; how long to wait is measured on the
monotonic one. When the two part, the clock was set: no time has passed, so everything due is put off by
as much, and a jump of 400 days makes nothing due.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import WEBHOOK_RETRIES_S
from ledger_engine.database import Unit
from ledger_engine.database.engine import Engine
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import attempts, endpoints
from ledger_engine.events.webhooks.addresses import parse_url
from ledger_engine.events.webhooks.attempts import Feed, Outcome, Retry
from ledger_engine.events.webhooks.endpoints import Subscription
from ledger_engine.events.webhooks.outgoing import NEVER, Outgoing, Sent, Wish
from ledger_engine.events.webhooks.sealing import Seal, WrongKey, is_sealed
from ledger_engine.events.webhooks.sender_process import SenderProcess
from ledger_engine.events.webhooks.sending import Answer, Job, Sender

JITTER = 0.1  # of the time, added to it: what failed together is not tried together again
LOOKS_EVERY_S = 1.0  # for what other processes wrote, which nobody tells us
PACE_S = 0.01  # between two looks or two records: more is gathered into each
BUSY_PACE_S = 0.05  # the same while the event loop is busy, since requests go before webhooks
BUSY = 0.3  # of the time; sending alone keeps it busy for half of that
FIRSTS_AT_ONCE = 36  # first attempts handed over in one look, of all endpoints together
JUMP_MS = 30_000  # beyond the monotonic clock; less is a clock being kept right
CURSORS_EVERY_S = 60.0  # of endpoints that want none of what happens
STOPS_WITHIN_S = 1.0
TRIES_AGAIN_S = 1.0
RECORDED_AT_ONCE = 200
GONE = 410

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class AnySender(Protocol):
    """What sends: in a process of its own, or in this one."""

    @property
    def is_ready(self) -> bool: ...
    def submit(self, job: Job) -> None: ...
    def drop(self, endpoint: str) -> None: ...
    async def stop(self, grace_s: float) -> None: ...


class Deliverer:
    """Runs from `start` to `stop`; `retries_s` are the waits before each retry, in seconds."""

    def __init__(
        self,
        engine: Engine,
        seal: Seal,
        *,
        retries_s: Sequence[float] = WEBHOOK_RETRIES_S,
        make_sender: Callable[[Callable[[Answer], None]], AnySender] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._seal = seal
        self._retries_s = retries_s
        self._monotonic = monotonic
        self._sender = (make_sender or _sender)(self._take_answer)
        self._outgoing: dict[str, Outgoing] = {}
        self._sent: dict[int, Sent] = {}  # handed to the sender and not answered yet, by the job's number
        self._answers: list[tuple[Answer, int]] = []  # with when each came
        self._unreadable: set[str] = set()  # sealed secrets that were complained of
        self._looked_at = time.perf_counter(), time.thread_time()
        self._is_busy = False
        self._number = 0
        self._woken = asyncio.Event()
        self._answered = asyncio.Event()
        self._endpoints_changed = True
        self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []
        self._following = asyncio.Lock()
        self._clock_at, self._monotonic_at = engine.clock.now(), monotonic()
        engine.listen(self._notice_commit)

    def start(self) -> None:
        """Begin to deliver; needs a running event loop."""
        self._tasks = [asyncio.create_task(self._deliver()), asyncio.create_task(self._record())]

    async def stop(self) -> None:
        """Let what is on the wire end shortly, record it, and stop. The rest is for the next one."""
        if not self._tasks:
            return
        delivering, recording = self._tasks
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
        await self._sender.stop(STOPS_WITHIN_S)
        self._stopped = True
        self._answered.set()
        await recording
        await _survive(self._keep_cursors)

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
        await _survive(self._begin)
        asked_others_at = kept_cursors_at = self._monotonic()
        while True:
            now = self._monotonic()
            if now - asked_others_at >= LOOKS_EVERY_S:
                asked_others_at = now
                self._look_everywhere()
            if now - kept_cursors_at >= CURSORS_EVERY_S:
                kept_cursors_at = now
                await _survive(self._keep_cursors)
            self._woken.clear()
            if not await _survive(self._look):
                await asyncio.sleep(TRIES_AGAIN_S)
            await asyncio.sleep(self._pace_s())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s()):
                    await self._woken.wait()

    async def _begin(self) -> None:
        """Go on where the last deliverer stopped."""
        stored = await self._engine.read(endpoints.sealed_secrets)
        if not stored:
            return
        await self._engine.write(endpoints.begin_sending)
        # A first write brings the clock past everything that was recorded: that is no jump.
        self._clock_at, self._monotonic_at = self._engine.clock.now(), self._monotonic()
        if self._seal.has_key:
            for id, secret in stored:
                if not is_sealed(secret):
                    sealed = self._seal.close(secret)
                    await self._engine.write(partial(endpoints.replace_sealed, id=id, old=secret, new=sealed))

    async def _look(self) -> None:
        """Hand the sender what there is for each endpoint that has room for more."""
        now = await self._follow_clock()
        if self._endpoints_changed:
            self._endpoints_changed = False
            self._follow_endpoints(await self._engine.read(endpoints.subscriptions))
        if not self._outgoing or not self._sender.is_ready:
            return
        hungry = [outgoing for outgoing in self._outgoing.values() if outgoing.is_hungry(now)]
        share = max(1, FIRSTS_AT_ONCE // max(1, len(hungry)))
        wishes = [outgoing.wish(now, share) for outgoing in hungry]
        if wishes:
            for wish, feed, retries in await self._engine.read(partial(_find, wishes=wishes)):
                self._hand_over(wish, feed, retries, now)

    async def _follow_clock(self) -> int:
        """Put off what is due by as much as the clock was set forward; gives the ledger's time.

        Whatever is compared with stored times must take the time from here.
        """
        async with self._following:
            clock, monotonic = self._engine.clock.now(), self._monotonic()
            jump = clock - self._clock_at - round((monotonic - self._monotonic_at) * 1000)
            if jump > JUMP_MS:
                log.warning(
                    "the clock was set forward by %d s: webhook retries wait so much longer", jump // 1000
                )
                await self._engine.write(partial(attempts.postpone, by=jump))
            self._clock_at, self._monotonic_at = clock, monotonic
            return clock

    def _follow_endpoints(self, subscriptions: list[Subscription]) -> None:
        """Begin with endpoints that are new, end with those that are gone, and anew with changed ones."""
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
                except WrongKey as error:
                    if subscription.secret not in self._unreadable:
                        log.error("nothing is sent to %s, its secret cannot be read: %s", id, error)
                    self._unreadable.add(subscription.secret)
                    continue
                target = parse_url(subscription.url, livemode=subscription.livemode)
                self._outgoing[id] = Outgoing(
                    subscription, target, secret, subscription.cursor, subscription.cursor
                )

    def _hand_over(self, wish: Wish, feed: Feed, retries: list[Retry], now: int) -> None:
        outgoing = self._outgoing.get(wish.subscription.endpoint)
        if outgoing is None or outgoing.drains or outgoing.subscription is not wish.subscription:
            return
        if wish.firsts:
            for message in outgoing.take_feed(feed):
                self._submit(Sent(outgoing, message, True, 0, []), 1)
        if wish.retries:
            for retry in outgoing.take_retries(retries, wish.retries, now):
                self._submit(Sent(outgoing, retry.message, False, retry.retries, []), retry.attempts + 1)
        if outgoing.may_have_more:
            self._woken.set()

    def _submit(self, sent: Sent, attempt: int) -> None:
        self._number += 1
        job = sent.outgoing.job(self._number, sent.message, attempt, is_first=sent.is_first)
        sent.headers = job.headers
        self._sent[self._number] = sent
        self._sender.submit(job)

    def _pace_s(self) -> float:
        """How long to pause after a look, by how busy the event loop's thread was since the last one."""
        before, self._looked_at = self._looked_at, (time.perf_counter(), time.thread_time())
        passed, worked = (now - then for now, then in zip(self._looked_at, before, strict=True))
        self._is_busy = worked > BUSY * passed
        return BUSY_PACE_S if self._is_busy else PACE_S

    def _rest_s(self) -> float:
        """Until something can be due, if nobody wakes us before."""
        if self._outgoing and not self._sender.is_ready:
            return PACE_S
        now = self._engine.clock.now()
        soonest = min((outgoing.looks_for_retries_at for outgoing in self._outgoing.values()), default=NEVER)
        return min(LOOKS_EVERY_S, max(0.0, (soonest - now) / 1000))

    async def _keep_cursors(self) -> None:
        """Write down how far we have looked where none of what happened was wanted."""
        # With anything on its way, or answered and not recorded, the cursor moves when that is recorded.
        moved = {
            id: outgoing.read_to
            for id, outgoing in self._outgoing.items()
            if not outgoing.drains and not outgoing.firsts and outgoing.read_to != outgoing.cursor
        }
        if moved:
            await self._engine.write(partial(_store, outcomes=[], cursors=moved, now=self._clock_at))
            for id, cursor in moved.items():
                self._outgoing[id].recorded_to(cursor)

    # What came of it

    def _take_answer(self, answer: Answer) -> None:
        self._answers.append((answer, self._engine.clock.now()))
        self._answered.set()

    async def _record(self) -> None:
        while not (self._stopped and not self._answers):
            await self._answered.wait()
            self._answered.clear()
            answers, self._answers = self._answers[:RECORDED_AT_ONCE], self._answers[RECORDED_AT_ONCE:]
            await _survive(partial(self._record_answers, answers))
            if self._answers:
                self._answered.set()
            if not self._stopped:
                await asyncio.sleep(BUSY_PACE_S if self._is_busy else PACE_S)

    async def _record_answers(self, answers: list[tuple[Answer, int]]) -> None:
        done: list[tuple[Sent, Outcome | None]] = []
        for answer, at in answers:
            sent = self._sent.pop(answer.number)
            sent.outgoing.come_back(sent, made=answer.made)
            done.append((sent, self._outcome(sent, answer, at) if answer.made else None))
        outcomes = [outcome for _, outcome in done if outcome is not None]
        touched = {sent.outgoing.subscription.endpoint: sent.outgoing for sent, _ in done}
        cursors = {id: outgoing.answered_to() for id, outgoing in touched.items()}

        async def store() -> None:
            now = await self._follow_clock()
            await self._engine.write(partial(_store, outcomes=outcomes, cursors=cursors, now=now))

        while not await _survive(store):
            if self._stopped:
                return  # nothing was recorded, so the next deliverer does all of it again
            await asyncio.sleep(TRIES_AGAIN_S)
        for id, outgoing in touched.items():
            outgoing.recorded_to(cursors[id])
            self._endpoints_changed |= outgoing.drains
        for sent, outcome in done:
            retry_in_ms = None if outcome is None else outcome.retry_in_ms
            sent.outgoing.is_recorded(sent, None if retry_in_ms is None else self._clock_at + retry_in_ms)
        self._woken.set()

    def _outcome(self, sent: Sent, answer: Answer, at: int) -> Outcome:
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


def _sender(report: Callable[[Answer], None]) -> AnySender:
    if sys.platform == "win32":
        return Sender(report)  # there a process's own ends of its pipes cannot be waited for
    return SenderProcess(report)


def _find(unit: Unit, wishes: list[Wish]) -> list[tuple[Wish, Feed, list[Retry]]]:
    """What the database has for each wish."""
    nothing = Feed([], "", False)
    return [
        (
            wish,
            attempts.feed(unit, wish.subscription, wish.after, wish.firsts, wish.bytes)
            if wish.firsts
            else nothing,
            attempts.pending(unit, wish.subscription.endpoint, wish.retries) if wish.retries else [],
        )
        for wish in wishes
    ]


def _store(unit: Unit, outcomes: list[Outcome], cursors: dict[str, str], now: int) -> None:
    """The outcomes and how far each endpoint has come by them, in one commit."""
    attempts.record(unit, outcomes, now)
    for id, cursor in cursors.items():
        endpoints.advance(unit, id, cursor)
    for id in {outcome.endpoint for outcome in outcomes}:
        mine = [outcome for outcome in outcomes if outcome.endpoint == id]
        any_succeeded = any(outcome.error is None for outcome in mine)
        gone = any(outcome.status == GONE for outcome in mine)
        endpoints.note_outcomes(unit, id, now, any_succeeded=any_succeeded, gone=gone)


async def _survive(step: Callable[[], Awaitable[object]]) -> bool:
    """Take the step; gives whether it was done. Lost storage comes back, and so do we."""
    try:
        await step()
    except StorageUnavailable as error:
        log.warning("webhooks wait: %s", error)
        return False
    except Exception:
        log.exception("webhooks: a step failed")
        return False
    return True
