"""Counts requests in a table that all servers of one database share.

This module counts requests on a separate connection, so counting and postings never wait for each other. The
database's clock decides when a minute and a second begin, so the clocks of the servers do not matter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from psycopg.pq.abc import PGresult

from ledger_engine.limits import WallClock
from ledger_engine.store.postgres import rendering
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost
from ledger_engine.store.postgres.rendering import SqlStatement, rendered

ANSWER_S = 1.0  # seconds without an answer, after which a server counts by itself
CLEAN_EVERY_S = 60
_TYPES = (rendering.UNKNOWN, rendering.UNKNOWN, rendering.UNKNOWN, rendering.UNKNOWN, rendering.INT8)
_NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_LEAST = "least(requests, per_minute, per_second)"
# After this statement has read the clock, it may have to wait until another server unlocks a row. Meanwhile
# the other server may store a newer time in the row. So if the row's time is newer, this statement keeps
# the row's time. But if the row's time is newer by more than 10 seconds, somebody has set the clock of the
# database back, and this statement stores the time that it has read. `granted` is the number of requests that
# are let through. The callers are sorted, so two servers never wait for each other in a circle.
_COUNT = SqlStatement(
    f"""
INSERT INTO rate_counts AS c
    (who, moment, in_second, in_minute, granted, requests, per_minute, per_second)
SELECT who, now, {_LEAST}, {_LEAST}, {_LEAST}, requests, per_minute, per_second
FROM (SELECT coalesce($5, {_NOW}) AS now) AS clock,
    unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS asked (who, requests, per_minute, per_second)
ON CONFLICT (who) DO UPDATE SET (moment, in_second, in_minute, granted) = (
    SELECT now, in_second + granted, in_minute + granted, granted FROM (
        SELECT now, in_second, in_minute, least(
            excluded.requests,
            greatest(excluded.per_minute - in_minute, 0),
            greatest(excluded.per_second - in_second, 0)
        ) AS granted
        FROM (
            SELECT now,
                CASE WHEN c.moment / 1000 = now / 1000 THEN c.in_second ELSE 0 END AS in_second,
                CASE WHEN c.moment / 60000 = now / 60000 THEN c.in_minute ELSE 0 END AS in_minute
            FROM (
                SELECT CASE WHEN c.moment - excluded.moment BETWEEN 0 AND 10000
                    THEN c.moment ELSE excluded.moment END AS now
            ) AS clock
        ) AS before
    ) AS after
)
RETURNING who, granted, in_minute, moment
""".encode(),
    (), False, True,
)  # fmt: skip
# Deletes old rows, except the rows that another statement is updating at this moment.
_CLEAN = rendered(
    "DELETE FROM rate_counts WHERE who IN"
    f" (SELECT who FROM rate_counts WHERE moment < {_NOW} - 120000 LIMIT 10000 FOR UPDATE SKIP LOCKED)"
)


class CountRequest(NamedTuple):
    """Requests of one caller to count. If `requests` is 0, the statement only returns the counts."""

    who: str
    requests: int
    per_minute: int
    per_second: int


class CountResult(NamedTuple):
    """How many of a caller's requests are let through (`granted`).

    `in_minute` is the caller's count in the current minute, including these requests. `now` is the database's
    time in milliseconds; it decides which minute and second are the current ones.
    """

    granted: int
    in_minute: int
    now: int


class RateCounts:
    """Counts requests in the table. `connect` opens a connection with a time limit and settings."""

    def __init__(
        self,
        connect: Callable[[float, Sequence[str]], PostgresConnection],
        wall_clock: WallClock | None = None,
    ) -> None:
        """Prepare for counting. `wall_clock` replaces the database's clock if it is not None."""
        self._connect = connect
        self._wall_clock = wall_clock
        self._connection: PostgresConnection | None = None
        self._descriptor = -1
        self._answer: asyncio.Future[None] | None = None
        self._cleans_at = time.monotonic() + CLEAN_EVERY_S

    async def count(self, requests: Sequence[CountRequest]) -> list[CountResult]:
        """Count requests of different callers, and return a result for each caller, in the same order.

        A request is granted as long as the caller's counts in the minute and in the second are below the
        limits. A refused request is not counted. Raises ConnectionLost and DatabaseFailed.
        """
        requests_in_order = sorted(requests)
        try:
            connection = self._connection or await self._open()
            if time.monotonic() >= self._cleans_at:
                self._cleans_at = time.monotonic() + CLEAN_EVERY_S
                connection.send(_CLEAN)
                await self._answer_of(connection)
            now = None if self._wall_clock is None else b"%d" % (self._wall_clock() * 1000)
            columns = zip(*[_elements(request) for request in requests_in_order], strict=True)
            arrays = [b"{" + b",".join(column) + b"}" for column in columns]
            connection.put_dumped(_COUNT, [*arrays, now], _TYPES)
            result = await self._answer_of(connection)
        except BaseException:
            # Close the connection also after a cancellation: otherwise the late answer would look like the
            # answer to the next statement.
            await self.close()
            raise
        assert result is not None, "the statement returns a row for each caller"
        if len(requests_in_order) == 1:
            return [_result_of(result, 0)]
        results = {row[0]: _result_of(result, number) for number, row in enumerate(rendering.rows_of(result))}
        return [results[request.who] for request in requests]

    async def close(self) -> None:
        """Close the connection; the next use opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            connection.close()

    async def _open(self) -> PostgresConnection:
        # It does no harm if a crash of the database loses some counts, so a count need not wait for the disk.
        settings = [
            f"SET statement_timeout TO {int(ANSWER_S * 1000)}",
            "SET synchronous_commit TO off",
        ]
        connection = self._connection = await asyncio.to_thread(self._connect, ANSWER_S, settings)
        self._descriptor = connection.descriptor
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return connection

    async def _answer_of(self, connection: PostgresConnection) -> PGresult | None:
        """Wait for the result of the sent statement without blocking the event loop, and return it."""
        self._answer = asyncio.get_running_loop().create_future()
        connection.flush()
        await self._answer
        return connection.take()

    def _read(self) -> None:
        """Read the input, and wake the waiting task once an answer is complete."""
        if self._connection is None:
            return
        answer = self._answer
        try:
            has_answered = self._connection.has_answered()
        except ConnectionLost as error:
            # Remove the reader at once, because the number of the closed descriptor may soon belong to
            # another file.
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._connection = None
            if answer is not None and not answer.done():
                answer.set_exception(error)
            return
        if has_answered and answer is not None and not answer.done():
            answer.set_result(None)


@lru_cache(maxsize=4096)
def _elements(request: CountRequest) -> tuple[bytes, ...]:
    """Return the values of a request as elements of arrays; cached, because most callers come again."""
    return tuple([rendering.element(value) for value in request])


def _result_of(result: PGresult, row: int) -> CountResult:
    """Return the result of one caller's requests."""
    grants, in_minute, now = [int(result.get_value(row, column) or b"") for column in (1, 2, 3)]
    return CountResult(grants, in_minute, now)
