"""Runs the server: starts the application, accepts and closes connections, and stops the application.

A connection counts against the limit of connections from the beginning of its TLS handshake, which must
finish within `HANDSHAKE_S`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.lifespan import Lifespan
from hypercorn.config import Config

from ledger_engine.http.wire.asgi import Asgi, refuse_plainly
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.http1 import Http1, Service

HANDSHAKE_S = 10  # seconds for a handshake
HANDSHAKES_MAX = 512  # handshakes in progress, 50 KB each; a further handshake closes the oldest
NO_FILE_S = 0.1  # seconds until the next attempt to accept a client if the process can open no more files


Begin = Callable[[socket.socket], None]  # a function that begins to serve a client that has just connected


@dataclass(eq=False)
class Handshakes:
    """The TLS handshakes in progress. `make` returns the protocol object for a new connection.

    The event loop's own TLS server would not limit the number of clients that begin a handshake and never
    finish it. Each of these clients would take an open file and memory.
    """

    context: ssl.SSLContext
    connections: Connections
    make: Callable[[], Http1]
    _under_way: dict[Handshake, None] = field(default_factory=dict)  # the oldest first

    def begin(self, client: socket.socket) -> None:
        """Begin the handshake with a client that has connected."""
        if len(self._under_way) >= HANDSHAKES_MAX:
            next(iter(self._under_way)).cut()
        handshake = Handshake(self, client)
        if self.connections.add(handshake):
            self._under_way[handshake] = None
        else:
            handshake.cut()
            client.close()

    async def shake_hands(self, client: socket.socket) -> None:
        """Make the handshake with a client. If it fails or takes too long, close the client's socket."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self.make, client, ssl=self.context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:  # ssl.SSLError is an OSError
            client.close()

    def forget(self, handshake: Handshake) -> None:
        """Forget a handshake that has ended."""
        self._under_way.pop(handshake, None)
        self.connections.remove(handshake)


class TlsListener:
    """Accepts connections and begins their handshakes."""

    def __init__(self, listening: socket.socket, begin: Begin, backlog: int) -> None:
        listening.setblocking(False)
        listening.listen(backlog)
        self._listening = listening
        self._accepting = asyncio.get_running_loop().create_task(self._accept(begin))

    def close(self) -> None:
        """Stop accepting connections."""
        self._accepting.cancel()
        self._listening.close()

    async def _accept(self, begin: Begin) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listening)
            except OSError:
                await asyncio.sleep(NO_FILE_S)
                continue
            begin(client)


class Handshake:
    """A connection during its handshake."""

    def __init__(self, handshakes: Handshakes, client: socket.socket) -> None:
        self._handshakes = handshakes
        self._task = asyncio.get_running_loop().create_task(handshakes.shake_hands(client))
        self._task.add_done_callback(lambda _: handshakes.forget(self))

    def close_waiting(self) -> None:
        """Close the connection, because a new connection needs its place."""
        self.cut()

    def cut(self) -> None:
        """Close the connection at once."""
        self._handshakes.forget(self)
        self._task.cancel()


_Listener = asyncio.AbstractServer | TlsListener

_services: set[Service] = set()  # the services of this process


def cut_connections() -> None:
    """End all connections and requests of this process at once."""
    for service in list(_services):
        service.cut()


async def serve(
    app: Asgi,
    config: Config,
    *,
    shutdown_trigger: Callable[[], Awaitable[object]],
    refuse: Asgi = refuse_plainly,
) -> None:
    """Serve the application until `shutdown_trigger` returns; then finish the requests in progress.

    The configuration `config` names the listening sockets. The application `refuse` answers refused requests.
    """
    loop = asyncio.get_running_loop()
    state: dict[str, Any] = {}
    lifespan = Lifespan(ASGIWrapper(app), config, loop, state)
    lifespan_task = loop.create_task(lifespan.handle_lifespan())
    await lifespan.wait_for_startup()
    if lifespan_task.done() and (failure := lifespan_task.exception()) is not None:
        raise failure
    connections = Connections(float(config.keep_alive_timeout))
    service = Service(app, connections, "https" if config.ssl_enabled else "http", state, refuse)
    _services.add(service)
    listening = await _listen(service, config)
    try:
        await shutdown_trigger()
    finally:
        for server in listening:
            server.close()
        await connections.stop()
        await service.finish()
        _services.discard(service)
        await lifespan.wait_for_shutdown()
        lifespan_task.cancel()
        await asyncio.wait({lifespan_task})


async def _listen(service: Service, config: Config) -> list[_Listener]:
    sockets, make = config.create_sockets(), partial(Http1, service)
    listening: list[_Listener] = []
    for insecure in sockets.insecure_sockets:
        server = await asyncio.get_running_loop().create_server(make, sock=insecure, backlog=config.backlog)
        listening.append(server)
    context = config.create_ssl_context()
    if context is not None:
        context.set_alpn_protocols(["http/1.1"])
        begin = Handshakes(context, service.connections, make).begin
        listening += [TlsListener(secure, begin, config.backlog) for secure in sockets.secure_sockets]
    return listening
