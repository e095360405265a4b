"""The open connections of a server: closes those that are idle too long, and the oldest when full."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

from hypercorn.typing import WorkerContext

FILES_SPARE = 128  # open files reserved for the database, the logs and webhooks
TRIM_FROM = (
    500  # connections; when half of that many or more have closed, their memory is returned to the system
)
TRIM_AFTER_S = 1  # wait for others that close at the same time


class Connection(Protocol):
    """A connection, as far as it is used here."""

    async def close_waiting(self) -> None:
        """Close the connection, which waits for its client."""


class Connections:
    """The connections of one server, and which of them wait for their client, longest first.

    One task watches all of them: a task and a timer for each would take a third of a connection's memory.
    """

    def __init__(self, context: WorkerContext, idle_s: float) -> None:
        self._context = context
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._most = connections_max()
        self._count = self._peak = 0
        self._idle: dict[Connection, float] = {}  # since when, by the loop's clock
        self._awaited: dict[Connection, float] = {}  # likewise: the rest of a body, or the end
        self._watching = self._loop.create_task(self._watch())

    @staticmethod
    def of(context: WorkerContext, idle_s: float) -> Connections:
        """Return the connections of the server with this context."""
        connections = _OF.get(context)
        if connections is None:
            connections = _OF[context] = Connections(context, idle_s)
        return connections

    async def add(self, connection: Connection) -> bool:
        """Add a new connection, which is idle; return False when the limit is reached.

        At the limit, the connection that has waited longest for its client is closed.
        """
        if self._count >= self._most:
            longest = min((*self._first(self._idle), *self._first(self._awaited)), default=None, key=_since)
            if longest is None:
                return False
            self._idle.pop(longest[0], None)
            self._awaited.pop(longest[0], None)
            await longest[0].close_waiting()
        self._count += 1
        self._peak = max(self._peak, self._count)
        self.note_idle(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that was added and is closed."""
        self.note_busy(connection)
        self._count -= 1
        if self._peak >= TRIM_FROM and self._count <= self._peak // 2:
            self._peak = 0
            self._loop.call_later(TRIM_AFTER_S, self._trim)

    def note_idle(self, connection: Connection) -> None:
        """Note that the client may send its next request."""
        self._awaited.pop(connection, None)
        self._idle[connection] = self._loop.time()
        if self._context.terminated.is_set():
            self._loop.create_task(self._close_idle(0))

    def note_awaited(self, connection: Connection) -> None:
        """Note that the client has yet to send the rest of a body, or to close the connection."""
        self._idle.pop(connection, None)
        self._awaited[connection] = self._loop.time()

    def note_busy(self, connection: Connection) -> None:
        """Note that the server has a complete request to answer."""
        self._idle.pop(connection, None)
        self._awaited.pop(connection, None)

    def _trim(self) -> None:
        self._peak = max(self._peak, self._count)
        trim_memory()

    @staticmethod
    def _first(waiting: dict[Connection, float]) -> list[tuple[Connection, float]]:
        for found in waiting.items():
            return [found]
        return []

    async def _watch(self) -> None:
        """Close connections that are idle too long; when the server stops, all idle ones."""
        while not self._context.terminated.is_set():
            oldest = next(iter(self._idle.values()), self._loop.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(oldest + self._idle_s):
                    await self._context.terminated.wait()
            await self._close_idle(self._idle_s)
        await self._close_idle(0)

    async def _close_idle(self, idle_s: float) -> None:
        now = self._loop.time()
        for connection in [each for each, since in self._idle.items() if since + idle_s <= now]:
            if self._idle.pop(connection, None) is not None:
                await connection.close_waiting()


def connections_max() -> int:
    """Return how many connections the system's limit of open files allows."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft // 2, soft - FILES_SPARE)


def trim_memory() -> None:
    """Return free memory to the system, where the C library can: glibc keeps it otherwise."""
    if sys.platform == "linux":
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _since(waiting: tuple[Connection, float]) -> float:
    return waiting[1]


_OF: WeakKeyDictionary[WorkerContext, Connections] = WeakKeyDictionary()
