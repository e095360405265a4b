"""Connections that another process accepts and passes to this one (`serve --workers`).

So each worker has as many as the others. With a socket that all of them listen on, the one that is woken
first takes every connection that is waiting, and with a socket for each (`SO_REUSEPORT`) chance decides.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

from ledger_engine.http.wire.connections import Connections

AT_ONCE = 64  # connections taken in one iteration of the event loop
REPORTED_AFTER_S = 0.005  # connections that begin and end within this time are reported together


class PassedConnections:
    """Takes the connections that arrive at `source`, a Unix socket.

    `report` is called with the number of connections taken so far and of those that are open now, unless all
    that were taken since the last report are open: so whoever passes them knows how many each worker has.
    """

    def __init__(self, source: socket.socket, report: Callable[[int, int], None]) -> None:
        self._source = source
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._begin: Callable[[socket.socket], None]
        self._connections: Connections
        self._taken = 0
        self._reported = (0, 0)
        self._reports_soon = False

    def start(self, begin: Callable[[socket.socket], None], connections: Connections) -> None:
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
