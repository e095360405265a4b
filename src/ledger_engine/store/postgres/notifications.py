"""Follows other servers' commits that announced a topic, such as new events (`Unit.announce`).

The server that made such a commit sends a notification (NOTIFY), and counts the commit in its row of the
table `heads` (`locks`).
A notification arrives sooner than the next look at `heads`, but a notification can be lost. So this module
also reads at intervals how many commits of other servers announced something. If this count differs from the
number of notifications, some topics are unknown, so this module calls the listeners with all topics. Nothing
here depends on a clock.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping

from ledger_engine.store import Everything
from ledger_engine.store.postgres.confirmations import Confirmations
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed
from ledger_engine.store.postgres.locks import OF_SERVERS
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.seen import Commits, SeenCommits

CHANNEL = "ledger_commits"
POLL_S = 0.5  # how often the rows of `heads` are read, in addition to notifications
_AGAIN_S = 0.1  # once a commit is visible, its notification should arrive within this time
_RECONNECT_S = 1.0
_NOTIFY = rendered(f"SELECT pg_notify('{CHANNEL}', :payload)")
_ANNOUNCED = rendered(f"SELECT server, announced, moment FROM heads WHERE {OF_SERVERS} AND server <> :server")
# Counts commits that wait for the standby for longer than a healthy standby takes. If somebody cancels this
# wait, the commit is visible at once, although the standby may lack the commit. So every server must be in
# doubt before somebody can cancel the wait.
_WAITING = rendered(
    "SELECT count(*) AS commits FROM pg_stat_get_activity(NULL)"
    " WHERE wait_event = 'SyncRep' AND clock_timestamp() - query_start > interval '0.3 seconds'"
)

log = logging.getLogger("ledger_engine.store.postgres.notifications")

Announce = Callable[[frozenset[str]], None]


def notify(connection: PostgresConnection, server: int, number: int, topics: set[str]) -> None:
    """Send other servers the topics of commit `number`; do nothing for a commit without a topic.

    Call this only after the standby has received the commit.
    """
    if topics:
        connection.send(_NOTIFY, {"payload": f"{server} {number} {' '.join(sorted(topics))}"})


class NotificationFollower:
    """A thread that calls `announce` with the topics of other servers' commits."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        announce: Announce,
        seen_commits: SeenCommits,
        confirmations: Confirmations,
    ) -> None:
        self._confirmations = confirmations
        self._connect = connect
        self._announce = announce
        self._seen_commits = seen_commits
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
        connection: PostgresConnection | None = None
        while not self._stopping.is_set():
            try:
                if connection is None:
                    connection = self._connect()
                    connection.send(rendered(f"LISTEN {CHANNEL}"))
                    connection.settle()
                self._follow(connection)
            except Exception as error:
                # Any error: without this thread the server would notice commits of other servers too late.
                if not isinstance(error, (ConnectionLost, DatabaseFailed)):
                    log.exception("the commits of other servers cannot be followed")
                if connection is not None:
                    connection.close()
                connection = None
                # Announce all topics, because the topics of commits during the interruption are unknown.
                self._stopping.wait(_RECONNECT_S)
                self._announce(Everything())
        if connection is not None:
            connection.close()

    def _follow(self, connection: PostgresConnection) -> None:
        """Follow the commits of other servers until `stop` is called. Raises the errors of the connection."""
        counts = self._announced(connection)
        self._confirmations.doubt(counts)  # the standby may not have received all these commits
        # Announce all topics, because this connection got no notifications of the commits in `counts`.
        self._announce(Everything())
        late: dict[int, int] = {}
        due = time.monotonic() + POLL_S
        while not self._stopping.is_set():
            topics: set[str] = set()
            seconds_left = max(0.0, due - time.monotonic())
            for payload in connection.wait_for_notifications(seconds_left, self._waker):
                topics.update(self._note(payload, counts))
            if topics:
                self._announce(frozenset(topics))
            if time.monotonic() >= due:
                newest = self._announced(connection)
                if newest != counts:
                    self._announce(Everything())
                counts = newest
                was_late, late = late, self._confirmations.unconfirmed(newest)
                self._doubt(connection, {server: was_late[server] for server in late if server in was_late})
                due = time.monotonic() + (_AGAIN_S if late and not was_late else POLL_S)

    def _note(self, payload: str, counts: dict[int, int]) -> list[str]:
        """Note a commit of another server, and return its topics."""
        server, number, *topics = payload.split(" ")
        if int(server) == self._seen_commits.server:
            return []
        # A server of an earlier version sends notifications without a number, also for unconfirmed commits.
        # So such a notification confirms nothing.
        if not number.isdigit():
            return [number, *topics]
        # Count the notification instead of storing `number`: if an earlier notification was lost, the count
        # differs from the count in `heads`, and `_follow` announces all topics.
        counts[int(server)] = counts.get(int(server), 0) + 1
        self._confirmations.confirm(int(server), int(number))
        return topics

    def _doubt(self, connection: PostgresConnection, late: Mapping[int, int]) -> None:
        """Begin a doubt if counts in `late` are still unconfirmed, or if a commit waits long for the standby.

        `late` contains the counts, by server, that were already unconfirmed at the previous read of `heads`.
        """
        late = self._confirmations.unconfirmed(late)
        if late and not self._confirmations.are_doubted(late):
            self._confirmations.doubt(late)
        (waiting,) = connection.rows(_WAITING, {})
        if waiting["commits"] and not self._confirmations.in_doubt:
            self._confirmations.doubt()

    def _announced(self, connection: PostgresConnection) -> dict[int, int]:
        """Return how many commits of each other server announced something.

        Also pass the counts that are confirmed to `SeenCommits`.
        """
        if not connection.usable:
            raise ConnectionLost("another timeline is used")
        rows = connection.rows(_ANNOUNCED, {"server": self._seen_commits.server})
        counts = {row["server"]: row["announced"] for row in rows}
        unconfirmed = self._confirmations.unconfirmed(counts)  # a failover may lose these commits
        self._seen_commits.note_others(
            {
                row["server"]: Commits(row["announced"], row["moment"])
                for row in rows
                if row["server"] not in unconfirmed
            }
        )
        return counts
