"""The server, from the application's start to its end: where its connections come from.

Handshakes of TLS count as connections and have little time.

With `serve --workers` the parent accepts the connections, so each worker has as many as the others. With a
socket that all of them listen on, the one that is woken first takes every connection that is waiting, and
with a socket for each (`SO_REUSEPORT`) chance decides.
"""

from __future__ import annotations

import asyncio
import os
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

HANDSHAKE_S = 10  # the time for a client's handshake
HANDSHAKES_MAX = 512  # under way at a time, 50 KB each; one more ends the oldest
NO_FILE_S = 0.1  # pause before accepting again when the process can open no more files
AT_ONCE = 64  # connections taken in one iteration of the event loop
REPORTED_AFTER_S = 0.005  # connections that begin and end within this time are reported together


Begin = Callable[[socket.socket], None]  # begins with a client that has connected


@dataclass(eq=False)
class Handshakes:
    """The handshakes under way; `make` gives what goes on with a connection when its TLS session has begun.

    The event loop could do this by itself, but then nobody would know of the connections that never get so
    far, and each has an open file and its memory.
    """

    context: ssl.SSLContext
    connections: Connections
    make: Callable[[], Http1]
    _under_way: dict[Handshake, None] = field(default_factory=dict)  # oldest first

    def begin(self, client: socket.socket) -> None:
        """Begin with a client that has connected."""
        if len(self._under_way) >= HANDSHAKES_MAX:
            next(iter(self._under_way)).cut()
        handshake = Handshake(self, client)
        if self.connections.add(handshake):
            self._under_way[handshake] = None
        else:
            handshake.cut()
            client.close()

    async def shake_hands(self, client: socket.socket) -> None:
        """Start the session with a client, unless the handshake fails or takes too long."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self.make, client, ssl=self.context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:  # ssl.SSLError is one
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
        """Close the connection, as others need its place."""
        self.cut()

    def cut(self) -> None:
        """Close the connection at once."""
        self._handshakes.forget(self)
        self._task.cancel()


class PassedConnections:
    """Takes the connections that arrive at `source`, a Unix socket.

    `report` is called with the number of connections taken so far and of those that are open now, unless all
    that were taken since the last report are open: so whoever passes them knows how many each worker has.
    """

    def __init__(self, source: socket.socket, report: Callable[[int, int], None]) -> None:
        self._source = source
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._begin: Begin
        self._connections: Connections
        self._taken = 0
        self._reported = (0, 0)
        self._reports_soon = False

    def start(self, begin: Begin, connections: Connections) -> None:
        """Call `begin` with each connection; `connections` are those that are open."""
        self._begin = begin
        self._connections = connections
        connections.on_change = self._report_soon
        self._source.setblocking(False)
        self._loop.add_reader(self._source, self._take)

    def close(self) -> None:
        """Take what has been passed already, then no more."""
        self._loop.remove_reader(self._source)
        while self._take():
            pass
        self._source.close()

    def _take(self) -> bool:
        """Begin with the connections that are waiting; return whether there may be more."""
        for _ in range(AT_ONCE):
            try:
                data, files, _, _ = socket.recv_fds(self._source, 1, 1)
            except OSError:  # none is waiting
                return False
            if not data:  # the other side has ended
                self._loop.remove_reader(self._source)
                return False
            self._taken += 1
            if not files:  # this process can open no more
                self._report_soon()
                continue
            os.set_inheritable(files[0], False)
            self._begin(socket.socket(fileno=files[0]))
        return True

    def _report_soon(self) -> None:
        if not self._reports_soon:
            self._reports_soon = True
            self._loop.call_later(REPORTED_AFTER_S, self._report_now)

    def _report_now(self) -> None:
        self._reports_soon = False
        taken, were_open = self._reported
        open_now = len(self._connections)
        if open_now != were_open + self._taken - taken:
            self._reported = (self._taken, open_now)
            self._report(self._taken, open_now)


_Listener = asyncio.AbstractServer | TlsListener | PassedConnections

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
    passed: PassedConnections | None = None,
    refuse: Asgi = refuse_plainly,
) -> None:
    """Serve the application until `shutdown_trigger` returns; then finish what is under way.

    The connections come from the sockets of the configuration, or are those `passed` by another process.
    `refuse` answers requests that cannot be read.
    """
    loop = asyncio.get_running_loop()
    state: dict[str, Any] = {}
    lifespan = Lifespan(ASGIWrapper(app), config, loop, state)
    living = loop.create_task(lifespan.handle_lifespan())
    await lifespan.wait_for_startup()
    if living.done() and (failure := living.exception()) is not None:
        raise failure
    connections = Connections(float(config.keep_alive_timeout))
    service = Service(app, connections, "https" if config.ssl_enabled else "http", state, refuse)
    _services.add(service)
    begin = _beginner(service, config)
    if passed is None:
        listening = await _listen(service, config, begin)
    else:
        passed.start(begin, connections)
        listening = [passed]
    try:
        await shutdown_trigger()
    finally:
        for server in listening:
            server.close()
        await connections.stop()
        await service.finish()
        _services.discard(service)
        await lifespan.wait_for_shutdown()
        living.cancel()
        await asyncio.wait({living})


async def _listen(service: Service, config: Config, begin: Begin) -> list[_Listener]:
    sockets, make = config.create_sockets(), partial(Http1, service)
    listening: list[_Listener] = []
    for each in sockets.insecure_sockets:
        server = await asyncio.get_running_loop().create_server(make, sock=each, backlog=config.backlog)
        listening.append(server)
    listening += [TlsListener(each, begin, config.backlog) for each in sockets.secure_sockets]
    return listening


def _beginner(service: Service, config: Config) -> Begin:
    """Return what is called with each connection that is accepted here or by another process."""
    make = partial(Http1, service)
    context = config.create_ssl_context()
    if context is not None:
        context.set_alpn_protocols(["http/1.1"])
        return Handshakes(context, service.connections, make).begin
    loop = asyncio.get_running_loop()
    beginning: set[asyncio.Task[None]] = set()

    async def connect(client: socket.socket) -> None:
        try:
            await loop.connect_accepted_socket(make, client)
        except OSError:  # the client is gone
            client.close()
            service.connections.note_change()

    def begin(client: socket.socket) -> None:
        task = loop.create_task(connect(client))
        beginning.add(task)
        task.add_done_callback(beginning.discard)

    return begin
