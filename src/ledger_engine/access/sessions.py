"""Sessions: API keys that end with their server, such as the key of a dashboard that runs its own.

Where several servers may serve one ledger, each has a row in `servers` whose `beats` it counts up. One whose
beats stand still has ended, as the others find by counting their own: no clock is compared. A session whose
server has no row ends with the next beat of any server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit, Value
from ledger_engine.store.engine import Engine

_OPEN = "session = 1 AND revoked_at IS NULL"


def end_all(unit: Unit) -> None:
    """Revoke the keys of all sessions; for a ledger that no other server serves."""
    _revoke(unit, "session = 1")


@asynccontextmanager
async def key_of(
    engine: Engine, find_tenant: Callable[[Unit], Tenant], rights: NewApiKey
) -> AsyncIterator[str]:
    """Yield the value of a new key, for a program beside the server, and revoke the key at the end."""
    tenant = await engine.read(find_tenant)
    value = api_keys.new_value(tenant.livemode)
    made = await engine.write(partial(api_keys.create, tenant=tenant, new=rights, value=value))
    try:
        yield value
    finally:
        await engine.write(partial(api_keys.revoke, tenant=tenant, id=made.id))


def begin(unit: Unit, server: str) -> None:
    """Note that a server has started."""
    unit.execute("INSERT INTO servers (id, beats) VALUES (:id, 0)", {"id": server})


def beat(unit: Unit, server: str, silent: Mapping[str, int]) -> dict[str, int]:
    """Count a beat of the server, and end the sessions of those that have ended; return the others' beats.

    `silent` has the beats of servers at which they have stood still for too long. One that has beaten since
    is not ended.
    """
    unit.execute(
        "INSERT INTO servers (id, beats) VALUES (:id, 1)"
        " ON CONFLICT (id) DO UPDATE SET beats = servers.beats + 1",
        {"id": server},
    )
    for id, beats in silent.items():
        unit.execute("DELETE FROM servers WHERE id = :id AND beats = :beats", {"id": id, "beats": beats})
    _revoke(unit, "(server IS NULL OR server NOT IN (SELECT id FROM servers))")
    rows = unit.execute("SELECT id, beats FROM servers WHERE id <> :id", {"id": server})
    return {row["id"]: row["beats"] for row in rows}


def end(unit: Unit, server: str) -> None:
    """Note that a server ends, and revoke the keys of its sessions."""
    unit.execute("DELETE FROM servers WHERE id = :id", {"id": server})
    _revoke(unit, "server = :server", {"server": server})


def _revoke(unit: Unit, which: str, parameters: Mapping[str, Value] | None = None) -> None:
    ended = unit.execute(
        f"UPDATE api_keys SET revoked_at = :now WHERE {_OPEN} AND {which} RETURNING id",
        {"now": unit.now, **(parameters or {})},
    )
    if ended:
        unit.announce(api_keys.TOPIC)
