"""Load over HTTP: by `wrk` if it is installed, otherwise by a small client in Python."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

CONNECTIONS = 32


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests for a client to send in turn: POSTs of `bodies` to `url`, all with the same headers.

    With `paths`, the requests are GETs of these paths at the host of `url`. With a `token`, each request has
    an Authorization that begins with the token and changes every 1,000 requests. Some servers need this,
    because they limit the requests of each credential.
    """

    url: str
    bodies: list[str]
    headers: dict[str, str] = field(default_factory=dict)
    token: str = ""
    paths: list[str] = field(default_factory=list)


class Load(NamedTuple):
    """What a client measured: the answers with 2xx a second, and the median and the p99 of the latencies."""

    per_second: float
    p50_ms: float
    p99_ms: float


def json_posts(url: str, key: str, bodies: list[dict[str, object]]) -> Requests:
    """Return POSTs of JSON bodies to a ledger."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return Requests(url, [json.dumps(body) for body in bodies], headers)


def json_gets(url: str, key: str, paths: list[str]) -> Requests:
    """Return GETs of these paths of a ledger."""
    return Requests(url, [], {"Authorization": f"Bearer {key}"}, paths=paths)


def load(posts: Requests, seconds: float, *, connections: int = CONNECTIONS, keys: bool = False) -> Load:
    """Send these requests for some seconds, on connections that stay open.

    Each connection sends its next request after the answer to the last request. With `keys`, each request has
    another Idempotency-Key. Raises RuntimeError if the server refuses a request.
    """
    if shutil.which("wrk"):
        return _by_wrk(posts, seconds, connections, keys)
    program = [sys.executable, "-m", "bench.load", str(seconds), str(connections), str(int(keys))]
    given = json.dumps(dataclasses.asdict(posts))
    done = subprocess.run(program, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return Load(*json.loads(done.stdout))


_SCRIPT = """
wrk.method = "%(method)s"
%(headers)s
local bodies = {%(bodies)s}
local paths = {%(paths)s}
local number = 0
function request()
  number = number + 1
  if %(keys)s then wrk.headers["Idempotency-Key"] = "%(run)s-" .. number end
  if %(tokens)s then wrk.headers["Authorization"] = "%(token)s%(run)s" .. math.floor(number / 1000) end
  return wrk.format(nil, paths[number %% #paths + 1], nil, bodies[number %% #bodies + 1])
end
"""
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def _by_wrk(posts: Requests, seconds: float, connections: int, keys: bool) -> Load:
    values = {
        "headers": "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in posts.headers.items()),
        "method": "GET" if posts.paths else "POST",
        "bodies": ", ".join(f"[[{body}]]" for body in posts.bodies),
        "paths": ", ".join(f"[[{path}]]" for path in posts.paths),
        "keys": "true" if keys else "false",
        "tokens": "true" if posts.token else "false",
        "token": posts.token,
        "run": time.time_ns(),
    }
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT % values)
        script.flush()
        count = ["-t1", f"-c{connections}", f"-d{math.ceil(seconds)}s", "--latency"]
        command = ["wrk", *count, "-s", script.name, posts.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)", done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    shares = dict(re.findall(r"(50|99)%\s+([\d.]+[a-z]+)", done.stdout))
    if refused or rate is None or len(shares) != 2:
        raise RuntimeError(f"wrk: {done.stdout}")
    return Load(float(rate[1]), _ms(shares["50"]), _ms(shares["99"]))


def _ms(text: str) -> float:
    number = text.rstrip("ums")
    return float(number) * _MS[text.removeprefix(number)]


def _by_sockets(posts: Requests, seconds: float, connections: int, keys: bool) -> Load:
    """Measure without `wrk`, in one thread of Python.

    This client uses more of the machine than `wrk` does, so the two sides of a comparison differ less.
    """
    parts = urlsplit(posts.url)
    lines = "".join(f"{name}: {value}\r\n" for name, value in posts.headers.items())
    lines = f" HTTP/1.1\r\nHost: {parts.netloc}\r\n{lines}"
    first = [f"GET {path}" for path in posts.paths] or [f"POST {parts.path}"]
    heads = [f"{each}{lines}".encode() for each in first]
    texts = [body.encode() for body in posts.bodies] or [b""]
    run = time.time_ns()
    sent = 0
    taken_s: list[float] = []

    def request() -> bytes:
        nonlocal sent
        sent += 1
        text, head = texts[sent % len(texts)], heads[sent % len(heads)]
        line = f"Idempotency-Key: {run}-{sent}\r\n" if keys else ""
        line += f"Authorization: {posts.token}{run}{sent // 1000}\r\n" if posts.token else ""
        return head + line.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(text), text)

    selector = selectors.DefaultSelector()
    sent_at: dict[socket.socket, float] = {}
    started = time.perf_counter()
    for _ in range(connections):
        client = socket.create_connection((parts.hostname or "", parts.port or 80))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(client, selectors.EVENT_READ, bytearray())
        sent_at[client] = time.perf_counter()
        client.sendall(request())
    while (now := time.perf_counter()) - started < seconds:
        for ready, _ in selector.select(1):
            client, received = ready.fileobj, ready.data
            assert isinstance(client, socket.socket)
            received += client.recv(65536)
            if is_whole(received):
                if not received.startswith(b"HTTP/1.1 2"):
                    raise RuntimeError(received.decode())
                received.clear()
                now = time.perf_counter()
                taken_s.append(now - sent_at[client])
                sent_at[client] = now
                client.sendall(request())
    taken_s.sort()
    p50, p99 = (1000 * taken_s[math.ceil(len(taken_s) * share) - 1] for share in (0.5, 0.99))
    return Load(len(taken_s) / (now - started), p50, p99)


def is_whole(received: bytearray) -> bool:
    """Return whether an answer has arrived completely, with its body."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(separator) and length is not None and len(body) >= int(length[1])


if __name__ == "__main__":
    _, duration, count, with_keys = sys.argv
    given = Requests(**json.load(sys.stdin))
    print(json.dumps(_by_sockets(given, float(duration), int(count), with_keys == "1")))
