"""Runs works (see `store`) that only read: in threads, each with one connection to the database."""

from __future__ import annotations

from collections.abc import Callable

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed, public_error
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.unit import Numeric, PostgresUnit
from ledger_engine.store.threaded import QueuedWork, ReadingThreads, call_soon, insist

READERS = 5
TRIES = 3  # attempts for a work whose connection is lost; each further attempt uses a new connection
_BEGIN = rendered("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
_COMMIT, _ROLLBACK = rendered("COMMIT"), rendered("ROLLBACK")


class Readers(ReadingThreads):
    """Runs works in parallel, each on a snapshot of the database."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        clock: Clock,
        ids: IdSource,
        numeric: Numeric,
        is_writing: Callable[[], bool],
    ) -> None:
        super().__init__(READERS, is_writing)
        self._connect = connect
        self._clock = clock
        self._ids = ids
        self._numeric = numeric

    def _run(self) -> None:
        connection: PostgresConnection | None = None
        job: QueuedWork | None = None
        while (job := self._next(job)) is not None:
            if job.outcome.done():  # the job took too long and has failed, or was cancelled
                continue
            for tries_left in reversed(range(TRIES)):
                try:
                    if connection is None or not connection.usable:
                        connection = self._connect()
                    self._answer(connection, job)
                except ConnectionLost as error:
                    if tries_left and not job.outcome.done():
                        continue
                    job.error = public_error(error)
                except BaseException as error:
                    job.error = insist(public_error, error)
                break
            call_soon(job.loop, job.settle)
        if connection is not None:
            connection.close()

    def _answer(self, connection: PostgresConnection, job: QueuedWork) -> None:
        """Run a work in a transaction, and set its answer without waiting for the COMMIT."""
        connection.send(_BEGIN)
        try:
            unit = PostgresUnit(connection, self._clock, self._ids, self._numeric)
            job.answer = job.work(unit)
            unit.forget()
        except BaseException:
            _roll_back(connection)
            raise
        connection.send(_COMMIT)
        connection.flush()


def _roll_back(connection: PostgresConnection) -> None:
    try:
        if connection.usable:
            connection.send(_ROLLBACK)
            connection.sync()
            connection.settle()
    except (ConnectionLost, DatabaseFailed):
        connection.close()
