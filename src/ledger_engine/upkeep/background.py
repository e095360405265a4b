"""The server's background tasks: sending webhooks, writing the request log, sealing the log, retention."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from ledger_engine.core.settings import WEBHOOK_RETRIES_S
from ledger_engine.core.tasks import cancel
from ledger_engine.events.following import Followers
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.events.webhooks.deliver import Deliverer
from ledger_engine.events.webhooks.sender_process import MakeSender
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.log.publishing import Outside
from ledger_engine.log.sealer import NOWHERE, Sealer
from ledger_engine.store.engine import Engine
from ledger_engine.upkeep.retention import Retention
from ledger_engine.upkeep.timekeeping import Timekeeper


class Background:
    """Runs from `start` to `stop`, while the engine is open.

    Retention, and the webhook retries that are pending at the start, wait until the timekeeper, which must
    have begun, trusts the machine's clock.
    """

    def __init__(
        self,
        engine: Engine,
        seal: Seal,
        timekeeper: Timekeeper,
        *,
        retries_s: Sequence[float] = WEBHOOK_RETRIES_S,
        monotonic: Callable[[], float] = time.monotonic,
        make_sender: MakeSender | None = None,
        log_name: str | None = None,
        outside: Outside = NOWHERE,
    ) -> None:
        self.recorder = RequestRecorder(engine)
        self._timekeeper = timekeeper
        self._followers = Followers.of(engine)
        self._deliverer = Deliverer(
            engine,
            seal,
            retries_s=retries_s,
            make_sender=make_sender,
            monotonic=monotonic,
            real_time=timekeeper.now,
        )
        self._sealer = Sealer(engine, seal, log_name, outside)
        self._retention = Retention(engine, timekeeper.now)
        self._waiting: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Make the log's key, and decide whether to trust the machine's clock. Raises StorageUnavailable."""
        await self._sealer.begin()
        await self._timekeeper.begin()

    def start(self) -> None:
        """Start; needs a running event loop."""
        self.recorder.start()
        self._timekeeper.start()
        self._deliverer.start(pause_retries=not self._timekeeper.is_trusted)
        self._sealer.start()
        self._waiting = asyncio.create_task(self._continue_when_clock_is_trusted())

    async def _continue_when_clock_is_trusted(self) -> None:
        await self._timekeeper.wait_until_trusted()
        self._deliverer.resume_retries()
        self._retention.start()

    async def pause(self) -> None:
        """Write nothing until `resume`, while the ledger is replaced; what was under way is recorded."""
        await self._retention.stop()
        await self._sealer.stop()
        await self._deliverer.stop()
        await self.recorder.stop()

    def resume(self) -> None:
        """Go on with the ledger as it is now."""
        self.recorder.start()
        self._deliverer.start(pause_retries=not self._timekeeper.is_trusted)
        self._sealer.start()
        if self._timekeeper.is_trusted:
            self._retention.start()

    def begin_stop(self) -> None:
        """End the streams, which would never end by themselves; the server accepts no more requests."""
        self._followers.end()

    async def stop(self) -> None:
        """Finish promptly without losing anything; call it after the last request and before closing."""
        self._followers.end()
        await cancel(self._waiting)
        await self._retention.stop()
        await self._sealer.stop()
        await self._deliverer.stop()
        await self.recorder.stop()
        await self._timekeeper.stop()
