"""Load over HTTP: `wrk` where it is installed, else a small client in Python."""

from __future__ import annotations

import json
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

CONNECTIONS = 32


def requests_per_second(
    url: str, key: str, bodies: list[dict[str, object]], seconds: int, *, keys: bool
) -> float:
    """Return how many POSTs of these bodies in turn the server answers with 2xx a second, on 32 connections.

    With `keys` each has an Idempotency-Key of its own. Raises RuntimeError when one is refused.
    """
    if shutil.which("wrk"):
        return _by_wrk(url, key, bodies, seconds, keys)
    program = [sys.executable, "-m", "bench.load", url, key, str(seconds), str(int(keys))]
    done = subprocess.run(program, input=json.dumps(bodies), capture_output=True, text=True, check=True)
    return float(done.stdout)


_SCRIPT = """
wrk.method = "POST"
wrk.headers["Authorization"] = "Bearer %(key)s"
wrk.headers["Content-Type"] = "application/json"
local bodies = {%(bodies)s}
local number = 0
function request()
  number = number + 1
  if %(keys)s then wrk.headers["Idempotency-Key"] = "%(run)s-" .. number end
  return wrk.format(nil, nil, nil, bodies[number %% #bodies + 1])
end
"""


def _by_wrk(url: str, key: str, bodies: list[dict[str, object]], seconds: int, keys: bool) -> float:
    quoted = ", ".join(f"[[{json.dumps(body)}]]" for body in bodies)
    values = {"key": key, "bodies": quoted, "keys": "true" if keys else "false", "run": time.time_ns()}
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT % values)
        script.flush()
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", script.name, url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)", done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if refused or rate is None:
        raise RuntimeError(f"wrk: {done.stdout}")
    return float(rate[1])


def _by_sockets(url: str, key: str, bodies: list[dict[str, object]], seconds: int, keys: bool) -> float:
    """Measure the same in one thread of Python.

    It uses more of the machine, which brings the two sides closer.
    """
    parts = urlsplit(url)
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\n"
    ).encode()
    texts = [json.dumps(body).encode() for body in bodies]
    run = b"Idempotency-Key: %d-" % time.time_ns()
    sent = answered = 0

    def request() -> bytes:
        nonlocal sent
        sent += 1
        text = texts[sent % len(texts)]
        line = run + b"%d\r\n" % sent if keys else b""
        return head + line + b"Content-Length: %d\r\n\r\n%b" % (len(text), text)

    selector = selectors.DefaultSelector()
    for _ in range(CONNECTIONS):
        client = socket.create_connection((parts.hostname or "", parts.port or 80))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(client, selectors.EVENT_READ, bytearray())
        client.sendall(request())
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        for ready, _ in selector.select(1):
            connection = ready.fileobj
            received: bytearray = ready.data
            assert isinstance(connection, socket.socket)
            received += connection.recv(65536)
            if _is_whole(received):
                if not received.startswith(b"HTTP/1.1 2"):
                    raise RuntimeError(received.decode())
                received.clear()
                answered += 1
                connection.sendall(request())
    return answered / (time.perf_counter() - started)


def _is_whole(received: bytearray) -> bool:
    head, separator, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(separator) and length is not None and len(body) >= int(length[1])


if __name__ == "__main__":
    _, target, credential, duration, with_keys = sys.argv
    print(_by_sockets(target, credential, json.load(sys.stdin), int(duration), with_keys == "1"))
