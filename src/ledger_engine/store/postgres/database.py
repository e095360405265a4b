"""The PostgreSQL database: one thread that writes in groups, and a few threads that read.

A *work* is a function of a `Unit` (see `store`). As on SQLite, the works of a group share a transaction, and
their callers get answers after the commit. Other servers can write too, but only one server at a time writes
a book (`locks`). If another server has locked some of a group's books, the group needs further transactions
(`committer`). The listeners of this process are also called after commits of other servers (`notifications`).
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from ledger_engine.core.clock import Clock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource, moment_of
from ledger_engine.core.measuring import CommitObserver
from ledger_engine.store import OWN, BookWork, Everything, Figure, Losses, T, Unit, Work, kept_time
from ledger_engine.store.postgres import requirements, seen
from ledger_engine.store.postgres.committer import Committer, Counts, OutcomeUnknown
from ledger_engine.store.postgres.confirmations import Confirmations
from ledger_engine.store.postgres.connection import ENDLESS, UNLIMITED, PostgresConnection
from ledger_engine.store.postgres.errors import (
    UNCONFIRMED_REASON,
    ConnectionLost,
    DatabaseFailed,
    is_of_others,
    public_error,
    unavailable,
)
from ledger_engine.store.postgres.hosts import Hosts
from ledger_engine.store.postgres.locks import OF_SERVERS, Locks
from ledger_engine.store.postgres.migrations import PostgresTables
from ledger_engine.store.postgres.notifications import NotificationFollower
from ledger_engine.store.postgres.rate_counts import ANSWER_S as COUNT_ANSWER_S
from ledger_engine.store.postgres.rate_counts import RateCounts
from ledger_engine.store.postgres.rate_limits import CountedTogether
from ledger_engine.store.postgres.readers import Readers
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.seen import FORGOTTEN_AFTER, SeenCommits, Timeline
from ledger_engine.store.postgres.unit import Numeric
from ledger_engine.store.threaded import CLOSE_S, SILENT, QueuedWork, ThreadedDatabase, call_soon

# This many seconds of a request's time limit are reserved for steps other than the work, such as counting
# the request.
_COUNTED_S = COUNT_ANSWER_S + 0.5
# How long `figures` waits for the database, in seconds. This is shorter than the timeout of a Prometheus
# scrape, so that a scrape gets at least the figures that need no database.
_MEASURED_S = 2
_STATEMENT_S = 8
_LOCK_S = 6
_PROBE, _PROBE_ROWS = "probe ", 100  # 100 rows fill about 400 kB
_STATE = "postgresql.json"  # the file in the folder `state` in which a server records the commits it has seen
# A server that hangs inside a transaction loses the transaction and the locks of its books after this many
# seconds.
_IDLE_S = 5


class PostgresDatabase(ThreadedDatabase):
    """One PostgreSQL database. Open it with `open_database`.

    `rate_limits` counts the requests of all servers of the database.
    """

    _readers: Readers

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        serving: bool,
        accept_loss: bool = False,
        state: Path | None = None,
    ) -> None:
        super().__init__(serving=serving, can_read=_probe, can_write=_can_post)
        self._clock = clock
        self._has_limits = serving
        self._answer_s -= _COUNTED_S
        self._numeric: Numeric = {}
        self.ids = IdSource()
        self._seen_commits = SeenCommits(accepts_loss=accept_loss)
        self._seen_commits.on_move = self._follow_timeline
        self._seen_commits.on_accepted_loss = self._abandon_all_but
        self._confirmations = Confirmations()
        if state is not None:
            self._seen_commits.remember(state / _STATE)
        self._hosts = Hosts(url)
        with suppress(DatabaseFailed):  # the engine has no timelines, or this role has no right to read them
            self._hosts.open_greatest(lambda connection: seen.timeline_of(connection).number, self._answer_s)
        with closing(self._open()) as connection:
            requirements.require_usable(connection, self._open)
            rows_apart = requirements.tells_rows_apart(connection)
            self._seen_commits.has_timelines = seen.has_timelines(connection)
            tables = PostgresTables(connection)
            if tables.pending():  # a migration can take longer than a server's statements are allowed to
                with closing(self._hosts.open(math.inf, UNLIMITED)) as free_connection:
                    PostgresTables(free_connection).bring_up_to_date()
            tables.require_all_there()
            if serving:
                self._require_newest(connection)
            self._follow_clocks(connection)
        # For serializable transactions, a sequential scan counts as a read of all rows of the table, in all
        # books. So without this setting transactions of different books would make each other fail.
        settings = ("SET enable_seqscan TO off",) if rows_apart else ()
        self._committer = Committer(
            clock,
            self.ids,
            Locks(self._seen_commits.server, own=self._seen_commits.server, rows_apart=rows_apart),
            partial(self._connect, settings, writes=True),
            self._numeric,
            self._seen_commits,
            self._confirmations,
        )
        self._readers = Readers(self._connect, clock, self.ids, self._numeric, self._is_writing)
        self._follower: NotificationFollower | None = None
        if serving:
            self._follower = NotificationFollower(
                self._connect, self._announce, self._seen_commits, self._confirmations
            )
        self.rate_limits = CountedTogether(RateCounts(self._hosts.open))
        self._thread = threading.Thread(target=self._write_until_closed, name="ledger-writer", daemon=True)
        self._thread.start()
        self._readers.start()
        if self._follower is not None:
            self._follower.start()

    @property
    def losses(self) -> Losses:
        """Return the acknowledged commits that this server knows to be lost."""
        return self._seen_commits.losses

    @property
    def counts(self) -> Counts:
        """Return the counts of this server's transactions that write."""
        return self._committer.counts

    async def read(self, work: Work[T]) -> T:
        began = asyncio.get_running_loop().time()
        try:
            answer = await super().read(work)
        except StorageUnavailable:
            raise
        except Exception:  # an error such as NotFound may also depend on an unconfirmed commit
            await self._require_confirmed(began)
            raise
        await self._require_confirmed(began)
        return answer

    async def _require_confirmed(self, began: float) -> None:
        """If there is a doubt (`confirmations`), wait until a standby has received every visible commit.

        `began` is the time at which the event loop received the work whose answer depends on these commits.
        Raises StorageUnavailable.
        """
        if not self._confirmations.in_doubt:
            return
        try:
            async with asyncio.timeout_at(began + self._answer_s):
                if self._confirmations.unconfirmed(await super().read(_announced)):
                    await super().write(_CONFIRM)
        except TimeoutError:
            raise StorageUnavailable(UNCONFIRMED_REASON) from None
        # The caller only reads. It has no change whose outcome is unknown, so `unknown` must not be set.
        except StorageUnavailable as error:
            reason = UNCONFIRMED_REASON if error.reason == SILENT else error.reason
            raise StorageUnavailable(reason) from error

    async def figures(self) -> list[Figure]:
        """Return this server's counts of losses, retries, waits and connections, and the database's sizes."""
        losses, counts = self.losses, self.counts
        figures = [
            Figure(
                "ledger_storage_older",
                losses.refused is not None,
                "1 while the database that can be reached lacks acknowledged changes, and is not used.",
            ),
            Figure(
                "ledger_lost_changes",
                losses.commits,
                "Acknowledged commits given up with --accept-loss.",
                True,
            ),
            Figure("ledger_storage_retries", counts.retries, "Transactions that were tried again.", True),
            Figure(
                "ledger_storage_lock_waits",
                counts.lock_waits,
                "Waits for a book that another server had locked.",
                True,
            ),
            Figure(
                "ledger_storage_lock_wait_seconds",
                counts.lock_wait_s,
                "Time spent waiting for locked books.",
                True,
            ),
            Figure(
                "ledger_storage_connections", self._hosts.opened_total, "Connections that were opened.", True
            ),
        ]
        try:
            async with asyncio.timeout(_MEASURED_S):
                return figures + await super().read(_measured)
        except (StorageUnavailable, DatabaseFailed, TimeoutError):  # no answer, or no permission for the role
            return figures

    def observe_commits(self, observer: CommitObserver) -> None:
        self._committer.observer = observer

    async def close(self) -> None:
        if self._closing:
            return
        await self.rate_limits.close()
        await super().close()
        if self._follower is not None:
            await asyncio.to_thread(self._follower.stop, CLOSE_S)
        self._seen_commits.close()

    def _connect(self, more_settings: Sequence[str] = (), *, writes: bool = False) -> PostgresConnection:
        """Open a connection for works.

        A server refuses a database that lacks commits that the server has seen (module `seen`).
        """
        if not self._has_limits:
            return self._open(more_settings)
        connection = self._open(more_settings, partial(self._require_newest, writes=writes))
        # A restart of the database may have ended the last connection. A restart also ends the waits of
        # commits for the standby. So a commit may be visible now although no standby has received it.
        self._confirmations.doubt()
        return connection

    def _open(
        self, more_settings: Sequence[str] = (), require: Callable[[PostgresConnection], None] | None = None
    ) -> PostgresConnection:
        settings = [*more_settings]
        if self._has_limits:
            settings += [
                f"SET statement_timeout TO {_STATEMENT_S * 1000}",
                f"SET lock_timeout TO {_LOCK_S * 1000}",
                f"SET idle_in_transaction_session_timeout TO {_IDLE_S * 1000}",
                ENDLESS,
            ]
        else:
            settings += UNLIMITED
        return self._hosts.open(self._answer_s, settings, require)

    def _require_newest(self, connection: PostgresConnection, *, writes: bool = False) -> None:
        self._seen_commits.require_newest(connection, self._clock.now(), writes=writes)

    def _follow_timeline(self, before: Timeline | None, timeline: Timeline) -> None:
        """Stop using connections on other timelines, and forget the confirmations on the former timeline."""
        if before is not None:
            self._confirmations.forget()
        self._hosts.abandon(lambda connection: connection.timeline not in (None, timeline))

    def _abandon_all_but(self, connection: PostgresConnection) -> None:
        """Stop using all connections except `connection`, on which the loss of commits was accepted.

        After an accepted loss the server has a new number, but the other connections would write under the
        old number (`SeenCommits`).
        """
        self._hosts.abandon(lambda other: other is not connection)

    def _follow_clocks(self, connection: PostgresConnection) -> None:
        """Advance the clock past every time in the database, so that nothing expired becomes valid again.

        If this process is a server, also delete old rows of other servers and of commands.
        """
        (newest,) = connection.rows(rendered(kept_time.NEWEST_EVENT), {})
        if newest["id"] is not None:
            self._clock.advance_past(moment_of(newest["id"]))
        (reached_time,) = connection.rows(
            rendered("SELECT greatest(reached, (SELECT max(moment) FROM heads)) AS moment FROM kept_time"), {}
        )
        self._clock.advance_past(reached_time["moment"])
        if self._has_limits:
            # Delete the rows of servers and commands that have not written for long. If such a server still
            # runs, its next commit creates the row again.
            long_ago = self._clock.now() - FORGOTTEN_AFTER
            connection.send(
                rendered(f"DELETE FROM heads WHERE {OF_SERVERS} AND moment < :moment"), {"moment": long_ago}
            )
            connection.settle()

    def _announce(self, topics: frozenset[str]) -> None:
        """Call the listeners, in their event loops, with the topics that other servers announced."""
        for loop in list(self._loops):
            call_soon(loop, partial(self._call_listeners, topics))

    def _call_listeners(self, topics: frozenset[str]) -> None:
        for listener in self._listeners:
            listener(topics)

    async def _waits_for_others(self) -> bool:
        process = self._committer.process
        return process is not None and await super().read(partial(_waits_for_lock, process=process))

    # Methods of the writer's thread

    def _write_until_closed(self) -> None:
        while (group := self._writes.get()) is not None:
            works_left = len(group)
            for works, topics, error in self._committer.commit(group):
                works_left -= len(works)
                if error is not None:
                    self._is_lost = self._is_lost or not is_of_others(error)
                    self._give_up(works, error)
                # On a full disk, a commit without a topic may still succeed, such as the renewal of a lease.
                # So only a commit that announces a topic, or the test `_can_post`, shows that postings are
                # possible.
                elif topics or any(job.work is _can_post and job.error is None for job in works):
                    self._is_lost = False
                unknown = isinstance(error, OutcomeUnknown)
                self._settle(works, Everything() if unknown else topics, ends_group=not works_left)
        self._committer.close()

    def _give_up(self, group: list[QueuedWork], error: Exception) -> None:
        failure = public_error(error)
        if isinstance(error, OutcomeUnknown):
            failure = unavailable(error.__cause__ or error, unknown=True)
        elif not isinstance(failure, StorageUnavailable):
            failure = unavailable(error)
        for job in group:
            job.answer, job.error = None, failure


