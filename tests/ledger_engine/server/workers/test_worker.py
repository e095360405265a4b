"""What a worker refuses by itself, at its end of the pair of sockets to its parent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.server.workers import worker as worker
from ledger_engine.server.workers.parent import Parent
from ledger_engine.server.workers.worker import WorkerDatabase, open_database
from ledger_engine.store import Unit
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import until
from tests.made_once import put_empty_ledger


def count(unit: Unit) -> int:
    return int(unit.execute("SELECT count(*) AS rows FROM projects")[0]["rows"])


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[WorkerDatabase]:
    """The database of a worker whose parent hangs: it reads and answers nothing."""
    ours, theirs = socket.socketpair()
    parent = Parent(lambda message: None, lambda: None)
    await parent.open(ours)
    clock = ManualClock(1_800_000_000_000)
    opened = open_database(put_empty_ledger(tmp_path / "ledger.db"), clock, parent)
    yield opened
    await opened.close()
    parent.close()
    theirs.close()


async def test_a_worker_that_is_closed_takes_nothing_and_can_be_closed_again(
    database: WorkerDatabase,
) -> None:
    assert await database.read(count) == 0
    for _ in range(2):
        await database.close()
        for call in (database.read, database.write):
            with pytest.raises(StorageUnavailable, match="it is being closed"):
                await call(count)


async def test_a_worker_takes_no_more_than_can_wait(
    database: WorkerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "WAITING_MAX", 2)
    first = [asyncio.ensure_future(database.write(count)) for _ in range(3)]
    await asyncio.sleep(0)
    assert [each.done() for each in first] == [False, False, True]
    with pytest.raises(StorageUnavailable, match="too many requests are waiting"):
        await first[2]
    assert await database.read(count) == 0, "those who read do not wait for the parent"
    for each in first[:2]:
        each.cancel()


async def test_while_the_parent_hangs_nothing_more_is_written(
    database: WorkerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asyncio.ensure_future(database.write(count))
    await until(lambda: database._groups.is_busy)
    monkeypatch.setattr(worker, "PARENT_ANSWERS_S", -1)
    with pytest.raises(StorageUnavailable, match=worker.SILENT):
        await database.write(count)
    assert not first.done()
    first.cancel()
