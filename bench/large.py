"""Make a large ledger in minutes, such as ten million transactions with their events.

`python -m bench.large FILE COUNT` inserts COUNT transactions in the form in which the engine writes them, so
`ledger-engine verify` finds the books correct. The ledger covers a year, and has one account for each 10,000
transactions. One transaction in twenty is a side of a transfer, and some are reversals.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.books import Books, fill_books
from bench.runs import say
from ledger_engine.core.clock import DAY
from ledger_engine.core.ids import IdSource
from ledger_engine.store.engine import open_engine

AT_ONCE = 50_000  # rows in one commit
DAYS = 365
CURSORS = 5_000
TRANSFER, REVERSAL = 0.025, 0.005  # the shares of the postings; a transfer posts two transactions

_INSERTS = (
    "INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
    "INSERT INTO events VALUES (?, ?, 'transaction.created', ?, NULL, NULL, ?, NULL)",
)

Row = tuple[Any, ...]


def make_ledger(path: Path, count: int, accounts: int | None = None) -> tuple[Books, list[str]]:
    """Create the ledger; return its books, and the ids of transactions spread over the whole list."""
    books, book, now = asyncio.run(_make_books(path, accounts or max(4, count // 10_000)))
    history = _History(books, book, count, now - DAYS * DAY)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA cache_size=-200000")
        # The indexes are dropped here and created after the inserts. SQLite then sorts each index only once,
        # which takes a fifth of the time.
        later = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
            " AND tbl_name IN ('transactions', 'events')"
        ).fetchall()
        for name, _ in later:
            connection.execute(f"DROP INDEX {name}")
        for chunk in history.chunks():
            connection.execute("BEGIN")
            for insert, rows in zip(_INSERTS, chunk, strict=True):
                connection.executemany(insert, rows)
            connection.execute("COMMIT")
        connection.execute("BEGIN")
        connection.executemany("UPDATE accounts SET balance = ? WHERE id = ?", history.balances())
        connection.execute(
            "INSERT INTO settlements VALUES (?, 0, 'EUR', ?)", (books.tenant.project, history.settlement)
        )
        connection.execute(
            "UPDATE counters SET stored_objects = stored_objects + ? WHERE project = ? AND livemode = 0",
            (history.made, books.tenant.project),
        )
        connection.execute("COMMIT")
        for _, sql in later:
            connection.execute(sql)
    return books, history.cursors


async def _make_books(path: Path, accounts: int) -> tuple[Books, int, int]:
    engine = open_engine(path, serving=True)
    try:
        books = await fill_books(engine, path, accounts)
        (row,) = await engine.read(
            lambda unit: unit.execute(
                "SELECT book FROM books WHERE project = :project AND livemode = 0",
                {"project": books.tenant.project},
            )
        )
        return books, row["book"], engine.clock.now()
    finally:
        await engine.close()


class _History:
    """The transactions and events of a year, as rows in the order of their ids."""

    def __init__(self, books: Books, book: int, count: int, start: int) -> None:
        self._accounts = books.accounts
        self._book = book
        self._count = count
        self._start = start
        self._ids = IdSource()
        self._chance = random.Random(7)
        self._balance: defaultdict[str, int] = defaultdict(int)
        self.settlement = 0
        self.made = 0
        self.cursors: list[str] = []

    def balances(self) -> Iterator[tuple[int, str]]:
        return ((balance, account) for account, balance in self._balance.items())

    def chunks(self) -> Iterator[tuple[list[Row], list[Row]]]:
        """Yield the rows of the transactions and of their events, about `AT_ONCE` transactions at a time."""
        transactions: list[Row] = []
        events: list[Row] = []
        chance, ids = self._chance.random, self._ids
        last: Row | None = None  # the newest transaction that a later posting may reverse
        while self.made < self._count:
            moment = self._start + self.made * DAYS * DAY // self._count
            account = self._accounts[int(chance() * len(self._accounts))]
            amount = 1 + int(chance() * 10_000)
            drawn = chance()
            posted: list[Row]
            if last is not None and drawn < REVERSAL:
                posted = [self._row(ids, moment, last[2], last[3], last[4] != "credit", None, None, last[1])]
                last = None
            elif drawn > 1 - TRANSFER:
                other = self._accounts[(self._accounts.index(account) + 1) % len(self._accounts)]
                first = self._row(ids, moment, account, amount, False, other, "", None)
                first = (*first[:8], first[1], *first[9:])
                posted = [first, self._row(ids, moment, other, amount, True, account, first[1], None)]
            else:
                posted = [self._row(ids, moment, account, amount, drawn < 0.6, None, None, None)]
                last = posted[0]
            for row in posted:
                if self.made % max(1, self._count // CURSORS) == 0:
                    self.cursors.append(row[1])
                self.made += 1
                transactions.append(row)
                events.append((self._book, ids.new("evt", moment), row[1], moment))
            if len(transactions) >= AT_ONCE or self.made >= self._count:
                yield transactions, events
                transactions, events = [], []

    def _row(
        self,
        ids: IdSource,
        moment: int,
        account: str,
        amount: int,
        credit: bool,
        destination: str | None,
        transfer: str | None,
        reverses: str | None,
    ) -> Row:
        signed = amount if credit else -amount
        balance = self._balance[account] = self._balance[account] + signed
        if transfer is None:
            self.settlement -= signed
        return (
            self._book, ids.new("txn", moment), account, amount, "credit" if credit else "debit",
            "Flat white, two", balance, destination, transfer, reverses, moment,
        )  # fmt: skip


if __name__ == "__main__":
    _, file, wanted = sys.argv
    made, _ = make_ledger(Path(file), int(wanted))
    say(f"key {made.key}, project {made.tenant.project}")
