"""A ledger on PostgreSQL is backed up by pg_dump, audited as it is dumped, and restored elsewhere."""

from __future__ import annotations

import stat
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.upkeep import backups
from tests.commands import answer_of_command, run_command
from tests.postgres_cluster import programs
from tests.postgres_server import bare_database, emptied_database, version

pytestmark = pytest.mark.process


@pytest.fixture
def in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the programs of the tests' PostgreSQL into the path."""
    monkeypatch.setenv("PATH", str(programs()), prepend=":")


@pytest.fixture
def address() -> str:
    """Return the address of a ledger with the smallest data set."""
    address = emptied_database()
    answer_of_command(address, "seed", "minimal")
    return address


def pretend(folder: Path, name: str, says: str) -> None:
    """Put a program into a folder that only says something."""
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    program.chmod(0o755)


@pytest.mark.usefixtures("in_path")
def test_a_backup_restores_to_the_same_ledger(address: str, tmp_path: Path) -> None:
    dump, bare = tmp_path / "ledger.dump", bare_database()
    backed_up = answer_of_command(address, "backup", str(dump))
    assert stat.S_IMODE(dump.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [dump]
    restored = answer_of_command(bare, "restore", str(dump))
    del backed_up["file"], restored["file"], restored["kept"]
    assert backed_up == restored
    assert backed_up["transactions"] > 0
    everything = "SELECT t::text FROM events AS t UNION ALL SELECT t::text FROM transactions AS t"
    with psycopg.connect(address) as one, psycopg.connect(bare) as other:
        assert set(one.execute(everything)) == set(other.execute(everything))


@pytest.mark.usefixtures("in_path")
def test_a_ledger_that_does_not_verify_is_not_backed_up(address: str, tmp_path: Path) -> None:
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE accounts SET balance = balance + 1")
    with pytest.raises(StorageUnavailable, match="does not verify"):
        backups.back_up(address, tmp_path / "ledger.dump")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("in_path")
def test_a_database_with_tables_is_not_restored_into(address: str, tmp_path: Path) -> None:
    dump = tmp_path / "ledger.dump"
    backups.back_up(address, dump)
    with pytest.raises(Conflict, match="is not empty, and nothing in it was changed"):
        backups.restore(dump, address, 0)
    with pytest.raises(Conflict, match="already exists"):
        backups.back_up(address, dump)


@pytest.mark.usefixtures("in_path")
def test_a_file_that_is_no_dump_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "ledger.db"
    other.write_bytes(b"SQLite format 3\0")
    with pytest.raises(Conflict, match="cannot be restored into PostgreSQL"):
        backups.restore(other, bare_database(), 0)


@pytest.mark.usefixtures("in_path")
def test_a_dump_of_which_a_part_is_missing_leaves_the_database_empty(address: str, tmp_path: Path) -> None:
    dump, bare = tmp_path / "ledger.dump", bare_database()
    backups.back_up(address, dump)
    dump.write_bytes(dump.read_bytes()[:-1])
    with pytest.raises(StorageUnavailable, match="end of file"):
        backups.restore(dump, bare, 0)
    with psycopg.connect(bare) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert found == (0,)


@pytest.mark.usefixtures("in_path")
def test_what_pg_dump_says_when_it_fails_is_told_and_nothing_is_kept(address: str, tmp_path: Path) -> None:
    """A table that a role may not read: only pg_dump looks at it."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS dumps_little")
        connection.execute("CREATE ROLE dumps_little LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO dumps_little")
        connection.execute("CREATE TABLE others (note text)")
        try:
            with pytest.raises(StorageUnavailable, match="permission denied for table others"):
                backups.back_up(make_conninfo(address, user="dumps_little"), tmp_path / "ledger.dump")
        finally:
            connection.execute("DROP TABLE others")
            connection.execute("DROP OWNED BY dumps_little")
            connection.execute("DROP ROLE dumps_little")
    assert list(tmp_path.iterdir()) == []


def test_a_dump_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match=r"there is no file .*none\.dump"):
        backups.restore(tmp_path / "none.dump", "postgresql://nobody@127.0.0.1:1/none", 0)


def test_without_pg_dump_one_sentence_says_what_to_install(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run_command(address, "backup", str(tmp_path / "ledger.dump"))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "This needs pg_dump, which is not installed" in done.stderr
    pretend(tmp_path, "pg_dump", "pg_dump (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)")
    done = run_command(address, "backup", str(tmp_path / "ledger.dump"))
    server = f"the server of {version() // 10_000}"
    assert f"is of PostgreSQL 15 and {server}, which needs a pg_dump that is as new" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["pg_dump"]


def test_recover_says_why_it_is_for_files(tmp_path: Path) -> None:
    done = run_command("postgresql://nobody@127.0.0.1:1/none", "recover", str(tmp_path / "new.db"))
    assert done.exit_code == 2
    assert "is for SQLite files" in done.stderr
