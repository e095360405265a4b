"""A log next to a missing, empty or foreign file: every command refuses it and changes nothing."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.backup import copy, read_copy
from ledger_engine.store.sqlite.database import open_database
from ledger_engine.store.sqlite.log import log_file, read_log, why_not_its_own
from ledger_engine.verify import audit
from tests import auditing
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.conftest import note


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger as a kill leaves it: the log contains all changes after `backup.db` and `older.db`.

    The log of `young-wal` contains every page of its ledger.
    """
    folder, source = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("source") / "ledger.db"

    def keep(file: Path, name: str) -> None:
        shutil.copy(file, folder / name)

    async def fill() -> None:
        engine = open_engine(source, serving=True)
        keep(source.with_name("ledger.db-wal"), "young-wal")
        await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
        await engine.write(note("first"))
        copy(source, folder / "backup.db")
        await engine.close()
        keep(source, "older.db")
        engine = open_engine(source, serving=True)
        for number in range(200):
            await engine.write(note(f"{number}" * 1000))
        await engine.close()
        engine = open_engine(source, serving=True)
        for number in range(20):
            await engine.write(note(f"last {number}"))
        keep(source, "ledger.db")
        keep(source.with_name("ledger.db-wal"), "ledger.db-wal")
        await engine.close()

    asyncio.run(fill())
    return folder


@pytest.fixture
def ledger(killed: Path, tmp_path: Path) -> Path:
    for file in killed.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / "ledger.db"


def is_missing(ledger: Path) -> None:
    ledger.unlink()


def is_empty(ledger: Path) -> None:
    ledger.write_bytes(b"")


def is_a_backup(ledger: Path) -> None:
    shutil.copy(ledger.with_name("backup.db"), ledger)


def is_an_older_copy(ledger: Path) -> None:
    shutil.copy(ledger.with_name("older.db"), ledger)


def has_other_pages(ledger: Path) -> None:
    photos = ledger.with_name("photos.db")
    with closing(sqlite3.connect(photos)) as other:
        other.execute("PRAGMA page_size=1024")
        other.execute("CREATE TABLE photos (name TEXT)")
    photos.replace(ledger)


def is_a_text(ledger: Path) -> None:
    ledger.write_text("Dear diary, " * 1000)


def was_changed_elsewhere(ledger: Path) -> None:
    """Change the file without its log, as on another machine."""
    log = ledger.with_name("ledger.db-wal")
    log.rename(ledger.with_name("kept"))
    with closing(sqlite3.connect(ledger)) as other, other:
        for number in range(5):
            other.execute(f"CREATE TABLE photos{number} (name TEXT)")
    ledger.with_name("kept").rename(log)


WRONG = [
    is_missing, is_empty, is_a_backup, is_an_older_copy, has_other_pages, is_a_text, was_changed_elsewhere,
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_every_command_refuses_a_file_next_to_the_log_of_another_file(
    wrong: Callable[[Path], None], ledger: Path
) -> None:
    wrong(ledger)
    before = {file.name: file.read_bytes() for file in ledger.parent.iterdir()}
    for enter in (
        lambda: open_engine(ledger, serving=True),
        lambda: open_engine(ledger),
        lambda: read_copy(ledger, audit.verify),
    ):
        with pytest.raises(StorageUnavailable, match="ledger-engine recover FILE"):
            enter()
    assert {file.name: file.read_bytes() for file in ledger.parent.iterdir()} == before


@pytest.mark.parametrize("torn", [b"\0", b"\xff"])
async def test_a_first_sector_that_was_torn_is_written_anew_where_the_log_has_its_page(
    torn: bytes, tmp_path: Path
) -> None:
    source, ledger = tmp_path / "source.db", tmp_path / "ledger.db"
    engine = open_engine(source, serving=True)
    await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
    await engine.close()
    engine = open_engine(source, serving=True)
    for number in range(20):
        await engine.write(note(f"{number}" * 4000))
    for end in ("", "-wal"):
        shutil.copy(f"{source}{end}", f"{ledger}{end}")
    await engine.close()
    content = ledger.read_bytes()
    ledger.write_bytes(torn * 512 + content[512:])
    engine = open_engine(ledger, serving=True)
    rows = await engine.read(lambda unit: unit.execute("SELECT count(*) FROM notes"))
    assert (rows[0][0], (await engine.read(auditing.verify)).fault) == (20, None)
    await engine.close()
    assert read_copy(ledger, audit.verify).fault is None


async def test_a_file_and_its_own_log_are_opened_and_nothing_is_lost(ledger: Path) -> None:
    link = ledger.with_name("link.db")
    link.symlink_to(ledger)
    engine = open_engine(link, serving=True)
    rows = await engine.read(lambda unit: unit.execute("SELECT count(*) FROM notes"))
    await engine.close()
    assert rows[0][0] == 221


def test_a_log_without_a_complete_transaction_says_nothing_about_its_file(ledger: Path) -> None:
    log = ledger.with_name("ledger.db-wal")
    content = log.read_bytes()
    for cut in (0, 20, 32, 32 + 24, 32 + 24 + 4000):
        log.write_bytes(content[:cut])
        assert read_log(ledger) is None
    log.write_bytes(b"the log of something else" * 1000)
    assert read_log(ledger) is None


def test_a_log_knows_which_pages_are_nowhere_else(ledger: Path) -> None:
    log = read_log(ledger)
    assert log is not None
    assert why_not_its_own(ledger, log) is None
    assert log.missing(ledger.stat().st_size) == 0
    assert log.missing(0) == log.page_count - len(log.pages) > 0
    young = ledger.with_name("young")
    young_log = read_log(young)
    assert young_log is not None
    assert young_log.missing(0) == 0


async def test_frames_that_a_failed_commit_left_do_not_make_the_file_foreign(tmp_path: Path) -> None:
    ledger, source, killed = (tmp_path / f"{name}.db" for name in ("ledger", "source", "killed"))

    def copy_both(file: Path, target: Path) -> None:
        for end in ("", "-wal"):
            shutil.copy(f"{file}{end}", f"{target}{end}")

    engine = open_engine(source, serving=True)
    await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
    copy_both(source, ledger)
    await engine.write(note("long " * 100_000))
    failed = log_file(source).read_bytes()
    await engine.close()

    database = open_database(ledger, ManualClock(1_700_000_000_000), checkpoints=True)
    for number in range(9):
        await database.write(note(f"short {number} " * 1000))
    with log_file(ledger).open("ab") as file:  # the last frames of the failed commit, behind the valid frames
        file.write(failed[file.tell() :])
    log = read_log(ledger)
    assert log is not None
    assert log.missing(ledger.stat().st_size), "the log contains not all pages of the failed commit"
    copy_both(ledger, killed)
    await database.between_groups(lambda writer: writer.execute("PRAGMA wal_checkpoint").fetchone())
    await database.write(note("after a checkpoint"))
    await database.check()
    await database.close()

    engine = open_engine(killed, serving=True)
    assert (await engine.read(lambda unit: unit.execute("SELECT count(*) FROM notes")))[0][0] == 9
    await engine.close()
