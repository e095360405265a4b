"""The latencies of project Q while project P keeps the server busy.

Each round measures Q next to every kind of noise that P makes. One kind of noise is the control: 50 clients
of P that read four pages of 100 a second each. A ratio is Q's latency next to another noise, divided by Q's
latency next to the control in the same round.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.books import Books, fill_books
from bench.runs import Result, paired, say
from bench.servers import ledger_process
from ledger_engine.core.clock import iso
from ledger_engine.ledger import accounts, transactions
from ledger_engine.store.engine import open_engine

LINES = 100_000  # transactions of the account whose statements P reads
ACCOUNTS = 20_000  # accounts of P
SECONDS = 6.0  # seconds in which Q is measured next to each noise, in each round
WARM_UP = 1.0  # seconds of noise before Q is measured
BATCH = 1000
CONTROL = "50 clients, pages of 100"
QUESTIONS = ("reads an account", "posts", "reads at=", "lists 100")


@dataclass(frozen=True, slots=True)
class Noise:
    """A request that P's clients repeat, each on its own connection, with a pause after each answer.

    If `reads` is false, the clients send the request and leave the answer unread.
    """

    clients: int
    path: str
    body: str | None = None
    reads: bool = True
    pause_s: float = 0


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure Q's median and p99 next to each noise, as ratios to Q's median and p99 next to the control."""
    noisy, quiet, began = asyncio.run(make_neighbours(folder / "ledger.db"))
    seen: dict[str, list[dict[str, list[float]]]] = {}
    with ledger_process(folder / "ledger.db") as (_, url):
        noises = noises_of(noisy, began)
        for number in range(rounds):
            for name in list(noises) if number % 2 == 0 else reversed(list(noises)):
                with making(noises[name], url, noisy.key) as made:
                    time.sleep(WARM_UP)
                    seen.setdefault(name, []).append(ask(url, quiet))
                say(f"  {name}: {_text(seen[name][-1])}; P: {dict(made)}")
    return [
        _result(name, question, share, seen)
        for name in seen
        if name != CONTROL
        for question in QUESTIONS
        for share in (0.5, 0.99)
    ]


