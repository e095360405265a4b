"""TLS handshakes, which count as connections and have little time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.tcp import TcpConnection

HANDSHAKE_S = 10  # the time for a client's handshake
HANDSHAKES_MAX = 512  # under way at a time, 50 KB each; one more ends the oldest
NO_FILE_S = 0.1  # pause before accepting again when the process can open no more files


@dataclass(eq=False)
class Handshakes:
    """The handshakes under way; `make` gives what goes on with a connection when its TLS session has begun.

    The event loop could do this by itself, but then nobody would know of the connections that never get so
    far, and each has an open file and its memory.
    """

    context: ssl.SSLContext
    connections: Connections
    make: Callable[[], TcpConnection]
    _under_way: dict[Handshake, None] = field(default_factory=dict)  # oldest first

    def begin(self, client: socket.socket) -> None:
        """Begin with a client that has connected."""
        if len(self._under_way) >= HANDSHAKES_MAX:
            next(iter(self._under_way)).cut()
        handshake = Handshake(self, client)
        if self.connections.add(handshake):
            self._under_way[handshake] = None
        else:
            handshake.cut()
            client.close()

    async def shake_hands(self, client: socket.socket) -> None:
        """Start the session with a client, unless the handshake fails or takes too long."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self.make, client, ssl=self.context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:  # ssl.SSLError is one
            client.close()

    def forget(self, handshake: Handshake) -> None:
        """Forget a handshake that has ended."""
        self._under_way.pop(handshake, None)
        self.connections.remove(handshake)


@dataclass(eq=False)
class TlsListener:
    """Accepts connections and begins their handshakes."""

    listening: socket.socket
    handshakes: Handshakes
    _accepting: asyncio.Task[None] | None = None

    def start(self, backlog: int) -> None:
        """Start accepting connections."""
        self.listening.setblocking(False)
        self.listening.listen(backlog)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Stop accepting connections."""
        if self._accepting is not None:
            self._accepting.cancel()
        self.listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self.listening)
            except OSError:
                await asyncio.sleep(NO_FILE_S)
                continue
            self.handshakes.begin(client)


class Handshake:
    """A connection during its handshake."""

    def __init__(self, handshakes: Handshakes, client: socket.socket) -> None:
        self._handshakes = handshakes
        self._task = asyncio.get_running_loop().create_task(handshakes.shake_hands(client))
        self._task.add_done_callback(lambda _: handshakes.forget(self))

    def close_waiting(self) -> None:
        """Close the connection, as others need its place."""
        self.cut()

    def cut(self) -> None:
        """Close the connection at once."""
        self._handshakes.forget(self)
        self._task.cancel()
