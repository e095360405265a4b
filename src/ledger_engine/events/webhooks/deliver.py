"""The deliverer: passes each endpoint's events to the sender in order, and records the results.

It keeps no state of its own. What to send is read from the database after each endpoint's cursor, somewhat
ahead of the sender (`feeding`); the results are written there together with the cursor, in one commit
(`recording`). However it ends, the next deliverer continues from there, so that each event is sent at least
once.

Where several servers share the ledger, each endpoint is one server's, which has a lease for it. Nothing is
sent after the lease has ended, unless it was renewed.

While the machine's clock is not trusted (`timekeeping`), the retries that were pending at the start are held
back. First attempts continue in order, and so do their retries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from ledger_engine.core.settings import WEBHOOK_RETRIES_S
from ledger_engine.core.tasks import cancel
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import endpoints
from ledger_engine.events.webhooks.feeding import EndpointLeases, Feeder, OwnEndpoints
from ledger_engine.events.webhooks.outgoing import Sent
from ledger_engine.events.webhooks.pacing import Pace, try_step
from ledger_engine.events.webhooks.recording import Recorder
from ledger_engine.events.webhooks.retry_clock import RetryClock
from ledger_engine.events.webhooks.sealing import Seal
from ledger_engine.events.webhooks.sender_process import MakeSender, new_sender
from ledger_engine.store.engine import Engine

STOP_TIMEOUT_S = 1.0


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
        self._new_clock = partial(RetryClock, engine, retries_s, monotonic, real_time or engine.clock.now)
        self._new_run = partial(_Run, engine, seal, retries_s, make_sender or new_sender)
        self._run: _Run | None = None
        engine.listen(self._notice_commit)

    def start(self, *, hold_retries: bool = False) -> None:
        """Start delivering, also again after `stop`; needs a running event loop.

        `hold_retries` holds back those pending now, until `release_retries`.
        """
        self._run = self._new_run(self._new_clock())
        self._run.start(hold_retries=hold_retries)

    async def stop(self) -> None:
        """Stop: wait a short time for the attempts under way, and record them.

        The next deliverer sends the rest.
        """
        run, self._run = self._run, None
        if run is not None:
            await run.stop()

    def release_retries(self) -> None:
        """Send the retries that were held back, if any."""
        if self._run is not None:
            self._run.feeder.release_retries()

    def _notice_commit(self, topics: frozenset[str]) -> None:
        if self._run is None:
            return
        if endpoints.TOPIC in topics:
            self._run.feeder.look_everywhere()
        elif outbox.TOPIC in topics:
            self._run.feeder.look_for_events()


class _Run:
    """What delivers from one start to the next stop: a feeder, the sender and a recorder."""

    def __init__(
        self,
        engine: Engine,
        seal: Seal,
        retries_s: Sequence[float],
        make_sender: MakeSender,
        clock: RetryClock,
    ) -> None:
        jobs: dict[int, Sent] = {}
        pace = Pace()
        self.clock = clock
        self._recorder = Recorder(engine, retries_s, jobs, clock, pace)
        self._sender = make_sender(self._recorder.take_answer)
        self.own = OwnEndpoints(seal, self._sender, EndpointLeases(engine, self._sender))
        self.feeder = Feeder(engine, self.own, self._sender, jobs, clock, pace)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *, hold_retries: bool) -> None:
        self._tasks = [
            asyncio.create_task(self.feeder.run(hold_retries=hold_retries)),
            asyncio.create_task(self._recorder.run(self.feeder.notice_recorded)),
        ]

    async def stop(self) -> None:
        feeding, recording = self._tasks
        await cancel(feeding)
        await self._sender.stop(STOP_TIMEOUT_S)
        self._recorder.finish()
        await recording
        await try_step(self.feeder.keep_cursors)
