"""Poolers of connections such as PgBouncer: they must give each connection a session of its own.

Locks, prepared statements, settings and notifications belong to sessions. Where transactions share them a
ledger would seem to work, and lose its locks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.errors import ConnectionLost
from ledger_engine.store.postgres.rendering import rendered

_TRIES = 5  # as others may use the pool too
_PROCESS = rendered("SELECT pg_backend_pid() AS process")
SHARED = (
    "PgBouncer, or another pooler before it, does not give each connection a session of its own; use its"
    " session mode (`pool_mode = session`)"
)


def require_sessions(connection: Connection, connect: Callable[[], Connection]) -> None:
    """Raise StorageUnavailable where transactions of several connections share a session.

    A pooler gives a connection a number that is not that of its process. Whether it also takes the session
    away after a transaction shows when that goes to the next one who asks.
    """
    own = _process_of(connection)
    if own == connection.process:
        return
    for _ in range(_TRIES):
        with closing(connect()) as other:
            try:
                other.send(rendered("BEGIN"))
                others = _process_of(other)
            except ConnectionLost as error:  # where not even a transaction has a session
                raise StorageUnavailable(SHARED) from error
        if others == own or _process_of(connection) != own:
            raise StorageUnavailable(SHARED)


def _process_of(connection: Connection) -> int:
    process: int = connection.rows(_PROCESS, {})[0]["process"]
    return process
