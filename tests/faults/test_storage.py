"""The disk is full, fails, or is gone: 503 and nothing half done, and all is well again once it can be."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import Tally
from tests.contract.rules import holds
from tests.faults.client import Writers, assert_all_is_there_once, connected, open_accounts
from tests.faults.server import CouldNotServe, Server
from tests.faults.tracing import can_trace

WRITERS = 8
MOUNTING = os.geteuid() == 0 and shutil.which("mount") is not None

Trouble = Callable[[Server], AbstractContextManager[None]]


@contextmanager
def mounted(*arguments: str, at: Path) -> Iterator[None]:
    """A mount, or a skipped test where mounting is not allowed (in most containers)."""
    if not MOUNTING or subprocess.run(["mount", *arguments, str(at)], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for the database, with 16 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted("-t", "tmpfs", "-o", "size=16m", "tmpfs", at=folder):
        yield folder


@contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """Something else takes all the space there is, but for a few writes more."""
    filler = server.database.with_name("filler")
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while (free := shutil.disk_usage(filler.parent).free) > 64 * 1024:
            file.write(b"x" * min(free - 64 * 1024, 1024 * 1024))
    yield
    filler.unlink()


@contextmanager
def no_growing(server: Server) -> Iterator[None]:
    """Files of the server cannot grow any more, but for a few writes."""
    log = server.database.with_name(server.database.name + "-wal")
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (log.stat().st_size + 64 * 1024, hard))
    yield
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))


@contextmanager
def moved_away(server: Server) -> Iterator[None]:
    """The folder of the database is not where it was."""
    folder = server.database.parent
    aside = folder.with_name("aside")
    folder.rename(aside)
    yield
    aside.rename(folder)


async def endure(server: Server, trouble: Trouble, seed: int) -> None:
    """Write through the trouble and after it; what was said must be true, and the server recover unaided."""
    key = server.make_key()
    accounts = await open_accounts(server.port, key)
    writers = Writers(key, accounts, seed, lambda: server.port)
    async with writers.writing(WRITERS), connected(key) as watch:
        await writers.until(50)
        with trouble(server):
            await writers.until_refused()
            # A last small write may still find room.
            while (health := await watch.request(server.port, "GET", "/api/health")).status == 200:
                pass
            assert (health.status, health.body["ok"]) == (503, False)
        await writers.until(50)
        health = await watch.request(server.port, "GET", "/api/health")
        assert (health.status, health.body["ok"]) == (200, True)
    # Where the log has no room for a single page, it is never known what became of a change.
    assert set(writers.memory.refused.values()) <= {"storage_unavailable"}
    await _assert_refusals_were_true(server, key, writers)
    await writers.settle()
    server.assert_books_are_right()
    await assert_all_is_there_once(server.port, key, writers.memory)


async def _assert_refusals_were_true(server: Server, key: str, writers: Writers) -> None:
    """What was refused took no key: the same request is taken now."""
    async with connected(key) as connection:
        for used in writers.memory.refused:
            body = {"account": writers.accounts[0], "amount": 1, "type": "credit"}
            answer = await connection.request(
                server.port, "POST", "/v1/transactions", body, idempotency_key=used
            )
            assert answer.status == 201, answer
            writers.memory.acknowledged[used] = answer.body


async def test_a_full_disk(small_disk: Path, seed: int) -> None:
    server = Server(small_disk / "ledger.db")
    server.start()
    try:
        await endure(server, full_disk, seed)
    finally:
        server.kill()


@holds("error-storage-lost")
async def test_files_that_cannot_grow(server: Server, seed: int) -> None:
    await endure(server, no_growing, seed)


@holds("error-storage-lost")
async def test_a_database_that_is_moved_away(tmp_path: Path, seed: int) -> None:
    (tmp_path / "volume").mkdir()
    server = Server(tmp_path / "volume" / "ledger.db")
    server.start()
    try:
        await endure(server, moved_away, seed)
    finally:
        server.kill()


@pytest.fixture
def read_only_folder(tmp_path: Path, server: Server) -> Iterator[Path]:
    """A folder with a database of which nothing can be changed."""
    folder = tmp_path / "archive"
    folder.mkdir()
    assert server.stop() == 0
    shutil.copy(server.database, folder / "ledger.db")
    if os.geteuid() != 0:
        (folder / "ledger.db").chmod(0o400)
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    # Nothing is read-only to root but what is mounted so.
    with mounted("--bind", str(folder), at=folder):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield folder


def test_a_read_only_database_is_not_served(read_only_folder: Path) -> None:
    done = Server(read_only_folder / "ledger.db").run("keys", "create", "--mode", "test")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "read" in done.stderr.lower()
    assert [file.name for file in read_only_folder.iterdir()] == ["ledger.db"]


# Errors of single system calls, injected by strace

# Which call fails, and from which to which of a thread's calls it is tried: after the start, within the load.
FAILURES = [
    ("fdatasync:error=EIO", 3, 25),
    ("pwrite64:error=EIO", 40, 400),
    ("pwrite64:error=ENOSPC", 40, 400),
]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("failure", "first", "last"), FAILURES)
async def test_a_call_of_the_system_that_fails(
    server: Server, failure: str, first: int, last: int, soak: int, seed: int, tally: Tally
) -> None:
    """At whichever call it fails, and though the server is killed right after its refusal."""
    if not can_trace():
        pytest.skip("needs strace and the right to trace")
    chance, call = random.Random(seed), failure.partition(":")[0]
    key = server.make_key()
    accounts = await open_accounts(server.port, key)
    writers = Writers(key, accounts, seed, lambda: server.port)
    refusals = 0
    for turn in range(100 * soak):
        if turn >= soak and refusals:
            break
        server.kill()
        when = chance.randint(first, last)
        server.strace = ["-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={failure}:when={when}"]
        with suppress(CouldNotServe):
            server.start()
            async with writers.writing(WRITERS):
                await writers.until(400, or_refused=True)
                server.kill()
        server.strace = []
        server.assert_books_are_right()
        server.start()
        await _assert_refusals_were_true(server, key, writers)
        refusals += len(writers.memory.refused)
        tally(faults=1, refused=len(writers.memory.refused))
        writers.memory.refused.clear()
    assert refusals
    tally(acknowledged=len(writers.memory.acknowledged))
    await writers.settle()
    server.assert_books_are_right()
    await assert_all_is_there_once(server.port, key, writers.memory)
