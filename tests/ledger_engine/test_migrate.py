"""A ledger moves from a file into PostgreSQL and back, exactly, or not at all."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger_engine import migrate as moving
from ledger_engine.access import projects
from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts, transactions
from ledger_engine.log.sealer import Sealer
from ledger_engine.migrate import MigrationProgress, move
from ledger_engine.store import Parameters, Unit, schema
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rendering import SqlStatement
from ledger_engine.store.postgres.transfer import PostgresTarget
from ledger_engine.store.sqlite.lock import ServingLock
from ledger_engine.store.sqlite.transfer import FileTarget
from ledger_engine.tools.seed import demo
from tests.ledger_engine.manual_clock import ManualClock
from tests.locations import execute
from tests.made_once import put_empty_ledger, tables
from tests.postgres_server import bare_database
from tests.versions import put_ledger_before_baseline

YEAR = 365 * 86_400_000
# Texts that mean something to COPY, to SQL, to JSON or to nobody.
TEXTS = (
    "\\N",
    "\\.",
    "a\tb\nc\rd\\e\b\f\v",
    "nul \0 and \ufdd0 and \ufdd00",
    'it\'s "quoted"',
    "ünï 日本 🙂",
    "",
)
# A row in each table that the demo leaves empty.
MORE_ROWS = """
INSERT INTO servers (id, beats) VALUES ('srv_1', 3);
INSERT INTO tokens VALUES ('h1', 'access', :key, 1, 2, NULL);
INSERT INTO requests VALUES (:project, 0, 'req_1', 'POST', '/v1/x', 'a=b', 200, 5, :key, 'sk_…', '::1',
    NULL, 'key', :text, NULL, 7, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01');
UPDATE events SET traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00' WHERE id = :event;
INSERT INTO apps VALUES ('app_1', :project, 0, :text, '[]', 1, NULL, 1);
INSERT INTO sign_ins VALUES ('h2', :user, 1, 2);
INSERT INTO grants VALUES ('gra_1', 'app_1', :user, '[]', 'https://a.example', 'h3', 'c', 1,
    NULL, NULL, 1, 2);
INSERT INTO oauth_tokens VALUES ('h4', 'refresh', 'gra_1', '[]', 1, 2, 3);
INSERT INTO deleted_webhook_endpoints VALUES ('whe_1', :project, 0, 'http://a.example', '[]', 'disabled',
    'gone', 3, 1, 4, 2, 1);
INSERT INTO webhook_endpoints VALUES ('whe_2', :project, 0, 'http://a.example', '["*"]', 'fernet:gAAAA=',
    'enabled', NULL, NULL, NULL, :event, 1, 'fernet:gAAAB=', 9, 3, 1);
INSERT INTO deliveries VALUES ('del_1', :project, 0, 'whe_2', :event, 'pending', 1, 1, 5, 4, 3, 2);
INSERT INTO delivery_attempts VALUES ('del_1', 1, 4, 12, 500, NULL, '{}', '{}', :text);
INSERT INTO idempotency_keys VALUES (:project, 0, 'k', 'key_1', 1, -9223372036854775808, 'key_ 1');
INSERT INTO seeds VALUES (:project, 'roastery');
INSERT INTO log_cosignatures SELECT book, 'w1', size, checkpoint, '— w1 AAAAAAAAAAA=' || char(10) FROM logs
"""


@pytest.fixture(autouse=True)
def address() -> str:
    """Return the address of a database without any table."""
    return bare_database()


def rows_of_file(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables, also of the one with the migrations."""
    with closing(sqlite3.connect(file)) as connection:
        return {
            name: connection.execute(f"SELECT * FROM {name}").fetchall()
            for name in (*tables(), "_sqlite_migrations")
        }


def schema_of_file(file: Path) -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def complete(file: Path) -> None:
    """Add a row to each table that the demo leaves empty, and the texts that are hard to copy."""
    with closing(sqlite3.connect(file)) as connection, connection:
        first = {
            name: connection.execute(f"SELECT min(id) FROM {table}").fetchone()[0]
            for name, table in {
                "project": "projects",
                "key": "api_keys",
                "user": "users",
                "event": "events",
            }.items()
        }
        for statement in MORE_ROWS.split(";\n"):
            connection.execute(statement, {**first, "text": TEXTS[3]})
        for number, text in enumerate(TEXTS):
            connection.execute(
                "INSERT INTO requests SELECT project, livemode, ?, method, path, query, status, duration_us,"
                " credential_id, credential, address, error_code, idempotency_key, ?, response_body, created,"
                " traceparent"
                " FROM requests WHERE id = 'req_1'",
                (f"req_z{number}", text),
            )


@pytest.fixture(scope="module")
def demo_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the demo's ledger with a row in every table; it is not to be changed."""
    file = put_empty_ledger(tmp_path_factory.mktemp("demo") / "demo.db")

    async def load() -> None:
        engine = open_engine(file)
        try:
            async with demo.stage(engine, lambda share: None):
                pass
            await Sealer(engine, Seal(None)).seal()
        finally:
            await engine.close()

    asyncio.run(load())
    complete(file)
    return file


async def with_postings(
    location: Location, count: int, clock: ManualClock | None = None, **options: Any
) -> list[str]:
    """Post to the ledger, which is made if it is not there; return the transactions' ids."""
    engine = open_engine(location, clock=clock, **options)
    try:
        project, _ = await engine.write(projects.first_or_new)
        tenant = Tenant(project.id, livemode=False)
        new = accounts.NewAccount("Till", "EUR", {})
        account = await engine.write(partial(accounts.create, tenant=tenant, new=new))
        post = partial(
            transactions.post, tenant=tenant, new=transactions.NewTransaction(account.id, 5, "credit")
        )
        return [(await engine.write(post)).id for _ in range(count)]
    finally:
        await engine.close()


@pytest.fixture
async def ledger(tmp_path: Path) -> Path:
    """Return a small ledger."""
    file = put_empty_ledger(tmp_path / "ledger.db")
    await with_postings(file, 3)
    return file


def moved(source: Location, target: Location) -> moving.MoveResult:
    return move(source, target, MigrationProgress())


def transactions_in(location: Location) -> int:
    def count(unit: Unit) -> int:
        return int(unit.execute("SELECT count(*) AS rows FROM transactions")[0]["rows"])

    with open_snapshot(location, 1) as snapshot:
        return snapshot.start(count).result()


@pytest.mark.slow
def test_the_demo_is_equal_in_postgres_and_after_the_way_back(
    demo_ledger: Path, tmp_path: Path, address: str
) -> None:
    back = tmp_path / "back.db"
    there = moved(demo_ledger, address)
    rows = rows_of_file(demo_ledger)
    assert [name for name in rows if not rows[name]] == []
    assert there.rows == {name: len(rows[name]) for name in tables()}
    with psycopg.connect(address) as connection:
        for name in tables():
            stored = {
                tuple(map(with_nul, row)) for row in connection.execute(f"SELECT * FROM {name}".encode())
            }
            assert stored == set(rows[name]), name
    moved(address, back)
    assert rows_of_file(back) == rows
    assert schema_of_file(back) == schema_of_file(demo_ledger)
    assert back.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [back]


def with_nul(value: Any) -> Any:
    """Return a value as it was before PostgreSQL stored it."""
    if not isinstance(value, str):
        return value
    return value.replace("\ufdd00", "\0").replace("\ufdd01", "\ufdd0")


def test_the_indexes_and_constraints_are_those_of_a_new_ledger(ledger: Path, address: str) -> None:
    definitions = (
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' UNION ALL"
        " SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace"
    )
    asyncio.run(open_engine(address).close())
    with psycopg.connect(address) as connection:
        usual = set(connection.execute(definitions))
    moved(ledger, bare_database())
    with psycopg.connect(address) as connection:
        assert set(connection.execute(definitions)) == usual


@pytest.mark.parametrize("newer", [True, False])
async def test_after_the_way_back_a_server_uses_only_a_copy_with_all_changes(
    ledger: Path, tmp_path: Path, newer: bool, address: str
) -> None:
    back, state = tmp_path / "back.db", tmp_path / "state"
    state.mkdir()
    await asyncio.to_thread(moved, ledger, address)
    await with_postings(address, 3, serving=True, state=state)
    await asyncio.to_thread(moved, address, back)
    bare_database()
    await asyncio.to_thread(moved, back if newer else ledger, address)
    if newer:
        await with_postings(address, 1, serving=True, state=state)
        with psycopg.connect(address) as connection:
            connection.execute("UPDATE heads SET announced = announced - 1 WHERE lock = server")
    with pytest.raises(StorageUnavailable, match=f"lacks {1 if newer else 4} commit"):
        open_engine(address, serving=True, state=state)


@pytest.mark.parametrize("back", [False, True])
async def test_ids_and_books_go_on_after_the_last(
    ledger: Path, tmp_path: Path, back: bool, address: str
) -> None:
    last = (await with_postings(ledger, 1, ManualClock(START + YEAR)))[0]
    await asyncio.to_thread(moved, ledger, address)
    target: Location = address
    if back:
        # What was given out in PostgreSQL without an event counts too.
        with psycopg.connect(address) as connection:
            connection.execute("UPDATE heads SET moment = %s", (START + 2 * YEAR,))
        target = tmp_path / "back.db"
        await asyncio.to_thread(moved, address, target)
    clock = ManualClock(START)
    (next_id,) = await with_postings(target, 1, clock)
    assert next_id > last
    assert clock.now() >= START + (2 if back else 1) * YEAR
    engine = open_engine(target)
    try:
        made = await engine.write(partial(projects.create, new=projects.NewProject("Second", "pro")))
        (book,) = await engine.read(partial(books_after, project=made.id))
    finally:
        await engine.close()
    assert book == 3


def books_after(unit: Unit, project: str) -> list[int]:
    rows = unit.execute("SELECT min(book) AS book FROM books WHERE project = :id", {"id": project})
    return [row["book"] for row in rows]


START = 1_800_000_000_000


STEPS = ("write", "finish", "snapshot")
# Moves a ledger, and kills its process at a step of its target.
KILLED = """
import os, signal, sys
from pathlib import Path
from ledger_engine import migrate
from ledger_engine.store.postgres.transfer import PostgresTarget
from ledger_engine.store.sqlite.transfer import FileTarget
source, target, step = sys.argv[1:]
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
setattr(PostgresTarget, step, kill)
setattr(FileTarget, step, kill)
ends = [end if "://" in end else Path(end) for end in (source, target)]
migrate.move(*ends, migrate.MigrationProgress())
"""


class Interrupted(BaseException):
    """The error that ends a move in the middle."""


def ends_of(into: str, ledger: Path, tmp_path: Path, address: str) -> tuple[Location, Location]:
    """Return the source and the target of a move into PostgreSQL, or of one back into a file."""
    if into == "postgres":
        return ledger, address
    moved(ledger, address)
    return address, tmp_path / "new" / "back.db"


@pytest.fixture(params=["postgres", "file"])
def ends(
    request: pytest.FixtureRequest, ledger: Path, tmp_path: Path, address: str
) -> tuple[Location, Location]:
    (tmp_path / "new").mkdir()
    return ends_of(request.param, ledger, tmp_path, address)


def assert_nothing_in(target: Location) -> None:
    """Assert that a move has left nothing in its target."""
    if isinstance(target, Path):
        assert not target.exists()
        return
    with psycopg.connect(target) as connection:
        (tables,) = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchall()
        assert tables == (0,)


@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_ends_midway_leaves_nothing_and_can_be_made_again(
    ends: tuple[Location, Location], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = ends

    def end_after(target: Any, *given: Any) -> None:
        steps[type(target)](target, *given)
        raise Interrupted

    steps = {end: getattr(end, step) for end in (FileTarget, PostgresTarget)}
    with monkeypatch.context() as patch:
        for end in steps:
            patch.setattr(end, step, end_after)
        with pytest.raises(Interrupted):
            moved(source, target)
    assert_nothing_in(target)
    if isinstance(target, Path):
        assert list(target.parent.iterdir()) == []
    moved(source, target)
    assert transactions_in(target) == 3


@pytest.mark.process
@pytest.mark.parametrize("step", ["finish", "snapshot"])
def test_a_move_that_is_killed_leaves_nothing_and_can_be_made_again(
    ends: tuple[Location, Location], step: str
) -> None:
    source, target = ends
    killed = subprocess.run([sys.executable, "-c", KILLED, str(source), str(target), step], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert_nothing_in(target)
    moved(source, target)
    assert transactions_in(target) == 3
    if isinstance(target, Path):
        assert list(target.parent.iterdir()) == [target], "the leftovers are removed too"


def test_a_lost_connection_is_reported_and_leaves_nothing(
    ends: tuple[Location, Location], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = ends
    end = FileTarget if isinstance(target, Path) else PostgresTarget
    write, written = end.write, 0

    def write_and_lose(filled: Any, *given: Any) -> None:
        nonlocal written
        write(filled, *given)
        written += 1
        if written == 3:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'ledger-engine migrate' AND datname = current_database()"
                )

    with monkeypatch.context() as patch:
        patch.setattr(end, "write", write_and_lose)
        with pytest.raises(StorageUnavailable, match=r"terminat|closed|lost"):
            moved(source, target)
    assert written >= 3
    assert_nothing_in(target)
    moved(source, target)
    assert transactions_in(target) == 3


def test_a_connection_that_is_lost_at_the_commit_leaves_the_question_open(
    ledger: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = PostgresConnection.send

    def lose_the_commit(
        connection: PostgresConnection, statement: SqlStatement, parameters: Parameters | None = None
    ) -> None:
        if statement.text == b"COMMIT":
            connection.close()
        send(connection, statement, parameters)

    monkeypatch.setattr(PostgresConnection, "send", lose_the_commit)
    with pytest.raises(Conflict, match="was lost while the copy was committed"):
        moved(ledger, address)


async def test_a_source_that_is_written_to_meanwhile_is_not_copied(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    finish = PostgresTarget.finish

    def finish_late(target: PostgresTarget, *given: Any) -> None:
        asyncio.run(with_postings(ledger, 1))
        finish(target, *given)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresTarget, "finish", finish_late)
        with pytest.raises(Conflict, match="was changed during the copy, so nothing was copied"):
            await asyncio.to_thread(moved, ledger, address)
    assert_nothing_in(address)
    await asyncio.to_thread(moved, ledger, address)
    assert transactions_in(address) == 4


def test_a_copy_that_differs_from_the_source_is_refused(
    ends: tuple[Location, Location], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = ends
    end = FileTarget if isinstance(target, Path) else PostgresTarget
    write = end.write

    def lose_a_row(filled: Any, table: Any, rows: Any) -> None:
        write(filled, table, rows[1:] if table.name == "transactions" else rows)

    monkeypatch.setattr(end, "write", lose_a_row)
    with pytest.raises(Conflict, match=r"The copy of table transactions in .* differs from the source\."):
        moved(source, target)
    assert_nothing_in(target)


def test_others_see_nothing_before_the_copy_is_complete(
    ends: tuple[Location, Location], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = ends
    end = FileTarget if isinstance(target, Path) else PostgresTarget
    looks = []

    def look(filled: Any, *given: Any) -> Any:
        assert_nothing_in(target)
        looks.append(filled)
        return snapshot(filled, *given)

    snapshot = end.snapshot
    monkeypatch.setattr(end, "snapshot", look)
    moved(source, target)
    assert len(looks) == 1


@pytest.mark.parametrize("into", ["postgres", "file"])
def test_a_ledger_that_does_not_verify_is_not_completed(
    into: str, ledger: Path, tmp_path: Path, address: str
) -> None:
    back = tmp_path / "back.db"
    spoil = "UPDATE accounts SET balance = balance + 1"
    if into == "postgres":
        execute(ledger, spoil)
        with pytest.raises(Conflict, match=r"ledger\.db does not verify: .*acc_"):
            moved(ledger, address)
        assert_nothing_in(address)
    else:
        moved(ledger, address)
        execute(address, spoil)
        with pytest.raises(Conflict, match=r"does not verify: .*acc_"):
            moved(address, back)
        assert not back.exists()


def test_a_database_of_another_program_is_refused_and_left(ledger: Path, address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        with pytest.raises(StorageUnavailable, match=r"tables of another program \(customers\)"):
            moved(ledger, address)
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (1,)


def test_a_target_that_has_a_ledger_is_refused(ledger: Path, tmp_path: Path, address: str) -> None:
    asyncio.run(with_postings(address, 1))
    with pytest.raises(Conflict, match="already contains a ledger"):
        moved(ledger, address)
    with pytest.raises(Conflict, match=r"ledger\.db already exists"):
        moved(address, ledger)
    assert transactions_in(address) == 1
    assert transactions_in(ledger) == 3


async def test_a_ledger_without_a_project_may_be_filled(ledger: Path, address: str) -> None:
    await open_engine(address).close()
    await asyncio.to_thread(moved, ledger, address)
    assert transactions_in(address) == 3


def test_a_served_ledger_is_not_moved(ledger: Path, tmp_path: Path, address: str) -> None:
    lock = ServingLock(ledger)
    try:
        with pytest.raises(StorageUnavailable, match="is served by"):
            moved(ledger, address)
    finally:
        lock.release()
    moved(ledger, address)
    asyncio.run(_refused_while_served(address, tmp_path / "back.db"))


async def _refused_while_served(address: str, target: Path) -> None:
    server = open_engine(address, serving=True)
    try:
        await server.read(lambda unit: unit.now)  # by now it has its connections
        with pytest.raises(Conflict, match="is in use by a server"):
            await asyncio.to_thread(moved, address, target)
    finally:
        await server.close()


def test_a_ledger_of_another_version_is_refused(tmp_path: Path) -> None:
    older = put_ledger_before_baseline(tmp_path / "older.db")
    newer = put_empty_ledger(tmp_path / "newer.db")
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("INSERT INTO _sqlite_migrations VALUES (99, 'ledger', '999_later', '')")
    with pytest.raises(StorageUnavailable, match=r"written before version 1\.0"):
        moved(older, bare_database())
    with pytest.raises(StorageUnavailable, match="newer version"):
        moved(newer, bare_database())


def test_a_database_of_another_version_is_refused(ledger: Path, tmp_path: Path, address: str) -> None:
    moved(ledger, address)
    back = tmp_path / "back.db"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DELETE FROM ledger_migrations WHERE name <> %s", (schema.BASELINE,))
        connection.execute("UPDATE ledger_migrations SET name = 'm018_copies_of_other_servers'")
        with pytest.raises(StorageUnavailable, match=r"written before version 1\.0"):
            moved(address, back)
        connection.execute("UPDATE ledger_migrations SET name = %s", (schema.BASELINE,))
        connection.execute("INSERT INTO ledger_migrations VALUES ('999_later', '')")
        with pytest.raises(StorageUnavailable, match="newer version"):
            moved(address, back)
    assert not back.exists()
