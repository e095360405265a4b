"""Who may read the files of a ledger."""

from __future__ import annotations

import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from ledger_engine.core.errors import NotFound, StorageUnavailable
from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.backup import open_to_read
from ledger_engine.store.sqlite.connection import public_error, reason_of


@pytest.mark.parametrize("held", ["nothing", "a ledger", "a ledger and its log"])
async def test_a_file_that_everybody_could_read_is_closed_to_others(tmp_path: Path, held: str) -> None:
    path = tmp_path / "own.db"
    path.touch()
    if held != "nothing":
        earlier = open_engine(path, serving=True)
        await earlier.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
        if held == "a ledger":
            await earlier.close()
    for file in tmp_path.glob("own.db*"):
        file.chmod(0o644)
    engine = open_engine(path, serving=held == "nothing")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("own.db*")}
    await engine.close()
    if held == "a ledger and its log":
        await earlier.close()
    assert modes == {"own.db": 0o600, "own.db-wal": 0o600, "own.db-shm": 0o600}


async def test_a_file_that_was_opened_to_a_group_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await open_engine(path, serving=True).close()
    path.chmod(0o640)
    await open_engine(path, serving=True).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_is_no_ledger_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (id TEXT)")
    path.chmod(0o644)
    with pytest.raises(StorageUnavailable, match=r"tables of another program \(theirs\)"):
        open_engine(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


async def test_a_file_whose_tables_have_no_readable_definition_is_refused_with_a_sentence(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own.db"
    await open_engine(path, serving=True).close()
    whole = path.read_bytes()
    for place in (found.start() for found in re.finditer(b"CREATE TABLE", whole)):
        path.write_bytes(whole[: place + 2] + b"\xff" + whole[place + 3 :])
        for opened in (open_engine, open_to_read):
            with pytest.raises(StorageUnavailable, match=r"own\.db: "):
                opened(path)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StorageUnavailable("the disk is full"), "the disk is full"),
        (NotFound("account", "acc_1"), NotFound("account", "acc_1").message),
        (
            FileNotFoundError(2, "No such file or directory", "/home/ada/ledger.db"),
            "no such file or directory",
        ),
        (OSError("not mounted."), "not mounted"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_reason_is_words_for_the_middle_of_a_sentence(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def of_sqlite(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("something is wrong")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    "error", [OSError("not mounted"), of_sqlite(sqlite3.SQLITE_FULL), of_sqlite(sqlite3.SQLITE_IOERR_FSYNC)]
)
def test_a_failure_of_the_storage_is_unavailable(error: Exception) -> None:
    assert isinstance(public_error(error), StorageUnavailable)


@pytest.mark.parametrize(
    "error", [NotFound("account", "acc_1"), of_sqlite(sqlite3.SQLITE_CONSTRAINT_UNIQUE), ZeroDivisionError()]
)
def test_any_other_error_is_returned_unchanged(error: Exception) -> None:
    assert public_error(error) is error


def test_an_error_that_no_future_takes_is_wrapped() -> None:
    assert isinstance(public_error(StopIteration("work")), RuntimeError)
