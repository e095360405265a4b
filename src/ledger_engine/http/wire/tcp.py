"""A TCP connection that reads no faster than needed, and closes without losing an answer."""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from typing import cast

from ledger_engine.http.wire.connections import Connections

# Bytes of received data that the system buffers for a connection: HEAD_BUFFER at first, and BODY_BUFFER as
# soon as the application wants a large body.
HEAD_BUFFER = 8 * 1024
BODY_BUFFER = 512 * 1024
UNSENT_MAX = 128 * 1024  # bytes of data to send that the system buffers for a connection
HEAD_PIECE = 8 * 1024  # bytes per read; a head is small, and the body after it may not be needed
BODY_PIECE = 64 * 1024  # bytes per read of a body that is needed
# After the server has shut a connection down, it still reads and drops the client's data: unread data would
# cause a reset, which can destroy the last answer. The server does this for at most this many connections at
# a time. The client of any further connection may see a reset.
DRAINED_MAX = 32
LINGER_S = 2  # seconds in which a client can read its last answer before the connection is closed
SEND_TIMEOUT_S = 60  # seconds in which a client must read the data that was sent

# All connections read into this one buffer, because the data is copied out of it before the next read.
_BUFFER = memoryview(bytearray(BODY_PIECE))
_FOR_HEAD = _BUFFER[:HEAD_PIECE]

Address = tuple[str, int] | None


class TcpConnection(asyncio.BufferedProtocol, ABC):
    """One connection; a subclass implements the protocol that the connection speaks.

    If a socket is closed while it has unread data, the system resets the connection, and a reset can destroy
    an answer that the client has not read yet. So `shut_down` first ends the server's side of the connection.
    The socket is closed when the client ends its side, or after LINGER_S.
    """

    __slots__ = (
        "client",
        "is_over",
        "server",
        "_connections",
        "_drain",
        "_client_has_ended",
        "_is_blocked",
        "_is_lingering",
        "_reads",
        "_timer",
        "_transport",
        "_wants_much",
    )
    _lingering = 0  # connections of this process that were shut down and are not closed yet

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport
        self.client: Address = None
        self.server: Address = None
        self.is_over = False  # whether the server ignores further data from the client
        self._client_has_ended = False  # whether the client has ended its side
        self._is_lingering = False  # whether the server has ended its side, and waits for the client
        self._reads = True  # whether the event loop reads from the socket
        self._is_blocked = False  # whether writing pauses because the client does not read
        self._wants_much = False  # whether to read in large pieces
        # Closes the connection if the client does not read the data that was sent, or does not end its side.
        self._timer: asyncio.TimerHandle | None = None
        self._drain: asyncio.Future[None] | None = None

    # Implemented by subclasses

    @abstractmethod
    def take(self, data: bytes) -> None:
        """Process data from the client."""

    @abstractmethod
    def take_end(self) -> None:
        """React to the end of the client's data."""

    @abstractmethod
    def take_loss(self) -> None:
        """React to the loss of the connection."""

    @abstractmethod
    def go_on(self) -> None:
        """Continue after a pause, because the system has now taken nearly all data that was written."""

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.client = _address(transport.get_extra_info("peername"))
        self.server = _address(transport.get_extra_info("sockname"))
        if not self._connections.add(self):
            self.is_over = True
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER if self._wants_much else _FOR_HEAD

    def buffer_updated(self, nbytes: int) -> None:
        if not self.is_over:
            self.take(bytes(_BUFFER[:nbytes]))

    def eof_received(self) -> bool:
        """Note that the client has ended its side; return whether the server may still send data."""
        self._client_has_ended = True
        if self._is_lingering:
            return False
        self.take_end()
        return self._transport.can_write_eof()  # a TLS session cannot stay open on one side only

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._stop_timer()
        if self._is_lingering:
            self._is_lingering = False
            TcpConnection._lingering -= 1
        self._wake()
        self.take_loss()
        self._connections.remove(self)

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._limit_time(SEND_TIMEOUT_S)

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._wake()
        if not self._is_lingering and not self._transport.is_closing():
            self._stop_timer()
            self.go_on()

    # Called by subclasses

    def write(self, data: bytes) -> None:
        """Send the data, or drop it if the client has disconnected."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the system has taken nearly all written data, or the client has disconnected."""
        if self._is_blocked and not self._transport.is_closing():
            if self._drain is None:
                self._drain = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drain)

    def set_reading(self, is_on: bool) -> None:
        """Start or stop reading. While reading is stopped, TCP makes the client keep its further data."""
        if self._reads != is_on and not self._transport.is_closing():
            self._reads = is_on
            if is_on:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def enlarge_buffer(self) -> None:
        """Let the system buffer more received data, because the application wants a large body."""
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BODY_BUFFER)

    def shut_down(self) -> None:
        """End the server's side; close the connection when the client ends its side, or after LINGER_S."""
        self.is_over = True
        if self._transport.is_closing() or self._is_lingering:
            return
        if self._client_has_ended or not self._transport.can_write_eof():
            self._close()
            return
        self._transport.write_eof()
        self._is_lingering = self._wants_much = True
        TcpConnection._lingering += 1
        self._connections.note_awaited(self)
        self.set_reading(TcpConnection._lingering <= DRAINED_MAX)
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._close)

    def cut(self) -> None:
        """Close the connection at once, even in the middle of a request."""
        self.is_over = True
        self._transport.abort()

    def close_waiting(self) -> None:
        """Close a connection that waits for its client, without sending an answer."""
        self.is_over = True
        self.take_loss()
        self._close()

    def _close(self) -> None:
        """Close the socket when the client has read the data that was sent, or after SEND_TIMEOUT_S."""
        self._transport.close()
        # The timer closes the socket if the client reads nothing, or does not answer the end of the TLS
        # session.
        self._stop_timer()
        self._limit_time(SEND_TIMEOUT_S)

    def _limit_time(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._drain is not None:
            if not self._drain.done():
                self._drain.set_result(None)
            self._drain = None


def _address(name: object) -> Address:
    """Return the host and port in a socket's address; None if the address is the path of a Unix socket."""
    return (name[0], name[1]) if isinstance(name, tuple) and len(name) >= 2 else None
