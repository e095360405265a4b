"""Keeps track of commits that are visible although the standby may not have received them.

PostgreSQL can be set up so that each commit waits for a standby. A commit is then invisible until the standby
has received it. But the wait also ends when somebody cancels it, when the connection ends and when PostgreSQL
restarts. In these cases the commit becomes visible, although a failover would lose it. An answer that depends
on such a commit would acknowledge the commit.

So a server counts confirmed commits, which the standby has received. It counts its own commit when COMMIT has
returned without a warning. It counts a commit of another server when the notification arrives, because a
notification is sent only after the standby has received the commit.

A server is in doubt in four cases: the outcome of a commit is unknown; the connection is new; the server sees
commits of other servers without a notification; a commit has waited long for the standby. While the server is
in doubt, it asks the database after each read how many commits of each server are visible. If more commits
are visible than confirmed, the server makes a commit after the read and waits until this commit is confirmed.
The standby has then received everything that was visible when the commit began. So any confirmed commit of
the server ends all doubts that began before the commit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

_NO_COUNTS: Mapping[int, int] = {}


class Confirmations:
    """The number of confirmed commits of each server, and the open doubts. Any thread may use this object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[int, int] = {}
        self._doubtful_counts: dict[int, int] = {}  # when the doubts end, these counts become confirmed
        self._settled_count = 0
        self.doubts = 0  # the number of doubts so far

    @property
    def in_doubt(self) -> bool:
        """Return whether the database may show commits that the standby has not received."""
        return self.doubts != self._settled_count

    def doubt(self, counts: Mapping[int, int] = _NO_COUNTS) -> None:
        """Begin a doubt about all commits that are visible now.

        `counts` are the numbers of visible commits by server, as far as the caller knows them.
        """
        with self._lock:
            _raise_to(self._doubtful_counts, counts)
            self.doubts += 1

    def settle(self, doubts: int) -> None:
        """End the first `doubts` doubts, because a commit that began after them was confirmed."""
        with self._lock:
            self._settled_count = max(self._settled_count, doubts)
            if doubts == self.doubts:
                _raise_to(self._counts, self._doubtful_counts)
                self._doubtful_counts.clear()

    def forget(self) -> None:
        """Forget all counts and begin a doubt, because the database moved to another timeline.

        After a failover, the next commits of a server get the same numbers as the commits that were lost.
        """
        with self._lock:
            self._counts.clear()
            self._doubtful_counts.clear()
            self.doubts += 1

    def confirm(self, server: int, number: int) -> None:
        """Note that the standby has received the first `number` commits of a server."""
        with self._lock:
            _raise_to(self._counts, {server: number})

    def unconfirmed(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the counts in `counts` that are higher than the confirmed count of the same server."""
        with self._lock:
            now_confirmed = self._counts
            return {server: count for server, count in counts.items() if count > now_confirmed.get(server, 0)}

    def are_doubted(self, counts: Mapping[int, int]) -> bool:
        """Return whether an open doubt covers these counts."""
        with self._lock:
            doubts = self._doubtful_counts
            return self.in_doubt and all(doubts.get(server, 0) >= count for server, count in counts.items())


def _raise_to(counts: dict[int, int], others: Mapping[int, int]) -> None:
    for server, count in others.items():
        if count > counts.get(server, 0):
            counts[server] = count
