"""The recorder stores the results of attempts.

One commit stores all results that have arrived, up to a limit. If this commit fails although the storage
works, the recorder splits the results into smaller and smaller batches. So a result that cannot be stored
does not block the other results.

The module also contains `RetryClock`, which notices when the ledger's clock jumps forward.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ledger_engine.core.clock import read_together
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.events.webhooks import attempts, endpoints
from ledger_engine.events.webhooks.attempts import Outcome
from ledger_engine.events.webhooks.outgoing import SentJob
from ledger_engine.events.webhooks.sending import SendResult
from ledger_engine.store import ATTEMPTS, BookWork, Unit
from ledger_engine.store.engine import Engine

# After a time in which nothing was sent, the overdue retries to one endpoint are sent one by one, this many
# seconds apart. If the shortest configured wait before a retry (`retries_s`) is shorter, it replaces this
# value.
OVERDUE_EVERY_S = 1.0
SPREAD_AT_ONCE = 200  # due times that one commit changes
# If the ledger's clock moves more than this many milliseconds further than the monotonic clock, the ledger's
# clock has jumped. Smaller differences are ordinary adjustments of the machine's clock.
JUMP_MS = 30_000


class RetryClock:
    """The clock of one deliverer; it notices when the ledger's clock jumps forward. Call `begin` first.

    Retries are due by the ledger's clock. If the ledger's clock moves further than the monotonic clock, the
    machine slept or the machine's clock was set forward. In both cases many retries may be due at once, as
    after a stop. If several servers share the ledger, one server holds the lease of the leader (`leads`), and
    only this server changes the stored due times.
    """

    def __init__(self, engine: Engine, retries_s: Sequence[float], monotonic: Callable[[], float]) -> None:
        self._engine = engine
        self._leases = engine.shared_state.leases
        self._monotonic = monotonic
        self._pace_ms = round(1000 * min(OVERDUE_EVERY_S, *retries_s))
        self._following = asyncio.Lock()
        self._clock_at, self._monotonic_at = read_together(engine.clock.now, monotonic)

    @property
    def followed_to(self) -> int:
        """Return the ledger's time at the last `follow`."""
        return self._clock_at

    async def begin(self) -> None:
        """Continue where the last deliverer stopped. Raises StorageUnavailable."""
        # Only the first server that starts calls `_continue`. If other servers already run, those servers
        # were sending until now, so there was no stop.
        if await self._leases.leads() and self._leases.first:
            await self._continue()
        # The engine's first write to the database moves the ledger's clock forward past the newest stored
        # time, and `_continue` may have made this first write. Read both clocks only now. Otherwise `follow`
        # would treat this move of the clock as a jump.
        self._clock_at, self._monotonic_at = read_together(self._engine.clock.now, self._monotonic)

    async def follow(self) -> int:
        """If the ledger's clock has jumped forward, continue as after a stop; return the ledger's time.

        Compare stored due times only with the returned time: the clock may jump after this call, and only the
        next call of `follow` notices such a jump. Raises StorageUnavailable.
        """
        async with self._following:
            clock, monotonic = read_together(self._engine.clock.now, self._monotonic)
            jump = clock - self._clock_at - round((monotonic - self._monotonic_at) * 1000)
            if jump > JUMP_MS and await self._leases.leads():
                await self._continue()
            self._clock_at, self._monotonic_at = clock, monotonic
            return clock

    async def _continue(self) -> None:
        """Continue after a time in which nothing was sent.

        For each failing endpoint, the five days until it is disabled begin again. The overdue retries get new
        due times, so that they are due one after the other and not all at once.
        """
        await self._engine.write(endpoints.begin_sending)
        for endpoint, _ in await self._engine.read(endpoints.sealed_secrets):
            spread = await self._engine.read(
                partial(attempts.spread_overdue, endpoint=endpoint, pace_ms=self._pace_ms)
            )
            for first in range(0, len(spread), SPREAD_AT_ONCE):
                await self._engine.write(
                    partial(attempts.set_due, spread=spread[first : first + SPREAD_AT_ONCE])
                )


# The recorder


GONE = 410  # the status with which a receiver asks for no more events
# A random time of at most this fraction of the wait is added to the wait before each retry. So the deliveries
# that failed together are not retried together.
JITTER = 0.1
RECORDED_AT_ONCE = 200  # results that one commit records
PACE_S = 0.01  # pause between two reads or two commits, so that each handles more deliveries
BUSY_PACE_S = 0.05  # pause while the event loop is busy, because requests come before webhooks
# The event loop is busy if it works for more than this fraction of the time. Without other load, sending to
# one endpoint keeps the loop at work for about 7% of the time.
BUSY = 0.2
RETRY_AFTER_S = 1.0

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class Pace:
    """The pause between two reads of deliveries or two recordings, longer if the thread was busy."""

    def __init__(self) -> None:
        self.pause_s = PACE_S
        self._measured_at = time.perf_counter(), time.thread_time()

    def measure(self) -> None:
        """Set the pause, depending on how busy the thread was since the last call."""
        before, self._measured_at = self._measured_at, (time.perf_counter(), time.thread_time())
        seconds, busy_seconds = (now - then for now, then in zip(self._measured_at, before, strict=True))
        self.pause_s = BUSY_PACE_S if busy_seconds > BUSY * seconds else PACE_S


