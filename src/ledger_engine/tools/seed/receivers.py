"""The demo's own receivers of webhooks: one good, one slow and flaky, one that fails until it is repaired.

They listen on one port of this machine, each at a path of its own. `POST {path}/repair` repairs one, as the
dashboard does for the key `R`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

_HEAD_MAX = 64 * 1024


@dataclass(slots=True)
class Receiver:
    """How one receiver answers: after `least_s` to `most_s`, with a share of 503 in place of 200."""

    path: str
    kinds: tuple[str, ...]  # the events that are sent to it
    least_s: float
    most_s: float
    failing: float

    def repair(self) -> None:
        """Answer every delivery with 200 from now on."""
        self.failing = 0.0


def make_receivers() -> list[Receiver]:
    """Return the three receivers as they begin."""
    return [
        Receiver("/shop", ("*",), 0.002, 0.02, failing=0.0),
        Receiver("/warehouse", ("order.created", "order.paid", "order.shipped"), 0.1, 0.9, failing=0.2),
        Receiver("/bookkeeping", ("invoice.opened", "invoice.paid"), 0.005, 0.03, failing=1.0),
    ]


@asynccontextmanager
async def receiving(receivers: list[Receiver], random: Random) -> AsyncIterator[str]:
    """Run the receivers; yield their root URL."""
    by_path = {each.path: each for each in receivers}
    handlers: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            while True:
                status = await _status_for(await _read_path(reader), by_path, random)
                body = b"ok" if status == 200 else b"not now"
                length = len(body)
                writer.write(b"HTTP/1.1 %d .\r\nContent-Length: %d\r\n\r\n%s" % (status, length, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
            pass  # the sender closed the connection, or it is no sender
        finally:
            handlers.discard(task)
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=_HEAD_MAX)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for task in [*handlers]:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*handlers, return_exceptions=True)


async def _read_path(reader: asyncio.StreamReader) -> str:
    """Read one request and return its path. Raises ValueError for what is not HTTP."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    _method, path, _version = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return path


async def _status_for(path: str, by_path: dict[str, Receiver], random: Random) -> int:
    """Return the status of the answer; a repair is done at once, a delivery takes the receiver's time."""
    repaired = by_path.get(path.removesuffix("/repair")) if path.endswith("/repair") else None
    if repaired is not None:
        repaired.repair()
        return 200
    receiver = by_path.get(path)
    if receiver is None:
        return 404
    await asyncio.sleep(random.uniform(receiver.least_s, receiver.most_s))
    return 503 if random.random() < receiver.failing else 200
