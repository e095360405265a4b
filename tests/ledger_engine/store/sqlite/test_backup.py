"""Files that are put in the place of others; the commands over them are proven in upkeep/test_backups.py."""

from __future__ import annotations

import ctypes
import errno
import resource
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.sqlite import backup
from ledger_engine.store.sqlite.backup import put_in_place, read_copy
from tests.made_once import put_empty_ledger


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "new.db"
    file.write_text("new")
    return file


class WithoutTheCall:
    """A C library in a folder where names cannot be exchanged in one step."""

    def renameat2(self, *_names: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1


@pytest.mark.parametrize(
    "system",
    [None, SimpleNamespace(platform="other"), SimpleNamespace(), WithoutTheCall()],
    ids=["this one", "another system", "an older C library", "another file system"],
)
def test_a_file_takes_a_name_that_is_free_and_none_that_is_taken(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: Any
) -> None:
    if hasattr(system, "platform"):
        monkeypatch.setattr(backup, "sys", system)
    elif system is not None:
        monkeypatch.setattr(backup.ctypes, "CDLL", lambda *_name, **_options: system)
    target = tmp_path / "ledger.db"
    target.write_text("before")
    with pytest.raises(FileExistsError):
        put_in_place(file, target, overwrite=False)
    assert (file.read_text(), target.read_text()) == ("new", "before")
    put_in_place(file, tmp_path / "free.db", overwrite=False)
    assert not file.exists()
    assert (tmp_path / "free.db").read_text() == "new"


@pytest.mark.parametrize("log", ["new.db-wal", "ledger.db-wal", "ledger.db-journal"])
def test_a_file_is_not_put_in_place_next_to_a_log_of_either_name(
    file: Path, tmp_path: Path, log: str
) -> None:
    (tmp_path / "ledger.db").write_text("before")
    (tmp_path / log).write_text("part of a file")
    with pytest.raises(
        StorageUnavailable, match="closed properly" if log == "new.db-wal" else "earlier file"
    ):
        put_in_place(file, tmp_path / "ledger.db", overwrite=True)
    assert (tmp_path / "ledger.db").read_text() == "before"


def test_a_fault_in_a_file_that_is_up_to_date_is_not_put_down_to_its_age(tmp_path: Path) -> None:
    ledger = put_empty_ledger(tmp_path / "ledger.db")
    with pytest.raises(StorageUnavailable, match="no such table: nowhere"):
        read_copy(ledger, lambda unit: unit.execute("SELECT * FROM nowhere"))


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_an_error_names_a_copy_that_cannot_be_written_and_its_source(tmp_path: Path) -> None:
    source = put_empty_ledger(tmp_path / "ledger.db")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, limits[1]))  # more than the index of the log
    try:
        with pytest.raises(StorageUnavailable) as raised:
            backup.copy(source, tmp_path / "copy.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.reason == f"{source}, copied to {tmp_path}/copy.db: disk I/O error"


def test_an_error_for_lack_of_space_names_the_copy_and_not_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = put_empty_ledger(tmp_path / "ledger.db")

    def connect(file: Path, **options: Any) -> sqlite3.Connection:
        connection = sqlite3_connect(file, **options)
        if file == tmp_path / "copy.db":
            connection.execute("PRAGMA max_page_count=4")
        return connection

    sqlite3_connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(StorageUnavailable) as raised:
        backup.copy(source, tmp_path / "copy.db")
    assert raised.value.reason == f"{tmp_path}/copy.db: database or disk is full"


def test_an_error_names_a_source_that_cannot_be_read_and_not_its_copy(tmp_path: Path) -> None:
    source = put_empty_ledger(tmp_path / "ledger.db")
    content = source.read_bytes()
    source.write_bytes(content[: len(content) // 2])
    with pytest.raises(StorageUnavailable, match=r"ledger\.db: "):
        backup.copy(source, tmp_path / "copy.db")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match=r"there is no file .*none\.db"):
        read_copy(tmp_path / "none.db", lambda unit: unit.execute("SELECT 1"))
