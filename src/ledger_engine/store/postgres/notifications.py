"""What other servers have committed: they say so with NOTIFY, and the heads of the books show it anyway.

A notification is a hint that saves time. It may be lost, and some databases have none. So it is read now and
then how many commits of other servers announced something, and when that is not how many notifications came,
all topics are announced. No clock matters for it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ledger_engine.store import Everything
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed
from ledger_engine.store.postgres.locks import OF_SERVERS
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.seen import Commits, Seen

CHANNEL = "ledger_commits"
POLL_S = 0.5  # how often the heads are read beside notifications …
POLL_ALONE_S = 0.1  # … and where there are none
_RECONNECT_S = 1.0
_NOTIFY = rendered(f"SELECT pg_notify('{CHANNEL}', :payload)")
_ANNOUNCED = rendered(f"SELECT server, announced, moment FROM heads WHERE {OF_SERVERS} AND server <> :server")

log = logging.getLogger("ledger_engine.store.postgres.notifications")

Announce = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class Notifier:
    """Tells other servers of commits, where the database can."""

    server: int
    can_notify: bool

    def notify(self, connection: Connection, topics: set[str]) -> None:
        """Send the topics of a commit, after it."""
        if topics and self.can_notify:
            connection.send(_NOTIFY, {"payload": f"{self.server} {' '.join(sorted(topics))}"})


class Follower:
    """A thread that calls `announce` with the topics of other servers' commits."""

    def __init__(
        self, notifier: Notifier, connect: Callable[[], Connection], announce: Announce, seen: Seen
    ) -> None:
        self._notifier = notifier
        self._connect = connect
        self._announce = announce
        self._seen = seen
        self._stopping = threading.Event()
        self._waker, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="ledger-follower", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, limit_s: float) -> None:
        """End the thread."""
        self._stopping.set()
        os.write(self._wake, b".")
        self._thread.join(limit_s)
        if not self._thread.is_alive():
            os.close(self._wake)
            os.close(self._waker)

    def _run(self) -> None:
        connection: Connection | None = None
        while not self._stopping.is_set():
            try:
                if connection is None:
                    connection = self._connect()
                    if self._notifier.can_notify:
                        connection.send(rendered(f"LISTEN {CHANNEL}"))
                        connection.settle()
                self._follow(connection)
            except Exception as error:  # of any kind: without this thread other servers' commits come late
                if not isinstance(error, (ConnectionLost, DatabaseFailed)):
                    log.exception("the commits of other servers cannot be followed")
                if connection is not None:
                    connection.close()
                connection = None
                # Nobody knows what was announced meanwhile.
                self._stopping.wait(_RECONNECT_S)
                self._announce(Everything())
        if connection is not None:
            connection.close()

    def _follow(self, connection: Connection) -> None:
        """Follow the commits of other servers until asked to stop. Raises what the connection raises."""
        poll_s = POLL_S if self._notifier.can_notify else POLL_ALONE_S
        known = self._announced(connection)
        due = time.monotonic() + poll_s
        while not self._stopping.is_set():
            topics: set[str] = set()
            left = max(0.0, due - time.monotonic())
            for payload in connection.wait_for_notifications(left, self._waker):
                server, _, named = payload.partition(" ")
                if server != str(self._notifier.server):
                    topics.update(named.split())
                    known += 1
            if topics:
                self._announce(frozenset(topics))
            if time.monotonic() >= due:
                newest = self._announced(connection)
                if newest != known:
                    self._announce(Everything())
                known = newest
                due = time.monotonic() + poll_s

    def _announced(self, connection: Connection) -> int:
        if not connection.usable:
            raise ConnectionLost("another timeline is used")
        rows = connection.rows(_ANNOUNCED, {"server": self._notifier.server})
        self._seen.others({row["server"]: Commits(row["announced"], row["moment"]) for row in rows})
        return sum([row["announced"] for row in rows])
