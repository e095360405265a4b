"""Two processes on one file: locks that last, and an order that holds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import moment_of
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.conftest import Seen, note

pytestmark = pytest.mark.process

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""


@contextmanager
def locked_by_another_process(path: Path) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.communicate(b"\n")


async def test_a_lock_that_is_held_too_long_raises_storage_unavailable_and_the_next_work_succeeds(
    notes: Engine, tmp_path: Path, seen: Seen
) -> None:
    # The real patience is seconds long; this connection gets less of it.
    await notes.write(lambda unit: unit.execute("PRAGMA busy_timeout = 50"))
    with locked_by_another_process(tmp_path / "ledger.db"):
        refused = await asyncio.gather(
            *(notes.write(note(str(number))) for number in range(3)), return_exceptions=True
        )
        assert {type(error) for error in refused} <= {StorageUnavailable, str}
        assert isinstance(refused[0], StorageUnavailable)
        assert await notes.read(lambda unit: unit.execute("SELECT 1")[0][0]) == 1
    assert await notes.write(note("after")) == "after"
    assert seen() == [*(text for text in refused if isinstance(text, str)), "after"]


async def test_a_short_lock_is_waited_for(notes: Engine, tmp_path: Path) -> None:
    with locked_by_another_process(tmp_path / "ledger.db"):
        writing = asyncio.create_task(notes.write(note("patient")))
        await asyncio.wait({writing}, timeout=0.1)
        assert not writing.done()
    assert await writing == "patient"


async def test_ids_and_moments_rise_beside_another_writer(tmp_path: Path) -> None:
    """One clock is an hour ahead of the other, and neither process knows of it."""
    path = tmp_path / "ledger.db"
    behind = open_engine(path, clock=ManualClock(START), serving=True)
    ahead = open_engine(path, clock=ManualClock(START + 3_600_000))
    project = await behind.write(partial(projects.create, new=projects.NewProject("Two writers")))
    tenant = Tenant(project.id, livemode=False)
    create = partial(accounts.create, tenant=tenant, new=NewAccount("Till", "EUR", {}))
    made = [await engine.write(create) for _ in range(20) for engine in (behind, ahead)]
    await behind.close()
    await ahead.close()
    assert [account.id for account in made] == sorted(account.id for account in made)
    assert [account.created for account in made] == sorted(account.created for account in made)
    assert made[0].created == START
    assert all(moment_of(account.id) == account.created for account in made)


async def test_a_new_file_can_be_opened_by_several_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    opening = [asyncio.to_thread(open_engine, path, serving=number == 0) for number in range(8)]
    engines = await asyncio.gather(*opening)

    def count(unit: Unit) -> int:
        return int(unit.execute("SELECT count(*) FROM projects")[0][0])

    for engine in engines:
        assert await engine.read(count) == 0
        await engine.close()


async def test_a_writing_neighbour_leaves_the_log_to_the_server(tmp_path: Path) -> None:
    """Before SQLite 3.51.3 two connections that write and checkpoint can damage the file."""
    path = tmp_path / "ledger.db"
    server = open_engine(path, serving=True)
    neighbour = open_engine(path)
    try:
        checkpoints = [
            await engine.write(lambda unit: unit.execute("PRAGMA wal_autocheckpoint")[0][0])
            for engine in (server, neighbour)
        ]
        assert checkpoints[0] > 0
        assert checkpoints[1] == 0
    finally:
        await neighbour.close()
        await server.close()


@pytest.mark.parametrize("serving", [True, False])
async def test_commits_are_durable_before_they_are_answered(tmp_path: Path, serving: bool) -> None:
    engine = open_engine(tmp_path / "ledger.db", serving=serving)

    def settings(unit: Unit) -> list[str | int]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [unit.execute(f"PRAGMA {name}")[0][0] for name in names]

    assert await engine.write(settings) == ["wal", 2, 1]  # 2 is FULL
    await engine.close()
