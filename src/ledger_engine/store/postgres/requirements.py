"""Checks that a database can store a ledger, and how precisely its serializable transactions track reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost
from ledger_engine.store.postgres.rendering import rendered

OLDEST = 160_000  # PostgreSQL 16
_VERSION = rendered("SELECT version() AS version")
# By default PostgreSQL tracks a whole page once a transaction has read three rows of the page, and a whole
# table once the transaction has read 33 rows or pages of the table. To track single rows of a ledger,
# PostgreSQL needs at least the limits below: for a page, for a table, and for all transactions together.
_ROWS_OF_PAGE, _ROWS_OF_TABLE, _ROWS_OF_ALL = 100, 10_000, 50_000
_ROWS_APART = rendered(
    "SELECT current_setting('max_pred_locks_per_page')::bigint AS of_page,"
    " current_setting('max_pred_locks_per_relation')::bigint AS of_table,"
    " current_setting('max_pred_locks_per_transaction')::bigint"
    " * current_setting('max_connections')::bigint AS of_all"
)

# How many further connections `_require_sessions` opens. It opens several, because another user of the pool
# may get the session first.
_POOL_TRIES = 5
_PROCESS = rendered("SELECT pg_backend_pid() AS process")
SHARED = (
    "a pooler in front of it, such as PgBouncer, shares sessions between connections; use its session mode"
    " (`pool_mode = session`)"
)


def require_usable(connection: PostgresConnection, connect: Callable[[], PostgresConnection]) -> None:
    """Raise StorageUnavailable for a database that cannot store a ledger.

    The ledger needs PostgreSQL 16 or newer, the encoding UTF8, and a separate session for each connection.
    `connect` opens a further connection.
    """
    require_version(connection.server_version, str(connection.rows(_VERSION, {})[0]["version"]))
    if connection.encoding != "UTF8":
        raise StorageUnavailable(
            f"its encoding is {connection.encoding}, but the ledger needs UTF8; create the database again"
            " with TEMPLATE template0 ENCODING 'UTF8'"
        )
    _require_sessions(connection, connect)


def require_version(number: int, version: str) -> None:
    """Raise StorageUnavailable for an older version of PostgreSQL, and for another engine.

    `number` is the version in PostgreSQL's form, such as 180001, and `version` the answer of `version()`.
    Some engines that speak PostgreSQL's protocol offer advisory locks that lock nothing. On such an engine
    two servers could write one book at the same time.
    """
    if number < OLDEST or not version.startswith("PostgreSQL ") or "-YB-" in version:
        product = " ".join(version.split()[:2])
        raise StorageUnavailable(f"it is {product}, but the ledger needs PostgreSQL 16 or newer")


def tells_rows_apart(connection: PostgresConnection) -> bool:
    """Return whether PostgreSQL tracks reads of serializable transactions by rows, not by pages or tables.

    If PostgreSQL tracks rows, a concurrent transaction that writes other rows never makes a transaction fail
    (docs/postgresql.md#sizing).
    """
    (limits,) = connection.rows(_ROWS_APART, {})
    least = (("of_page", _ROWS_OF_PAGE), ("of_table", _ROWS_OF_TABLE), ("of_all", _ROWS_OF_ALL))
    return all(limits[name] >= rows for name, rows in least)


def _require_sessions(connection: PostgresConnection, connect: Callable[[], PostgresConnection]) -> None:
    """Raise StorageUnavailable if transactions of several connections share a session.

    Locks, prepared statements, settings and notifications belong to sessions. Over shared sessions a ledger
    would seem to work, but lose its locks. Behind a pooler, the process number that was sent when the
    connection was opened differs from the number of the process that runs the statements. In this case the
    pooler may take the session away from the connection after each transaction. To find this out, the
    function opens further connections and checks whether one of them gets the session of `connection`.
    """
    own = _process_of(connection)
    if own == connection.process:
        return
    for _ in range(_POOL_TRIES):
        with closing(connect()) as other:
            try:
                other.send(rendered("BEGIN"))
                others = _process_of(other)
            except ConnectionLost as error:  # the pooler does not even keep one session for a transaction
                raise StorageUnavailable(SHARED) from error
        if others == own or _process_of(connection) != own:
            raise StorageUnavailable(SHARED)


def _process_of(connection: PostgresConnection) -> int:
    process: int = connection.rows(_PROCESS, {})[0]["process"]
    return process
