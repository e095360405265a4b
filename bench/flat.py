"""Compare reads in a large ledger with the same reads in a small ledger, in the processor time of one reader.

`python -m bench.flat LARGE SMALL [ROUNDS [READS]]` takes two files that `bench.large` made, for example with
10,000,000 and 10,000 transactions. The program repeats each read at READS places, in turns on both files.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.runs import compare, table
from ledger_engine.core.clock import SystemClock
from ledger_engine.core.ids import IdSource, first_at, moment_of
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts, statements, transactions
from ledger_engine.store.pages import PageRequest
from ledger_engine.store.sqlite.connection import connect
from ledger_engine.store.sqlite.unit import SqliteUnit

LINES = 60  # lines of a statement in one read
DAY = 86_400_000


class Shelf:
    """A ledger, and the places to read: moments, accounts, transactions and events, chosen at random."""

    def __init__(self, path: Path, reads: int) -> None:
        self.unit = SqliteUnit(connect(path, checkpoints=False, query_only=True), SystemClock(), IdSource())
        self.tenant = Tenant(self._value("SELECT id FROM projects"), livemode=False)
        chance = random.Random(3)
        ends = [moment_of(self._value(f"SELECT {end}(id) FROM transactions")) for end in ("min", "max")]
        # Choose no moment in the first tenth of the time: a page that starts there might not be full.
        self.moments = [int(ends[0] + (ends[1] - ends[0]) * chance.uniform(0.1, 1)) for _ in range(reads)]
        self.opened = ends[0]
        listed = [row["id"] for row in self.unit.execute("SELECT id FROM accounts")]
        self.accounts = [chance.choice(listed) for _ in range(reads)]
        self.transactions = [self._before("transactions", "txn", moment) for moment in self.moments]
        self.events = [self._before("events", "evt", moment) for moment in self.moments]

    def _value(self, sql: str) -> str:
        return str(self.unit.execute(sql)[0][0])

    def _before(self, listed: str, prefix: str, moment: int) -> str:
        return self._value(
            f"SELECT id FROM {listed} WHERE book = 1 AND id < '{first_at(prefix, moment)}'"
            " ORDER BY id DESC LIMIT 1"
        )


def _page(**filters: str) -> Callable[[Shelf, int], object]:
    """Return a function that reads a page.

    With `after` or `before` the page starts at a random transaction. With `account` or `type` it is filtered.
    """

    def read(shelf: Shelf, number: int) -> object:
        place = shelf.transactions[number]
        wanted = PageRequest(
            after=place if "after" in filters else None, before=place if "before" in filters else None
        )
        account = shelf.accounts[number] if "account" in filters else None
        return transactions.page(shelf.unit, shelf.tenant, wanted, account=account, type=filters.get("type"))

    return read


def _statement(shelf: Shelf, number: int) -> object:
    drawn = statements.draw_up(shelf.unit, shelf.tenant, shelf.accounts[number], shelf.opened, None)
    return statements.lines(shelf.unit, shelf.tenant, drawn)


READS: dict[str, Callable[[Shelf, int], object]] = {
    "newest": _page(),
    "anywhere": _page(after=""),
    "before": _page(before=""),
    "by type, newest": _page(type="credit"),
    "by type, anywhere": _page(type="credit", after=""),
    "by account, newest": _page(account=""),
    "by account, anywhere": _page(account="", after=""),
    "by account and type, newest": _page(account="", type="credit"),
    "by account and type, anywhere": _page(account="", type="credit", after=""),
    "since a time": lambda shelf, number: transactions.page(
        shelf.unit, shelf.tenant, PageRequest(), created_after=shelf.moments[number]
    ),
    "one transaction": lambda shelf, number: transactions.get(
        shelf.unit, shelf.tenant, shelf.transactions[number]
    ),
    "balance at a time": lambda shelf, number: accounts.balance_at(
        shelf.unit, shelf.tenant, shelf.accounts[number], shelf.moments[number]
    ),
    "statement's frame": lambda shelf, number: statements.draw_up(
        shelf.unit, shelf.tenant, shelf.accounts[number], shelf.moments[number], shelf.moments[number] + DAY
    ),
    "statement's lines": _statement,
    "accounts": lambda shelf, number: accounts.page(shelf.unit, shelf.tenant, PageRequest()),
    "events, newest": lambda shelf, number: outbox.page(shelf.unit, shelf.tenant, PageRequest()),
    "events, anywhere": lambda shelf, number: outbox.page(
        shelf.unit, shelf.tenant, PageRequest(after=shelf.events[number])
    ),
}


def main(large: str, small: str, rounds: str = "5", reads: str = "1000") -> None:
    """Print the table of all reads."""
    statements.LINES_AT_ONCE = LINES  # read the same number of lines in both ledgers
    shelves = [Shelf(Path(path), int(reads)) for path in (large, small)]

    def taken(shelf: Shelf, read: Callable[[Shelf, int], object]) -> float:
        began = time.thread_time()
        for number in range(int(reads)):
            read(shelf, number)
        return (time.thread_time() - began) / int(reads) * 1e6

    results = []
    for name, read in READS.items():
        for shelf in shelves:
            taken(shelf, read)  # warm-up
        ours, other = (lambda shelf=shelf, read=read: taken(shelf, read) for shelf in shelves)
        results.append(compare(name, ours, other, rounds=int(rounds), unit_measured="µs"))
    print(table(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
