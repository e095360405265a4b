"""Measure posting on three servers, to see what the test helpers cost.

The first server has the helpers' code but no `--test-helpers`, the second lacks the helpers' code, and the
third has `--test-helpers` but no client that uses the helpers. The servers run copies of the package, because
one copy must lack the helpers' code. Each round starts three new servers on copies of the same books, because
one process can be faster than the next for as long as it runs. The servers get bursts of postings in turns,
with one posting on each connection. So all servers commit groups of the same size, and other work on the
machine delays all servers alike.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import ledger_engine
from bench.books import Books, bodies_of, make_books
from bench.load import CONNECTIONS, Requests, is_whole, json_posts
from bench.runs import Result, paired, say
from bench.servers import ledger_process

BURSTS = 250  # bursts to each server in a round
WARM_UP = 20  # bursts to each server before the measure
HELPERS = ("sandbox", "testing")
PRESENT, ABSENT, ON = "helpers' code there", "helpers' code removed", "--test-helpers, unused"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server, and its rates in each round: postings per second of processor and of clock time."""

    options: tuple[str, ...]
    package: Path
    per_cpu_second: list[float]
    per_second: list[float]


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure what the helpers cost a server without `--test-helpers`, and a server with the option."""
    books = asyncio.run(make_books(folder / "books.db"))
    there = copy_package(folder / "with", helpers=True)
    kinds = {
        PRESENT: Kind((), there, [], []),
        ABSENT: Kind((), copy_package(folder / "without", helpers=False), [], []),
        ON: Kind(("--test-helpers",), there, [], []),
    }
    names = list(kinds)
    for number in range(rounds):
        first = number % len(names)
        in_turn = {name: kinds[name] for name in names[first:] + names[:first]}
        _round(books, folder / str(number), in_turn)
    off, removed, on = kinds.values()
    name, cpu = f"POST, {PRESENT} / removed", "postings/CPU s"
    return [
        paired(name, [*zip(off.per_cpu_second, removed.per_cpu_second, strict=True)], cpu, ">=", 0.98),
        paired("  by time", [*zip(off.per_second, removed.per_second, strict=True)], "postings/s"),
        paired(f"POST, {ON} / without", [*zip(on.per_cpu_second, off.per_cpu_second, strict=True)], cpu),
        paired("  by time", [*zip(on.per_second, off.per_second, strict=True)], "postings/s"),
    ]


def copy_package(folder: Path, *, helpers: bool) -> Path:
    """Copy the package into `folder`, with the helpers' code or without; return the folder."""
    package = folder / "ledger_engine"
    shutil.copytree(
        Path(ledger_engine.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    if not helpers:
        for each in HELPERS:
            shutil.rmtree(package / each)
    return folder


class Server:
    """A running server, with a connection for each posting of a burst."""

    def __init__(self, pid: int, posts: Requests) -> None:
        self._pid = pid
        parts = urlsplit(posts.url)
        lines = "".join(f"{name}: {value}\r\n" for name, value in posts.headers.items())
        head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{lines}"
        texts = [body.encode() for body in posts.bodies[:CONNECTIONS]]
        self._requests = [f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text for text in texts]
        address = (parts.hostname or "", parts.port or 80)
        self._connections = [socket.create_connection(address) for _ in texts]
        self.seconds = 0.0

    def burst(self) -> None:
        """Send a posting on each connection, and wait for all answers. Raises RuntimeError at a refusal."""
        began = time.perf_counter()
        for connection, request in zip(self._connections, self._requests, strict=True):
            connection.sendall(request)
        for connection in self._connections:
            answer = bytearray()
            while not is_whole(answer):
                answer += connection.recv(65536)
            if not answer.startswith(b"HTTP/1.1 2"):
                raise RuntimeError(answer.decode())
        self.seconds += time.perf_counter() - began

    def cpu_s(self) -> float:
        """Return the processor time of the process in seconds, in user mode and in the kernel."""
        fields = Path(f"/proc/{self._pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()


def _round(books: Books, folder: Path, kinds: dict[str, Kind]) -> None:
    """Start a new server of each kind, and post to the servers in turns."""
    folder.mkdir()
    with ExitStack() as stack:
        servers = []
        for number, kind in enumerate(kinds.values()):
            path = folder / f"{number}.db"
            shutil.copyfile(books.path, path)
            pid, url = stack.enter_context(ledger_process(path, *kind.options, package=kind.package))
            server = Server(pid, json_posts(f"{url}/v1/transactions", books.key, bodies_of(books)))
            stack.callback(server.close)
            servers.append(server)
        _bursts(servers, WARM_UP)
        before = [server.cpu_s() for server in servers]
        for server in servers:
            server.seconds = 0.0
        _bursts(servers, BURSTS)
        for (name, kind), server, started in zip(kinds.items(), servers, before, strict=True):
            kind.per_cpu_second.append(BURSTS * CONNECTIONS / (server.cpu_s() - started))
            kind.per_second.append(BURSTS * CONNECTIONS / server.seconds)
            say(f"  {name}: {kind.per_cpu_second[-1]:,.5g} postings a second of processor time")
    shutil.rmtree(folder)


def _bursts(servers: list[Server], count: int) -> None:
    for _ in range(count):
        for server in servers:
            server.burst()