def open_database(
    url: str,
    clock: Clock,
    *,
    serving: bool,
    accept_loss: bool = False,
    state: Path | None = None,
) -> PostgresDatabase:
    """Open the database at this address, and create or migrate the tables as needed.

    `serving` is true for a server, whose works then have a time limit. A server records in the folder `state`
    which commits it has seen; with `accept_loss` it uses a database that lacks some of these commits.

    Raises StorageUnavailable.
    """
    try:
        return PostgresDatabase(url, clock, serving=serving, accept_loss=accept_loss, state=state)
    except (ConnectionLost, DatabaseFailed) as error:
        raise unavailable(error) from error


def _announced(unit: Unit) -> dict[int, int]:
    """Return how many commits of each server, including this server, announced something."""
    rows = unit.execute(f"SELECT server, announced FROM heads WHERE {OF_SERVERS}")
    return {row["server"]: row["announced"] for row in rows}


def _write_nothing(unit: Unit) -> None:
    unit.execute("UPDATE kept_time SET reached = reached WHERE false")


# Once this commit is confirmed, the standby has received everything that was visible before the commit.
_CONFIRM = BookWork(_write_nothing, OWN)


def _probe(unit: Unit) -> None:
    unit.execute("SELECT 1 AS one")


def _can_post(unit: Unit) -> None:
    """Test whether postings are possible.

    This writes as many pages as postings need, because a full disk may still have space for one page.

    The test rows go to the table of rate counts. This table is unlogged, so the test rows add nothing to the
    write-ahead log.
    """
    kept_time.reach(unit)
    unit.execute(
        "INSERT INTO rate_counts"
        " (who, moment, in_second, in_minute, granted, requests, per_minute, per_second)"
        f" SELECT '{_PROBE}' || repeat('x', 1500) || number, 0, 0, 0, 0, 0, 0, 0"
        f" FROM generate_series(1, {_PROBE_ROWS}) AS number"
    )
    unit.execute(f"DELETE FROM rate_counts WHERE who > '{_PROBE}' AND who < '{_PROBE}y'")


