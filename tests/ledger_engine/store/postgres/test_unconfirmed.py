"""A commit for which no standby waits any more: PostgreSQL keeps it, and a failover may lose it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

import psycopg
import pytest

from ledger_engine.core.errors import DuplicateIdempotencyKey, StorageUnavailable
from ledger_engine.store import BookKey, Unit
from ledger_engine.store.postgres.database import PostgresDatabase, open_database
from ledger_engine.store.postgres.readers import READERS
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import PATIENCE_S, until
from tests.postgres_cluster import asked_for

pytestmark = pytest.mark.process
_NUMBERS = count()
_CANCEL = (
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
    " WHERE wait_event = 'SyncRep' AND datname = current_database()"
)


_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
)


@pytest.fixture
def standby_is_awaited(beside: psycopg.Connection) -> Iterator[None]:
    with awaiting(beside):
        yield


@contextmanager
def awaiting(beside: psycopg.Connection) -> Iterator[None]:
    """Make commits wait for a missing standby; other tests turn synchronous_commit off."""
    if "://" in asked_for():
        pytest.skip("the settings of the server that TESTS_POSTGRES names are not changed")
    # The setting belongs to the whole cluster, and tests of other processes may change it at the same time.
    with psycopg.connect(beside.info.dsn, dbname="postgres", autocommit=True) as turn:
        turn.execute("SELECT pg_advisory_lock(1)")
        beside.execute("ALTER SYSTEM SET synchronous_standby_names TO 'nobody'")
        beside.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            beside.execute("ALTER SYSTEM RESET synchronous_standby_names")
            beside.execute("SELECT pg_reload_conf()")


class Note:
    """A work that stores one note under its id, and refuses to do so twice."""

    book: BookKey = ("prj_1", False)

    def __init__(self, id: str) -> None:
        self.id = id

    def __call__(self, unit: Unit) -> None:
        if self.id in notes(unit):
            raise DuplicateIdempotencyKey(self.id, same_request=True)
        unit.execute("INSERT INTO notes (id) VALUES (:id)", {"id": self.id})
        unit.announce("events")


def notes(unit: Unit) -> list[str]:
    return [row["id"] for row in unit.execute("SELECT id FROM notes")]


@pytest.fixture
async def servers(address: str, beside: psycopg.Connection) -> AsyncIterator[list[PostgresDatabase]]:
    """Two servers that are connected, follow each other, and are in doubt about nothing."""
    beside.execute("CREATE TABLE notes (id TEXT)")
    waits = f"{address}&options=-csynchronous_commit%3Don"
    opened = [open_database(waits, ManualClock(START), serving=True) for _ in range(2)]
    for database, other in (opened, opened[::-1]):
        await connect_and_hear(database, other)
    for database in opened:
        while database._confirmations.in_doubt:
            await database.write(Note(f"settled {next(_NUMBERS)}"))
    yield opened
    for database in opened:
        await database.close()


async def connect_and_hear(database: PostgresDatabase, other: PostgresDatabase) -> None:
    """Have each reader of a database connect, and its follower hear of the commits of another."""
    all_read = threading.Barrier(READERS)
    await asyncio.gather(*(database.read(lambda _: all_read.wait(PATIENCE_S)) for _ in range(READERS)))
    heard = asyncio.Event()
    database.listen(lambda _: heard.set())
    while not heard.is_set():
        await other.write(Note(f"heard {next(_NUMBERS)}"))
        await asyncio.wait({asyncio.ensure_future(heard.wait())}, timeout=0.2)


async def commit_without_standby(database: PostgresDatabase, beside: psycopg.Connection) -> str:
    """Commit a note whose wait for the standby is cancelled; return its id."""
    for number in count():  # the first ones may be before the server has read its settings again
        writing = asyncio.create_task(database.write(Note(f"cancelled {number}")))
        while not writing.done():
            beside.execute(_CANCEL)
            await asyncio.wait({writing}, timeout=0.02)
        if writing.exception() is not None:
            return f"cancelled {number}"
    raise AssertionError("it counts for ever")


def waiting(beside: psycopg.Connection) -> int:
    (found,) = beside.execute(_WAITING).fetchone() or (0,)
    return int(found)


@pytest.mark.parametrize("at", [0, 1], ids=["at the same server", "at the other one"])
async def test_answers_that_depend_on_an_unconfirmed_commit_wait_for_the_standby(
    servers: list[PostgresDatabase], beside: psycopg.Connection, at: int
) -> None:
    with awaiting(beside):
        id = await commit_without_standby(servers[0], beside)
        read = asyncio.create_task(servers[at].read(notes))
        refusal = asyncio.create_task(servers[at].write(Note(id)))
        await until(lambda: waiting(beside) == 1 or read.done() or refusal.done())
        assert (read.done(), refusal.done()) == (False, False)
    assert id in await read
    with pytest.raises(DuplicateIdempotencyKey):
        await refusal
    while servers[at]._confirmations.in_doubt:  # a poll may have begun another doubt
        await servers[at].write(Note(f"settled {next(_NUMBERS)}"))


def seen_by(database: PostgresDatabase, server: int) -> int:
    """Return how many commits of a server this server has seen: it refuses a database with fewer."""
    commits = dict(database._seen_commits._commits)
    return commits[server].announced if server in commits else 0


async def test_no_server_counts_an_unconfirmed_commit_as_seen_before_the_standby_has_it(
    servers: list[PostgresDatabase], beside: psycopg.Connection
) -> None:
    number = servers[0]._seen_commits.server
    with awaiting(beside):
        await commit_without_standby(servers[0], beside)
        found = beside.execute("SELECT announced FROM heads WHERE server = %s AND lock = server", [number])
        (announced,) = found.fetchone() or (0,)
        await until(lambda: servers[1]._confirmations.in_doubt)
        reads = [asyncio.create_task(each.read(notes)) for each in servers]
        await until(lambda: waiting(beside) == 2 or any(read.done() for read in reads))
        assert max(seen_by(each, number) for each in servers) < announced
    await asyncio.gather(*reads)
    assert seen_by(servers[0], number) == announced
    await until(lambda: seen_by(servers[1], number) == announced)


def awaited_or_done(beside: psycopg.Connection, writing: asyncio.Task[None]) -> bool:
    return waiting(beside) == 1 or writing.done()


async def test_reads_continue_while_a_commit_waits_and_wait_for_the_standby_once_the_wait_is_cancelled(
    servers: list[PostgresDatabase], beside: psycopg.Connection
) -> None:
    one, other = servers
    with awaiting(beside):
        for number in count():
            writing = asyncio.create_task(one.write(Note(f"slow {number}")))
            await until(partial(awaited_or_done, beside, writing))
            if not writing.done():
                break
        await until(lambda: one._confirmations.in_doubt and other._confirmations.in_doubt)
        for database in servers:
            assert f"slow {number}" not in await database.read(notes)
        beside.execute(_CANCEL)
        await until(
            lambda: beside.execute("SELECT 1 FROM notes WHERE id = %s", [f"slow {number}"]).fetchone()
        )
        reads = [asyncio.create_task(database.read(notes)) for database in servers]
        with pytest.raises(StorageUnavailable, match="no standby has confirmed"):
            await writing
        await until(lambda: waiting(beside) == 2 or any(read.done() for read in reads))
        assert [read.done() for read in reads] == [False] * 2
    for read in reads:
        assert f"slow {number}" in await read


@pytest.mark.usefixtures("standby_is_awaited")
async def test_a_commit_whose_wait_for_the_standby_was_cancelled_has_an_unknown_outcome(
    address: str, beside: psycopg.Connection
) -> None:
    database = open_database(
        f"{address}&options=-csynchronous_commit%3Don", ManualClock(START), serving=False
    )
    beside.execute("CREATE TABLE notes (id TEXT)")

    def work(unit: Unit) -> None:
        unit.execute("INSERT INTO notes (id) VALUES ('x')")

    try:
        cancelled = False
        while not cancelled:  # the first ones may be before the server has read its settings again
            writing = asyncio.create_task(database.write(work))
            while not writing.done():
                cancelled |= beside.execute(_CANCEL).fetchone() is not None
                await asyncio.wait({writing}, timeout=0.02)
        with pytest.raises(StorageUnavailable, match=r"no standby has confirmed .*is not known"):
            await writing
    finally:
        await database.close()
    assert beside.execute("SELECT id FROM notes").fetchone() == ("x",)  # it is there, on the primary
