"""A wait for a lock that cannot be got ends early, and all is well again once the lock can be got."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.engine import Engine
from ledger_engine.store.sqlite import file
from ledger_engine.store.sqlite.file import LockWaits, probe_read
from tests.ledger_engine.store.conftest import Seen, note
from tests.ledger_engine.waiting import looked_until

pytestmark = [pytest.mark.sqlite, pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")]

LONG_US = 500_000_000
# Locks the index of a log as SQLite does to read: these five bytes are the marks of those that read.
LOCKING = (
    "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 5, 123);"
    " print('locked', flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LOOKED_EVERY_S", 0.01)
    monkeypatch.setattr(file, "READ_S", 0.01)


@contextmanager
def reading_is_blocked(ledger: Path) -> Iterator[None]:
    """Let another process hold the locks of those that read."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING, f"{ledger}-shm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"locked\n"
        yield
        process.stdin.close()


def test_sleeps_of_all_that_wait_end_once_one_has_waited_for_too_long() -> None:
    waits = LockWaits()

    def sleep(limit_s: float) -> None:
        with waits.limited(limit_s):
            ctypes.CDLL(None).usleep(LONG_US)  # as SQLite does; Python's own sleep goes on after a signal

    threads = [threading.Thread(target=sleep, args=[limit_s], daemon=True) for limit_s in (0.01, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_US / 5_000_000)
        assert not thread.is_alive()
    waits.end()


def test_while_nobody_waits_nobody_is_looked_for_in_a_hurry() -> None:
    waits = LockWaits()
    assert not any(waits._signalled() for _ in range(10))
    waits.end()


@pytest.mark.process
async def test_reads_and_writes_that_cannot_begin_are_told_at_once_and_later_ones_succeed(
    notes: Engine, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: set[str] = set()

    def pthread_kill(thread: int, number: int) -> None:
        signalled.update(each.name for each in threading.enumerate() if each.ident == thread)
        kill(thread, number)

    kill = signal.pthread_kill
    monkeypatch.setattr(signal, "pthread_kill", pthread_kill)
    await notes.write(note("before"))
    with reading_is_blocked(tmp_path / "ledger.db"):
        outcome = await asyncio.gather(
            notes.write(note("meanwhile")), notes.read(probe_read), return_exceptions=True
        )
    assert [type(error) for error in outcome] == [StorageUnavailable] * 2
    assert {getattr(error, "reason", "") for error in outcome} == {"locking protocol"}
    assert "ledger-writer" in signalled
    assert any(name.startswith("ledger-reader") for name in signalled)

    async def is_well() -> bool:
        try:
            await notes.write(note("after"))
        except StorageUnavailable:
            return False
        return True

    await looked_until(is_well, bool)
    assert seen() == ["before", "after"]