def _measured(unit: Unit) -> list[Figure]:
    (size,) = unit.execute("SELECT pg_database_size(current_database()) AS bytes")
    (standbys,) = unit.execute(
        "SELECT count(*) AS count, max(extract(epoch FROM coalesce(replay_lag, interval '0'))) AS lag_s,"
        " count(state) AS visible FROM pg_stat_replication"
        # A running pg_basebackup is no standby. Roles without the rights of pg_monitor see NULL as the state.
        " WHERE application_name <> 'pg_basebackup' AND state IS DISTINCT FROM 'backup'"
    )
    figures = [
        Figure("ledger_database_bytes", size["bytes"], "Size of the database."),
        Figure("ledger_standbys", standbys["count"], "Standbys that follow the database."),
    ]
    if standbys["visible"]:  # only a role with the rights of pg_monitor sees the lag
        lag_s = float(standbys["lag_s"])
        figures.append(
            Figure("ledger_replication_lag_seconds", lag_s, "How far the slowest standby is behind.")
        )
    return figures


def _waits_for_lock(unit: Unit, process: int) -> bool:
    row = unit.first(
        "SELECT count(*) AS locks FROM pg_locks WHERE pid = :process AND NOT granted", {"process": process}
    )
    return row is not None and bool(row["locks"])
