"""The peer: one connection's socket, as Hypercorn serves it, and closed without losing an answer."""

from __future__ import annotations

import asyncio
import contextlib

from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.events import Closed, Event, RawData, Updated

LINGER_S = 2  # for a client to read its last answer before the connection is closed under it
SEND_TIMEOUT_S = 60  # for a client to take what was sent to it
WAITS_FROM = 32 * 1024  # bytes not yet sent; with fewer, sending never waits for the client


class Peer(TCPServer):
    """One connection.

    Closing a socket with data unread resets it, and a reset can take the answer along that the client
    has not read yet. So we end our side first, and let go once the client ends its own or has had its time.

    One task watches over the time a connection may stand idle. Hypercorn would start and cancel one for
    each request, which costs a tenth of it.
    """

    _idle_since: float | None = 0.0  # by the loop's clock; None while a request is under way

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
                self.loop.call_later(LINGER_S, self.writer.close)
        elif isinstance(event, Updated):
            self._idle_since = self.loop.time() if event.idle else None
        else:
            await super().protocol_send(event)

    async def run(self) -> None:
        # Here and not in the task that watches: a request may have come before that runs first.
        self._idle_since = self.loop.time()
        try:
            await super().run()
        except asyncio.CancelledError:
            # The server stops, and this one had its time. asyncio would tell of a fault in its callback.
            if not self.context.terminated.is_set():
                raise

    async def _idle_timeout(self) -> None:
        while (left := self._idle_left()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.context.terminated.wait(), left)
                if self._idle_since is None:
                    return  # the server stops, and the connection closes with the answer under way
                break
        await asyncio.shield(self._initiate_server_close())

    def _idle_left(self) -> float:
        whole = float(self.config.keep_alive_timeout)
        return whole if self._idle_since is None else self._idle_since + whole - self.loop.time()

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
        with contextlib.suppress(OSError):  # the client may be gone already
            await super()._close()

    async def _read_data(self) -> None:
        while not self.reader.at_eof():
            try:
                data = await self.reader.read(MAX_RECV)
            except (OSError, TimeoutError):
                break
            await self.protocol.handle(RawData(data))
        await self.protocol.handle(Closed())
        # Left running it would keep the connection's socket open until the idle time is over.
        await self.idle_task.stop()
