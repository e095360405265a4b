"""Posting in process: the engine against the statements it runs, in bare sqlite3.

The bare side has all its values ready: it makes no ids, no event texts, no records and no answers. It commits
as many transactions at once as the engine did on average in the turn before.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from bench.books import Books, make_books
from bench.runs import Result, compare, say
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Columns, G, Gathered, Parameters, Row, Unit, Value
from ledger_engine.database.connection import connect
from ledger_engine.database.engine import Engine, open_engine
from ledger_engine.database.wrapped_unit import WrappedUnit
from ledger_engine.ledger import transactions
from ledger_engine.ledger.transactions import NewTransaction

WORKERS = 64
NO_PARAMETERS: Parameters = {}
Statements = list[tuple[str, Parameters | Sequence[Value]]]


class RecordingUnit(WrappedUnit):
    """A unit that runs the works of a group and keeps their statements."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self.statements: Statements = []
        self.gathered: dict[Hashable, Gathered] = {}

    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS, /) -> list[Row]:
        self.statements.append((sql, parameters))
        return super().execute(sql, parameters)

    def first(self, sql: str, parameters: Parameters = NO_PARAMETERS, /) -> Row | None:
        self.statements.append((sql, parameters))
        return super().first(sql, parameters)

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self.statements.extend((sql, row) for row in rows)
        super().execute_many(sql, rows)

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        self.statements.extend((sql, row) for row in rows)
        super().insert_many(table, columns, rows)

    def put_many(
        self,
        table: str,
        sql: str,
        tenant: Tenant,
        values: Mapping[str, object],
        rows: list[dict[str, Value]],
        /,
    ) -> None:
        self.execute_many(sql, rows)

    def gather(self, key: Hashable, make: Callable[[Unit], G], /) -> G | None:
        found = self.gathered.get(key)
        if found is None:
            found = self.gathered[key] = make(self)
        return cast(G, found)


@dataclass(slots=True)
class Postings:
    """Both sides of the comparison, each on a fresh copy of the same books."""

    books: Books
    folder: Path
    count: int
    group: int = WORKERS
    groups_seen: list[int] = field(default_factory=list)

    def by_engine(self) -> float:
        """Return transactions a second through `engine.write`.

        As many tasks post as a group should have works.
        """
        rate, commits = asyncio.run(self._run_engine(self._copy("engine.db")))
        self.group = max(1, round(self.count / commits))
        self.groups_seen.append(self.group)
        return rate

    def by_hand(self) -> float:
        """Return transactions a second of the same statements in sqlite3, with commits of the same size."""
        statements = asyncio.run(self._record(self._copy("recorded.db")))
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

    async def _record(self, path: Path) -> list[Statements]:
        engine = open_engine(path, serving=True)

        def record_all(unit: Unit) -> list[Statements]:
            recorded = []
            for first in range(0, self.count, self.group):
                recorder = RecordingUnit(unit)
                for number in range(first, min(first + self.group, self.count)):
                    transactions.post(recorder, self.books.tenant, self._new(number))
                for gathered in recorder.gathered.values():
                    gathered.write()
                recorded.append(recorder.statements)
            return recorded

        try:
            return await engine.write(record_all)
        finally:
            await engine.close()


def measure(folder: Path, rounds: int, report: Callable[[str], None] = say) -> list[Result]:
    """Measure the engine's share of bare sqlite3's rate."""
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
