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
from pathlib import Path

import pytest

from ledger_engine.store import schema
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.verify import audit
from tests.conftest import Tally
from tests.faults.test_every_call import CALLS, KILL, killed_copy
from tests.faults.tracing import Running, Tracer, can_trace
from tests.ledger_engine.upkeep.test_backups import post
from tests.ledger_engine.waiting import wait_until
from tests.versions import LATER, put_later_schema

POSTINGS = 20
SHORT = 2  # kills
OWN_FILES = ("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal", "ledger.db.lock")
TABLES = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT GLOB '*sqlite_*'"
# A table that is made anew, with another column.
ANEW = """
DROP VIEW event_log;
CREATE TABLE new_events (
    book INTEGER NOT NULL REFERENCES books (book), id TEXT NOT NULL, type TEXT NOT NULL, object TEXT NOT NULL,
    body TEXT, request TEXT, created INTEGER NOT NULL, traceparent TEXT, later TEXT, PRIMARY KEY (book, id)
) STRICT, WITHOUT ROWID;
INSERT INTO new_events SELECT *, 'later' FROM events;
DROP TABLE events;
ALTER TABLE new_events RENAME TO events;
CREATE INDEX events_about ON events (object) WHERE body IS NOT NULL;
"""

SEALED = ("kept_time", "log_cosignatures", "log_commitments", "log_tiles", "logs", "log_keys")
Rows = dict[str, list[tuple[object, ...]]]  # of each table
Point = tuple[str, int]  # the name of a call, and which one it is among those of its thread


def tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute(TABLES)]


def rows_of(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    """The rows of a table, in the columns that the older version has."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "later"]
    return connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2").fetchall()


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ledger of an older version as a kill left it: its rows are in its log alone."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("older")
    ledger = source / "ledger.db"
    asyncio.run(post(ledger, 0))
    with closing(sqlite3.connect(ledger)) as kept_open:
        kept_open.execute("SELECT 1 FROM projects").fetchall()
        asyncio.run(post(ledger, POSTINGS))
        killed_copy(ledger, folder)
    assert (folder / "ledger.db-wal").stat().st_size > 10_000
    return folder


@pytest.fixture(autouse=True)
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "FOLDER", put_later_schema(tmp_path, sqlite=ANEW))


@contextmanager
def starting(tracer: Tracer, ledger: Path, *strace: str) -> Iterator[Running]:
    """A server that is being started; strace sees its calls that have to do with the ledger's files."""
    paths = [each for name in OWN_FILES for each in ("-P", str(ledger.with_name(name)))]
    words = ("serve", "--port", "0", "--database", str(ledger))
    later = {"ledger_engine.store.schema.FOLDER": str(schema.FOLDER)}
    with tracer.running(words, *paths, "-e", "signal=none", *strace, constants=later) as server:
        wait_until(lambda: "Listening on" in server.out.read_text() or server.has_ended())
        yield server
        server.kill()


def points(tracer: Tracer, ledger: Path) -> list[Point]:
    """Every such call of a start, up to when the server is ready."""
    trace = ledger.parent.with_name("trace")
    with starting(tracer, ledger, "-e", f"trace={CALLS}", "-o", str(trace)):
        lines = trace.read_text().splitlines()
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[Point, None] = {}
    for line in lines:
        thread, call = line.partition("(")[0].split(maxsplit=1)
        if "<" not in call:  # where another thread came between, the line is in two parts
            counts[thread, call] += 1
            found[call, counts[thread, call]] = None
    return list(found)


def was_killed(tracer: Tracer, ledger: Path, point: Point) -> bool:
    """Start the server and have it killed at this point; False when it did not come there."""
    call, n = point
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:{KILL}:when={n}", "-o", "/dev/null")
    with starting(tracer, ledger, *inject) as server:
        return server.has_ended()


def check(ledger: Path, before: Rows) -> str:
    """Assert that the file is wholly of one version with the rows it had; say of which."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for table, rows in before.items():
            assert rows_of(connection, table) == rows, table
        applied = [name for (name,) in connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
        columns = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
        views = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall()
    newer = schema.names("sqlite")
    is_newer = applied == newer
    assert is_newer or applied == newer[: newer.index(LATER)]
    assert ("later" in columns, ("event_log",) in views) == (is_newer, not is_newer)
    return "newer" if is_newer else "older"


async def go_on(ledger: Path) -> None:
    """Open the ledger as the next server does, and post to it."""
    await post(ledger, 1)
    report = read_copy(ledger, audit.verify)
    assert (report.fault, report.transactions) == (None, POSTINGS + 1)


@pytest.mark.timeout(600)
def test_a_start_that_is_killed_while_it_migrates_leaves_one_version_whole(
    older: Path, tracer: Tracer, tmp_path: Path, soak: int, seed: int, tally: Tally
) -> None:
    if not can_trace():
        pytest.skip("needs strace and the right to trace")

    def fresh(name: str) -> Path:
        shutil.copytree(older, tmp_path / name / "data")
        return tmp_path / name / "data" / "ledger.db"

    with closing(sqlite3.connect(fresh("before"))) as connection:
        # Every start stores the time and seals the log, also one that is killed right after.
        stored = {each for each in tables(connection) if each not in SEALED}
        before = {each: rows_of(connection, each) for each in stored}
    assert len(before["transactions"]) == POSTINGS
    every = points(tracer, fresh("every"))
    tried = random.Random(seed).sample(every, min(len(every), SHORT * soak if soak < 100 else len(every)))
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number, point in enumerate(tried):
        ledger = fresh(str(number))
        try:
            killed = was_killed(tracer, ledger, point)
            version = check(ledger, before)
            asyncio.run(go_on(ledger))
            outcomes[f"{version}, {'killed' if killed else 'not reached'}"] += 1
        except Exception as error:
            wrong.append(f"{point}: {error!r}")
        shutil.rmtree(ledger.parent)
    tally(kills=sum(count for said, count in outcomes.items() if said.endswith("killed")), starts=len(tried))
    # The control: a row that an upgrade has changed is seen.
    spoiled = fresh("control")
    with closing(sqlite3.connect(spoiled)) as connection, connection:
        connection.execute("UPDATE transactions SET description = 'other'")
    with pytest.raises(AssertionError, match="transactions"):
        check(spoiled, before)
    print(f"{len(tried)} of {len(every)} tried: {dict(outcomes)}")
    assert not wrong, f"{len(wrong)} of {len(tried)} wrong, first: {wrong[:10]}"
