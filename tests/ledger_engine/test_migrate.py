"""A ledger moves from a file into PostgreSQL and back, exactly, and goes on after any interruption."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable, Iterator
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
from ledger_engine.migrate import Progress, move
from ledger_engine.store import Unit, schema
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.store.postgres.transfer import PostgresTarget
from ledger_engine.store.sqlite import transfer
from ledger_engine.store.sqlite.lock import ServingLock
from ledger_engine.store.sqlite.log import unfinished_of
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
    NULL, 'key', :text, NULL, 7);
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
INSERT INTO idempotency_keys VALUES (:project, 0, 'k', 'app_1', 1, -9223372036854775808, 'app_ 1 2');
INSERT INTO seeds VALUES (:project, 'roastery', 'f', 1, 's', 2, 3);
INSERT INTO log_cosignatures SELECT book, 'w1', size, checkpoint, 'line' FROM logs
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
                " credential_id, credential, address, error_code, idempotency_key, ?, response_body, created"
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
            async with demo.staged(engine, lambda share: None):
                pass
            await Sealer(engine, Seal(None)).seal()
        finally:
            await engine.close()

    asyncio.run(load())
    complete(file)
    return file


async def with_postings(location: Location, count: int, clock: ManualClock | None = None) -> list[str]:
    """Post to the ledger, which is made if it is not there; return the transactions' ids."""
    engine = open_engine(location, clock=clock)
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


def moved(source: Location, target: Location) -> moving.Moved:
    return move(source, target, Progress())


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
    assert there.copied == sum(there.rows.values())
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
    assert not unfinished_of(back).exists()


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