async def try_until_done(step: Callable[[], Awaitable[object]]) -> None:
    """Run `step` again and again until it succeeds."""
    while not await try_step(step):
        await wait_to_retry()


async def try_step(step: Callable[[], Awaitable[object]]) -> bool:
    """Run `step` once and return whether it succeeded; log its error if it failed."""
    try:
        await step()
    except StorageUnavailable as error:
        log.warning("webhooks are paused: %s", error.cause)
        return False
    except Exception:
        log.exception("webhooks: a step failed")
        return False
    return True


async def wait_to_retry() -> None:
    """Wait before repeating a step that failed."""
    await asyncio.sleep(RETRY_AFTER_S)


@dataclass(frozen=True, slots=True)
class OutcomeBatch:
    """Outcomes, and the new cursors of their endpoints, to store in one commit.

    The outcome in a `bare` batch has no headers and no bodies.
    """

    outcomes: list[Outcome]
    cursors: dict[str, str]
    bare: bool = False

    def split(self) -> list[OutcomeBatch]:
        """Split this batch into smaller batches, and return them; return [] if this is impossible.

        A batch of several endpoints gives one batch for each endpoint. A batch of one endpoint gives one
        batch for each outcome, and then one batch for the cursor. A batch of a single outcome gives a batch
        of the same outcome without headers and bodies.
        """
        by_endpoint = [
            OutcomeBatch([outcome for outcome in self.outcomes if outcome.endpoint == id], {id: cursor})
            for id, cursor in self.cursors.items()
        ]
        if len(by_endpoint) > 1:
            return by_endpoint
        if self.outcomes and (self.cursors or len(self.outcomes) > 1):
            return [
                *(OutcomeBatch([outcome], {}) for outcome in self.outcomes),
                OutcomeBatch([], self.cursors),
            ]
        if self.outcomes and not self.bare:
            return [OutcomeBatch([_without_exchange(self.outcomes[0])], {}, bare=True)]
        return []


class Recorder:
    """Records results while `run` runs; `jobs` holds the jobs submitted to the sender, by number."""

    def __init__(
        self,
        engine: Engine,
        retries_s: Sequence[float],
        jobs: dict[int, SentJob],
        clock: RetryClock,
        pace: Pace,
    ) -> None:
        self._engine = engine
        self._retries_s = retries_s
        self._jobs = jobs
        self._clock = clock
        self._pace = pace
        self._results: list[tuple[SendResult, int]] = []  # results, each with the time at which it arrived
        self._result_event = asyncio.Event()
        self._finishing = False

    def take_result(self, result: SendResult) -> None:
        """Take a result from the sender, to record it soon."""
        self._results.append((result, self._engine.clock.now()))
        self._result_event.set()

    def finish(self) -> None:
        """Make `run` end when it has tried to record all results that have arrived."""
        self._finishing = True
        self._result_event.set()

    async def run(self, on_recorded: Callable[[bool], None]) -> None:
        """Record results until `finish`.

        After each recording, call `on_recorded`. Its argument is true if some of the recorded results belong
        to an `Outgoing` that drains. Such an `Outgoing` submits no more jobs, and is removed when all its
        results are recorded.
        """
        while not (self._finishing and not self._results):
            await self._result_event.wait()
            self._result_event.clear()
            results, self._results = self._results[:RECORDED_AT_ONCE], self._results[RECORDED_AT_ONCE:]
            await try_step(partial(self._record, results, on_recorded))
            if self._results:
                self._result_event.set()
            if not self._finishing:
                await asyncio.sleep(self._pace.pause_s)

    async def _record(
        self, results: list[tuple[SendResult, int]], on_recorded: Callable[[bool], None]
    ) -> None:
        jobs_done: list[tuple[SentJob, Outcome | None]] = []
        for result, at in results:
            job = self._jobs.pop(result.number, None)
            if job is None:
                log.error("the webhook sender returned a result for an unknown job: %d", result.number)
                continue
            job.outgoing.take_back(job, was_made=result.made)
            jobs_done.append((job, self._outcome(job, result, at) if result.made else None))
        outcomes = [outcome for _, outcome in jobs_done if outcome is not None]
        endpoints = {job.outgoing.subscription.endpoint: job.outgoing for job, _ in jobs_done}
        cursors = {id: outgoing.answered_to() for id, outgoing in endpoints.items()}
        recording = Recording(self._engine, outcomes, cursors)

        async def record() -> None:
            await recording.run(await self._clock.follow())

        while not await try_step(record):
            if self._finishing:
                return  # the next deliverer repeats all attempts that were not recorded
            await wait_to_retry()
        for id, outgoing in endpoints.items():
            outgoing.note_cursor(cursors[id])
        for job, outcome in jobs_done:
            if outcome is not None and recording.is_given_up(outcome):
                job.outgoing.give_up()
            else:
                job.outgoing.note_recorded(job, None if outcome is None else recording.retry_at(outcome))
        on_recorded(any(outgoing.drains for outgoing in endpoints.values()))

    def _outcome(self, job: SentJob, result: SendResult, at: int) -> Outcome:
        subscription = job.outgoing.subscription
        log.debug(
            *("%s to %s: %s in %d ms", job.message.id, subscription.endpoint),
            *(result.error or result.status, result.latency_ms),
        )
        retry_in_ms = None
        if result.error is not None and result.status != GONE and job.retries < len(self._retries_s):
            retry_in_ms = round(self._retries_s[job.retries] * (1000 + random.uniform(0, 1000 * JITTER)))
        return Outcome(
            endpoint=subscription.endpoint,
            project=subscription.project,
            livemode=subscription.livemode,
            event=job.message.id,
            retries=job.retries,
            attempted_at=at - result.latency_ms,
            latency_ms=result.latency_ms,
            status=result.status,
            error=result.error,
            request_headers=job.headers,
            response_headers=result.headers,
            response_body=result.body,
            retry_in_ms=retry_in_ms,
            resends=job.resends,
            enables=subscription.enables,
            restores=subscription.restores,
        )


