"""A client whose connection is reset in the middle of a request."""

import socket
import struct
import threading

from tests.ledger_engine.waiting import wait_until


def begun() -> set[threading.Thread]:
    """Return the threads that run; one that is being started is listed before it can be joined."""
    return {thread for thread in threading.enumerate() if thread.is_alive()}


def reset_a_request(port: int) -> None:
    """Reset a connection to a server that has a thread for each, and wait until its thread has ended."""
    before = begun()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /")
        wait_until(lambda: begun() - before)
        (thread, *_) = begun() - before
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    thread.join()
