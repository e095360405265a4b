"""Leases as rows: each has an owner, and ends by the database's clock unless its owner renews it.

All servers take and renew them under one lock of writers, so two never hold the same one, whatever their own
clocks show. A server relies on its leases for a little less than they last, measured on its monotonic clock:
one that was stopped for long finds when it wakes that it has none.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tasks import cancel
from ledger_engine.database import BookKey, Database, Unit

LASTS_S = 8.0
MARGIN_S = 1.0  # a server stops relying on its leases this long before they end
RENEWS_EVERY_S = 2.0
_LEADER = "leader"
_NOW = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now"

log = logging.getLogger("ledger_engine.database.postgres.leases")


class _Found(NamedTuple):
    """The leases that this server holds, and whether others hold any."""

    held: frozenset[str]
    others: bool


class PostgresLeases:
    """The leases of one server, renewed by a task that begins with the first of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = secrets.randbits(62) + 1
        self._wanted: dict[str, frozenset[str]] = {}
        self._held: frozenset[str] = frozenset()
        self._has_asked = False
        self._was_renewed = False  # by the last attempt
        self._renewing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.first = False
        self.until = 0.0

    async def hold(self, kind: str, names: Collection[str]) -> frozenset[str]:
        wanted = frozenset(names)
        before = self._wanted.get(kind, frozenset())
        self._wanted[kind] = wanted
        if not wanted <= before or not self._has_asked:
            await self._renew()
        if self._task is None:
            self._task = asyncio.create_task(self._keep_renewing())
        return wanted & self._held if time.monotonic() < self.until else frozenset()

    async def leads(self) -> bool:
        return bool(await self.hold(_LEADER, (_LEADER,)))

    async def end(self) -> None:
        if self._task is None:
            return
        await cancel(self._task)
        self._wanted.clear()
        try:
            await self._renew()
        except StorageUnavailable as error:
            log.warning("the leases of this server end in %d s: %s", LASTS_S, error)

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEWS_EVERY_S)
            try:
                await self._renew()
            except StorageUnavailable as error:
                log.warning("the leases of this server are not renewed: %s", error)
            except Exception:  # of any kind: without this task nothing would be done in the background
                log.exception("the leases of this server are not renewed")

    async def _renew(self) -> None:
        async with self._renewing:
            # After a failure every server first renews its own: what nobody lost stays where it is.
            takes = self._was_renewed or not self._has_asked
            self._was_renewed = False
            wanted = frozenset[str]().union(*self._wanted.values())
            began = time.monotonic()
            found = await self._database.write(_Renewal(self._owner, tuple(sorted(wanted)), takes))
            if not self._has_asked:
                self.first = not found.others
            self._has_asked = self._was_renewed = True
            self._held = found.held
            self.until = began + LASTS_S - MARGIN_S


@dataclass(frozen=True, slots=True)
class _Renewal:
    """The work that renews the leases of a server, gives back those it wants no more, and takes free ones."""

    owner: int
    wanted: tuple[str, ...]
    takes_ended: bool
    book: ClassVar[BookKey] = ("leases", False)  # no project's, so it waits for no other work

    def __call__(self, unit: Unit) -> _Found:
        row = unit.first(_NOW)
        assert row is not None, "a function of the database has a value"
        now: int = row["now"]
        owners = {
            each["name"]: (each["owner"], each["until"])
            for each in unit.execute("SELECT name, owner, until FROM leases")
        }
        mine = {name for name, (owner, _) in owners.items() if owner == self.owner}
        others = {name for name, (owner, until) in owners.items() if name not in mine and until > now}
        free = {
            name
            for name in self.wanted
            if name not in owners or (self.takes_ended and name not in mine and name not in others)
        }
        held = (mine & set(self.wanted)) | free
        unit.execute_many(
            "DELETE FROM leases WHERE name = :name", [{"name": each} for each in sorted(mine - held)]
        )
        until = now + int(LASTS_S * 1000)
        unit.execute(
            "UPDATE leases SET until = :until WHERE owner = :owner", {"until": until, "owner": self.owner}
        )
        unit.execute_many(
            "INSERT INTO leases (name, owner, until) VALUES (:name, :owner, :until)"
            " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until",
            [{"name": each, "owner": self.owner, "until": until} for each in sorted(free)],
        )
        return _Found(frozenset(held), bool(others))
