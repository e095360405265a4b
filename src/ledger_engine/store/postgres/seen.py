"""Remembers the commits that a server has seen, so that the server never continues on an older database.

After a failover the earlier primary may come back, and a promoted standby may lack the last commits. The
table `heads` contains a row for each server, which counts the server's commits that announced something, such
as new events (`Unit.announce`). If a count is lower than a count that this server has seen, acknowledged
changes are missing. A cluster can only lose its last commits. So the loss of a commit that announced
something always makes a count lower.

A database that `migrate` has filled counts only the commits since then. So earlier commits are not compared:
the source had issued ids up to a later time, and a copy of an older ledger is still refused.

If a cluster has two primaries after a failover, their timelines differ, and the server refuses the primary on
the older timeline.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ledger_engine.core.clock import DAY, iso
from ledger_engine.store import OF_NO_PROJECT, BookKey, Losses
from ledger_engine.store.files import write_private
from ledger_engine.store.postgres import rendering
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import OLDER, ConnectionLost, DatabaseFailed
from ledger_engine.store.postgres.locks import MOVED, new_server
from ledger_engine.store.postgres.rendering import SqlStatement, rendered

FORGOTTEN_AFTER = 30 * DAY  # if a server has not written for this long, its row may have been deleted
_OWN_MAX = 5000  # how many of this server's last commits are remembered with the books that they changed
_BOOKS_NAMED_MAX = 5
_STANDBY = "25006"  # PostgreSQL's code for an attempt to write on a standby
_PLACE = rendered(
    "SELECT (SELECT system_identifier FROM pg_control_system()) AS system, CASE WHEN pg_is_in_recovery()"
    " THEN 0 ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END AS timeline"
)
_COMMITS = SqlStatement(
    b"SELECT lock, announced, moment FROM heads WHERE lock = ANY($1) AND server = lock OR lock = %d" % MOVED,
    (), True, True,
)  # fmt: skip
_ADVICE = (
    "Bring the right database back; or, to continue without the missing changes, start the servers"
    " with --accept-loss."
)

# The beginning of the file in which a server records the commits that it has seen. Each commit of this server
# overwrites only this beginning. So the numbers are padded with spaces, and the length is always the same.
_OWN_COMMITS = '{"acknowledged": [%20d, %20d]'

_NO_BOOKS: Counter[BookKey] = Counter()

log = logging.getLogger("ledger_engine.store.postgres.seen")


class Timeline(NamedTuple):
    """A cluster and the number of its timeline; the number is 0 on a standby."""

    system: int
    number: int


class Commits(NamedTuple):
    """How many commits of a server announced something, and the time of its last commit."""

    announced: int
    moment: int


_NO_COMMITS = Commits(0, 0)


@dataclass(slots=True)
class _OwnCommit:
    """A commit of this server.

    `number` is the number of this commit among the commits that announced something. `works` contains, for
    each book, how many works of this commit belong to the book.
    """

    number: int
    moment: int
    works: Counter[BookKey]


def timeline_of(connection: PostgresConnection) -> Timeline:
    """Return the cluster and timeline of the database behind a connection.

    Raises DatabaseFailed if the engine has no timelines, or if this role has no right to read them.
    """
    (row,) = connection.rows(_PLACE, {})
    return Timeline(row["system"], row["timeline"])


def has_timelines(connection: PostgresConnection) -> bool:
    """Return whether the engine has timelines and the role has the right to read them."""
    try:
        return bool(timeline_of(connection))
    except DatabaseFailed:
        return False


class SeenCommits:
    """The commits that one server has seen; any thread may use it.

    After connecting, set the attribute `has_timelines` to the result of the function of the same name.
    `require_newest` calls `on_move` with the former timeline (None at first) and the new timeline, and
    `on_accepted_loss` with the connection on which a loss was accepted. After an accepted loss the attribute
    `server`, the number of the server, changes. Under the old number, the next commits would get the same
    counts as the lost commits.
    """

    def __init__(self, *, accepts_loss: bool = False) -> None:
        self.losses = Losses()
        self.has_timelines = False
        self.on_move: Callable[[Timeline | None, Timeline], None] = lambda _before, _timeline: None
        self.on_accepted_loss: Callable[[PostgresConnection], None] = lambda _connection: None
        self.server = new_server()
        self._accepts_loss = accepts_loss
        self._timeline: Timeline | None = None
        # The commits of each server that this server has seen.
        self._commits: dict[int, Commits] = {self.server: _NO_COMMITS}
        # This server's commits in the database when the connection that writes was opened. They count as seen
        # once a later commit is confirmed.
        self._own_unconfirmed = _NO_COMMITS
        self._own: deque[_OwnCommit] = deque(maxlen=_OWN_MAX)
        self._file: Path | None = None
        self._descriptor: int | None = None  # the descriptor of the file
        self._content: object = None  # what was last written to the file
        self._lock = threading.Lock()

    def note_commit(self, server: int, commits: Commits, works: Counter[BookKey]) -> None:
        """Note a commit of this server that announced something. Call this before the commit is acknowledged.

        `server` is the number that the server used for this commit. The count in `commits` includes this
        commit.
        """
        with self._lock:
            self._commits[server] = commits
            if server != self.server:
                return
            self._own.append(_OwnCommit(commits.announced, commits.moment, works))
            if self._descriptor is not None:
                self._write_own(self._descriptor, commits)

    def note_confirmation(self) -> None:
        """Note that a commit of this server was confirmed, together with all earlier visible commits."""
        with self._lock:
            own, self._own_unconfirmed = self._own_unconfirmed, _NO_COMMITS
            if own.announced > self._commits[self.server].announced:
                self._commits[self.server] = own
                if self._descriptor is not None:
                    self._write_own(self._descriptor, own)

    def note_others(self, counts: Mapping[int, Commits]) -> None:
        """Note the confirmed commits of other servers, and write all counts to the file."""
        with self._lock:
            merged = dict(self._commits)
            for server, commits in counts.items():
                if server != self.server:
                    merged[server] = max(commits, merged.get(server, _NO_COMMITS))
            newest = max([each.moment for each in merged.values()])
            self._commits = {
                server: commits
                for server, commits in merged.items()
                if server == self.server or commits.moment > newest - DAY
            }
            self._keep()

    def require_newest(self, connection: PostgresConnection, now: int, *, writes: bool = False) -> None:
        """Raise ConnectionLost for a standby, and for a database that lacks commits that were seen before.

        If the loss of commits is accepted, note the loss instead. `writes` is true for the connection of the
        thread that calls `note_commit`.
        """
        # Copy the known commits before the query, because this server may commit while the database answers.
        with self._lock:
            known_commits = dict(self._commits)
        timeline = timeline_of(connection) if self.has_timelines else Timeline(0, 1)
        if not timeline.number:
            raise ConnectionLost("it is a standby", _STANDBY)
        connection.put_dumped(_COMMITS, [rendering.array(list(known_commits))], (rendering.INT8_ARRAY,))
        result = connection.settle()
        rows: Iterable[Any] = rendering.rows_of(result) if result is not None else ()
        stored_commits = {row["lock"]: Commits(row["announced"], row["moment"]) for row in rows}
        moved = stored_commits.get(MOVED, _NO_COMMITS).moment
        connection.timeline = timeline
        with self._lock:
            self._require_timeline(timeline)
            missing: dict[int, int] = {}
            for server, commits in known_commits.items():
                # Take the lower count, because another thread may have accepted the loss of commits by now.
                count_expected = min(commits.announced, self._commits.get(server, commits).announced)
                stored_count = stored_commits.get(server, _NO_COMMITS).announced
                is_counted = commits.moment > max(moved, now - FORGOTTEN_AFTER + DAY)
                if stored_count < count_expected and is_counted:
                    missing[server] = count_expected - stored_count
            if missing:
                self._lose(missing, stored_commits)
                self.on_accepted_loss(connection)
            elif self.losses.refused is not None:
                self.losses.refused = None
                log.warning("the database contains every acknowledged change, and is used again")
            if writes:
                # This count may include a commit with an unknown outcome, which was not acknowledged yet.
                self._own_unconfirmed = stored_commits.get(self.server, _NO_COMMITS)
            if timeline != self._timeline:
                before, self._timeline = self._timeline, timeline
                self.on_move(before, timeline)

    def remember(self, file: Path) -> None:
        """Load the commits that earlier servers recorded in this file; from now on, record commits in it."""
        self._file = file
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            commits = {int(server): Commits(*each) for server, each in content["commits"].items()}
            timeline = Timeline(*content["place"])
            if "acknowledged" in content:  # not in the files of earlier versions
                commits[content["server"]] = max(
                    commits[content["server"]], Commits(*content["acknowledged"])
                )
        except FileNotFoundError:
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            log.warning("the record of the commits seen before this start cannot be read: %r", error)
            return
        self._commits |= commits
        if not self._accepts_loss:
            self._timeline = timeline

    def close(self) -> None:
        """Write the file for the last time and close it, after the server has stopped."""
        with self._lock:
            self._keep()
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _keep(self) -> None:
        state = (self.server, self._timeline, self._commits)
        if self._file is None or self._timeline is None or self._content == state:
            return
        own = _OWN_COMMITS % self._commits[self.server]
        rest = {"server": self.server, "place": self._timeline, "commits": self._commits}
        try:
            write_private(self._file, f"{own}, {json.dumps(rest)[1:]}")
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = os.open(self._file, os.O_WRONLY)
        except OSError as error:
            log.warning("the record of the commits seen cannot be written for the next start: %s", error)
            self._file = self._descriptor = None
        self._content = (self.server, self._timeline, dict(self._commits))

    def _write_own(self, file: int, commits: Commits) -> None:
        """Overwrite only the counts of this server in the file, which takes a few microseconds."""
        try:
            os.pwrite(file, (_OWN_COMMITS % commits).encode(), 0)
        except OSError as error:
            log.warning("the record of the commits seen cannot be written for the next start: %s", error)
            self._file = self._descriptor = None

    def _require_timeline(self, timeline: Timeline) -> None:
        known = self._timeline
        if known is not None and timeline.system == known.system and timeline.number < known.number:
            self._refuse(
                f"The database that can be reached is on timeline {timeline.number} of its cluster, and this"
                f" server has seen timeline {known.number}: it is a primary from before a failover."
            )

    def _lose(self, missing: Mapping[int, int], stored_commits: Mapping[int, Commits]) -> None:
        """Refuse a database that lacks commits, or accept the loss.

        `missing` is the number of missing commits of each server. Call this while you hold the lock.
        """
        stored_count = stored_commits.get(self.server, _NO_COMMITS).announced
        commits = [each for each in self._own if each.number > stored_count]
        books = sum([each.works for each in commits], Counter[BookKey]())
        own = missing.get(self.server, 0)
        of_others = sum(missing.values()) - missing.get(self.server, 0)
        sentences = []
        if own:
            since = f" since {iso(commits[0].moment)}" if commits else ""
            sentences.append(f"{_commits(own)} that this server has acknowledged{since}")
        if of_others:
            newest = max([self._commits[server].moment for server in missing])
            sentences.append(
                f"{_commits(of_others)} that other servers have acknowledged, the last one at {iso(newest)}"
            )
        lacks = f"lacks {' and '.join(sentences)}."
        if not self._accepts_loss:
            self._refuse(f"The database that can be reached {lacks}", books)
        self.losses.accepted = f"With --accept-loss this server uses a database that {lacks}"
        self.losses.refused = None
        self.losses.commits += own + of_others
        log.error("%s%s", self.losses.accepted, _by_book(books))
        self._own.clear()
        for server in missing:
            self._commits[server] = stored_commits.get(server, _NO_COMMITS)
        self.server = new_server()
        self._commits[self.server] = self._own_unconfirmed = _NO_COMMITS

    def _refuse(self, sentence: str, books: Counter[BookKey] = _NO_BOOKS) -> None:
        refusal = f"{sentence} It is not used. {_ADVICE}"
        if refusal != self.losses.refused:
            log.error("%s%s", refusal, _by_book(books))
        self.losses.refused = refusal
        raise ConnectionLost(sentence.rstrip("."), OLDER)


def _commits(count: int) -> str:
    return "1 commit" if count == 1 else f"{count} commits"


def _by_book(works: Counter[BookKey]) -> str:
    """Return the affected books as text for the log, but not for the health check, which anybody can read."""
    names = [f"{count} in {_name(book)}" for book, count in works.most_common(_BOOKS_NAMED_MAX)]
    more = f", and more in {len(works) - len(names)} other books" if len(works) > len(names) else ""
    return f" Changes by book: {', '.join(names)}{more}." if names else ""


def _name(book: BookKey) -> str:
    if book in OF_NO_PROJECT:
        return "the records of the servers"
    project, is_live = book
    return f"the {'live' if is_live else 'test'} mode of {project}"
