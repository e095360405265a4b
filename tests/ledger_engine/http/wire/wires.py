"""A connection without a socket, whose data comes in the pieces that a test cuts it into."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.http1 import Http1, Service

DATE = re.compile(rb"date: [^\r]*\r\n")


class Wire(asyncio.Transport):
    """The transport of a connection, which passes it pieces of data while it reads, and then their end."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._reads = asyncio.Event()
        self._reads.set()
        self._is_closed = False
        self._protocol: Http1

    async def pass_on(self, protocol: Http1, pieces: list[bytes]) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        for piece in pieces:
            await self._reads.wait()
            if not self._is_closed:
                protocol.get_buffer(-1)[: len(piece)] = piece
                protocol.buffer_updated(len(piece))
        await self._reads.wait()
        if not self._is_closed and not protocol.eof_received():
            self.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def write_eof(self) -> None:
        """Do nothing: what was written is looked at in the end."""

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        self._reads.clear()

    def resume_reading(self) -> None:
        self._reads.set()

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._reads.set()
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close


async def answered(app: Any, pieces: list[bytes]) -> bytes:
    """All that a server of the application, which answers refusals too, writes to a client, without the time.

    The client sends these pieces and ends its side.
    """
    room = Connections(1000)
    service = Service(app, room, "http", {}, app)
    wire = Wire()
    await wire.pass_on(Http1(service), [piece for piece in pieces if piece])
    await service.finish()
    service.cut()
    await room.stop()
    return DATE.sub(b"", wire.written)


def in_pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]
