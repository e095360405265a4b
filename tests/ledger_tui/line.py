"""A connection to a server that can be slow, break, and lose answers."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Line:
    """`async with Line(port) as line:` forwards `line.url` to the server on `port`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.swallows_answers = False
        self.hold = asyncio.Event()  # answers wait while it is not set
        self.hold.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Line:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hold.set()
        self.cut()
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break every open connection."""
        for writer in self._writers:
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, server_writer}
        await asyncio.gather(self._up(reader, server_writer), self._down(server_reader, writer))
        self._writers -= {writer, server_writer}

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self.hold.wait()
                if self.swallows_answers:
                    break
                writer.write(data)
        except OSError:
            pass
        writer.close()
