"""The server's background tasks: webhooks, the request log, the seals of the transparency log, retention."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import WEBHOOK_RETRIES_S
from ledger_engine.events.following import Followers
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.events.webhooks.deliver import Deliverer
from ledger_engine.events.webhooks.sender_process import MakeSender
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.log.publishing import CheckpointPlaces
from ledger_engine.log.sealer import NOWHERE, Sealer
from ledger_engine.store import kept_time
from ledger_engine.store.engine import Engine
from ledger_engine.upkeep.retention import Retention

log = logging.getLogger("ledger_engine.upkeep.background")


class Background:
    """Runs the background tasks from `start` to `stop`; the engine must be open all this time.

    - `seal` encrypts stored secrets.
    - `retries_s` are the seconds to wait before each further attempt to send a webhook. The ledger's clock
      measures the waits. `monotonic` returns the time of a second clock, in seconds. The comparison with this
      clock shows whether the ledger's clock has jumped.
    - `make_sender` makes the sender of webhooks; None for a sender in a separate process.
    - `log_name` is the text with which the names of new transparency logs begin; None for a random name.
    - `outside` are the places outside the ledger to which the checkpoints of the logs are published.
    """

    def __init__(
        self,
        engine: Engine,
        seal: Seal,
        *,
        retries_s: Sequence[float] = WEBHOOK_RETRIES_S,
        monotonic: Callable[[], float] = time.monotonic,
        make_sender: MakeSender | None = None,
        log_name: str | None = None,
        outside: CheckpointPlaces = NOWHERE,
    ) -> None:
        self.recorder = RequestRecorder(engine)
        self._engine = engine
        self._followers = Followers.of(engine)
        self._deliverer = Deliverer(
            engine,
            seal,
            retries_s=retries_s,
            make_sender=make_sender,
            monotonic=monotonic,
        )
        self._sealer = Sealer(engine, seal, log_name, outside)
        self._retention = Retention(engine)

    async def begin(self) -> None:
        """Prepare the tasks. Call this once, before `start`. Raises StorageUnavailable.

        This makes the key of the transparency log, and stores the machine's time as the last time at which a
        server ran. If the ledger's time is far ahead of the machine's clock, this logs a warning.
        """
        await self._sealer.begin()
        await self._note_served()
        if (notice := self._engine.clock_notice()) is not None:
            log.warning("%s", notice)

    def start(self) -> None:
        """Start the tasks. This needs a running event loop."""
        self.recorder.start()
        self._deliverer.start()
        self._sealer.start()
        self._retention.start()

    async def pause(self) -> None:
        """Stop the tasks until `resume`, so that the ledger can be replaced or emptied in the meantime.

        The sender of webhooks and the recorder of requests store their work in progress before they stop.
        Sealing and retention stop at once.
        """
        await self._retention.stop()
        await self._sealer.stop()
        await self._deliverer.stop()
        await self.recorder.stop()

    def resume(self) -> None:
        """Start the tasks again after `pause`, on the ledger in its new state."""
        self.start()

    def begin_stop(self) -> None:
        """End the event streams: they never end by themselves, and the server would wait for them forever.

        Call this when the server accepts no more requests.
        """
        self._followers.end()

    async def stop(self) -> None:
        """Stop the tasks; first store the results of webhooks and the logged requests that are in memory.

        Sealing and retention stop at once, and the next server continues them. Call this after the last
        request and before closing the engine.
        """
        self._followers.end()
        await self._retention.stop()
        await self._sealer.stop()
        await self._deliverer.stop()
        await self.recorder.stop()
        with contextlib.suppress(StorageUnavailable):
            await self._note_served()

    async def _note_served(self) -> None:
        await self._engine.write(partial(kept_time.note_served, machine=self._engine.clock.machine()))
