"""A file whose locks do not work is used no more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite.connection import connect
from ledger_engine.store.sqlite.file import UNLOCKED, UNLOCKED_NOTICE, has_space, probe_read
from tests.ledger_engine.store.conftest import Seen, note

pytestmark = pytest.mark.sqlite

# Locks the index of a log as SQLite does to read: these five bytes are the marks of those that read.
LOCKING = (
    "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 5, 123);"
    " print('locked', flush=True); sys.stdin.read()"
)


@contextmanager
def reading_is_blocked(ledger: Path) -> Iterator[None]:
    """Hold the locks of readers in another process, which SQLite sees as locks that were not released."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING, f"{ledger}-shm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"locked\n"
        yield
        process.stdin.close()


@pytest.mark.process
async def test_after_a_failed_unlock_all_works_are_refused_with_the_cause_until_the_next_start(
    notes: Engine, seen: Seen, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.db"
    await notes.write(note("before"))
    log = ledger.with_name("ledger.db-wal").stat().st_ino
    with reading_is_blocked(ledger):
        # SQLite tries for ten seconds, and a server answers after ten.
        await asyncio.gather(notes.read(probe_read), return_exceptions=True)
        with pytest.raises(StorageUnavailable, match=UNLOCKED):
            await notes.read(probe_read)
    # Also after the lock is free, because SQLite would not know it if the lock was its own.
    for answer in (notes.read(probe_read), notes.write(note("refused")), notes.check()):
        with pytest.raises(StorageUnavailable, match=UNLOCKED):
            await answer
    assert notes.losses.refused == UNLOCKED_NOTICE
    assert ledger.with_name("ledger.db-wal").stat().st_ino == log, "the log stays with its file"
    await notes.close()
    again = open_engine(ledger)
    await again.write(note("after"))
    await again.close()
    assert seen() == ["before", "after"]


async def test_the_test_for_space_leaves_the_writers_cache_as_large_as_before(tmp_path: Path) -> None:
    await open_engine(tmp_path / "ledger.db").close()
    with closing(connect(tmp_path / "ledger.db", checkpoints=True)) as writer:
        (before,) = writer.execute("PRAGMA cache_size").fetchone()
        assert has_space(writer)
        (after,) = writer.execute("PRAGMA cache_size").fetchone()
    assert after == before
