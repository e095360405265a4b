"""A backup under load restores to a database that verifies, and neither overwrites nor loses anything."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import Conflict, LedgerError, StorageUnavailable
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.store import schema
from ledger_engine.store.engine import open_engine
from ledger_engine.store.files import work_folder
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.store.sqlite.lock import ServingLock
from ledger_engine.upkeep import backups
from ledger_engine.verify import audit
from tests.commands import run_command
from tests.ledger_engine.conftest import START
from tests.ledger_engine.waiting import wait_until
from tests.versions import put_later_schema


async def post(path: Path, postings: int) -> None:
    """Make the ledger if it is not there, and post so many transactions, each in a commit of its own."""
    engine = open_engine(path)
    try:
        project, _ = await engine.write(projects.first_or_new)
        tenant = Tenant(project.id, livemode=False)
        account = await engine.write(
            partial(accounts.create, tenant=tenant, new=accounts.NewAccount("Till", "EUR", {}))
        )
        new = transactions.NewTransaction(account.id, 5, "credit")
        for _ in range(postings):
            await engine.write(partial(transactions.post, tenant=tenant, new=new))
    finally:
        await engine.close()


async def post_and_be_killed(path: Path, postings: int) -> None:
    """Post so many transactions to a ledger that is served, and leave it as a kill does."""
    server = open_engine(path, serving=True)
    await post(path, postings)
    killed = [(file, file.read_bytes()) for file in (path, path.with_name(f"{path.name}-wal"))]
    await server.close()
    for file, content in killed:
        file.write_bytes(content)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    asyncio.run(post(folder / "ledger.db", 20))
    return folder / "ledger.db"


@contextmanager
def load_on(path: Path) -> Iterator[None]:
    """Somebody posts as fast as they can."""
    enough = threading.Event()

    async def go_on() -> None:
        while not enough.is_set():
            await post(path, 50)

    thread = threading.Thread(target=lambda: asyncio.run(go_on()))
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def posted(path: Path) -> int:
    return read_copy(path, audit.verify).transactions


def has_grown(path: Path, before: int) -> bool:
    return posted(path) > before


def test_a_backup_is_one_private_file_that_verifies(ledger: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    report = backups.back_up(ledger, target)
    assert (report.fault, report.transactions) == (None, 20)
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "data"]
    assert read_copy(target, audit.verify) == report


@pytest.mark.slow
def test_a_backup_under_load_is_whole_and_the_load_goes_on(ledger: Path, tmp_path: Path, soak: int) -> None:
    with load_on(ledger):
        for round in range(2 * soak):
            before = posted(ledger)
            wait_until(partial(has_grown, ledger, before))
            report = backups.back_up(ledger, tmp_path / f"{round}.db")
            assert report.fault is None
            assert before <= report.transactions <= posted(ledger)
    assert read_copy(ledger, audit.verify).fault is None


def test_a_change_that_is_only_in_the_write_ahead_log_is_in_the_backup_too(
    ledger: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(ledger)) as reader:
        # A reader keeps the log from being folded into the file when the writer closes.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM transactions").fetchone()
        asyncio.run(post(ledger, 3))
        assert ledger.with_name("ledger.db-wal").stat().st_size > 0
        assert backups.back_up(ledger, tmp_path / "copy.db").transactions == 23


def test_a_backup_overwrites_only_what_it_is_asked_to(ledger: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(Conflict, match="already exists"):
        backups.back_up(ledger, target)
    assert target.read_text() == "precious"
    backups.back_up(ledger, target, overwrite=True)
    assert posted(target) == 20


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_is_not_taken_for_a_file(ledger: Path, tmp_path: Path, overwrite: bool) -> None:
    with pytest.raises(Conflict, match="is a folder"):
        backups.back_up(ledger, tmp_path, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_missing_folder_is_reported(ledger: Path, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match=r"There is no folder .*/none\."):
        backups.back_up(ledger, tmp_path / "none" / "copy.db")


def test_a_device_is_not_replaced_by_a_file(ledger: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Conflict, match="is not a regular file"):
        backups.back_up(ledger, pipe, overwrite=True)
    assert pipe.is_fifo()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_ledger_is_not_backed_up_over_itself(ledger: Path, overwrite: bool) -> None:
    link = ledger.with_name("link.db")
    link.symlink_to(ledger)
    for itself in (ledger, link):
        with pytest.raises(Conflict, match="is the ledger itself"):
            backups.back_up(ledger, itself, overwrite=overwrite)
    assert posted(ledger) == 20


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal", ".lock"])
@pytest.mark.parametrize("there", [True, False])
def test_a_ledger_is_not_backed_up_over_a_file_that_belongs_to_it(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, end: str, there: bool
) -> None:
    target = Path(f"ledger.db{end}")
    monkeypatch.chdir(ledger.parent)
    if there:
        target.write_bytes(b"its own")
    with pytest.raises(Conflict, match="belongs to the ledger"):
        backups.back_up(ledger, target, overwrite=True)
    assert target.exists() == there


def test_a_database_in_use_is_not_overwritten_by_a_backup(ledger: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    asyncio.run(post(other, 1))
    with closing(sqlite3.connect(other)) as user:
        user.execute("PRAGMA journal_mode=WAL")
        user.execute("BEGIN IMMEDIATE")
        user.execute("UPDATE projects SET name = 'in use'")
        with pytest.raises(Conflict, match="in use"):
            backups.back_up(ledger, other, overwrite=True)


@pytest.mark.parametrize("text", ["", "dear diary, " * 1000])
def test_a_file_that_is_no_ledger_is_not_backed_up(tmp_path: Path, text: str) -> None:
    source = tmp_path / "source.db"
    source.write_text(text)
    with pytest.raises(StorageUnavailable):
        backups.back_up(source, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["source.db"]


def test_a_missing_ledger_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="there is no file"):
        backups.back_up(tmp_path / "no.db", tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_does_not_verify_gives_no_backup(ledger: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE accounts SET balance = balance + 1")
    with pytest.raises(StorageUnavailable, match="does not verify"):
        backups.back_up(ledger, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_file_of_a_newer_version_is_neither_verified_nor_backed_up(ledger: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('ledger', '998', '')"
        )
    with pytest.raises(StorageUnavailable, match="newer version"):
        read_copy(ledger, audit.verify)
    with pytest.raises(StorageUnavailable, match="newer version"):
        backups.back_up(ledger, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_of_a_file_of_an_older_version_it_is_said_what_brings_it_up_to_date(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups.back_up(ledger, tmp_path / "before.db")
    monkeypatch.setattr(schema, "FOLDER", put_later_schema(tmp_path))
    whole = ledger.read_bytes()
    with pytest.raises(StorageUnavailable, match="`ledger-engine serve`"):
        backups.back_up(ledger, tmp_path / "copy.db")
    assert ledger.read_bytes() == whole
    assert run_command(ledger, "projects", "list").exit_code == 0
    assert backups.back_up(ledger, tmp_path / "copy.db").fault is None
    backups.restore(tmp_path / "before.db", ledger, START)
    assert read_copy(ledger, audit.verify).fault is None, "a backup is brought up to date"


def test_a_restored_ledger_is_as_it_was_and_goes_on(ledger: Path, tmp_path: Path) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    asyncio.run(post(ledger, 5))
    restored = backups.restore(tmp_path / "copy.db", ledger, START)
    assert restored.report.transactions == posted(ledger) == 20
    assert ledger.stat().st_mode & 0o777 == 0o600
    asyncio.run(post(ledger, 2))
    assert read_copy(ledger, audit.verify).fault is None
    assert posted(ledger) == 22


def test_the_ledger_before_is_kept_whole(ledger: Path, tmp_path: Path) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    asyncio.run(post(ledger, 5))
    aside = backups.restore(tmp_path / "copy.db", ledger, START).aside
    assert aside == ledger.with_name("ledger.before-restore-20260921T141320000Z.db")
    assert posted(aside) == 25
    left = sorted(path.name for path in ledger.parent.iterdir())
    assert left == [aside.name, "ledger.db"]


def test_a_restore_makes_a_ledger_where_there_was_none(ledger: Path, tmp_path: Path) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    restored = backups.restore(tmp_path / "copy.db", tmp_path / "new.db", START)
    assert restored.aside is None
    assert posted(tmp_path / "new.db") == 20


def test_a_log_that_lost_its_ledger_is_kept_and_not_taken_for_that_of_the_restored_one(
    ledger: Path, tmp_path: Path
) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    with closing(sqlite3.connect(ledger)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM events").fetchone()
        asyncio.run(post(ledger, 30))
        log = ledger.with_name("ledger.db-wal").read_bytes()
    ledger.unlink()
    ledger.with_name("ledger.db-wal").write_bytes(log)
    restored = backups.restore(tmp_path / "copy.db", ledger, START)
    assert restored.aside is None
    assert posted(ledger) == 20
    asyncio.run(post(ledger, 2))
    assert posted(ledger) == 22
    assert ledger.with_name("ledger.before-restore-20260921T141320000Z.db-wal").read_bytes() == log


def test_nothing_that_is_kept_shares_its_file_with_the_ledger(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not for a moment: a kill could come in it."""
    backups.back_up(ledger, tmp_path / "copy.db")

    def refuse(*_: object) -> None:
        raise AssertionError("a hard link was made")

    monkeypatch.setattr(os, "link", refuse)
    aside = backups.restore(tmp_path / "copy.db", ledger, START).aside
    assert aside is not None
    assert not aside.samefile(ledger)


