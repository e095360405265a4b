"""A primary that hangs, the standby that is promoted in its place, and the primary when it comes back."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator

import psycopg
import pytest

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from tests.faults.client import Writers, assert_all_is_there_once, open_accounts
from tests.faults.postgres import ROLE, Postgres
from tests.faults.server import Server
from tests.faults.several import under_load
from tests.ledger_engine.waiting import looked_until

WITHIN_S = 5  # of a promotion
PLAY_S = 3  # for a busy machine
WRITERS = 16
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
    unit.execute("UPDATE kept_time SET reached = reached")
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
        with psycopg.connect(primary.address("postgres", user="postgres"), autocommit=True) as superuser:
            superuser.execute(f"GRANT pg_monitor TO {ROLE}")
        figures_now = {each.name: each.value for each in await engine.figures()}
        assert figures_now["ledger_standbys"] == 1
        assert 0 <= figures_now["ledger_replication_lag_seconds"] < WITHIN_S + PLAY_S
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


@pytest.mark.timeout(3600)
async def test_failovers_under_load_lose_nothing_that_a_synchronous_standby_has(
    soak: int, seed: int, request: pytest.FixtureRequest
) -> None:
    """The primary is killed, or hangs and comes back unfenced; it is then the standby of the other."""
    if soak == 1:
        pytest.skip("a long run: `make test-ha`")
    primary, standby = request.getfixturevalue("pair")
    name = await asyncio.to_thread(primary.new_database)
    both = f"{primary.sockets},{standby.sockets}"
    running = [
        Server(f"postgresql://{ROLE}@/{name}?host={both}&target_session_attrs=read-write") for _ in "12"
    ]
    chance = random.Random(seed)
    waits: list[float] = []
    try:
        for each in running:
            await asyncio.to_thread(each.start)
        key = running[0].make_key()
        accounts = await open_accounts(running[0].port, key)
        writers = Writers(key, accounts, seed, lambda: chance.choice(running).port)
        async with under_load(writers, WRITERS):
            for number in range(soak):
                await writers.until(100)
                hangs = number % 2 == 1
                with primary.stopped() if hangs else contextlib.nullcontext():
                    if not hangs:
                        await asyncio.to_thread(primary.stop, "immediate")
                    await asyncio.to_thread(standby.promote)
                    promoted = time.monotonic()
                    await writers.until(1)
                    waits.append(time.monotonic() - promoted)
                    await writers.until(50)
                if hangs:
                    await asyncio.to_thread(end_connections, standby)
                    await writers.until(50)
                await asyncio.to_thread(primary.follow, standby)
                primary, standby = standby, primary
        await writers.settle()
        running[0].assert_books_are_right()
        await assert_all_is_there_once(running[1].port, key, writers.memory)
    finally:
        for each in running:
            each.kill()
    memory = writers.memory
    print(
        f"{soak} failovers: {len(memory.acknowledged)} acknowledged, {len(memory.refused)} refused; the first"
        f" after {min(waits):.1f} to {max(waits):.1f} s, {sorted(waits)[len(waits) // 2]:.1f} in the middle"
    )


def end_connections(postgres: Postgres) -> None:
    with postgres.connect() as connection, contextlib.suppress(psycopg.OperationalError):
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'")
