"""A server that brings an older ledger up to date is killed at one of its calls of the system.

A short run is killed at a few of the calls that have to do with the ledger's files, drawn by `--seed`; with
`--soak 100` at all of them.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlite_utils import Database

from ledger_engine.core.tenant import Tenant
from ledger_engine.database import migrations
from ledger_engine.database.engine import open_engine
from ledger_engine.ledger import transactions
from ledger_engine.upkeep import audit
from tests.faults.test_every_call import CALLS, KILL
from tests.faults.tracing import Running, Tracer, can_trace
from tests.ledger_engine.database.test_migrations import ALL, BEFORE_BOOKS, KEPT, first_migrations, schema
from tests.ledger_engine.waiting import wait_until

POSTINGS = 20
OLDER = BEFORE_BOOKS  # migrations that the older version had; the later ones make tables anew
PROJECT, ACCOUNT = "prj_00000000000000000000000001", "acc_00000000000000000000000001"
SHORT = 2  # kills
OWN_FILES = ("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal", "ledger.db.lock")
TABLES = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT GLOB '*sqlite_*'"

Rows = dict[str, list[tuple[object, ...]]]  # of each table
Place = tuple[str, int]  # the name of a call, and which one it is among those of its thread


def tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute(TABLES)]


def fill(connection: sqlite3.Connection) -> None:
    """Insert a project with an account and its postings, as the older version stored them."""
    numbers = range(1, POSTINGS + 1)
    connection.executescript(
        f"""
INSERT INTO projects (id, name, plan, created) VALUES ('{PROJECT}', 'Roastery', 'pro', 1);
INSERT INTO accounts (id, project, livemode, name, currency, balance, created)
    VALUES ('{ACCOUNT}', '{PROJECT}', 0, 'Till', 'EUR', {POSTINGS}, 1);
INSERT INTO settlements (project, livemode, currency, balance) VALUES ('{PROJECT}', 0, 'EUR', -{POSTINGS});
INSERT INTO counters (project, livemode, stored_objects) VALUES ('{PROJECT}', 0, {POSTINGS + 1})
"""
    )
    connection.executemany(
        "INSERT INTO transactions (id, project, livemode, account, amount, type, balance_after, created)"
        " VALUES (?, ?, 0, ?, 1, 'credit', ?, ?)",
        [(f"txn_{number:026}", PROJECT, ACCOUNT, number, number) for number in numbers],
    )
    connection.executemany(
        "INSERT INTO events (id, project, livemode, type, object, body, created)"
        " VALUES (?, ?, 0, 'transaction.created', ?, ?, ?)",
        [(f"evt_{n:026}", PROJECT, f"txn_{n:026}", '{"x": "%s"}' % ("x" * 500), n) for n in numbers],
    )


def rows_of(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    """The rows of a table, with project and mode also where the newer version has a book in their place."""
    columns = ", ".join(KEPT.get(table, ("*",)))
    names = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    joined = f"{table} JOIN books USING (book)" if "book" in names else table
    return connection.execute(f"SELECT {columns} FROM {joined} ORDER BY 1").fetchall()


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ledger of an older version as a kill left it: its rows are in its log alone."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("older")
    ledger = source / "ledger.db"
    with (
        closing(sqlite3.connect(ledger, isolation_level=None)) as connection,
        pytest.MonkeyPatch.context() as p,
    ):
        connection.execute("PRAGMA journal_mode=WAL")
        p.setattr(migrations, "ledger", first_migrations(OLDER))
        migrations.apply(connection)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        fill(connection)
        for file in (ledger, source / "ledger.db-wal"):
            shutil.copy(file, folder)
    assert (folder / "ledger.db-wal").stat().st_size > 10_000
    return folder


@contextmanager
def starting(tracer: Tracer, ledger: Path, *strace: str) -> Iterator[Running]:
    """A server that is being started; strace sees its calls that have to do with the ledger's files."""
    paths = [each for name in OWN_FILES for each in ("-P", str(ledger.with_name(name)))]
    words = ("serve", "--port", "0", "--database", str(ledger))
    with tracer.running(words, *paths, "-e", "signal=none", *strace) as server:
        wait_until(lambda: "Listening on" in server.out.read_text() or server.has_ended())
        yield server
        server.kill()


