"""The table that servers share in the tests of their rate limits, and a wall clock that tests move."""

from __future__ import annotations

from functools import partial

from ledger_engine.limits import WallClock
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rate_counts import RateCounts
from tests.postgres_server import emptied_database

MINUTE = 29_833_333 * 60  # the second a minute starts with


class Wall:
    """A wall clock that stands still until told."""

    def __init__(self) -> None:
        self.seconds: float = MINUTE

    def __call__(self) -> float:
        return self.seconds


def in_postgres(wall_clock: WallClock | None = None) -> RateCounts:
    """Return a counter on this process's database, in which nothing is counted yet."""
    return another_in_postgres(emptied_database(), wall_clock)


def another_in_postgres(database: str, wall_clock: WallClock | None = None) -> RateCounts:
    """Return a counter on a database that others may use."""
    return RateCounts(partial(PostgresConnection, database), wall_clock)
