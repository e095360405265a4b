"""A server notices other content in the file of an open ledger, and writes nothing into it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite.backup import copy
from tests.ledger_engine.store.conftest import note
from tests.ledger_engine.waiting import until


async def in_the_log(notes: Engine, tmp_path: Path) -> bytes:
    """Write notes, half of them after a copy was made; return the copy."""
    await notes.write(note("in both"))
    copy(tmp_path / "ledger.db", tmp_path / "backup.db")
    for number in range(50):
        await notes.write(note(f"in the log {number}" * 1000))
    return (tmp_path / "backup.db").read_bytes()


async def test_a_backup_copied_over_the_open_file_is_noticed_and_the_log_stays(
    notes: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    backup = await in_the_log(notes, tmp_path)
    path.write_bytes(backup)  # as `cp` does: the file stays, with another content
    kept = log.read_bytes()
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="was replaced while it was in use"):
            await notes.write(note("lost"))
        with pytest.raises(StorageUnavailable, match="was replaced while it was in use"):
            await notes.read(lambda unit: unit.execute("SELECT * FROM notes"))
        with pytest.raises(StorageUnavailable):
            await notes.check()
    assert "`ledger-engine recover`" in str(notes.losses.refused)
    assert caplog.text.count(str(notes.losses.refused)) == 1
    await notes.close()
    assert (path.read_bytes(), log.read_bytes()) == (backup, kept)
    with pytest.raises(StorageUnavailable, match="is not the file that its log was written for"):
        open_engine(path)


async def test_a_clean_stop_after_a_backup_was_copied_over_the_file_writes_nothing_into_it(
    notes: Engine, tmp_path: Path
) -> None:
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    backup = await in_the_log(notes, tmp_path)
    path.write_bytes(backup)
    kept = log.read_bytes()
    await notes.close()
    assert (path.read_bytes(), log.read_bytes()) == (backup, kept)


async def test_the_health_of_a_server_that_writes_nothing_notices_a_copied_backup(
    notes: Engine, tmp_path: Path
) -> None:
    backup = await in_the_log(notes, tmp_path)
    await notes.check()
    (tmp_path / "ledger.db").write_bytes(backup)
    with pytest.raises(StorageUnavailable, match="was replaced while it was in use"):
        await notes.check()


async def test_checkpoints_are_not_taken_for_a_copied_file(notes: Engine, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    before = path.read_bytes()[:100]
    for number in range(50):
        await notes.write(note(str(number) * 2_000_000))  # together several times what the log may have
        await notes.check()
    assert path.read_bytes()[:100] != before
    assert notes.losses.refused is None


async def test_an_older_state_that_another_program_restores_is_logged_and_in_the_health(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, old = tmp_path / "ledger.db", tmp_path / "old.db"
    engine = open_engine(path, serving=True)

    async def open_account(name: str) -> None:
        def work(unit: Unit) -> None:
            tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
            accounts.create(unit, tenant, accounts.NewAccount(name, "EUR", {}))

        await engine.write(work)

    await open_account("in both")
    copy(path, old)
    await open_account("by another process, which is no loss")
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE kept_time SET reached = reached")
        other.commit()
    await engine.check()
    assert engine.losses.accepted is None
    await open_account("gone")
    with closing(sqlite3.connect(path)) as other, closing(sqlite3.connect(old)) as source:
        source.backup(other)
    await engine.check()
    assert str(engine.losses.accepted).startswith("Acknowledged changes are gone: another program")
    assert caplog.text.count("Acknowledged changes are gone") == 1
    await open_account("after")
    await engine.check()
    assert caplog.text.count("Acknowledged changes are gone") == 1
    await engine.close()


async def test_a_read_that_finds_the_file_malformed_makes_the_writer_check_for_a_copied_file(
    notes: Engine, tmp_path: Path
) -> None:
    (tmp_path / "ledger.db").write_bytes(await in_the_log(notes, tmp_path))

    def read(_: Unit) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with pytest.raises(StorageUnavailable, match="malformed"):
        await notes.read(read)
    await until(lambda: notes.losses.refused is not None)
