"""Durable POST /v1/transactions over HTTP against an empty Quart handler on the same Hypercorn."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.books import Books, make_books
from bench.load import requests_per_second
from bench.runs import Result, compare
from bench.servers import empty, ledger

SECONDS = 3


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure both servers with the same requests, on 32 open connections."""
    books = asyncio.run(make_books(folder / "ledger.db"))
    bodies = bodies_of(books)

    def rate(url: str, *, keys: bool = False) -> float:
        return requests_per_second(f"{url}/v1/transactions", books.key, bodies, SECONDS, keys=keys)

    with ledger(books.path) as ours, empty("plain") as plain, empty("wire") as wire:
        for url in (ours, plain, wire):
            rate(url)  # warm-up
        return [
            compare(
                "POST /v1/transactions / empty handler",
                lambda: rate(ours),
                lambda: rate(plain),
                rounds=rounds,
                unit_measured="requests/s",
                bound=">=",
                target=0.75,
            ),
            compare(
                "  with the empty handler on our own wire",
                lambda: rate(ours),
                lambda: rate(wire),
                rounds=max(1, rounds // 2),
                unit_measured="requests/s",
            ),
            compare(
                "  with idempotency keys",
                lambda: rate(ours, keys=True),
                lambda: rate(plain, keys=True),
                rounds=max(1, rounds // 2),
                unit_measured="requests/s",
            ),
        ]


def bodies_of(books: Books) -> list[dict[str, object]]:
    """Return transactions on all the accounts, credits and debits."""
    return [
        {"account": account, "amount": 1 + number, "type": "debit" if number % 3 == 0 else "credit"}
        for number, account in enumerate(books.accounts)
    ]
