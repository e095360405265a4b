"""A client whose connection is reset in the middle of a request."""

import socket
import struct
import threading

from tests.ledger_engine.waiting import wait_until


def reset_a_request(port: int) -> None:
    """Reset a connection to a server that has a thread for each, and wait until its thread has ended."""
    before = {*threading.enumerate()}
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /")
        wait_until(lambda: {*threading.enumerate()} - before)
        (thread, *_) = {*threading.enumerate()} - before
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    thread.join()
