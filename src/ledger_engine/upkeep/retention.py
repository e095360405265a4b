"""Retention: what is kept for a time only, and is deleted or erased when that is over.

Request logs and deliveries are kept for 7 days, deactivated users can be restored for 30
(interface.md, Quotas and retention).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from ledger_engine.access import projects
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import first_at
from ledger_engine.database import Unit
from ledger_engine.database.engine import Engine
from ledger_engine.events import outbox, request_log
from ledger_engine.events.webhooks import deliveries
from ledger_engine.ledger import users

LOGS_KEPT_FOR = 7 * DAY
FIRST_AFTER_S = 10.0  # a server that starts has better things to do
EVERY_S = 3600.0
AT_ONCE = 200  # rows in one work: requests that wait for the writer wait no longer than that
BETWEEN_S = 0.02

log = logging.getLogger("ledger_engine.upkeep.retention")


class Retention:
    """Cleans up soon after `start` and every hour until `stop`.

    It goes by the time that passes while it runs: a clock that is set forward meanwhile deletes nothing.
    """

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._began_at, self._began_monotonic = engine.clock.now(), monotonic()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._task = asyncio.create_task(self._clean_up_every_hour())

    async def stop(self) -> None:
        """Stop at once; what is left is for the next time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def clean_up(self) -> None:
        """Delete and erase everything whose time is over, in small works. Raises StorageUnavailable."""
        now = self._began_at + round((self._monotonic() - self._began_monotonic) * 1000)
        oldest = now - LOGS_KEPT_FOR
        for project in await self._engine.read(projects.every):
            for livemode in (False, True):
                before = first_at("req", oldest)
                await self._repeat(
                    partial(request_log.purge, project=project.id, livemode=livemode, before_id=before)
                )
        await self._repeat(partial(deliveries.purge, before_id=first_at("dlv", oldest)))
        await self._engine.write(partial(_erase_users, before=now - users.RECOVERABLE_FOR))

    async def _repeat(self, purge: Callable[..., int]) -> None:
        purged = AT_ONCE
        while purged == AT_ONCE:
            purged = await self._engine.write(partial(purge, limit=AT_ONCE))
            await asyncio.sleep(BETWEEN_S)

    async def _clean_up_every_hour(self) -> None:
        await asyncio.sleep(FIRST_AFTER_S)
        while True:
            try:
                await self.clean_up()
            except StorageUnavailable as error:
                log.warning("cleaning up waits: %s", error)
            except Exception:
                log.exception("cleaning up failed")
            await asyncio.sleep(EVERY_S)


def _erase_users(unit: Unit, before: int) -> None:
    """Erase the users whose time is over, and what was recorded of them, in one commit."""
    outbox.erase_users(unit, users.erase_expired(unit, before))