async def test_a_command_that_waited_for_a_restore_does_not_write_into_the_former_file(
    ledger: Path, tmp_path: Path
) -> None:
    await asyncio.to_thread(backups.back_up, ledger, tmp_path / "copy.db")
    engine = open_engine(ledger)
    shutil.copy(tmp_path / "copy.db", tmp_path / "new.db")

    with closing(sqlite3.connect(ledger, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(engine.write(projects.first_or_new))
        await asyncio.sleep(0.05)
        (tmp_path / "new.db").replace(ledger)
        holder.execute("ROLLBACK")
    with pytest.raises(StorageUnavailable, match="replaced"):
        await writing
    await engine.close()


@pytest.mark.parametrize("file", ["missing", "empty", "another"])
def test_a_log_that_has_every_page_is_recovered_without_its_file(tmp_path: Path, file: str) -> None:
    ledger, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    asyncio.run(post_and_be_killed(ledger, 20))
    if file == "missing":
        ledger.unlink()
    else:
        ledger.write_bytes(b"" if file == "empty" else b"dear diary, " * 1000)
    before = log.read_bytes()
    recovered = backups.recover(ledger, tmp_path / "new.db")
    assert (recovered.report.transactions, recovered.doubt, recovered.damaged) == (20, None, 0)
    assert log.read_bytes() == before
    assert backups.restore(tmp_path / "new.db", ledger, START).report.transactions == 20
    assert posted(ledger) == 20
    assert ledger.with_name("ledger.before-restore-20260921T141320000Z.db-wal").read_bytes() == before


def test_a_log_is_recovered_over_the_backup_it_goes_on_from(ledger: Path, tmp_path: Path) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    asyncio.run(post_and_be_killed(ledger, 7))
    shutil.copy(tmp_path / "copy.db", ledger)
    recovered = backups.recover(ledger, tmp_path / "new.db")
    assert recovered.report.transactions == 27
    assert recovered.doubt is not None
    assert "backup" in recovered.doubt


@pytest.mark.slow
def test_a_ledger_that_cannot_be_recovered_is_refused_and_nothing_is_made(
    ledger: Path, tmp_path: Path
) -> None:
    with pytest.raises(Conflict, match="contains nothing to recover"):
        backups.recover(ledger, tmp_path / "new.db")
    backups.back_up(ledger, tmp_path / "copy.db")
    asyncio.run(post(ledger, 300))
    asyncio.run(post_and_be_killed(ledger, 7))
    shutil.copy(tmp_path / "copy.db", ledger)
    with pytest.raises(StorageUnavailable):
        backups.recover(ledger, tmp_path / "new.db")
    ledger.unlink()
    with pytest.raises(Conflict, match="pages; the rest was only in"):
        backups.recover(ledger, tmp_path / "new.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "data"]
    assert ledger.with_name("ledger.db-wal").stat().st_size > 0


def test_a_damaged_end_of_a_log_is_said(tmp_path: Path) -> None:
    ledger, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    asyncio.run(post_and_be_killed(ledger, 20))
    ledger.unlink()
    with log.open("r+b") as file:
        file.seek(-6000, os.SEEK_END)
        file.write(b"\xff" * 100)
    recovered = backups.recover(ledger, tmp_path / "new.db")
    assert recovered.damaged > 0
    assert recovered.report.transactions == 19


def test_a_killed_commands_leftovers_are_removed_by_the_next_one_unless_they_are_in_use(
    ledger: Path, tmp_path: Path
) -> None:
    left = tmp_path / ".ledger-part-0badf00d"
    left.mkdir()
    (left / "copy.db").write_bytes(b"most of a ledger")
    with work_folder(tmp_path) as in_use:
        assert not left.exists()
        backups.back_up(ledger, tmp_path / "copy.db")
        assert in_use.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "data"]


@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_a_backup_is_not_put_beside_the_log_of_another_file(ledger: Path, tmp_path: Path, end: str) -> None:
    (tmp_path / f"copy.db{end}").write_bytes(b"the log of another file")
    with pytest.raises(Conflict):
        backups.back_up(ledger, tmp_path / "copy.db", overwrite=True)
    assert not (tmp_path / "copy.db").exists()


def test_a_damaged_ledger_is_kept_as_it_is_and_replaced(ledger: Path, tmp_path: Path) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    ledger.write_bytes(b"\xff" * 5000)
    ledger.with_name("ledger.db-wal").write_bytes(b"the log of the damaged one")
    aside = backups.restore(tmp_path / "copy.db", ledger, START).aside
    assert aside is not None
    assert aside.read_bytes() == b"\xff" * 5000
    assert aside.with_name(aside.name + "-wal").read_bytes() == b"the log of the damaged one"
    assert not ledger.with_name("ledger.db-wal").exists()
    assert posted(ledger) == 20


def test_nothing_is_restored_while_a_server_has_the_database(ledger: Path, tmp_path: Path) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    lock = ServingLock(ledger)
    with pytest.raises(StorageUnavailable, match=f"served by another process .{os.getpid()}."):
        backups.restore(tmp_path / "copy.db", ledger, START)
    lock.release()
    backups.restore(tmp_path / "copy.db", ledger, START)


def test_nothing_is_restored_while_anyone_else_uses_the_database(ledger: Path, tmp_path: Path) -> None:
    backups.back_up(ledger, tmp_path / "copy.db")
    asyncio.run(post(ledger, 1))
    with closing(sqlite3.connect(ledger)) as user:
        user.execute("BEGIN")
        user.execute("SELECT count(*) FROM transactions").fetchone()
        with pytest.raises(StorageUnavailable, match="in use"):
            backups.restore(tmp_path / "copy.db", ledger, START)
    assert posted(ledger) == 21
    assert sorted(path.name for path in ledger.parent.iterdir()) == ["ledger.db"]


@pytest.mark.parametrize("spoil", ["no database", "wrong books", "empty", "an empty database"])
def test_a_backup_that_is_not_good_is_not_restored(ledger: Path, tmp_path: Path, spoil: str) -> None:
    copy = tmp_path / "copy.db"
    backups.back_up(ledger, copy)
    if spoil == "no database":
        copy.write_text("dear diary, " * 1000)
    elif spoil == "empty":
        copy.write_bytes(b"")
    elif spoil == "an empty database":
        copy.unlink()
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("PRAGMA user_version = 3")
    else:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("UPDATE accounts SET balance = balance + 1")
    asyncio.run(post(ledger, 1))
    with pytest.raises(LedgerError):
        backups.restore(copy, ledger, START)
    assert posted(ledger) == 21
    assert sorted(path.name for path in ledger.parent.iterdir()) == ["ledger.db"]


def test_a_ledger_is_not_restored_over_itself(ledger: Path) -> None:
    with pytest.raises(Conflict, match="the database itself"):
        backups.restore(ledger, ledger, START)


def test_a_restore_changes_nothing_in_the_backup(ledger: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    backups.back_up(ledger, copy)
    before = copy.read_bytes()
    backups.restore(copy, ledger, START)
    assert copy.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "data"]