async def make_neighbours(path: Path) -> tuple[Books, Books, str]:
    """Create the ledger; return the books of P, the books of Q, and a moment before P's transactions."""
    engine = open_engine(path, serving=True)
    try:
        noisy = await fill_books(engine, path, 1)
        quiet = await fill_books(engine, path, 100)
        began = iso(engine.clock.now())
        new = accounts.NewAccount("Account", "EUR", {})
        for _ in range(ACCOUNTS // BATCH):
            creating = partial(accounts.create, tenant=noisy.tenant, new=new)
            made = await asyncio.gather(*(engine.write(creating) for _ in range(BATCH)))
            one_each = [transactions.NewTransaction(account.id, 100, "credit") for account in made]
            await engine.write(partial(transactions.post_batch, tenant=noisy.tenant, batch=one_each))
        for books, count in ((noisy, LINES), (quiet, 20_000)):
            lines = [transactions.NewTransaction(books.accounts[0], 100, "credit", "Flat white")] * BATCH
            for _ in range(count // BATCH):
                await engine.write(partial(transactions.post_batch, tenant=books.tenant, batch=lines))
        return noisy, quiet, began
    finally:
        await engine.close()


def noises_of(books: Books, began: str) -> dict[str, Noise]:
    """Return the kinds of noise by their names in the table. The control comes first."""
    statement = f"/v1/accounts/{books.accounts[0]}/statement"
    postings = [{"account": books.accounts[0], "amount": 1, "type": "credit"}] * BATCH
    return {
        CONTROL: Noise(50, "/v1/transactions?limit=100", pause_s=0.25),
        "16 statements of 100,000 lines": Noise(16, statement),
        "50 statements of 100,000 lines": Noise(50, statement),
        "300 statements that nobody reads": Noise(300, statement, reads=False),
        "4 differences over all accounts": Noise(4, f"/v1/diff?from={began}&to={{now}}&limit=100"),
        "16 lists of the past": Noise(16, "/v1/accounts?limit=100&at={now}"),
        "16 searches of the request log": Noise(16, "/v1/requests?limit=100&path=/v1/none"),
        "4 streams of batches": Noise(4, "/v1/transactions/batch", json.dumps({"transactions": postings})),
    }


@contextmanager
def making(noise: Noise, url: str, key: str) -> Iterator[Counter[str]]:
    """Make the noise in another process until the block ends.

    Yields a counter, which contains the statuses of the answers after the block.
    """
    statuses: Counter[str] = Counter()
    order = [url, key, noise.clients, noise.path, noise.body, noise.reads, noise.pause_s]
    with subprocess.Popen(
        [sys.executable, "-m", "bench.neighbours"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        try:
            yield statuses
            process.stdin.close()
            statuses.update(json.loads(process.stdout.read() or "{}"))
        finally:
            process.kill()


def ask(url: str, books: Books) -> dict[str, list[float]]:
    """Ask Q's questions in turn on one connection; return the milliseconds that each answer took."""
    headers = {"Authorization": f"Bearer {books.key}", "Content-Type": "application/json"}
    posting = json.dumps({"account": books.accounts[0], "amount": 100, "type": "credit"})
    took: dict[str, list[float]] = {question: [] for question in QUESTIONS}
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        account = f"/v1/accounts/{books.accounts[len(took['posts']) % len(books.accounts)]}"
        now = iso(int(time.time() * 1000) - 1000)
        paths = (account, "/v1/transactions", f"{account}?at={now}", "/v1/transactions?limit=100")
        for question, path in zip(QUESTIONS, paths, strict=True):
            began = time.perf_counter()
            is_posting = question == "posts"
            connection.request(
                "POST" if is_posting else "GET", path, posting if is_posting else None, headers
            )
            with connection.getresponse() as answer:
                answer.read()
                if answer.status >= 400:
                    raise RuntimeError(f"Q's {path} is answered {answer.status}")
            took[question].append(1000 * (time.perf_counter() - began))
    connection.close()
    return took


def share_of(values: list[float], share: float) -> float:
    """Return a quantile: the least value that is not exceeded by this share of the values."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


def _result(name: str, question: str, share: float, seen: dict[str, list[dict[str, list[float]]]]) -> Result:
    pairs = [
        (share_of(beside[question], share), share_of(control[question], share))
        for beside, control in zip(seen[name], seen[CONTROL], strict=True)
    ]
    kind = "median" if share == 0.5 else "p99"
    return paired(
        f"Q {question}, {kind}, beside {name}",
        pairs,
        "ms",
        "<=",
        2.0 if share == 0.5 else 3.0,
        label=f"another project {question}, {kind}, beside {name}",
        against=f"beside {CONTROL}",
    )


def _text(took: dict[str, list[float]]) -> str:
    return ", ".join(
        f"{question} {statistics.median(values):.1f} / {share_of(values, 0.99):.1f} / {max(values):.1f}"
        for question, values in took.items()
    )


async def _make_noise(
    url: str, key: str, clients: int, path: str, body: str | None, reads: bool, pause_s: float
) -> None:
    parts = urlsplit(url)
    statuses: Counter[str] = Counter()

    async def client() -> None:
        while True:
            try:
                await _request(parts.hostname or "", parts.port or 80)
            except (OSError, asyncio.IncompleteReadError):
                statuses["lost"] += 1

    async def _request(host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            while True:
                now = iso(int(time.time() * 1000) - 2000)
                method, target = ("GET", path.format(now=now)) if body is None else ("POST", path)
                lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}"]
                lines += ["Content-Type: application/json", f"Content-Length: {len(body or '')}"]
                writer.write(("\r\n".join(lines) + "\r\n\r\n" + (body or "")).encode())
                if not reads:
                    await asyncio.sleep(math.inf)
                answer_head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = answer_head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                if length:
                    await reader.readexactly(int(length))
                else:
                    while size := int(await reader.readline(), 16):
                        await reader.readexactly(size + 2)
                        statuses["pieces"] += 1
                    await reader.readline()
                status = answer_head.split(b" ", 2)[1].decode()
                statuses[status] += 1
                await asyncio.sleep(1 if status == "429" else pause_s)
        finally:
            writer.close()

    tasks = [asyncio.create_task(client()) for _ in range(clients)]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(json.dumps(statuses))


if __name__ == "__main__":
    order: list[Any] = json.loads(sys.stdin.readline())
    asyncio.run(_make_noise(*order))