def places(tracer: Tracer, ledger: Path) -> list[Place]:
    """Every such call of a start, up to when the server is ready."""
    trace = ledger.parent.with_name("trace")
    with starting(tracer, ledger, "-e", f"trace={CALLS}", "-o", str(trace)):
        lines = trace.read_text().splitlines()
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[Place, None] = {}
    for line in lines:
        thread, call = line.partition("(")[0].split(maxsplit=1)
        if "<" not in call:  # where another thread came between, the line is in two parts
            counts[thread, call] += 1
            found[call, counts[thread, call]] = None
    return list(found)


def was_killed(tracer: Tracer, ledger: Path, place: Place) -> bool:
    """Start the server and have it killed at this place; False when it did not come there."""
    call, n = place
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:{KILL}:when={n}", "-o", "/dev/null")
    with starting(tracer, ledger, *inject) as server:
        return server.has_ended()


def check(ledger: Path, before: Rows) -> str:
    """Assert that the file is wholly of one version with the books it had; say of which."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for table, rows in before.items():
            assert rows_of(connection, table) == rows, table
        applied = [migration.name for migration in migrations.ledger.applied(Database(connection))]
        assert applied in ([each.name for each in ALL[:OLDER]], [each.name for each in ALL])
        with (
            closing(sqlite3.connect(":memory:", isolation_level=None)) as new,
            pytest.MonkeyPatch.context() as p,
        ):
            p.setattr(migrations, "ledger", first_migrations(len(applied)))
            migrations.apply(new)
            assert schema(connection) == schema(new)
    return "older" if len(applied) == OLDER else "newer"


async def go_on(ledger: Path) -> None:
    """Open the ledger as the next server does, and post to an account that it had."""
    engine = open_engine(ledger, serving=True)
    try:
        new = transactions.NewTransaction(ACCOUNT, 5, "credit")
        await engine.write(partial(transactions.post, tenant=Tenant(PROJECT, livemode=False), new=new))
        report = await engine.read(audit.verify)
        assert (report.fault, report.transactions) == (None, POSTINGS + 1)
    finally:
        await engine.close()


@pytest.mark.timeout(600)
def test_a_start_that_is_killed_while_it_migrates_leaves_one_version_whole(
    older: Path, tracer: Tracer, tmp_path: Path, soak: int, seed: int
) -> None:
    if not can_trace():
        pytest.skip("needs strace and the right to trace")

    def fresh(name: str) -> Path:
        shutil.copytree(older, tmp_path / name / "data")
        return tmp_path / name / "data" / "ledger.db"

    with closing(sqlite3.connect(fresh("before"))) as connection:
        # The time is kept by every start, also by one that is killed right after.
        before = {each: rows_of(connection, each) for each in tables(connection) if each != "kept_time"}
    assert len(before["transactions"]) == POSTINGS
    every = places(tracer, fresh("every"))
    tried = every if soak >= 100 else random.Random(seed).sample(every, SHORT * soak)
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number, place in enumerate(tried):
        ledger = fresh(str(number))
        try:
            killed = was_killed(tracer, ledger, place)
            version = check(ledger, before)
            asyncio.run(go_on(ledger))
            outcomes[f"{version}, {'killed' if killed else 'not reached'}"] += 1
        except Exception as error:
            wrong.append(f"{place}: {error!r}")
        shutil.rmtree(ledger.parent)
    print(f"{len(tried)} of {len(every)} tried: {dict(outcomes)}")
    assert not wrong, f"{len(wrong)} of {len(tried)} wrong, first: {wrong[:10]}"
