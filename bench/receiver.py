"""A receiver of webhooks that does little work: it counts each POST and answers 200.

`python -m bench.receiver` prints `Listening on http://…`. The answer to a GET is the number of POSTs so far.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import uvloop

_LENGTH = re.compile(rb"(?i)content-length: (\d+)")
_TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Receiver(asyncio.Protocol):
    """A connection to the receiver. `received` counts the POSTs of all connections."""

    received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is no subclass of it
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator:
            return
        if head.startswith(b"GET "):
            count = b"%d" % Receiver.received
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(count), count))
            self._data = b""
            return
        length = _LENGTH.search(head)
        if length is not None and len(body) >= int(length[1]):
            self._data = b""
            Receiver.received += 1
            self._transport.write(_TAKEN)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
    print(f"Listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def receiving() -> Iterator[str]:
    """Yield the URL of a receiver, which runs in another process until the block ends."""
    process = subprocess.Popen([sys.executable, "-m", "bench.receiver"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().removeprefix("Listening on ").strip()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    uvloop.run(_serve())
