"""Connections to PostgreSQL that stay open from one test's engine to the next.

A new one starts a process of the server, which then reads the catalogue for every table that is used: half of
the CPU time of a short test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from psycopg import Error, pq
from psycopg.pq.abc import PGconn

from ledger_engine.store.postgres import connection
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed

_connect, _close, _interrupt = connection.connect_host, PostgresConnection.close, PostgresConnection.interrupt
_idle: dict[str, list[PGconn]] = defaultdict(list)  # by address


@contextmanager
def kept_connections() -> Iterator[None]:
    """Keep the connections that are closed meanwhile, as if they were new, for the next that are opened."""
    interrupted: set[PostgresConnection] = set()  # something may still come over them

    def connect(url: str, limit_s: float) -> PGconn:
        while _idle[url]:
            kept = _idle[url].pop()
            if _is_reset(kept):  # nobody has ended it meanwhile
                return kept
            kept.finish()
        made = _connect(url, limit_s)
        addresses[made] = url
        return made

    def interrupt(used: PostgresConnection) -> None:
        interrupted.add(used)
        _interrupt(used)

    def close(used: PostgresConnection) -> None:
        kept = used._pg
        if used not in interrupted and _has_ended(used) and _is_clean(kept):
            used._is_broken = True
            _idle[addresses[kept]].append(kept)
        else:
            _close(used)

    addresses: dict[PGconn, str] = {each: url for url, idle in _idle.items() for each in idle}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "connect_host", connect)
        patch.setattr(PostgresConnection, "interrupt", interrupt)
        patch.setattr(PostgresConnection, "close", close)
        yield


def _has_ended(used: PostgresConnection) -> bool:
    """Wait for what was sent, and return whether the connection can still be used."""
    with suppress(ConnectionLost, DatabaseFailed):
        used.settle()
    return used.usable


def _is_clean(kept: PGconn) -> bool:
    """Make a connection like a new one, and return whether that was possible."""
    try:
        if kept.transaction_status != pq.TransactionStatus.IDLE:
            return False
        kept.exit_pipeline_mode()
        kept.nonblocking = 0
        return _is_reset(kept)
    except Error:
        return False


def _is_reset(kept: PGconn) -> bool:
    """Give back all locks, settings, prepared statements and channels of a connection."""
    return kept.exec_(b"DISCARD ALL").status == pq.ExecStatus.COMMAND_OK
