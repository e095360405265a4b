"""The heartbeat of a server that may share its ledger with other servers.

The heartbeat keeps the sessions of the server alive. Each server also watches the other servers. If a server
sends no beat during several beats of the watching server, it has ended, and the watching server ends its
sessions. The servers count beats instead of comparing times, because their clocks may differ. A suspended
server counts no beats, so after its pause it still takes the other servers for running.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from functools import partial

from ledger_engine import __version__
from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import ServerEntry
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tasks import cancel
from ledger_engine.store.engine import Engine

BEAT_S = 5.0
SILENT_BEATS = 7  # a server that is silent during this many beats of this server has ended
SILENT_S = SILENT_BEATS * BEAT_S

log = logging.getLogger("ledger_engine.upkeep.heartbeat")


class Heartbeat:
    """The heartbeat of one server, whose id is `server`. Call `begin`, `start`, `stop`, `end` in this order.

    `url` is the address of the server; None if another program owns its socket.
    """

    def __init__(self, engine: Engine, url: str | None = None) -> None:
        self.server = f"srv_{secrets.token_hex(8)}"
        self._entry = ServerEntry(self.server, url, socket.gethostname(), __version__, engine.clock.machine())
        self._engine = engine
        self._last_beats: dict[
            str, tuple[int, int]
        ] = {}  # the last beat of each other server, and the number of own beats since then
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Note that this server has started. Raises StorageUnavailable."""
        await self._engine.write(partial(api_keys.begin, server=self._entry))

    def start(self) -> None:
        """Start the beats. This needs a running event loop."""
        self._task = asyncio.create_task(self._beat_on())

    async def stop(self) -> None:
        """Stop the beats."""
        await cancel(self._task)

    async def end(self) -> None:
        """End the sessions of this server. If the storage fails, another server ends them later."""
        with contextlib.suppress(StorageUnavailable):
            await self._engine.write(partial(api_keys.end, server=self.server))

    async def beat(self) -> None:
        """Beat once, and end the sessions of servers that have ended. Raises StorageUnavailable."""
        silent = {id: beats for id, (beats, own) in self._last_beats.items() if own >= SILENT_BEATS}
        others = await self._engine.write(partial(api_keys.beat, server=self._entry, silent=silent))
        for id in silent.keys() - others.keys():
            log.warning("no heartbeat from the server %s; its sessions were ended", id)
        self._last_beats = {id: (beats, self._beats_without(id, beats)) for id, beats in others.items()}

    def _beats_without(self, id: str, beats: int) -> int:
        last_beats, own = self._last_beats.get(id, (beats, -1))
        return own + 1 if last_beats == beats else 0

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self.beat()
            except StorageUnavailable as error:  # no server can beat now
                log.warning("this server could not write its heartbeat: %s", error.cause)
            except Exception:  # go on after any error: without beats the sessions would end
                log.exception("this server could not write its heartbeat")