class Recording:
    """Records some outcomes, if possible in one commit.

    If `run` raises StorageUnavailable, call `run` again to record the remaining outcomes.
    """

    def __init__(self, engine: Engine, outcomes: list[Outcome], cursors: dict[str, str]) -> None:
        self._engine = engine
        self._batches = [OutcomeBatch(outcomes, cursors)]
        self._recorded_at: dict[tuple[str, str], int] = {}  # by endpoint and event
        self._resent: set[tuple[str, str]] = set()

    async def run(self, now: int) -> None:
        """Record the outcomes that are not recorded yet; the waits before the retries start at `now`.

        Raises StorageUnavailable.
        """
        while self._batches:
            batch = self._batches[0]
            try:
                work = BookWork(partial(store, batch=batch, now=now), ATTEMPTS)
                self._resent |= await self._engine.write(work)
                self._batches[:1] = []
                self._recorded_at |= {(outcome.endpoint, outcome.event): now for outcome in batch.outcomes}
            except StorageUnavailable:
                raise
            except Exception:
                smaller = batch.split()
                self._batches[:1] = smaller
                if not smaller:
                    self._give_up(batch)

    def is_given_up(self, outcome: Outcome) -> bool:
        """Return whether `run` has given up the outcome, because it cannot be recorded."""
        return (outcome.endpoint, outcome.event) not in self._recorded_at

    def retry_at(self, outcome: Outcome) -> int | None:
        """Return when the delivery of a recorded outcome is due again, or None if there is no retry.

        If somebody asked to resend the delivery during its attempt, it is due at once, and the result is 0.
        """
        if (outcome.endpoint, outcome.event) in self._resent:
            return 0
        if outcome.retry_in_ms is None:
            return None
        return self._recorded_at[outcome.endpoint, outcome.event] + outcome.retry_in_ms

    def _give_up(self, batch: OutcomeBatch) -> None:
        for outcome in batch.outcomes:
            log.exception("the attempt to send %s to %s cannot be recorded", outcome.event, outcome.endpoint)
        for endpoint in batch.cursors:
            log.exception("the cursor of %s cannot be recorded", endpoint)


def store(unit: Unit, batch: OutcomeBatch, now: int) -> set[tuple[str, str]]:
    """Record the outcomes and the cursors, and disable endpoints if the outcomes require it.

    Return the endpoint and the event of each delivery that stays due, because somebody asked to resend it
    during its attempt.
    """
    resent = attempts.record(unit, batch.outcomes, now)
    for id, cursor in batch.cursors.items():
        endpoints.advance(unit, id, cursor)
    by_endpoint: defaultdict[tuple[str, int], list[Outcome]] = defaultdict(list)
    for outcome in batch.outcomes:
        by_endpoint[outcome.endpoint, outcome.enables].append(outcome)
    for (id, enables), outcomes in by_endpoint.items():
        any_succeeded = any(outcome.error is None for outcome in outcomes)
        is_gone = any(outcome.status == GONE for outcome in outcomes)
        endpoints.note_outcomes(unit, id, enables, now, any_succeeded=any_succeeded, is_gone=is_gone)
    return resent


def _without_exchange(outcome: Outcome) -> Outcome:
    error = None if outcome.error is None else "failed; its answer cannot be recorded"
    return replace(outcome, error=error, request_headers="[]", response_headers=None, response_body=None)
