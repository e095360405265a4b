"""The heartbeat of a server that may share its ledger with other servers.

A session is a key that works only as long as a certain server runs, such as the key of a dashboard with its
own server. Every BEAT_S seconds a server writes a beat to the ledger, and so keeps its sessions valid. Each
server also watches the beats of the other servers. If another server sends no beat while the watching server
sends several beats, the other server counts as dead, and the watching server ends the other server's
sessions. The servers count beats instead of comparing times, because their clocks may differ. There is a
second reason: a suspended server sends no beats of its own, so it counts no silence of the other servers. If
it compared times, all other servers would look dead after its suspension.
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

BEAT_S = 5.0  # seconds between two beats
SILENT_BEATS = 7  # another server that is silent during this many beats of this server counts as dead
SILENT_S = SILENT_BEATS * BEAT_S

log = logging.getLogger("ledger_engine.upkeep.heartbeat")


class Heartbeat:
    """The heartbeat of one server, whose id is `server`. Call `begin`, `start`, `stop`, `end` in this order.

    `url` is the address of the server; None if another program owns the server's socket.
    """

    def __init__(self, engine: Engine, url: str | None = None) -> None:
        self.server = f"srv_{secrets.token_hex(8)}"
        self._entry = ServerEntry(self.server, url, socket.gethostname(), __version__, engine.clock.machine())
        self._engine = engine
        # For each other server: the count of its beats, and how many beats this server has sent since that
        # count last changed.
        self._last_beats: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Store that this server has started. Raises StorageUnavailable."""
        await self._engine.write(partial(api_keys.begin, server=self._entry))

    def start(self) -> None:
        """Start to beat every BEAT_S seconds. This needs a running event loop."""
        self._task = asyncio.create_task(self._beat_on())

    async def stop(self) -> None:
        """Stop beating."""
        await cancel(self._task)

    async def end(self) -> None:
        """End the sessions of this server. If the storage fails, another server ends the sessions later."""
        with contextlib.suppress(StorageUnavailable):
            await self._engine.write(partial(api_keys.end, server=self.server))

    async def beat(self) -> None:
        """Beat once, and end the sessions of servers that count as dead. Raises StorageUnavailable."""
        silent = {id: beats for id, (beats, own) in self._last_beats.items() if own >= SILENT_BEATS}
        others = await self._engine.write(partial(api_keys.beat, server=self._entry, silent=silent))
        for id in silent.keys() - others.keys():
            log.warning("no heartbeat from the server %s; its sessions were ended", id)
        self._last_beats = {id: (beats, self._beats_without(id, beats)) for id, beats in others.items()}

    def _beats_without(self, id: str, beats: int) -> int:
        """Return how many beats this server has sent since the other server's count became `beats`."""
        last_beats, own = self._last_beats.get(id, (beats, -1))
        return own + 1 if last_beats == beats else 0

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self.beat()
            except StorageUnavailable as error:  # only warn, because the other servers cannot beat now either
                log.warning("this server could not write its heartbeat: %s", error.cause)
            except Exception:  # go on after any error, because without beats the sessions would end
                log.exception("this server could not write its heartbeat")
