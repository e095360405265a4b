"""The open connections of a server.

This module closes connections that are idle for too long. When the limit of connections is reached, it closes
the connection that has waited longest for its client, so that a new connection can open.
"""

from __future__ import annotations

import asyncio
import ctypes
import resource
import sys
from collections.abc import Callable
from itertools import takewhile
from operator import itemgetter
from typing import Protocol

# A server that stops runs the event loop this many times more, to read requests that have already arrived.
READING_TURNS = 2
FILES_SPARE = 128  # open files reserved for the database, the logs and webhooks
# If at least this many connections were open, and half of them have closed, the process returns free memory
# to the system.
TRIM_FROM = 500
# Seconds until the process returns the memory. Connections that close during this time free more memory.
TRIM_AFTER_S = 1


class HttpConnection(Protocol):
    """The part of a connection that this module uses."""

    def close_waiting(self) -> None:
        """Close a connection that waits for its client."""

    def cut(self) -> None:
        """Close the connection at once."""


class Connections:
    """The connections of one server. Connections that wait for their client are ordered, longest wait first.

    One task watches all connections. If each connection had its own task and timer, it would take a third
    more memory.
    """

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._most = connections_max()
        self._open: set[HttpConnection] = set()
        self._peak = 0
        # Times of the loop's clock: when a connection became idle, and when a connection began to wait for
        # the rest of a body, or for its client to close the connection.
        self._idle_since: dict[HttpConnection, float] = {}
        self._unfinished_since: dict[HttpConnection, float] = {}
        self.is_stopping = False  # whether a connection is closed as soon as it becomes idle
        self._all_gone = asyncio.Event()
        self._watching = self._loop.create_task(self._watch())

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def add(self, connection: HttpConnection) -> bool:
        """Add a new connection, which is idle; return whether there is room for it.

        At the limit, the connection that has waited longest for its client is closed to make room. There is
        no room if none of the connections waits for its client.
        """
        if len(self._open) >= self._most:
            first = [
                next(iter(waiting.items()))
                for waiting in (self._idle_since, self._unfinished_since)
                if waiting
            ]
            if not first:
                return False
            longest, _ = min(first, key=itemgetter(1))
            self.note_busy(longest)
            longest.close_waiting()
        self._open.add(connection)
        self._peak = max(self._peak, len(self._open))
        self.note_idle(connection)
        return True

    def remove(self, connection: HttpConnection) -> None:
        """Forget a connection that is closed."""
        self.note_busy(connection)
        self._open.discard(connection)
        if not self._open:
            self._all_gone.set()
        if self._peak >= TRIM_FROM and len(self._open) <= self._peak // 2:
            self._peak = 0
            self._loop.call_later(TRIM_AFTER_S, self._trim)

    def note_idle(self, connection: HttpConnection) -> None:
        """Note that the connection is idle: the client may send its next request."""
        self._unfinished_since.pop(connection, None)
        self._idle_since[connection] = self._loop.time()
        if self.is_stopping:
            self._loop.call_soon(self._close_idle, 0)

    def note_awaited(self, connection: HttpConnection) -> None:
        """Note that the client must still send the rest of a body, or close the connection."""
        self._idle_since.pop(connection, None)
        self._unfinished_since[connection] = self._loop.time()

    def note_busy(self, connection: HttpConnection) -> None:
        """Note that the connection does not wait for its client, because the server must answer a request."""
        self._idle_since.pop(connection, None)
        self._unfinished_since.pop(connection, None)

    async def stop(self) -> None:
        """Close each connection as soon as it is idle; return when all connections have closed.

        If a request has already arrived on an idle connection, the server still reads and answers it.
        """
        self.is_stopping = True
        self._watching.cancel()
        for _ in range(READING_TURNS):
            await asyncio.sleep(0)
        self._close_idle(0)
        while self._open:
            self._all_gone.clear()
            await self._all_gone.wait()

    def cut(self) -> None:
        """Close every connection at once, even in the middle of a request."""
        for connection in list(self._open):
            connection.cut()

    def _trim(self) -> None:
        self._peak = max(self._peak, len(self._open))
        trim_memory()

    async def _watch(self) -> None:
        while True:
            oldest = next(iter(self._idle_since.values()), self._loop.time())
            await asyncio.sleep(oldest + self._idle_s - self._loop.time())
            self._close_idle(self._idle_s)

    def _close_idle(self, idle_s: float) -> None:
        idle_before = self._loop.time() - idle_s
        for connection in list(
            takewhile(lambda waiting: self._idle_since[waiting] <= idle_before, self._idle_since)
        ):
            self._idle_since.pop(connection, None)
            connection.close_waiting()


def connections_max() -> int:
    """Return how many connections the system's limit of open files allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft // 2, soft - FILES_SPARE)


def trim_memory() -> None:
    """Return free memory to the system, if the C library has a function for this.

    Without this call, the C library glibc keeps the memory.
    """
    if sys.platform == "linux":
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
