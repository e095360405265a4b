"""Databases that can store a ledger and databases that cannot, and the effect of their settings."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.store.postgres import requirements
from ledger_engine.store.postgres.connection import PostgresConnection
from tests.postgres_server import bare_database, emptied_database


def with_version(address: str, version: str) -> str:
    """Return the address of a database that answers `version()` as another engine does."""
    with psycopg.connect(address) as beside:
        beside.execute(f"CREATE FUNCTION version() RETURNS text LANGUAGE sql AS $$SELECT '{version}'$$")
    return f"{address}&options=-csearch_path%3Dpublic,pg_catalog"


@pytest.mark.parametrize(
    ("number", "version", "product"),
    [
        (150_004, "PostgreSQL 15.4 (Debian 15.4-1) on x86_64-pc-linux-gnu", "PostgreSQL 15.4"),
        (130_000, "CockroachDB CCL v26.1.0 (x86_64-pc-linux-gnu)", "CockroachDB CCL"),
        (180_000, "CockroachDB CCL v30.1.0 (x86_64-pc-linux-gnu)", "CockroachDB CCL"),
        (180_001, "PostgreSQL 18.1-YB-2030.1.0.0-b1 on aarch64", "PostgreSQL 18.1-YB-2030.1.0.0-b1"),
    ],
)
def test_an_older_postgresql_and_other_engines_are_refused(number: int, version: str, product: str) -> None:
    with pytest.raises(StorageUnavailable) as refused:
        requirements.require_version(number, version)
    assert refused.value.reason == f"it is {product}, but the ledger needs PostgreSQL 16 or newer"


@pytest.mark.parametrize("version", ["PostgreSQL 16.0 on x86_64", "PostgreSQL 19devel on aarch64"])
def test_postgresql_16_and_newer_is_taken(version: str) -> None:
    requirements.require_version(160_000, version)


@pytest.mark.process
def test_another_engine_is_refused_when_it_is_opened_and_stays_empty() -> None:
    address = bare_database()
    other = with_version(address, "CockroachDB CCL v26.1.0 (x86_64-pc-linux-gnu)")
    for opened in (lambda: open_engine(other, serving=True), lambda: open_snapshot(other, 1).__enter__()):
        with pytest.raises(
            StorageUnavailable, match="it is CockroachDB CCL, but the ledger needs PostgreSQL"
        ):
            opened()
    with psycopg.connect(address) as beside:
        tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        assert beside.execute(tables).fetchone() == (0,)


@pytest.mark.process
def test_rows_are_told_apart_only_if_the_settings_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresConnection(emptied_database(), 60)) as connection:
        assert not requirements.tells_rows_apart(connection), "by its defaults it takes some rows for all"
        for name in ("_ROWS_OF_PAGE", "_ROWS_OF_TABLE", "_ROWS_OF_ALL"):
            monkeypatch.setattr(requirements, name, -1000)
        assert requirements.tells_rows_apart(connection)
