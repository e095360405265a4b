"""Measure the bytes on disk of a posting, the memory of 10,000 idle connections, and the rate of posting with
these connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.books import Books, bodies_of, make_books
from bench.load import json_posts, load
from bench.runs import Result, missing, paired, say, single
from bench.servers import ledger_process
from ledger_engine.ledger import transactions
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store.engine import open_engine

POSTED = 20_000
DESCRIPTION = "Two flat whites"
IDLE = 10_000
SECONDS = 2
BYTES_MAX, MEMORY_MB_MAX, RATE_MIN = 600, 180, 0.95
_HEALTH = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure the bytes once, because they are the same each time, and the idle connections in rounds."""
    return [asyncio.run(_on_disk(folder)), *_idle(folder, rounds)]


async def _on_disk(folder: Path) -> Result:
    books = await make_books(folder / "disk.db", account_count=200)
    before = books.path.stat().st_size
    engine = open_engine(books.path, serving=True)
    for first in range(0, POSTED, 500):
        batch = [_new(books, number) for number in range(first, first + 500)]
        await engine.write(partial(transactions.post_batch, tenant=books.tenant, batch=batch))
    await engine.close()  # SQLite copies its write-ahead log into the file
    size = (books.path.stat().st_size - before) / POSTED
    label = "space of a transaction on disk, with its event and all indexes"
    return single("bytes on disk for a posting", [size], "bytes", "<=", BYTES_MAX, label=label)


def _new(books: Books, number: int) -> NewTransaction:
    account = books.accounts[number % len(books.accounts)]
    return NewTransaction(account, 1 + number % 1000, "credit", DESCRIPTION)


def _idle(folder: Path, rounds: int) -> list[Result]:
    names = (f"memory with {IDLE:,} idle connections", "POST beside idle connections / without")
    if not _may_open(IDLE + 200):
        return [missing(name, note="the limit of open files is too low") for name in names]
    books = asyncio.run(make_books(folder / "idle.db"))
    pairs, memory = [], []
    with ledger_process(books.path) as (pid, url):
        posts = json_posts(f"{url}/v1/transactions", books.key, bodies_of(books))
        load(posts, SECONDS)
        for _ in range(rounds):
            without = load(posts, SECONDS).per_second
            with _connections(url, IDLE):
                memory.append(_resident_mb(pid))
                pairs.append((load(posts, SECONDS).per_second, without))
            say(f"  {names[1]}: {pairs[-1][0] / without:.3f}, {memory[-1]:.0f} MB")
    label = f"memory of the server with {IDLE:,} idle connections"
    return [
        single(names[0], memory, "MB", "<=", MEMORY_MB_MAX, label=label),
        paired(names[1], pairs, "/s", ">=", RATE_MIN),
    ]


def _may_open(files: int) -> bool:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the server inherits this limit
        return True
    return soft >= files


@contextmanager
def _connections(url: str, count: int) -> Iterator[None]:
    """Open connections, get one answer on each, and close them at the end."""
    parts = urlsplit(url)
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            client = socket.create_connection((parts.hostname or "", parts.port or 80))
            client.sendall(_HEALTH)
            opened.append(client)
        for client in opened:
            if not client.recv(4096).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("the health of the server is not 200")
        yield
    finally:
        for client in opened:
            client.close()


def _resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6
