"""Retention: deletes data that the ledger stores only for a limited time, and erases users.

Logged requests and deliveries stay for 7 days. Deleted objects and deactivated users can be restored for 30
days (docs/interface.md#quotas-and-retention).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from ledger_engine.access import projects
from ledger_engine.access.oauth import apps
from ledger_engine.access.quotas import LOGS_KEPT_FOR, RECOVERABLE_FOR
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import first_at
from ledger_engine.core.tasks import cancel, take_turns
from ledger_engine.events import outbox, request_log
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.ledger import users
from ledger_engine.store import Unit, kept_time
from ledger_engine.store.engine import Engine

EVERY_S = 3600.0  # seconds between two cleanings
AT_ONCE = 200  # rows in one transaction; with more rows, requests would wait too long for the writer

log = logging.getLogger("ledger_engine.upkeep.retention")


class Retention:
    """Cleans up every hour from `start` to `stop`. If servers share a ledger, only one of them cleans up.

    The first cleaning comes an hour after `start`. If the machine's clock is wrong at the start, all data may
    look old, and the first hour gives you time to correct the clock. Retention does not use the ledger's
    clock, because the ledger's clock never goes back: after the machine's clock was wrong once, the ledger's
    clock can stay too far ahead.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the hourly cleaning. This needs a running event loop."""
        self._task = asyncio.create_task(self._clean_up_every_hour())

    async def stop(self) -> None:
        """Stop at once. A later cleaning deletes the data that this cleaning has not reached."""
        await cancel(self._task)

    async def clean_up(self) -> None:
        """Delete expired data and erase expired users, in short transactions. Raises StorageUnavailable.

        This also stores the machine's time as the last time at which a server ran.
        """
        now = self._engine.clock.machine()
        await self._engine.write(partial(kept_time.note_served, machine=now))
        oldest = now - LOGS_KEPT_FOR
        for project in await self._engine.read(projects.every):
            for livemode in (False, True):
                before = first_at("req", oldest)
                await self._repeat(
                    partial(request_log.purge, project=project.id, livemode=livemode, before_id=before)
                )
        await self._repeat(partial(deliveries.purge, before_id=first_at("dlv", oldest)))
        await self._engine.write(endpoints.forget_previous_secrets)
        await self._forget_deleted(now - RECOVERABLE_FOR)
        await self._erase_users(before=now - users.RECOVERABLE_FOR)
        log.debug("deleted and erased the expired data")

    async def _erase_users(self, before: int) -> None:
        """Erase the users who were deactivated before `before`.

        Each transaction erases one user from some of the user's events.
        """
        for user in await self._engine.read(partial(users.expired, before=before)):
            await take_turns(self._erasing_turn(user, before))

    async def _forget_deleted(self, before: int) -> None:
        """Remove for good the webhook endpoints and apps that were deleted before `before`."""
        for purge in (endpoints.purge, apps.purge):
            await self._repeat(partial(purge, before=before))

    def _erasing_turn(self, user: str, before: int) -> Callable[[], Awaitable[int]]:
        """Return a function for `take_turns`; each call of it erases the user from some more events."""
        after = ""

        async def turn() -> int:
            nonlocal after
            last = await self._engine.write(partial(_erase_user, user=user, before=before, after_event=after))
            after = last or after
            return 0 if last is None else AT_ONCE

        return turn

    async def _repeat(self, purge: Callable[..., int]) -> None:
        """Call `purge`, with other work in between, until it finds nothing more to delete."""
        await take_turns(lambda: self._engine.write(partial(purge, limit=AT_ONCE)))

    async def _clean_up_every_hour(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                if await self._engine.shared_state.leases.leads():
                    await self.clean_up()
            except StorageUnavailable as error:
                log.warning("cleaning up is postponed: %s", error.cause)
            except Exception:
                log.exception("cleaning up failed")


def _erase_user(unit: Unit, user: str, before: int, after_event: str) -> str | None:
    """Erase the user from up to AT_ONCE events after the event `after_event`, and return the last event's id.

    - If no more events follow, also erase the user, and return None.
    - If the user is no longer expired, erase nothing, and return None.
    """
    if not users.is_expired(unit, user, before):
        return None
    last = outbox.erase_user(unit, user, after_event, AT_ONCE)
    if last is None:
        users.erase(unit, user)
    return last
