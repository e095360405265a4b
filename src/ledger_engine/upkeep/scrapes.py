"""The listener of the metrics: it answers `/metrics` and nothing else.

On the loopback interface it answers no request that names another host. A stranger's page whose name was made
to lead to this machine (DNS rebinding) could read the metrics otherwise, as they need no credential.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

PATH = "/metrics"

Environ = dict[str, Any]
Start = Callable[..., Any]
Wsgi = Callable[[Environ, Start], Iterable[bytes]]


class Listener:
    """A listener for scrapes; `port` is the one it has."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self.port = server.server_port

    async def close(self) -> None:
        """Stop listening."""
        ended = asyncio.create_task(asyncio.to_thread(self._server.shutdown))
        # The thread that listens wakes up for it, and otherwise twice a second, as where this is refused.
        with suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)
        await ended
        self._server.server_close()


def listen(registry: CollectorRegistry, host: str, port: int) -> Listener:
    """Listen, in a thread. Raises OSError with a sentence when the address cannot be bound."""
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise OSError(
            f"Cannot serve metrics on {host} port {port}: {error.strerror}. --metrics names another address."
        ) from error
    metrics = server.get_app()
    assert metrics is not None, "start_http_server has set it"
    is_loopback = ipaddress.ip_address(str(server.server_address[0]).partition("%")[0]).is_loopback
    server.set_app(_only_metrics(metrics, any_host=not is_loopback))
    return Listener(server)


def _only_metrics(metrics: Wsgi, *, any_host: bool) -> Wsgi:
    def answer(environ: Environ, start: Start) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST", "localhost")  # HTTP/1.0 needs none, and browsers always send it
        if not any_host and not _is_this_machine(host):
            sentence = f"This is not {host}: ask for localhost, or for the address.\n"
            return _refuse(start, "403 Forbidden", sentence)
        if environ.get("PATH_INFO") != PATH:
            return _refuse(start, "404 Not Found", f"The metrics are at {PATH}.\n")
        return metrics(environ, start)

    return answer


def _is_this_machine(host: str) -> bool:
    """Return whether the value of Host is an address, which no name leads to, or localhost."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _refuse(start: Start, status: str, sentence: str) -> Iterable[bytes]:
    body = sentence.encode()
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
