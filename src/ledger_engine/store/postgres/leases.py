"""Leases: a lease lets one server do a task that no two servers may do at the same time.

Each lease is a row of a table. It belongs to one server, which must renew the lease before it expires.

All servers acquire and renew leases under one lock, and the database's clock decides when a lease expires. So
two servers never hold the same lease, even if their clocks differ. A server relies on its leases for a little
less than their duration, by its monotonic clock. So a server that wakes after a long suspension notices that
its leases have expired.

One lease belongs to the leader, the server that does certain tasks for all servers. All other leases are
spread evenly over the servers that want such leases. Each of these servers also stores a row for itself, so
that every server can count the servers. A server acquires free leases until it holds its share. A server with
at least two leases more than another server gives up half of the difference.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tasks import cancel
from ledger_engine.store import LEASES, BookKey, Database, Unit

LASTS_S = 8.0  # a lease expires this many seconds after its last renewal
MARGIN_S = 1.0  # this many seconds before its leases expire, a server stops relying on them
RENEWS_EVERY_S = 2.0
_LEADER = "leader"
# The row that a server stores for itself has this name, followed by the number of the server.
_SERVER = "server "
_NOW = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now"

log = logging.getLogger("ledger_engine.store.postgres.leases")


class _RenewalResult(NamedTuple):
    """The result of a renewal.

    `held` are the leases that this server now holds, and `releasing` are the leases in `held` that this
    server should give up. `others` is true if other servers hold leases.
    """

    held: frozenset[str]
    others: bool
    releasing: frozenset[str]


class PostgresLeases:
    """Implements `limits.Leases`. The first call of `hold` starts a task that renews this server's leases."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = secrets.randbits(62) + 1
        self._wanted_names: dict[str, frozenset[str]] = {}
        self._held_names: frozenset[str] = frozenset()
        self._has_asked = False
        self._was_renewed = False  # whether the last attempt to renew succeeded
        self._renewing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.first = False
        self.until = 0.0
        self.releasing: frozenset[str] = frozenset()

    async def hold(self, kind: str, names: Collection[str]) -> frozenset[str]:
        names_wanted = frozenset(names)
        before = self._wanted_names.get(kind, frozenset())
        self._wanted_names[kind] = names_wanted
        if names_wanted != before or not self._has_asked:
            await self._renew()
        if self._task is None:
            self._task = asyncio.create_task(self._keep_renewing())
        return names_wanted & self._held_names if time.monotonic() < self.until else frozenset()

    async def leads(self) -> bool:
        return bool(await self.hold(_LEADER, (_LEADER,)))

    async def end(self) -> None:
        if self._task is None:
            return
        await cancel(self._task)
        self._wanted_names.clear()
        try:
            await self._renew()
        except StorageUnavailable as error:
            log.warning(
                "could not give back this server's leases, which expire within %d s: %s", LASTS_S, error.cause
            )

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEWS_EVERY_S)
            try:
                await self._renew()
            except StorageUnavailable as error:
                log.warning("the leases of this server are not renewed: %s", error.cause)
            except Exception:  # any error: if this task ended, no background task would run any more
                log.exception("the leases of this server are not renewed")

    async def _renew(self) -> None:
        async with self._renewing:
            # After a failed renewal, the next renewal does not take over expired leases. The database may
            # have been down for all servers, and the other servers may still run and renew their leases.
            takes_expired = self._was_renewed or not self._has_asked
            self._was_renewed = False
            names_wanted = frozenset[str]().union(*self._wanted_names.values())
            began = time.monotonic()
            renewal = _Renewal(self._owner, names_wanted, takes_expired, self.releasing)
            result = await self._database.write(renewal)
            if not self._has_asked:
                self.first = not result.others
            self._has_asked = self._was_renewed = True
            self._held_names, self.releasing = result.held, result.releasing
            self.until = began + LASTS_S - MARGIN_S


@dataclass(frozen=True, slots=True)
class _Renewal:
    """The work that renews a server's leases, gives back unwanted leases, and acquires free leases."""

    owner: int
    wanted: frozenset[str]
    takes_expired: bool
    releasing: frozenset[str]
    book: ClassVar[BookKey] = LEASES

    def __call__(self, unit: Unit) -> _RenewalResult:
        row = unit.first(_NOW)
        assert row is not None, "a function of the database has a value"
        now: int = row["now"]
        mine, others, names_expired = set[str](), dict[str, int](), set[str]()
        for lease in unit.execute("SELECT name, owner, until FROM leases"):
            if lease["owner"] == self.owner:
                mine.add(lease["name"])
            elif lease["until"] > now:
                others[lease["name"]] = lease["owner"]
            else:
                names_expired.add(lease["name"])
        server = f"{_SERVER}{self.owner}"
        names_wanted = self.wanted | {server} if any(map(_is_spread, self.wanted)) else self.wanted
        free = names_wanted - mine - others.keys() - (set() if self.takes_expired else names_expired)
        names_held = (mine & names_wanted) | {name for name in free if not _is_spread(name)}
        loads = _loads(others)
        room = self._share(others, loads) - sum(map(_is_spread, names_held))
        names_held |= set(sorted(filter(_is_spread, free))[: max(0, room)])
        names_gone = (mine - names_held) | {name for name in names_expired if name.startswith(_SERVER)}
        unit.execute_many(
            "DELETE FROM leases WHERE name = :name", [{"name": name} for name in sorted(names_gone)]
        )
        until = now + int(LASTS_S * 1000)
        unit.execute(
            "UPDATE leases SET until = :until WHERE owner = :owner", {"until": until, "owner": self.owner}
        )
        unit.execute_many(
            "INSERT INTO leases (name, owner, until) VALUES (:name, :owner, :until)"
            " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until",
            [{"name": name, "owner": self.owner, "until": until} for name in sorted(names_held - mine)],
        )
        return _RenewalResult(
            frozenset(names_held), bool(others), self._leases_to_release(names_held, others, loads)
        )

    def _share(self, others: Mapping[str, int], loads: Mapping[int, int]) -> int:
        """Return how many of the spread leases this server may hold: its share of all, rounded up."""
        spread = set(filter(_is_spread, [*self.wanted, *self.releasing, *others]))
        return math.ceil(len(spread) / (1 + len(loads)))

    def _leases_to_release(
        self, names_held: Collection[str], others: Mapping[str, int], loads: Mapping[int, int]
    ) -> frozenset[str]:
        """Return the leases to give up: half of the surplus over the server with the fewest leases.

        Leases that the previous renewal has chosen (`self.releasing`) stay chosen until another server holds
        them.
        """
        least = min(loads.values(), default=sys.maxsize)
        own = set(filter(_is_spread, names_held))
        if given_up := self.releasing - others.keys():
            return given_up if len(own | given_up) > least else frozenset()
        return frozenset(sorted(own)[len(own) - max(0, len(own) - least) // 2 :])


def _is_spread(name: str) -> bool:
    return name != _LEADER and not name.startswith(_SERVER)


def _loads(others: Mapping[str, int]) -> dict[int, int]:
    """Return how many spread leases each other server holds, without servers that want no such leases."""
    loads = {owner: 0 for name, owner in others.items() if name != _LEADER}
    for name, owner in others.items():
        if _is_spread(name):
            loads[owner] += 1
    return loads
