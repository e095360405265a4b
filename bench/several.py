"""Servers on PostgreSQL: what a second one adds, how often transactions are tried again, and SQLite beside.

`python -m bench.several` starts all servers, and PostgreSQL from a package of pip. On one machine PostgreSQL,
the servers and the client share the processors, so a second server could add little. Therefore each server
gets only a share of a processor, as if it had its own small machine (`--share`; this uses control groups and
needs root). A relay delays the statements and the answers between the servers and PostgreSQL (`--delay`). The
program prints the processor time of each process, which shows what limited the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import shares
from bench.books import Books, bodies_of, fill_books
from bench.load import json_posts, load
from bench.runs import Result, compare, paired, rotate, say, single, table
from bench.servers import ledger_process
from ledger_engine.core.settings import Location
from ledger_engine.store.engine import open_engine
from tests.postgres_cluster import Cluster, watched

ACCOUNTS = 100
# PostgreSQL's log begins each line with the error's code, so that `tried_again` can count the transactions
# that a server tried again.
_SETTINGS = "-c jit=off -c log_line_prefix=%e: -c log_min_messages=error"
# The settings for serializable transactions (docs/postgresql.md#sizing).
_ROWS_APART = (
    " -c max_pred_locks_per_page=128 -c max_pred_locks_per_relation=10000"
    " -c max_pred_locks_per_transaction=1024"
)
_TRIED_AGAIN = re.compile(r"^(?:40001|40P01):ERROR", re.MULTILINE)


class Postgres:
    """A PostgreSQL server for this run. It ends with the run."""

    def __init__(self, further: str = "") -> None:
        folder = Path(tempfile.mkdtemp(prefix="ledger-bench-postgres-"))
        self.cluster = Cluster(folder, _SETTINGS + further)
        self._watched = watched(self.cluster)
        self.cluster.make()
        self.cluster.start()
        self.process = int((self.cluster.data / "postmaster.pid").read_text().split()[0])
        self.address = self.cluster.address("postgres")

    def tried_again(self) -> int:
        """Return how many transactions a server had to try again so far, after PostgreSQL had ended them."""
        return len(_TRIED_AGAIN.findall((self.cluster.data / "log").read_text()))

    @contextmanager
    def behind_a_network(self, delay_ms: float) -> Iterator[tuple[str, int]]:
        """Yield an address behind a relay that delays each direction, and the process id of the relay."""
        socket = str(self.cluster.sockets / ".s.PGSQL.5432")
        words = [sys.executable, "-m", "bench.relay", socket, str(delay_ms)]
        relay = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert relay.stdout is not None
            yield f"postgresql://postgres@127.0.0.1:{int(relay.stdout.readline())}/postgres", relay.pid
        finally:
            relay.kill()
            relay.wait()

    def close(self) -> None:
        self.cluster.stop("immediate")
        shutil.rmtree(self.cluster.folder)
        self._watched.close()


@dataclass
class Servers:
    """Some servers on one database, and the processor time that each process used during the measures."""

    running: list[tuple[int, str]]
    books: list[Books]
    connections: int
    seconds: float
    others: Mapping[str, Callable[[], float]]
    used: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def rate(self, name: str, servers: int, books: int, *, apart: bool = False) -> float:
        """Return how many postings a second the first `servers` servers answer.

        Each book has its own connections, to all of these servers or, with `apart`, to only one of them.
        """
        urls = [url for _, url in self.running[:servers]]
        each = self.connections // (1 if apart else servers)
        chosen = [
            (url, book)
            for number, book in enumerate(self.books[:books])
            for url in ([urls[number % servers]] if apart else urls)
        ]
        before, cores, began = self._used_s(), shares.busy_s(), time.perf_counter()
        with ThreadPoolExecutor(len(chosen)) as threads:
            rates = list(threads.map(lambda pair: _posted(pair[0], pair[1], self.seconds, each), chosen))
        took = time.perf_counter() - began
        used = {of: (now - before[of]) / took for of, now in self._used_s().items()}
        used["busiest core"] = max(
            (now - then) / took for now, then in zip(shares.busy_s(), cores, strict=True)
        )
        self.used.setdefault(name, []).append(used)
        return sum(rates)

    def report(self) -> None:
        """Print the share of a processor that each process used, as the median of the rounds."""
        for name, rounds in self.used.items():
            middle = {of: median(each[of] for each in rounds) for of in rounds[0]}
            say(f"  {name}, of one core: " + ", ".join(f"{of} {value:.0%}" for of, value in middle.items()))

    def _used_s(self) -> dict[str, float]:
        own = {
            f"server {number}": shares.used_s(process) for number, (process, _) in enumerate(self.running, 1)
        }
        return own | {name: used() for name, used in self.others.items()}


def main() -> int:
    """Run all measures; return the exit status, 1 if a claim is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.several", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default: 5)")
    parser.add_argument("--seconds", type=int, default=4, help="of each turn (default: 4)")
    parser.add_argument("--connections", type=int, default=32, help="of a book's clients (default: 32)")
    parser.add_argument("--delay", type=float, default=1.0, metavar="MS", help="one way (default: 1)")
    parser.add_argument("--share", type=float, default=0.1, help="of a core for each server (default: 0.1)")
    parser.add_argument("--serializable", action="store_true", help="set PostgreSQL up for it")
    given = parser.parse_args()
    with ExitStack() as stack:
        postgres = Postgres(_ROWS_APART if given.serializable else "")
        stack.callback(postgres.close)
        books = [asyncio.run(_filled(postgres.address, ACCOUNTS)) for _ in range(6)]
        file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-bench-"))) / "ledger.db"
        few = max(2, given.connections // 4)
        results = _scaling(postgres, books, given, _FEW, share=given.share, connections=given.connections)
        # With a whole core for each server, the servers wait for the network, and no server is at its limit.
        results += _scaling(postgres, books, given, _AT_EASE, share=1.0, connections=few)
        results += _scaling(postgres, books, given, _MORE, share=given.share, connections=few)
        results += _tried_again(postgres, given)
        results += _beside_sqlite(postgres, books[0], file, given)
    say("\n" + table(results))
    return 0 if all(result.holds for result in results) else 1


class _Side(NamedTuple):
    """A side of a comparison: the numbers of servers and books, and the claim about their rate.

    With `apart`, each book's clients use only one server.
    """

    servers: int
    books: int
    apart: bool = False
    at_least: float | None = None  # the minimum rate, as a multiple of the first side's rate


_FEW = {
    "one server on one book": _Side(1, 1),
    "one server on two books": _Side(1, 2),
    "two servers on one book": _Side(2, 1),
    "two servers on two books": _Side(2, 2, apart=True, at_least=1.6),
}
_AT_EASE = {name: side._replace(at_least=None) for name, side in _FEW.items()}
_MORE = {
    "one server on six books": _Side(1, 6),
    "two servers on six books at random": _Side(2, 6, at_least=1.0),
    "two servers on three books each": _Side(2, 6, apart=True, at_least=1.7),
}


def _scaling(
    postgres: Postgres,
    books: list[Books],
    given: argparse.Namespace,
    sides: Mapping[str, _Side],
    *,
    share: float,
    connections: int,
) -> list[Result]:
    """Compare one server with two servers, over a network."""
    with ExitStack() as stack:
        address, relay = stack.enter_context(postgres.behind_a_network(given.delay))
        running, name = [], f"servers with {share:.0%} of a core, {connections} connections a book"
        for number in range(2):
            before: list[str] | None = []
            if share < 1:
                before = stack.enter_context(shares.limited(str(number), share))
            if before is None:
                say("  the servers' share cannot be limited here: root and control groups are needed")
                return []
            running.append(stack.enter_context(ledger_process(address, before=before)))
        others = {
            "PostgreSQL": partial(shares.used_with_children_s, postgres.process),
            "the network": partial(shares.used_s, relay),
        }
        servers = Servers(running, books, connections, given.seconds, others)
        say(f"{name}, {given.delay:g} ms to the database")
        turns = {
            side: partial(servers.rate, side, of.servers, of.books, apart=of.apart)
            for side, of in sides.items()
        }
        for turn in turns.values():
            turn()  # warm-up
        servers.used.clear()
        measured = rotate(turns, given.rounds, "postings/s")
        servers.report()
    first, *more = measured.items()
    return [
        paired(
            f"{side} / {first[0]}, {share:.0%} of a core each",
            list(zip(rates, first[1], strict=True)),
            "postings/s",
            *((">=", least) if (least := sides[side].at_least) else (None, None)),
        )
        for side, rates in more
    ]


def _tried_again(postgres: Postgres, given: argparse.Namespace) -> list[Result]:
    """Post through two servers, and count the transactions that the servers tried again."""
    results = []
    with ExitStack() as stack:
        running = [stack.enter_context(ledger_process(postgres.address)) for _ in range(2)]
        for name, accounts in (("one account", [1]), ("two books of three accounts", [3, 3])):
            say(f"{name}, two servers")
            books = [asyncio.run(_filled(postgres.address, count)) for count in accounts]
            servers = Servers(running, books, given.connections, given.seconds, {})
            shares_of_all = []
            for _ in range(given.rounds):
                before = postgres.tried_again()
                posted = servers.rate(name, 2, len(books), apart=len(books) > 1) * given.seconds
                shares_of_all.append((postgres.tried_again() - before) / posted)
                say(f"  {posted:,.0f} postings, {postgres.tried_again() - before} transactions tried again")
            results.append(single(f"tried again, of each posting on {name}", shares_of_all, "", "<=", 0.02))
    return results


def _beside_sqlite(postgres: Postgres, books: Books, file: Path, given: argparse.Namespace) -> list[Result]:
    """Compare a server on PostgreSQL with a server on a file: their rates, and their processor times."""
    on_file = asyncio.run(_filled(file, ACCOUNTS))
    used_us: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": []}
    with ledger_process(postgres.address) as ours, ledger_process(file) as other:

        def rate(name: str, process: int, url: str, of: Books) -> float:
            before = shares.used_s(process)
            answered = _posted(url, of, given.seconds, given.connections)
            used_us[name].append((shares.used_s(process) - before) * 1e6 / (answered * given.seconds))
            return answered

        sides = partial(rate, "PostgreSQL", *ours, books), partial(rate, "SQLite", *other, on_file)
        for side in sides:
            side()  # warm-up
        for each in used_us.values():
            each.clear()
        rates = compare(
            "posting with one server, PostgreSQL / SQLite",
            *sides,
            rounds=given.rounds,
            unit_measured="postings/s",
            bound=">=",
            target=0.6,
        )
    pairs = list(zip(used_us["PostgreSQL"], used_us["SQLite"], strict=True))
    return [rates, paired("our process's time for a posting, PostgreSQL / SQLite", pairs, "us", "<=", 1.5)]


def _posted(url: str, books: Books, seconds: float, connections: int) -> float:
    posts = json_posts(f"{url}/v1/transactions", books.key, bodies_of(books))
    return load(posts, seconds, connections=connections).per_second


async def _filled(database: Location, accounts: int) -> Books:
    """Create a book with some accounts."""
    engine = open_engine(database, serving=True)
    try:
        return await fill_books(engine, Path(), accounts)
    finally:
        await engine.close()


if __name__ == "__main__":
    sys.exit(main())
