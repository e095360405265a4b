"""Connections are closed when they wait too long for their client, or when others need the room."""

from __future__ import annotations

import asyncio
import resource
import sys
from types import SimpleNamespace

import pytest

from ledger_engine.http.wire import connections
from ledger_engine.http.wire.connections import Connections

NEVER_S = 1000.0


class Client:
    """A connection that only notes when it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.close_waiting = self.cut = self.closed.set


@pytest.fixture
def room_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connections_max", lambda: 3)


def added(to: Connections, count: int) -> list[Client]:
    clients = [Client() for _ in range(count)]
    assert [to.add(client) for client in clients] == [True] * count
    return clients


@pytest.mark.usefixtures("room_for_three")
async def test_a_new_connection_takes_the_place_of_the_one_that_waits_longest_for_its_client() -> None:
    registry = Connections(NEVER_S)
    first, second, third = added(registry, 3)
    registry.note_busy(first)
    registry.note_awaited(second)
    for longest in (third, second):
        added(registry, 1)
        assert longest.closed.is_set()
        registry.remove(longest)
    assert not first.closed.is_set()


@pytest.mark.usefixtures("room_for_three")
async def test_no_connection_is_taken_where_all_are_busy() -> None:
    registry = Connections(NEVER_S)
    clients = added(registry, 3)
    for client in clients:
        registry.note_busy(client)
    assert not registry.add(Client())
    registry.remove(clients[0])
    assert registry.add(Client())


async def test_a_connection_idle_too_long_is_closed_and_a_busy_one_is_not() -> None:
    registry = Connections(0.01)
    busy, awaited, idle = added(registry, 3)
    registry.note_busy(busy)
    registry.note_awaited(awaited)
    await idle.closed.wait()
    assert [each.closed.is_set() for each in (busy, awaited)] == [False, False]
    registry.note_idle(busy)
    await busy.closed.wait()


async def test_an_idle_connection_is_closed_when_the_server_stops() -> None:
    registry = Connections(NEVER_S)
    idle, busy = added(registry, 2)
    registry.note_busy(busy)
    stopping = asyncio.create_task(registry.stop())
    await idle.closed.wait()
    registry.remove(idle)
    assert not busy.closed.is_set()
    registry.note_idle(busy)
    (late,) = added(registry, 1)
    for client in (busy, late):
        await client.closed.wait()
        assert not stopping.done()
        registry.remove(client)
    await stopping


async def test_memory_is_given_back_after_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = asyncio.Event()
    monkeypatch.setattr(connections, "trim_memory", given_back.set)
    monkeypatch.setattr(connections, "TRIM_FROM", 4)
    monkeypatch.setattr(connections, "TRIM_AFTER_S", 0)
    registry = Connections(NEVER_S)
    for client in added(registry, 4)[:2]:
        registry.remove(client)
    await given_back.wait()


@pytest.mark.parametrize(
    ("files", "most"),
    [
        (1_000, 872),
        (200, 100),  # at least half
        (resource.RLIM_INFINITY, sys.maxsize),
    ],
)
def test_open_files_are_left_for_the_database(monkeypatch: pytest.MonkeyPatch, files: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (files, files))
    assert connections.connections_max() == most


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux's C library is asked")
def test_free_memory_is_given_back_where_the_c_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    for library in (SimpleNamespace(malloc_trim=asked.append), SimpleNamespace()):
        monkeypatch.setattr(connections.ctypes, "CDLL", lambda _name, library=library: library)
        connections.trim_memory()
    assert asked == [0]
