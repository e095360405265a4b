"""Compare posting on a ledger that delivers every transaction to a webhook endpoint with posting on a ledger
without an endpoint.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from bench.books import Books, bodies_of, make_books
from bench.load import json_posts, load
from bench.receiver import receiving
from bench.runs import Result, compare, single
from bench.servers import ledger
from ledger_engine.events.webhooks import endpoints
from ledger_engine.store.engine import open_engine

SECONDS = 3
DELIVERED = "deliveries to one receiver meanwhile"


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure posting with and without an endpoint, and the deliveries during and after posting."""
    quiet = asyncio.run(make_books(folder / "quiet.db"))
    told = asyncio.run(make_books(folder / "told.db"))
    delivered: list[float] = []
    drained: list[float] = []
    with receiving() as receiver, ledger(quiet.path) as without, ledger(told.path) as with_endpoint:
        asyncio.run(_register(told, f"{receiver}/hook"))

        def rate(url: str, books: Books) -> float:
            posts = json_posts(f"{url}/v1/transactions", books.key, bodies_of(books))
            return load(posts, SECONDS).per_second

        def rate_while_delivering() -> float:
            before, began = _received(receiver), time.perf_counter()
            posted = rate(with_endpoint, told)
            delivered.append((_received(receiver) - before) / (time.perf_counter() - began))
            drained.append(_drain(receiver))
            return posted

        rate(without, quiet), rate_while_delivering()  # warm-up
        delivered.clear()
        drained.clear()
        posting = compare(
            "POST with a webhook endpoint / without",
            rate_while_delivering,
            lambda: rate(without, quiet),
            rounds=rounds,
            unit_measured="requests/s",
            bound=">=",
            target=0.9,
            label="posting while each transaction is sent to a webhook endpoint",
            against="without one",
        )
    return [
        posting,
        single(DELIVERED, delivered, "/s", ">=", 1500, label="webhooks sent to one receiver meanwhile"),
        single(
            "deliveries to one receiver afterwards",
            drained,
            "/s",
            label="webhooks sent to one receiver, nothing else going on",
        ),
    ]


async def _register(books: Books, url: str) -> None:
    engine = open_engine(books.path)
    secret = endpoints.new_secret()
    new = endpoints.NewEndpoint(url, [endpoints.EVERY])
    await engine.write(
        partial(endpoints.create, tenant=books.tenant, new=new, secret=secret, sealed_secret=secret)
    )
    await engine.close()


def _received(receiver: str) -> int:
    with urlopen(receiver) as answer:
        return int(answer.read())


def _drain(receiver: str) -> float:
    """Wait until no delivery arrives for half a second; return the deliveries a second until then.

    Without this wait, the remaining deliveries would slow the side that is measured next.
    """
    began = last_at = time.perf_counter()
    first = last = _received(receiver)
    while time.perf_counter() - last_at < 0.5:
        time.sleep(0.05)
        if (now := _received(receiver)) != last:
            last, last_at = now, time.perf_counter()
    return (last - first) / max(last_at - began, 0.05)
