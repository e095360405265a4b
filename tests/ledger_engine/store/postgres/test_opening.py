"""The errors of a PostgreSQL database that cannot be opened."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger_engine.access import projects
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import BadSettings, ServeSettings, named
from ledger_engine.store import Unit, kept_time, schema
from ledger_engine.store.copy_ends import CopiedTable
from ledger_engine.store.engine import open_engine, open_snapshot, open_target
from ledger_engine.store.postgres import hosts
from ledger_engine.store.postgres.connection import UNLIMITED
from ledger_engine.store.postgres.database import open_database
from ledger_engine.store.postgres.errors import ConnectionLost
from ledger_engine.store.postgres.rendering import rendered
from tests.ledger_engine.manual_clock import ManualClock
from tests.postgres_server import bare_database, emptied_database, version
from tests.versions import put_later_schema

NOWHERE = "postgresql://ledger:secret@127.0.0.1:1/ledger"


def test_the_error_for_a_missing_driver_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for opened in (lambda: open_engine(NOWHERE), lambda: open_snapshot(NOWHERE, 1)):
        with pytest.raises(StorageUnavailable, match=r"`pip install 'psycopg\[binary\]>=3\.2'` installs it"):
            opened()


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StorageUnavailable, match="Connection refused") as refused:
        open_engine(NOWHERE)
    assert "secret" not in str(refused.value)
    assert str(refused.value).endswith("Connection refused). Nothing was changed.")
    # Clients do not learn the address.
    assert refused.value.message == (
        "The storage is not available: it cannot be reached. Nothing was changed."
    )
    assert named(NOWHERE) == "postgresql://ledger@127.0.0.1:1/ledger"
    assert named("postgresql:///ledger?password=secret&host=/tmp") == "postgresql:///ledger?host=/tmp"


def test_an_address_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(StorageUnavailable, match="percent-encode") as refused:
        open_engine("postgresql://ledger:se%cret@127.0.0.1/ledger")
    assert "cret" not in str(refused.value)


@pytest.mark.process
def test_the_next_host_is_tried_when_a_host_hangs_or_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = emptied_database()
    monkeypatch.setattr(hosts, "CONNECT_S", 6)
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(tmp_path / ".s.PGSQL.5432"))
        hanging.listen()  # and accepts nobody
        host = conninfo_to_dict(address)["host"]
        one_of_three = make_conninfo(
            address, host=f"{tmp_path},/nowhere,{host}", target_session_attrs="read-write"
        )
        none_of_two = make_conninfo(address, host=f"{tmp_path},/nowhere")
        with ThreadPoolExecutor() as meanwhile:  # each waits for the one that hangs
            refused = meanwhile.submit(hosts.connect, none_of_two, 60)
            with closing(hosts.connect(one_of_three, 60)) as opened:
                assert opened.rows(rendered("SELECT 1 AS one"), {})[0]["one"] == 1
            with pytest.raises(ConnectionLost, match=r"it does not answer; .*/nowhere"):
                refused.result()


def test_helpers_that_need_a_file_are_refused() -> None:
    with pytest.raises(BadSettings, match="--test-helpers works on a SQLite"):
        ServeSettings(NOWHERE, test_helpers=True).check()


@pytest.mark.process
async def test_only_a_file_can_be_copied_beside_a_server(tmp_path: Path) -> None:
    engine = open_engine(await asyncio.to_thread(emptied_database))
    for _ in range(2):  # also one that is closed, and it can be closed again
        with pytest.raises(StorageUnavailable, match="this process cannot copy it"):
            await engine.copy_to(tmp_path / "copy.db", lambda: None)
        await engine.close()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.process
def test_a_database_of_an_older_version_is_not_read_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = emptied_database()
    with psycopg.connect(address, autocommit=True) as beside:
        monkeypatch.setattr(schema, "FOLDER", put_later_schema(tmp_path))
        with pytest.raises(StorageUnavailable, match="not up to date"), open_snapshot(address, 2):
            pass
        applied = beside.execute("SELECT name FROM ledger_migrations ORDER BY name").fetchall()
        assert [name for (name,) in applied] == schema.names("postgres")[:-1]


def test_without_the_driver_the_database_that_cannot_be_opened_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(StorageUnavailable) as refused:
        open_engine("postgresql://ada:secret@127.0.0.1/ledger")
    assert str(refused.value).startswith(
        "Cannot open postgresql://ada@127.0.0.1/ledger: PostgreSQL needs psycopg"
    )


@pytest.mark.process
async def test_a_database_that_takes_no_changes_says_so_in_answers_and_in_the_check() -> None:
    address = await asyncio.to_thread(emptied_database)
    database = open_database(
        f"{address}&options=-cdefault_transaction_read_only%3Don",
        ManualClock(1_800_000_000_000),
        serving=False,
    )
    try:
        for asked in (lambda: database.write(kept_time.reach), database.check):
            with pytest.raises(StorageUnavailable, match="it is read-only at the moment") as refused:
                await asked()
            assert refused.value.reason == "it is read-only at the moment"
    finally:
        await database.close()


@pytest.mark.process
def test_a_role_without_a_free_connection_is_not_told_that_the_database_cannot_be_reached() -> None:
    address = emptied_database()
    role = f"few_{os.getpid()}"
    with psycopg.connect(address, autocommit=True) as beside:
        beside.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
        try:
            with pytest.raises(StorageUnavailable) as refused:
                open_engine(address.replace("//postgres@", f"//{role}@"))
        finally:
            beside.execute(f"DROP ROLE {role}")
    assert refused.value.reason == "it has too many connections"


@pytest.mark.process
@pytest.mark.parametrize("limit", ["statement_timeout", "transaction_timeout", "idle_session_timeout"])
async def test_a_time_limit_of_the_role_does_not_end_the_statements_of_a_command(limit: str) -> None:
    address = await asyncio.to_thread(emptied_database)
    if limit == "transaction_timeout" and version() < 170_000:
        pytest.skip("PostgreSQL 16 does not have it")
    limited = f"{address}&options=-c{limit}%3D300"  # ms, in which a connection is made

    def rest(unit: Unit) -> None:
        unit.execute("SELECT pg_sleep(0.4)")

    with open_snapshot(limited, 1) as snapshot:
        await asyncio.wrap_future(snapshot.start(rest))
    if limit == "idle_session_timeout":
        with closing(hosts.connect(limited, 60, UNLIMITED)) as opened:
            await asyncio.sleep(0.4)  # in which its session would end
            assert opened.rows(rendered("SELECT 1 AS one"), {})[0]["one"] == 1
    database = open_database(limited, ManualClock(1_800_000_000_000), serving=False)
    try:
        await database.read(rest)
    finally:
        await database.close()


@pytest.mark.process
def test_a_copy_is_filled_without_the_time_limits_of_the_role() -> None:
    limited = f"{bare_database()}&options=-cstatement_timeout%3D20"
    slow = CopiedTable("pg_sleep(0.1)", ("1",), frozenset(), ("1",))
    with open_target(limited) as target:
        assert list(target.lines(slow)) == [(b"1\n", 1)]


@pytest.mark.process
def test_a_database_that_cannot_store_every_text_is_refused() -> None:
    with psycopg.connect(emptied_database(), autocommit=True) as administrator:
        name = f"latin1_{os.getpid()}"
        administrator.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'".encode()
        )
        try:
            address = make_conninfo(administrator.info.dsn, dbname=name)
            url = f"postgresql://postgres@/{name}?host={conninfo_to_dict(address)['host']}"
            for opened in (
                lambda: open_engine(url),
                lambda: open_snapshot(url, 1).__enter__(),
                lambda: open_target(url).__enter__(),
            ):
                with pytest.raises(StorageUnavailable, match="encoding is LATIN1, but the ledger needs UTF8"):
                    opened()
        finally:
            administrator.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.process
async def test_texts_are_the_same_whatever_encoding_the_address_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    address = f"{emptied_database()}&client_encoding=LATIN1"
    name = "Rösterei 日本"
    engine = open_engine(address)
    await engine.write(partial(projects.create, new=projects.NewProject(name)))
    await engine.close()
    with open_snapshot(address, 1) as snapshot:
        (row,) = snapshot.start(lambda unit: unit.execute("SELECT name FROM projects")).result()
        assert row["name"] == name


@pytest.mark.process
async def test_tables_that_cannot_be_seen_are_a_storage_that_is_not_available(
    beside: psycopg.Connection, address: str
) -> None:
    engine = open_engine(address, serving=True)
    try:
        beside.execute("ALTER SCHEMA public RENAME TO hidden")
        for answered in (engine.read(kept_time.reach), engine.write(kept_time.reach)):
            with pytest.raises(StorageUnavailable, match="tables are missing, or the role may not see"):
                await answered
    finally:
        beside.execute("ALTER SCHEMA hidden RENAME TO public")
        await engine.close()
