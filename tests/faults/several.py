"""Several servers on one PostgreSQL database, and who follows its events by their ids meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

from tests.faults.client import Writers
from tests.faults.postgres import Postgres
from tests.faults.server import Server

HOUR_S = 3600
OFTEN_S = 0.005


@dataclass
class Servers:
    """Servers that run on one database; `of` starts them."""

    postgres: Postgres
    database: str
    running: list[Server]

    @property
    def address(self) -> str:
        return self.postgres.address(self.database)

    def verify(self) -> None:
        self.running[0].assert_books_are_right()

    def query(self, sql: str) -> list[tuple[object, ...]]:
        with self.postgres.connect(self.database) as connection:
            return connection.execute(sql.encode()).fetchall()


@asynccontextmanager
async def serving(
    postgres: Postgres, clocks_ahead_s: Sequence[int], options: Sequence[str] = ()
) -> AsyncIterator[Servers]:
    """Run a server for each clock on a new database; kill those that still run at the end."""
    database = postgres.new_database()
    address = postgres.address(database)
    servers = [Server(address, options=options, clock_ahead_s=ahead) for ahead in clocks_ahead_s]
    try:
        for each in servers:
            await asyncio.to_thread(each.start)
        yield Servers(postgres, database, servers)
    finally:
        for each in servers:
            each.kill()


class Follower:
    """Reads the events of one book after the last id it has seen, over and over, in a thread."""

    def __init__(self, servers: Servers, account: str) -> None:
        self._servers = servers
        ((book,),) = servers.query(f"SELECT book FROM events WHERE object = '{account}'")
        self._book = book
        self.seen: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow_until_ended, daemon=True)
        self._thread.start()

    def assert_missed_nothing(self) -> int:
        """Return how many events it has seen, which are all of them, in their order."""
        self._ending.set()
        self._thread.join()
        with self._servers.postgres.connect(self._servers.database) as connection:
            self._read(connection)
            rows = connection.execute("SELECT id FROM events WHERE book = %s ORDER BY id", [self._book])
            assert self.seen == [id for (id,) in rows.fetchall()]
        return len(self.seen)

    def _follow_until_ended(self) -> None:
        while not self._ending.is_set():
            try:
                with self._servers.postgres.connect(self._servers.database) as connection:
                    while not self._ending.is_set():
                        self._read(connection)
                        time.sleep(OFTEN_S)
            except psycopg.OperationalError:  # the database is down
                time.sleep(OFTEN_S)

    def _read(self, connection: psycopg.Connection) -> None:
        last = self.seen[-1] if self.seen else ""
        rows = connection.execute(
            "SELECT id FROM events WHERE book = %s AND id > %s ORDER BY id", [self._book, last]
        )
        self.seen += [id for (id,) in rows.fetchall()]


@asynccontextmanager
async def under_load(writers: Writers, count: int) -> AsyncIterator[None]:
    """Write meanwhile; what is refused for want of storage is remembered as not done."""
    writers.accept_refusals = True
    async with writers.writing(count):
        yield
    assert writers.memory.surprises == []
