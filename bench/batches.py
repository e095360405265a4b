"""Batches of 1,000 over HTTP: the postings a second, and the latency of single postings next to batches."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.books import Books, bodies_of, make_books
from bench.load import Requests, json_posts, load
from bench.runs import Result, paired, rotate, single
from bench.servers import ledger

BATCH = 1000
SECONDS = 2


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure the rate of batches on one connection, and the p99 of postings with and without batches."""
    books = asyncio.run(make_books(folder / "ledger.db"))
    with ledger(books.path) as url:
        batches = _batches(url, books)
        singles = json_posts(f"{url}/v1/transactions", books.key, bodies_of(books))

        def p99(connections: int, *, beside: bool) -> float:
            if not beside:
                return load(singles, SECONDS, connections=connections).p99_ms
            with _streaming(batches):
                return load(singles, SECONDS, connections=connections).p99_ms

        def rate() -> float:
            return BATCH * load(batches, SECONDS, connections=1).per_second

        sides = {"batches": rate}
        for count in (1, 32):
            sides[f"p99 alone, {count}"] = partial(p99, count, beside=False)
            sides[f"p99 beside, {count}"] = partial(p99, count, beside=True)
        rate()
        got = rotate(sides, rounds, "/s or ms")
    label = "transactions posted in batches of 1,000, one connection"
    results = [single("postings in batches of 1,000", got["batches"], "/s", ">=", 30_000, label=label)]
    for count in (1, 32):
        pairs = list(zip(got[f"p99 beside, {count}"], got[f"p99 alone, {count}"], strict=True))
        connections = "1 connection" if count == 1 else f"{count} connections"
        results.append(
            paired(
                f"p99 of a POST beside batches / alone, {connections}",
                pairs,
                "ms",
                "<=",
                3.0,
                label=f"p99 of a posting beside a stream of batches, {connections}",
                against="without batches",
            )
        )
    return results


def _batches(url: str, books: Books) -> Requests:
    given = bodies_of(books)
    body: dict[str, object] = {"transactions": [given[number % len(given)] for number in range(BATCH)]}
    return json_posts(f"{url}/v1/transactions/batch", books.key, [body])


@contextmanager
def _streaming(batches: Requests) -> Iterator[None]:
    """Send batch after batch on one connection, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.batches"], stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps([batches.url, batches.headers, batches.bodies[0]]) + "\n")
        process.stdin.flush()
        try:
            yield
        finally:
            process.kill()


def _stream() -> None:
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    url, headers, body = json.loads(sys.stdin.readline())
    connection = HTTPConnection(urlsplit(url).netloc)
    while True:
        connection.request("POST", urlsplit(url).path, body.encode(), headers)
        with connection.getresponse() as answer:
            answer.read()
            if answer.status != 201:
                raise RuntimeError(f"a batch is answered {answer.status}")


if __name__ == "__main__":
    _stream()
