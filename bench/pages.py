"""Compare a page of 20 among 1,000,000 transactions with a page among 10,000, over HTTP and in process."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from bench.books import Books, fill_books
from bench.runs import Result, compare, say
from bench.servers import ledger
from ledger_engine.ledger import transactions
from ledger_engine.store import Unit, Value
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.pages import PageRequest

SMALL, LARGE = 10_000, 1_000_000
AT_ONCE = 50_000  # rows in one commit
READS = 400  # pages in one measurement
CURSORS = 5_000

_INSERT = (
    "INSERT INTO transactions"
    " (book, id, account, amount, type, description, balance_after, created)"
    " VALUES ((SELECT book FROM books WHERE project = :project AND livemode = 0),"
    " :id, :account, 1, :type, 'Espresso', :balance_after, :created)"
)


@dataclass(frozen=True, slots=True)
class Shelf:
    """A ledger, and the ids of some of its transactions, spread over the whole list."""

    books: Books
    cursors: list[str]


@dataclass(frozen=True, slots=True)
class Kind:
    """Pages with the same filters. `anywhere` means pages at random cursors instead of the newest page."""

    account: bool
    type: str | None
    anywhere: bool

    def __str__(self) -> str:
        filters = [name for name, given in (("account", self.account), ("type", self.type)) if given]
        return f"by {' and '.join(filters) or 'nothing'}, {'anywhere' if self.anywhere else 'newest'}"

    def queries(self, shelf: Shelf) -> list[dict[str, str]]:
        """Return the parameters of the requests, which are the same in each run."""
        chance = random.Random(7)
        queries = []
        for _ in range(READS):
            given = {
                "starting_after": chance.choice(shelf.cursors) if self.anywhere else None,
                "account": chance.choice(shelf.books.accounts) if self.account else None,
                "type": self.type,
            }
            queries.append({name: value for name, value in given.items() if value is not None})
        return queries


KINDS = [
    Kind(account, type, anywhere)
    for account in (False, True)
    for type in (None, "credit")
    for anywhere in (False, True)
]
SHOWN = Kind(account=True, type=None, anywhere=True)  # the kind of page with a label in the table


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure the claim over HTTP, then in process, where the work for HTTP does not hide a difference."""
    small, large = [asyncio.run(_fill(folder / f"{count}.db", count)) for count in (SMALL, LARGE)]
    results = []
    with ledger(small.books.path) as of_small, ledger(large.books.path) as of_large:
        for kind in KINDS:
            ours, other = (
                partial(_over_http, of_large, large, kind),
                partial(_over_http, of_small, small, kind),
            )
            name = f"GET a page of 1,000,000 / of 10,000, {kind}"
            label = "a page of 20 among a million transactions" if kind == SHOWN else ""
            results.append(_compare(name, ours, other, rounds, 1.2, label))
    with asyncio.Runner() as runner:
        engines = [open_engine(shelf.books.path, serving=True) for shelf in (large, small)]
        for kind in KINDS:
            ours = partial(_in_process, runner, engines[0], large, kind)
            other = partial(_in_process, runner, engines[1], small, kind)
            results.append(_compare(f"  in process, {kind}", ours, other, max(1, rounds // 2), None))
        for engine in engines:
            runner.run(engine.close())
    return results


def _compare(
    name: str,
    ours: Callable[[], float],
    other: Callable[[], float],
    rounds: int,
    target: float | None,
    label: str = "",
) -> Result:
    bound = None if target is None else "<="
    return compare(
        name,
        ours,
        other,
        rounds=rounds,
        unit_measured="ms",
        bound=bound,
        target=target,
        label=label,
        against="among ten thousand",
    )


def _over_http(url: str, shelf: Shelf, kind: Kind) -> float:
    """Return the median milliseconds of a request on one open connection."""
    connection = HTTPConnection(urlsplit(url).netloc)
    headers = {"Authorization": f"Bearer {shelf.books.key}"}
    taken = []
    for query in kind.queries(shelf):
        started = time.perf_counter()
        connection.request("GET", f"/v1/transactions?{urlencode(query)}", headers=headers)
        with connection.getresponse() as answer:
            text = answer.read()
        taken.append(time.perf_counter() - started)
        if answer.status != 200 or text.count(b'"transaction"') != 20:
            raise RuntimeError(text.decode())
    connection.close()
    return statistics.median(taken) * 1000


def _in_process(runner: asyncio.Runner, engine: Engine, shelf: Shelf, kind: Kind) -> float:
    return runner.run(_read(engine, shelf, kind))


async def _read(engine: Engine, shelf: Shelf, kind: Kind) -> float:
    taken = []
    for query in kind.queries(shelf):
        wanted = PageRequest(after=query.pop("starting_after", None))
        page = partial(
            transactions.page,
            tenant=shelf.books.tenant,
            request=wanted,
            account=query.get("account"),
            type=query.get("type"),
        )
        started = time.perf_counter()
        answer = await engine.read(page)
        taken.append(time.perf_counter() - started)
        assert len(answer.items) == 20
    return statistics.median(taken) * 1000


async def _fill(path: Path, count: int) -> Shelf:
    """Insert rows in the form that the engine writes, because a million requests would take minutes."""
    say(f"  making {count:,} transactions")
    engine = open_engine(path, serving=True)
    books = await fill_books(engine, path, account_count=max(4, count // 10_000))
    balances = dict.fromkeys(books.accounts, 0)
    cursors: list[str] = []
    for first in range(0, count, AT_ONCE):

        def insert(unit: Unit, numbers: range = range(first, min(first + AT_ONCE, count))) -> None:
            rows: list[dict[str, Value]] = []
            for number in numbers:
                account = books.accounts[number % len(books.accounts)]
                type = "debit" if number % 3 == 0 else "credit"
                balances[account] += 1 if type == "credit" else -1
                rows.append(
                    {
                        "id": unit.new_id("txn"),
                        "project": books.tenant.project,
                        "account": account,
                        "type": type,
                        "balance_after": balances[account],
                        "created": unit.now,
                    }
                )
            unit.execute_many(_INSERT, rows)
            cursors.extend(str(row["id"]) for row in rows[:: max(1, count // CURSORS)])

        await engine.write(insert)
    await engine.close()
    # Leave out the oldest transactions as cursors: with a filter, the page after them would not be full.
    return Shelf(books, cursors[len(cursors) // 20 :])