class Killed(BaseException):
    """What ends a move in the middle."""


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], Iterator[int]]:
    """Return a function that has a move end at its step of this number, just before or just after it."""
    steps = [
        (target, name)
        for target in (FileTarget, PostgresTarget)
        for name in ("write", "finish", "snapshot", "complete")
    ]

    def stop(number: int, after: bool) -> Iterator[int]:
        done = 0

        def stopping(step: Callable[..., Any]) -> Callable[..., Any]:
            def run(*given: Any) -> Any:
                nonlocal done
                done += 1
                if done == number and not after:
                    raise Killed
                answer = step(*given)
                if done == number:
                    raise Killed
                return answer

            return run

        with monkeypatch.context() as patch:
            for target, name in steps:
                patch.setattr(target, name, stopping(getattr(target, name)))
            yield 0
        yield done

    return stop


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("into", ["postgres", "file"])
async def test_an_interrupted_move_goes_on_where_it_was(
    into: str,
    ledger: Path,
    tmp_path: Path,
    stop_at: Callable[[int, bool], Iterator[int]],
    monkeypatch: pytest.MonkeyPatch,
    soak: int,
    seed: int,
) -> None:
    monkeypatch.setattr(transfer, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr("ledger_engine.store.postgres.transfer.ROWS_AT_ONCE", 2)
    source: Location = ledger
    if into == "file":
        source = bare_database()
        await asyncio.to_thread(moved, ledger, source)

    def run(number: int, step: int, after: bool) -> int:
        """Move with one interruption, and say how many rows the second run had to copy."""
        target: Location = bare_database() if into == "postgres" else tmp_path / f"{number}.db"
        stopping = stop_at(step, after)
        next(stopping)
        with pytest.raises(Killed):
            moved(source, target)
        next(stopping)
        if not (step == steps and after):
            with pytest.raises((StorageUnavailable, Conflict)):  # it is no ledger yet
                transactions_in(target)
        again = moved(source, target)
        assert transactions_in(target) == 3
        if not isinstance(target, str):
            assert rows_of_file(target) == rows_of_file(ledger)
        return again.copied

    rows = sum(len(rows) for name, rows in rows_of_file(ledger).items() if name in tables())
    counting = stop_at(0, False)
    next(counting)
    everything = moved(source, bare_database() if into == "postgres" else tmp_path / "whole.db")
    steps = next(counting)
    assert everything.copied == rows
    chosen = random.Random(seed)
    tried = [(chosen.randint(2, steps - 3), chosen.random() < 0.5) for _ in range(soak)]
    for number, (step, after) in enumerate([*tried, (steps - 2, True), (steps, False), (steps, True)]):
        copied = await asyncio.to_thread(run, number, step, after)
        assert copied < rows, (step, after)


async def test_what_came_to_the_source_since_an_interruption_is_brought(
    ledger: Path, stop_at: Callable[[int, bool], Iterator[int]], address: str
) -> None:
    for step in stop_at(8, True):
        if step == 0:
            with pytest.raises(Killed):
                await asyncio.to_thread(moved, ledger, address)
    await with_postings(ledger, 2)
    await asyncio.to_thread(moved, ledger, address)
    assert transactions_in(address) == 5


@pytest.mark.parametrize("into", ["postgres", "file"])
def test_a_lost_connection_is_told_and_the_move_goes_on(
    into: str, ledger: Path, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = (ledger, address) if into == "postgres" else (address, tmp_path / "back.db")
    end = PostgresTarget if into == "postgres" else FileTarget
    if into == "file":
        moved(ledger, address)
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
    assert written == 3
    moved(source, target)
    assert transactions_in(target) == 3


async def test_a_source_that_is_written_to_meanwhile_is_not_taken_for_equal(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    finish = PostgresTarget.finish

    def finish_late(target: PostgresTarget, *given: Any) -> None:
        asyncio.run(with_postings(ledger, 1))
        finish(target, *given)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresTarget, "finish", finish_late)
        with pytest.raises(Conflict, match="was changed during the copy"):
            await asyncio.to_thread(moved, ledger, address)
    with pytest.raises(StorageUnavailable, match="unfinished copy"):
        transactions_in(address)
    await asyncio.to_thread(moved, ledger, address)
    assert transactions_in(address) == 4


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
        with pytest.raises(StorageUnavailable, match="unfinished copy"):
            open_engine(address)
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


async def test_what_is_complete_is_compared_and_verified_again(
    ledger: Path, tmp_path: Path, address: str
) -> None:
    back = tmp_path / "back.db"
    first = await asyncio.to_thread(moved, ledger, address)
    again = await asyncio.to_thread(moved, ledger, address)
    assert (again.copied, again.rows, again.report) == (0, first.rows, first.report)
    with psycopg.connect(address) as connection:
        # It goes on after this in the file, whose kept time is then not that of the source.
        connection.execute("UPDATE heads SET moment = %s", (START + 2 * YEAR,))
    await asyncio.to_thread(moved, address, back)
    assert (await asyncio.to_thread(moved, address, back)).copied == 0
    for spoiled, source, target in ((address, ledger, address), (back, address, back)):
        execute(spoiled, "UPDATE accounts SET name = 'Another'")
        with pytest.raises(Conflict, match="already"):
            await asyncio.to_thread(moved, source, target)
        execute(spoiled, "UPDATE accounts SET name = 'Till'")
        await with_postings(spoiled, 1)
        with pytest.raises(Conflict, match="already"):
            await asyncio.to_thread(moved, source, target)
    assert transactions_in(back) == 4


@pytest.mark.parametrize("into", ["postgres", "file"])
def test_a_complete_copy_that_does_not_verify_is_not_called_right(
    into: str, ledger: Path, tmp_path: Path, address: str
) -> None:
    moved(ledger, address)
    source, target = (ledger, address) if into == "postgres" else (address, tmp_path / "back.db")
    if into == "file":
        moved(source, target)
    for each in (source, target):
        execute(each, "UPDATE accounts SET balance = balance + 1")
    with pytest.raises(Conflict, match="does not verify"):
        moved(source, target)


def test_a_target_that_has_a_ledger_is_refused(ledger: Path, tmp_path: Path, address: str) -> None:
    asyncio.run(with_postings(address, 1))
    with pytest.raises(Conflict, match="has a ledger already"):
        moved(ledger, address)
    with pytest.raises(Conflict, match=r"ledger\.db already exists"):
        moved(address, ledger)
    assert transactions_in(address) == 1
    assert transactions_in(ledger) == 3


def test_a_copy_begun_of_another_ledger_is_refused(
    ledger: Path, tmp_path: Path, stop_at: Callable[[int, bool], Iterator[int]], address: str
) -> None:
    other = put_empty_ledger(tmp_path / "other.db")
    asyncio.run(with_postings(other, 1))
    for step in stop_at(3, True):
        if step == 0:
            with pytest.raises(Killed):
                moved(ledger, address)
    with pytest.raises(Conflict, match="unfinished copy of another ledger"):
        moved(other, address)
    moved(ledger, address)


def test_what_is_served_is_not_moved(ledger: Path, tmp_path: Path, address: str) -> None:
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
