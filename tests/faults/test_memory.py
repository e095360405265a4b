"""Memory is short for a while: requests may fail, nothing is stuck, and posting continues afterwards."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Tally
from tests.faults.client import GONE, Connection, Writers, assert_all_is_there_once, connected, open_accounts
from tests.faults.server import Server

WRITERS = 4
ROUNDS = 3
LARGE = 4  # requests of 0.9 MB at the same time
LETTERS = 900_000


@contextmanager
def short_memory(server: Server) -> Iterator[None]:
    """Within the block, the server gets no more memory from the system than it holds."""
    with open(f"/proc/{server.pid}/statm", encoding="ascii") as sizes:
        size = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = resource.prlimit(server.pid, resource.RLIMIT_AS)
    resource.prlimit(server.pid, resource.RLIMIT_AS, (size, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_AS, limits)


def threads(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.pid}/task"))


async def place_order(connection: Connection, port: int, user: str) -> int | None:
    """Return the status of the answer to an order of 0.9 MB; None if the connection ended instead."""
    order = {"user_id": user, "items": [{"note": "x" * LETTERS}]}
    try:
        return (await connection.request(port, "POST", "/api/orders", order)).status
    except GONE:
        return None


async def place_orders(server: Server, key: str, user: str) -> list[int | None]:
    """Place large orders at the same time; return the statuses of their answers."""
    connections = [Connection(key) for _ in range(LARGE)]
    orders = asyncio.gather(*(place_order(each, server.port, user) for each in connections))
    try:
        return await asyncio.wait_for(orders, 60)
    finally:
        for each in connections:
            await each.close()


async def assert_health_is_true(connection: Connection, port: int) -> None:
    """Assert that a ledger that takes a posting is healthy, and that the answer of health fits its status."""
    try:
        health = await connection.request(port, "GET", "/api/health")
    except GONE:
        return  # there was no memory for the answer
    assert (health.status, health.body["ok"]) in ((200, True), (503, False))


@pytest.mark.timeout(900)
async def test_a_shortage_of_memory_leaves_nothing_stuck(
    server: Server, seed: int, soak: int, tally: Tally
) -> None:
    key = server.make_key()
    accounts = await open_accounts(server.port, key)
    writers = Writers(key, accounts, seed, lambda: server.port, rests=True)
    writers.accept_refusals = True
    refusals = 0
    async with connected(key) as watch, writers.writing(WRITERS):
        user = (
            await watch.request(server.port, "POST", "/api/users", {"name": "A", "email": "a@b.example"})
        ).body
        await writers.until(20)
        before = threads(server)
        for _ in range(min(ROUNDS * soak, 20)):
            with short_memory(server):
                for _ in range(3):
                    statuses = await place_orders(server, key, user["id"])
                    assert set(statuses) <= {201, 503, None}
                    refusals += len(statuses) - statuses.count(201)
                    await assert_health_is_true(watch, server.port)
            await asyncio.wait_for(writers.until(10), 60)
            assert await place_orders(server, key, user["id"]) == [201] * LARGE
            health = await watch.request(server.port, "GET", "/api/health")
            assert (health.status, health.body["ok"]) == (200, True)
        assert threads(server) >= before, "each thread still works"
    assert refusals, "memory was short"
    assert not writers.memory.surprises
    await writers.settle()
    await assert_all_is_there_once(server.port, key, writers.memory)
    server.assert_books_are_right()
    assert server.stop() == 0
    tally(shortages=min(ROUNDS * soak, 20))
