"""The tables are made in a new database, and an older one is brought up to date."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import Parameters, schema
from ledger_engine.store.engine import open_engine
from ledger_engine.store.postgres import database
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rendering import SqlStatement
from tests.postgres_server import bare_database
from tests.versions import put_later_schema

pytestmark = pytest.mark.process


@pytest.fixture
async def bare() -> str:
    return await asyncio.to_thread(bare_database)


def tables_of(address: str) -> list[str]:
    with psycopg.connect(address) as beside:
        rows = beside.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        return [name for (name,) in rows]


def applied_in(address: str) -> list[str]:
    with psycopg.connect(address) as beside:
        return [name for (name,) in beside.execute("SELECT name FROM ledger_migrations ORDER BY name")]


async def test_the_tables_of_another_program_are_left_alone(bare: str) -> None:
    with psycopg.connect(bare) as beside:
        beside.execute("CREATE TABLE api_keys (note text)")
    with pytest.raises(StorageUnavailable, match=r"tables of another program \(api_keys\)"):
        open_engine(bare)
    assert tables_of(bare) == ["api_keys"]


async def test_an_older_database_is_brought_up_to_date(
    bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_engine(bare).close()
    monkeypatch.setattr(schema, "FOLDER", put_later_schema(tmp_path))
    await open_engine(bare).close()
    assert applied_in(bare) == schema.names("postgres")
    assert "later" in tables_of(bare)


async def test_servers_that_start_together_make_the_tables_once(bare: str) -> None:
    engines = await asyncio.gather(*(asyncio.to_thread(open_engine, bare) for _ in range(3)))
    for engine in engines:
        await engine.close()
    assert applied_in(bare) == schema.names("postgres")


async def test_a_server_that_ends_while_it_makes_the_tables_leaves_none(
    bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = PostgresConnection.send

    def end_at_a_view(
        connection: PostgresConnection, statement: SqlStatement, parameters: Parameters | None = None
    ) -> None:
        if statement.text.startswith(b"CREATE VIEW"):
            raise KeyboardInterrupt
        send(connection, statement, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresConnection, "send", end_at_a_view)
        with pytest.raises(KeyboardInterrupt):
            open_engine(bare)
    assert tables_of(bare) == []


async def test_a_server_brings_a_large_ledger_up_to_date_whatever_its_time_limits(
    bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_engine(bare).close()
    slow = "CREATE TABLE later AS SELECT CAST(pg_sleep(0.6) AS text) AS id;\n"
    monkeypatch.setattr(schema, "FOLDER", put_later_schema(tmp_path, postgres=slow))
    monkeypatch.setattr(database, "_STATEMENT_S", 0.2)
    await open_engine(bare, serving=True).close()
    assert applied_in(bare) == schema.names("postgres")
