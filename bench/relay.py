"""A network between servers and their database: what either sends arrives some milliseconds later.

`python -m bench.relay SOCKET MS` prints the port it takes connections on, and forwards them to PostgreSQL's
Unix socket. All bytes wait equally long, so they stay in their order and one queue is enough.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque


def main(target: str, delay_s: float) -> None:
    """Forward connections, until it is killed."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    other: dict[socket.socket, socket.socket] = {}
    on_the_way: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        wait_s = max(0.0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
        # Not poll or epoll, which wait for whole milliseconds.
        ready, _, _ = select.select([listening, *other], [], [], wait_s)
        now = time.monotonic()
        for each in ready:
            if each is listening:
                client, _ = listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                database = socket.socket(socket.AF_UNIX)
                database.connect(target)
                other[client], other[database] = database, client
                continue
            data = _received(each)
            on_the_way.append((now + delay_s, other[each], data))
            if not data:
                del other[each]
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, receiver, data = on_the_way.popleft()
            _deliver(receiver, data)


def _received(sender: socket.socket) -> bytes:
    try:
        return sender.recv(1 << 16)
    except ConnectionError:
        return b""


def _deliver(receiver: socket.socket, data: bytes) -> None:
    """Send what has arrived; nothing is the end of what the other one sends."""
    try:
        if data:
            receiver.sendall(data)
        else:
            receiver.shutdown(socket.SHUT_WR)
    except OSError:  # it has gone
        return


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) / 1000)
