"""Connections that another process has accepted, through a real Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from ledger_engine.http.wire import serving
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.serving import PassedConnections

NEVER_S = 1000.0


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The socket from which connections are taken, and the one that passes them."""
    taken_from, passed_to = socket.socketpair()
    with taken_from, passed_to:
        yield taken_from, passed_to


async def test_at_the_end_all_that_were_passed_already_are_taken_however_many(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their clients are connected, and nobody else would answer them."""
    monkeypatch.setattr(serving, "AT_ONCE", 2)
    source, other = ends
    with contextlib.ExitStack() as stack:
        begun: list[socket.socket] = []
        taking = PassedConnections(source, lambda _taken, _open: None)
        taking.start(begun.append, Connections(NEVER_S))
        clients = []
        for _ in range(5):
            client, accepted = (stack.enter_context(each) for each in socket.socketpair())
            socket.send_fds(other, [b"c"], [accepted.fileno()])
            clients.append(client)
        taking.close()
        for number, each in enumerate(begun):
            stack.enter_context(each).sendall(b"%d" % number)
        assert [client.recv(1) for client in clients] == [b"0", b"1", b"2", b"3", b"4"]


async def test_one_that_came_without_its_file_is_reported_as_taken_and_not_open(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    """A process that can open no more files gets the byte alone; whoever passed it counts it otherwise."""
    source, other = ends
    reported: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
    begun: list[socket.socket] = []
    taking = PassedConnections(source, lambda *numbers: reported.set_result(numbers))
    taking.start(begun.append, Connections(NEVER_S))
    other.sendall(b"c")
    async with asyncio.timeout(60):
        assert await reported == (1, 0)
    assert begun == []
    taking.close()
