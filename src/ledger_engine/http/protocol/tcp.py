"""The peer: one connection's socket, as Hypercorn serves it, and closed without losing an answer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from typing import cast

from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.asyncio.worker_context import AsyncioSingleTask
from hypercorn.events import Closed, Event, RawData, Updated

from ledger_engine.http.protocol.connections import Connections

HEAD_BUFFER = 8 * 1024  # bytes that the system keeps for a connection of which we have read nothing yet …
BODY_BUFFER = 512 * 1024  # … and for one that sends a body we want
READ_AHEAD = 8 * 1024  # bytes read from a socket and not yet looked at; there may be twice as many
DRAINED_MAX = 32  # connections that are over and still read from; the client of any other may see a reset
LINGER_S = 2  # for a client to read its last answer before the connection is closed under it
SEND_TIMEOUT_S = 60  # for a client to take what was sent to it
WAITS_FROM = 32 * 1024  # bytes not yet sent; with fewer, sending never waits for the client

_open: set[asyncio.Task[None]] = set()  # the connections of this process
_lingering = 0  # of these, such as are over


def cut_connections() -> None:
    """End every connection at once, whatever is under way on it."""
    for task in _open:
        task.cancel()


@dataclass(frozen=True)
class Reading(Event):
    """Stop reading from the socket, or go on; with a large buffer if much is to come."""

    is_paused: bool
    may_be_large: bool = False


@dataclass(frozen=True)
class BodyAwaited(Event):
    """The request at hand waits for more of its body, or has all of it."""

    is_whole: bool


class NoTask:
    """Stands where Hypercorn has a task for each connection that closes it when it stands idle."""

    async def restart(self, task_group: object, action: object) -> None:
        """Start nothing."""

    async def stop(self) -> None:
        """Stop nothing."""


class TcpConnection(TCPServer):
    """One connection.

    Closing a socket with data unread resets it, and a reset can take the answer along that the client
    has not read yet. So we end our side first, and let go once the client ends its own or has had its time.

    `Connections` watches over the time a connection may stand idle. Hypercorn would start and cancel a task
    for that with each request, which costs a tenth of it.
    """

    _is_idle = True  # whether no request is under way

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, RawData):
            await self._send(event)
        elif self.reader.at_eof():
            # The client ended its side. What it asked before is still answered, one after the other, and
            # then the connection ends with its reading.
            if isinstance(event, Closed):
                await self._close()
        elif isinstance(event, Closed) and self.writer.can_write_eof():
            if not self.writer.is_closing():
                self.writer.write_eof()
                self._linger()
        elif isinstance(event, Reading):
            self._read_or_pause(event)
        elif isinstance(event, Updated):
            self._is_idle = event.idle
            if event.idle:
                self._connections.note_idle(self)
            else:
                self._connections.note_busy(self)
        elif isinstance(event, BodyAwaited):
            if event.is_whole:
                self._connections.note_busy(self)
            else:
                self._connections.note_awaited(self)
        else:
            await super().protocol_send(event)

    async def run(self) -> None:
        self.idle_task = cast(AsyncioSingleTask, NoTask())
        vars(self.reader)["_limit"] = READ_AHEAD
        task = asyncio.current_task()
        assert task is not None
        self._connections = Connections.of(self.context, float(self.config.keep_alive_timeout))
        if not await self._connections.add(self):
            self.writer.transport.abort()
            return
        _open.add(task)
        try:
            await super().run()
        except asyncio.CancelledError:
            # The server stops, and this one had its time. asyncio would tell of a fault in its callback.
            if not self.context.terminated.is_set():
                raise
        finally:
            _open.discard(task)
            self._connections.remove(self)
            # It refers back to this: without the circle its buffers are freed at once.
            vars(self).pop("protocol", None)

    async def close_waiting(self) -> None:
        await self._initiate_server_close()

    def _read_or_pause(self, event: Reading) -> None:
        transport = cast(asyncio.Transport, self.writer.transport)
        if transport.is_closing():
            return
        if event.is_paused:
            transport.pause_reading()
            return
        if event.may_be_large:
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BODY_BUFFER)
        transport.resume_reading()

    def _linger(self) -> None:
        """Drop what the client still sends until it ends its side or has had its time."""
        global _lingering
        _lingering += 1
        self._connections.note_awaited(self)
        if _lingering > DRAINED_MAX:
            cast(asyncio.Transport, self.writer.transport).pause_reading()
        self.loop.call_later(LINGER_S, self._end_linger)

    def _end_linger(self) -> None:
        global _lingering
        _lingering -= 1
        self.writer.close()

    async def _send(self, event: RawData) -> None:
        if self.writer.transport.is_closing():
            # Nobody else may notice: while a request waits for the one before it, nothing is read.
            await self.protocol.handle(Closed())
            return
        if len(event.data) + self.writer.transport.get_write_buffer_size() < WAITS_FROM:
            try:
                self.writer.write(event.data)
            except (ConnectionError, RuntimeError):
                await self.protocol.handle(Closed())
            return
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await super().protocol_send(event)
        except TimeoutError:
            self.writer.transport.abort()

    async def _close(self) -> None:
        """Close the socket once the client has taken what was sent to it, or has had its time for that."""
        task = asyncio.current_task()
        with contextlib.suppress(OSError, TimeoutError):
            self.writer.close()
            if task is None or not task.cancelling():
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self.writer.wait_closed()
        # What is left is a client that takes nothing, or does not answer the end of its TLS session.
        self.writer.transport.abort()

    async def _read_data(self) -> None:
        while not self.reader.at_eof():
            try:
                # With a head comes little; what follows may be a body that nobody wants.
                data = await self.reader.read(READ_AHEAD // 2 if self._is_idle else MAX_RECV)
            except (OSError, TimeoutError):
                break
            await self.protocol.handle(RawData(data))
        await self.protocol.handle(Closed())
