"""A primary that hangs, the standby that is promoted in its place, and the primary when it comes back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import psycopg
import pytest

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from tests.faults.postgres import ROLE, Postgres
from tests.ledger_engine.waiting import looked_until

WITHIN_S = 5  # of a promotion
PLAY_S = 3  # for a busy machine
_TIMELINE = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline"


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A primary and its standby."""
    primary = Postgres()
    standby = Postgres(primary)
    yield primary, standby
    for each in (standby, primary):
        each.remove()


def change(unit: Unit) -> str:
    """Commit something, and return on which timeline that is."""
    unit.execute("UPDATE kept_time SET put_off = put_off")
    unit.announce("events")
    return timeline(unit)


def timeline(unit: Unit) -> str:
    (row,) = unit.execute(_TIMELINE)
    return str(row["timeline"])


async def changed(engine: Engine) -> str | None:
    with contextlib.suppress(StorageUnavailable):
        return await engine.write(change)
    return None


async def test_a_server_follows_the_promotion_in_time_and_never_goes_back(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, standby = pair
    name = await asyncio.to_thread(primary.new_database)
    both = f"{primary.sockets},{standby.sockets}"
    address = f"postgresql://{ROLE}@/{name}?host={both}&target_session_attrs=read-write"
    engine = await asyncio.to_thread(open_engine, address, clock=SystemClock(), serving=True)
    try:
        assert await engine.write(change) == "00000001"
        with primary.stopped():
            await asyncio.to_thread(standby.promote)
            began = time.monotonic()
            assert await looked_until(lambda: changed(engine), bool) == "00000002"
            assert await engine.read(timeline) == "00000002"
            assert time.monotonic() - began < WITHIN_S + PLAY_S
        # Nobody has fenced it. It is the first of the address, and takes changes.
        await asyncio.to_thread(end_connections, standby)
        assert await looked_until(lambda: changed(engine), bool) == "00000002"
        assert {await engine.read(timeline) for _ in range(20)} == {"00000002"}
        await asyncio.to_thread(standby.stop, "immediate")
        for asked in (lambda: engine.read(timeline), lambda: engine.write(change), engine.check):
            with pytest.raises(StorageUnavailable, match="lacks changes that were acknowledged"):
                await asked()
        assert engine.losses.refused is not None
        assert engine.losses.refused.startswith(
            "The database that can be reached is on timeline 1 of its cluster, and this server has seen"
            " timeline 2: it is a primary from before a failover. It is not used."
        )
        # A server that starts now knows nothing of that, but of two primaries takes the newer one.
        await asyncio.to_thread(standby.start)
        assert await looked_until(lambda: changed(engine), bool) == "00000002"
        other = await asyncio.to_thread(open_engine, address, clock=SystemClock(), serving=True)
        assert await other.write(change) == "00000002"
        await other.close()
    finally:
        await engine.close()


def end_connections(postgres: Postgres) -> None:
    with postgres.connect() as connection, contextlib.suppress(psycopg.OperationalError):
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'")
