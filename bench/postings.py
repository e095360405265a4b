"""Compare posting through the engine, in process, with the same statements in bare sqlite3.

The bare side has all values ready: it makes no ids, no event texts, no records and no answers. It commits as
many transactions at once as the engine committed on average in the turn before.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.books import Books, make_books
from bench.runs import Result, compare, say
from ledger_engine.core.clock import SystemClock
from ledger_engine.core.ids import IdSource
from ledger_engine.ledger import transactions
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store import Columns, Parameters, Row, Value
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite.connection import connect
from ledger_engine.store.sqlite.unit import SqliteUnit

WORKERS = 64
NO_PARAMETERS: Parameters = {}
Statements = list[tuple[str, Parameters | Sequence[Value]]]


class RecordingUnit(SqliteUnit):
    """A unit that also records the statements of the works that it runs."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, SystemClock(), IdSource())
        self.statements: Statements = []

    def _run(self, sql: str, parameters: Parameters, /) -> list[Row]:
        self.statements.append((sql, parameters))
        return super()._run(sql, parameters)

    def _run_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self.statements.extend((sql, row) for row in rows)
        super()._run_many(sql, rows)

    def _insert(self, table: str, columns: Columns, rows: list[Sequence[Value]], /) -> None:
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        self.statements.extend((sql, row) for row in rows)
        super()._insert(table, columns, rows)


@dataclass(slots=True)
class Postings:
    """Both sides of the comparison, each on a fresh copy of the same books."""

    books: Books
    folder: Path
    count: int
    group: int = WORKERS
    groups_seen: list[int] = field(default_factory=list)

    def by_engine(self) -> float:
        """Return the transactions a second through `engine.write`, posted by `WORKERS` tasks at a time."""
        rate, commits = asyncio.run(self._run_engine(self._copy("engine.db")))
        self.group = max(1, round(self.count / commits))
        self.groups_seen.append(self.group)
        return rate

    def by_hand(self) -> float:
        """Return the transactions a second if sqlite3 alone runs the same statements.

        Each commit holds `group` transactions.
        """
        statements = self._record(self._copy("recorded.db"))
        connection = connect(self._copy("bare.db"), checkpoints=True)
        try:
            started = time.perf_counter()
            for group in statements:
                connection.execute("BEGIN IMMEDIATE")
                for sql, parameters in group:
                    connection.execute(sql, parameters).fetchall()
                connection.execute("COMMIT")
            return self.count / (time.perf_counter() - started)
        finally:
            connection.close()

    def _copy(self, name: str) -> Path:
        path = self.folder / name
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        shutil.copyfile(self.books.path, path)
        return path

    def _new(self, number: int) -> NewTransaction:
        account = self.books.accounts[number % len(self.books.accounts)]
        return NewTransaction(
            account, 1 + number % 1000, "debit" if number % 3 == 0 else "credit", "Espresso"
        )

    async def _run_engine(self, path: Path) -> tuple[float, int]:
        engine = open_engine(path, serving=True)
        commits = 0

        def count(_: frozenset[str]) -> None:
            nonlocal commits
            commits += 1

        engine.listen(count)
        try:
            started = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for worker in range(WORKERS):
                    tasks.create_task(self._post(engine, range(worker, self.count, WORKERS)))
            return self.count / (time.perf_counter() - started), commits
        finally:
            await engine.close()

    async def _post(self, engine: Engine, numbers: range) -> None:
        for number in numbers:
            await engine.write(partial(transactions.post, tenant=self.books.tenant, new=self._new(number)))

    def _record(self, path: Path) -> list[Statements]:
        connection = connect(path, checkpoints=True)
        recorded = []
        try:
            for first in range(0, self.count, self.group):
                recorder = RecordingUnit(connection)
                connection.execute("BEGIN IMMEDIATE")
                for number in range(first, min(first + self.group, self.count)):
                    recorder.begin_work()
                    transactions.post(recorder, self.books.tenant, self._new(number))
                recorder.flush()
                connection.execute("COMMIT")
                recorded.append(recorder.statements)
            return recorded
        finally:
            connection.close()


def measure(folder: Path, rounds: int, report: Callable[[str], None] = say) -> list[Result]:
    """Measure the engine's rate as a share of bare sqlite3's rate."""
    books = asyncio.run(make_books(folder / "books.db"))
    postings = Postings(books, folder, count=10_000)
    result = compare(
        "engine in process / bare sqlite3",
        postings.by_engine,
        postings.by_hand,
        rounds=rounds,
        unit_measured="postings/s",
        bound=">=",
        target=0.6,
        label="transactions posted to disk in process, 64 at a time",
        against="the same statements in bare `sqlite3`",
    )
    report(f"  postings in one commit: {', '.join(map(str, postings.groups_seen))}")
    return [result]
