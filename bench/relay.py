"""A relay between servers and their database, which delays all bytes like a network, in both directions.

`python -m bench.relay SOCKET MS` prints the port on which it accepts connections, and forwards them to
PostgreSQL's Unix socket. All bytes wait for the same time, so they stay in order, and one queue is enough.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque


def main(target: str, delay_s: float) -> None:
    """Forward connections until the process is killed."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    other: dict[socket.socket, socket.socket] = {}
    on_the_way: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        wait_s = max(0.0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
        # `select` can wait for a part of a millisecond; poll and epoll wait for whole milliseconds.
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
    """Forward the data to the receiver. Empty data means that the sender has closed its side."""
    try:
        if data:
            receiver.sendall(data)
        else:
            receiver.shutdown(socket.SHUT_WR)
    except OSError:  # the receiver has closed the connection
        return


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) / 1000)
