"""What a server does beside answering: send webhooks, write the request log, clean up."""

from __future__ import annotations

from collections.abc import Sequence

from ledger_engine.core.settings import WEBHOOK_RETRIES_S
from ledger_engine.database.engine import Engine
from ledger_engine.events.following import Followers
from ledger_engine.events.request_recorder import RequestRecorder
from ledger_engine.events.webhooks.deliver import Deliverer
from ledger_engine.events.webhooks.sealing import Seal
from ledger_engine.upkeep.retention import Retention


class Background:
    """Runs from `start` to `stop`, within the life of its engine."""

    def __init__(self, engine: Engine, seal: Seal, *, retries_s: Sequence[float] = WEBHOOK_RETRIES_S) -> None:
        self.recorder = RequestRecorder(engine)
        self._followers = Followers.of(engine)
        self._deliverer = Deliverer(engine, seal, retries_s=retries_s)
        self._retention = Retention(engine)

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self.recorder.start()
        self._deliverer.start()
        self._retention.start()

    def begin_stop(self) -> None:
        """The server takes no more requests: end what would be answered without end."""
        self._followers.end()

    async def stop(self) -> None:
        """Finish promptly and lose nothing; after the last request, before the engine closes."""
        self._followers.end()
        await self._retention.stop()
        await self._deliverer.stop()
        await self.recorder.stop()
