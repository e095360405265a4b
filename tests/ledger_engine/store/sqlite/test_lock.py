"""One process serves a database."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_engine import __version__
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.engine import open_engine
from ledger_engine.store.files import work_folder
from ledger_engine.store.sqlite import lock as module
from ledger_engine.store.sqlite.lock import LockHolder, ServingLock, holder_of, lock_file, served_at

pytestmark = pytest.mark.process

HOLDER = """
import sys
from pathlib import Path
from ledger_engine.store.sqlite.lock import ServingLock
lock = ServingLock(Path(sys.argv[1]))
lock.note_url("http://127.0.0.1:4321")
print("held", flush=True)
sys.stdin.read()
"""


def hold(database: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_process_is_refused_and_learns_where_the_first_one_serves(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    with hold(database) as holder:
        with pytest.raises(StorageUnavailable) as refused:
            ServingLock(database)
        assert f"another process ({holder.pid}) at http://127.0.0.1:4321" in refused.value.message
        holder.kill()


def test_the_lock_goes_with_its_process_however_that_ends(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    with hold(database) as holder:
        holder.kill()
        holder.wait()
        ServingLock(database).release()


def test_the_address_in_a_lock_file_counts_only_while_its_process_holds_the_lock(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    assert served_at(database) is None
    with hold(database) as holder:
        assert served_at(database) == "http://127.0.0.1:4321"
        holder.kill()
        holder.wait()
        assert "http://127.0.0.1:4321" in lock_file(database).read_text()
        assert served_at(database) is None
        lock = ServingLock(database)  # of a server that does not listen yet
        assert served_at(database) is None
        lock.release()


def test_a_lock_file_describes_its_process_also_after_a_kill(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    assert holder_of(database) is None
    with hold(database) as process:
        holder = holder_of(database)
        assert holder is not None
        assert (holder.is_alive, holder.pid, holder.version) == (True, process.pid, __version__)
        assert holder.started is not None
        process.kill()
        process.wait()
        assert holder_of(database) == replace(holder, is_alive=False)
    for text in ('{"pid": "1", "url": 5}', "[]", "{"):
        lock_file(database).write_text(text)
        assert holder_of(database) == LockHolder(is_alive=False)


def test_a_new_server_waits_for_a_command_that_looks_at_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    database, flock = tmp_path / "ledger.db", fcntl.flock
    looking = os.open(lock_file(database), os.O_CREAT | os.O_RDWR)
    flock(looking, fcntl.LOCK_SH)
    tries = list[int]()

    def note_try(file: int, operation: int) -> None:
        tries.append(operation)
        if len(tries) == 3:
            os.close(looking)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", note_try)
    ServingLock(database).release()
    assert len(tries) >= 3


def test_a_lock_that_is_released_can_be_taken_again(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    for _ in range(2):
        ServingLock(database).release()


def test_a_lock_removes_the_lock_file_that_it_created_and_leaves_an_older_one(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    ServingLock(database).release()
    assert not lock_file(database).exists()
    lock_file(database).touch()
    ServingLock(database).release()
    assert lock_file(database).exists()


def test_another_name_of_the_file_is_the_same_lock(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    database.touch()
    other = tmp_path / "link.db"
    other.symlink_to(database)
    lock = ServingLock(database)
    with pytest.raises(StorageUnavailable, match=f"another process .{os.getpid()}."):
        ServingLock(other)
    lock.release()


async def test_a_server_whose_lock_file_is_gone_is_still_the_only_one(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    lock = ServingLock(database)
    engine = open_engine(database, serving=True)
    lock_file(database).unlink()
    with pytest.raises(StorageUnavailable, match="served by another process"):
        ServingLock(database)
    with pytest.raises(StorageUnavailable, match="served by another process"):
        open_engine(database, serving=True)
    await open_engine(database).close()  # a command beside it is welcome
    await engine.check()
    await engine.close()
    lock.release()
    ServingLock(database).release()


async def test_a_file_with_two_names_is_opened_under_neither(tmp_path: Path) -> None:
    """Each name would have a log and a lock of its own."""
    database, other = tmp_path / "ledger.db", tmp_path / "links" / "other.db"
    await open_engine(database, serving=True).close()
    other.parent.mkdir()
    other.hardlink_to(database)
    for name in (database, other):
        for serving in (True, False):
            with pytest.raises(StorageUnavailable, match="hard link"):
                open_engine(name, serving=serving)
    other.unlink()
    await open_engine(database, serving=True).close()


def test_the_file_of_the_lock_is_private(tmp_path: Path) -> None:
    lock = ServingLock(tmp_path / "ledger.db")
    assert lock_file(tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_a_holder_without_an_entry_is_reported_too(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    lock = ServingLock(database)
    lock_file(database).write_text("{")
    with pytest.raises(StorageUnavailable, match="served by another process"):
        ServingLock(database)
    lock.release()


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="No such file or directory"):
        ServingLock(tmp_path / "no" / "ledger.db")


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_lock_file_that_is_deleted_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    database, lock, deleted = tmp_path / "ledger.db", module._lock, list[int]()

    def delete_the_first(file: int) -> None:
        if not deleted:
            deleted.append(file)
            lock_file(database).unlink()
            if comes_back:
                lock_file(database).touch()
        lock(file)

    monkeypatch.setattr(module, "_lock", delete_the_first)
    held = ServingLock(database)
    monkeypatch.undo()
    with pytest.raises(StorageUnavailable):
        ServingLock(database)
    held.release()


@pytest.mark.skipif(sys.platform == "win32", reason="locks are others there")
def test_a_system_that_fails_to_lock_is_not_taken_for_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def fail(_file: int, _operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(StorageUnavailable, match="lock cannot be locked: Input/output error"):
        ServingLock(tmp_path / "ledger.db")
    with pytest.raises(OSError, match="Input/output error"), work_folder(tmp_path):
        raise AssertionError("it is not locked")
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db.lock"]
