"""Which process answers: the workers of a server, and the connections each of them has."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.faults.client import Connection
from tests.faults.server import PATIENCE_S, Server
from tests.forking import FORKED_WORKER
from tests.ledger_engine.waiting import until

ESTABLISHED = "01"


def workers_of(parent: int) -> list[int]:
    """The process ids of the workers, without any other child of the parent's.

    Forked ones are beside their parent, and have a name that says whose they are (`tests/forking.py`).
    """
    forker = int(_read(Path(f"/proc/{parent}/stat")).rpartition(b")")[2].split()[1])
    name = FORKED_WORKER % parent
    executed = [
        each for each in children(parent) if b"server.workers.worker " in _read(Path(f"/proc/{each}/cmdline"))
    ]
    forked = [
        each
        for each in children(forker)
        if is_running(each) and _read(Path(f"/proc/{each}/comm")).decode().strip() == name
    ]
    return sorted(executed + forked)


def children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").iterdir()
    return [int(child) for task in tasks for child in _read(task / "children").split()]


def is_running(pid: int) -> bool:
    status = _read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return bool(status) and status[0] != b"Z"


def kill(worker: int) -> None:
    os.kill(worker, signal.SIGKILL)


def connections_of(worker: int, port: int) -> set[int]:
    """The client's ports of the connections that a worker of the server at this port has."""
    held = set()
    for file in Path(f"/proc/{worker}/fd").iterdir():
        try:
            held.add(os.readlink(file))
        except FileNotFoundError:  # closed meanwhile
            continue
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *others = line.split()
        is_its_own = state == ESTABLISHED and f"socket:[{others[5]}]" in held
        if is_its_own and int(local.rpartition(":")[2], 16) == port:
            found.add(int(remote.rpartition(":")[2], 16))
    return found


async def worker_with(server: Server, port: int) -> int:
    """The worker that has the connection from this port of the client's."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [each for each in workers_of(server.pid) if port in connections_of(each, server.port)]
        return bool(found)

    await until(look)
    return found[0]


@asynccontextmanager
async def connections(server: Server, key: str, count: int) -> AsyncIterator[list[Connection]]:
    """Open connections, as many to each worker as to the others, which all have been used once."""
    made = [Connection(key) for _ in range(count)]
    try:
        for each in made:
            await each.request(server.port, "GET", "/api/health")
        yield made
    finally:
        for each in made:
            await each.close()


async def restarted(server: Server, before: list[int]) -> None:
    """Wait until a killed worker is gone and replaced, and the new ones get connections.

    A killed process may run for a moment yet, in which the parent passes connections to it.
    """
    new: set[int] = set()

    def all_are_there() -> bool:
        running = {each for each in workers_of(server.pid) if is_running(each)}
        new.update(running - set(before))
        return bool(new) and len(running) == len(before)

    await until(all_are_there)
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while new:
        assert asyncio.get_running_loop().time() < deadline, "a worker gets no connections"
        with socket.create_connection(("127.0.0.1", server.port)) as opened:
            new.discard(await worker_with(server, opened.getsockname()[1]))


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
