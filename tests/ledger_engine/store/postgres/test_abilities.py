"""What a database is asked for, and the tables where it cannot make them as PostgreSQL does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.store import schema
from ledger_engine.store.engine import Engine
from ledger_engine.store.postgres import abilities, migrations
from ledger_engine.store.postgres.abilities import Abilities
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.database import open_database
from tests import auditing
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.postgres_server import bare_database
from tests.versions import put_later_schema

pytestmark = pytest.mark.process
ALL = Abilities(True, True, True, True, True, True, True)
COLUMNS = (
    "SELECT table_name, column_name, ordinal_position, column_default, is_nullable, data_type, is_identity"
    " FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 3"
)
INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
CONSTRAINTS = (
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
)
COLLATED = (
    "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND collation_name = 'C'"
)
UNLOGGED = "SELECT count(*) FROM pg_class WHERE relname = 'rate_counts' AND relpersistence = 'u'"


@pytest.fixture
async def bare() -> str:
    return await asyncio.to_thread(bare_database)


def said_by(address: str, version: str) -> str:
    """Return the address of a database that says to be another one."""
    with psycopg.connect(address) as beside:
        beside.execute(f"CREATE FUNCTION version() RETURNS text LANGUAGE sql AS $$SELECT '{version}'$$")
    return f"{address}&options=-csearch_path%3Dpublic,pg_catalog"


def asked(address: str, *, plain: bool = False) -> Abilities:
    with closing(Connection(address, 60)) as connection:
        return abilities.ask(connection, plain=plain)


def make_tables(address: str, can: Abilities) -> None:
    with closing(Connection(address, 60)) as connection:
        migrations.apply(connection, START, can, partial(Connection, address, 60))


def described(address: str) -> list[list[tuple[Any, ...]]]:
    """Return the tables of the database, but for collations and what is noted while they are made."""
    with psycopg.connect(address) as beside:
        found = [beside.execute(query).fetchall() for query in (COLUMNS, INDEXES, CONSTRAINTS)]
    return [[row for row in rows if row[0] != "ledger_migration_steps"] for rows in found]


def one(address: str, query: str) -> Any:
    with psycopg.connect(address) as beside:
        row = beside.execute(query).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("CockroachDB CCL v26.1.0 (x86_64-pc-linux-gnu)", {"tables_together", "collations"}),
        ("PostgreSQL 15.12-YB-2025.2.3.0-b1 on x86_64-pc-linux-gnu", {"tables_together"}),
        ("PostgreSQL 18.1 on x86_64-pc-linux-gnu", set()),
    ],
)
async def test_what_a_database_lacks_is_known_by_what_it_says(
    bare: str, version: str, lacks: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not asked(bare).rows_apart, "by its defaults it takes some rows for all"
    for name in ("_ROWS_OF_PAGE", "_ROWS_OF_TABLE", "_ROWS_OF_ALL"):
        monkeypatch.setattr(abilities, name, -1000)
    can = asked(said_by(bare, version))
    if lacks:
        lacks = lacks | {"unlogged", "rows_apart"}
    assert {name for name in Abilities.__slots__ if not getattr(can, name)} == lacks
    assert not any(getattr(asked(bare, plain=True), name) for name in Abilities.__slots__)


async def test_notifications_that_cannot_be_sent_are_not_relied_on(bare: str) -> None:
    assert asked(bare).notifications
    with psycopg.connect(bare) as beside:
        beside.execute(
            "CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE plpgsql"
            " AS $$BEGIN RAISE EXCEPTION 'not supported'; END$$"
        )
    assert not asked(f"{bare}&options=-csearch_path%3Dpublic,pg_catalog").notifications


@pytest.mark.parametrize(
    ("number", "said", "message"),
    [
        (150_004, "PostgreSQL 15.4", "it is PostgreSQL 15, and the ledger needs 16"),
        (
            110_002,
            "PostgreSQL 11.2-YB-2.18.0.1-b0",
            "YugabyteDB on PostgreSQL 11, and the ledger needs one on",
        ),
    ],
)
def test_a_version_that_is_too_old_is_refused(number: int, said: str, message: str) -> None:
    with pytest.raises(StorageUnavailable, match=message):
        abilities.require_version(number, said)
    abilities.require_version(150_012, "PostgreSQL 15.12-YB-2025.2.3.0-b1")


async def test_the_order_of_a_language_is_refused_where_no_column_can_have_another(
    bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abilities, "_IN_ORDER", abilities._IN_ORDER.replace("BY word", "BY lower(word)"))
    with pytest.raises(StorageUnavailable, match="does not compare text by its bytes"):
        asked(bare, plain=True)
    assert asked(bare).collations


async def test_tables_made_one_by_one_are_those_made_together(bare: str) -> None:
    make_tables(bare, ALL)
    together = described(bare)
    assert (one(bare, COLLATED) > 50, one(bare, UNLOGGED)) == (True, 1)
    await asyncio.to_thread(bare_database)
    make_tables(bare, asked(bare, plain=True))
    assert described(bare) == together
    assert (one(bare, COLLATED), one(bare, UNLOGGED)) == (0, 0)
    assert one(bare, "SELECT count(*) FROM ledger_migration_steps WHERE name <> ''") == 0


@pytest.mark.parametrize("plain", [False, True])
async def test_the_tables_of_another_program_are_left_alone(bare: str, plain: bool) -> None:
    with psycopg.connect(bare) as beside:
        beside.execute("CREATE TABLE api_keys (note text)")
    can = asked(bare, plain=plain)
    with pytest.raises(StorageUnavailable, match=r"tables of another program \(api_keys\)"):
        make_tables(bare, can)
    assert described(bare)[0] == [("api_keys", "note", 1, None, "YES", "text", "NO")]


@pytest.mark.parametrize("plain", [False, True])
async def test_an_older_database_is_brought_up_to_date(
    bare: str, plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    can = asked(bare, plain=plain)
    make_tables(bare, can)
    monkeypatch.setattr(schema, "FOLDER", put_later_schema(tmp_path))
    make_tables(bare, can)
    assert one(bare, "SELECT string_agg(name, ' ' ORDER BY name) FROM ledger_migrations") == (
        " ".join(schema.names("postgres"))
    )
    assert one(bare, "SELECT count(*) FROM later") == 0


async def test_who_is_killed_while_making_tables_is_followed_by_another(
    bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before some statements, and before others are noted."""
    can, send = asked(bare, plain=True), Connection.send
    make_tables(bare, can)
    whole = described(bare)
    await asyncio.to_thread(bare_database)

    def dying_at(number: int) -> Callable[..., None]:
        sent = 0

        def sends(connection: Connection, *given: Any) -> None:
            nonlocal sent
            sent += 1
            if sent == number:
                raise KeyboardInterrupt
            send(connection, *given)

        return sends

    for number in (3, 11, 21, 22, 31, 44, 45):
        monkeypatch.setattr(Connection, "send", dying_at(number))
        with pytest.raises(KeyboardInterrupt):
            make_tables(bare, can)
    monkeypatch.setattr(Connection, "send", send)
    assert described(bare) != whole
    await asyncio.gather(*(asyncio.to_thread(make_tables, bare, can) for _ in range(2)))
    assert described(bare) == whole


async def test_a_ledger_without_collations_and_is_json_is_kept_and_verified(
    bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "server_version", 150_012)
    monkeypatch.setattr(abilities, "OLDEST", 150_000)
    clock = ManualClock(START)
    engine = Engine(open_database(bare, clock, serving=False, plain=True), clock)
    try:
        new = projects.NewProject("Roastery", "enterprise")
        tenant = Tenant((await engine.write(partial(projects.create, new=new))).id, livemode=False)
        till = accounts.NewAccount("Till", "usd", {})
        ids = [(await engine.write(partial(accounts.create, tenant=tenant, new=till))).id for _ in range(3)]
        for id in ids:
            credit = transactions.NewTransaction(id, 5, "credit")
            await engine.write(partial(transactions.post, tenant=tenant, new=credit))
        assert (await engine.read(auditing.verify)).fault is None
        spoil = "UPDATE accounts SET metadata = '[]' WHERE id = :id"
        await engine.write(lambda unit: unit.execute(spoil, {"id": ids[1]}))
        report = await engine.read(auditing.verify)
        assert report.fault is not None
        assert ids[1] in str(report.fault)
    finally:
        await engine.close()
