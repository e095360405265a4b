"""What a database can, found out by asking it: PostgreSQL, what speaks its protocol, or a pooler before it.

docs/design/014-distributed-engines.md says of each what it has.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.postgres import seen
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed
from ledger_engine.store.postgres.rendering import rendered

OLDEST = 160_000  # PostgreSQL 16
_OLDEST_YUGABYTE = 150_000
_COCKROACH, _YUGABYTE = "CockroachDB", "-YB-"
_TRIAL = "ledger_trial"  # a channel
# By its defaults PostgreSQL takes three rows read of a page for the page, and 33 of a table for the table.
_ROWS_OF_PAGE, _ROWS_OF_TABLE, _ROWS_OF_ALL = 100, 10_000, 50_000
_ROWS_APART = (
    "SELECT current_setting('max_pred_locks_per_page', true)::bigint AS of_page,"
    " current_setting('max_pred_locks_per_relation', true)::bigint AS of_table,"
    " current_setting('max_pred_locks_per_transaction', true)::bigint"
    " * current_setting('max_connections', true)::bigint AS of_all"
)
_IN_ORDER = "SELECT word FROM unnest(:words::text[]) AS word ORDER BY word"
# Words whose order by bytes is no language's: capitals come first, and what is not ASCII last.
_UNORDERED = ("a", "B", "a-c", "ab", "\u00e9", "z", "\uffff", "\U00010000")

_POOL_TRIES = 5  # as others may use the pool too
_PROCESS = rendered("SELECT pg_backend_pid() AS process")
SHARED = (
    "PgBouncer, or another pooler before it, does not give each connection a session of its own; use its"
    " session mode (`pool_mode = session`)"
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one database can.

    `advisory_locks`: of a session. `notifications`: LISTEN and NOTIFY. `tables_together`: several changes of
    tables in one transaction, all or none. `collations`: a column may have the collation "C"; one that cannot
    compares text by its bytes anyway. `unlogged`: tables that a crash empties, and how full their pages are.
    `rows_apart`: serializable transactions that read other rows than a concurrent one writes do not fail
    (docs/scaling.md#sizing). `timelines`: it tells which cluster it is, and on which timeline.
    """

    advisory_locks: bool
    notifications: bool
    tables_together: bool
    collations: bool
    unlogged: bool
    rows_apart: bool
    timelines: bool


def ask(connection: Connection, *, plain: bool = False) -> Abilities:
    """Return what the database can; with `plain` as little as any that the ledger takes.

    Raises StorageUnavailable for one that is too old, or that does not compare text by its bytes.
    """
    version = str(connection.rows(rendered("SELECT version() AS version"), {})[0]["version"])
    is_cockroach, is_yugabyte = _COCKROACH in version, _YUGABYTE in version
    if not is_cockroach:
        require_version(connection.server_version, version)
    require_encoding(connection.encoding)
    collations = not plain and not is_cockroach
    if not collations:
        _require_order_by_bytes(connection)
    return Abilities(
        advisory_locks=not plain and _has_advisory_locks(connection),
        notifications=not plain and _can_notify(connection),
        tables_together=not plain and not is_cockroach and not is_yugabyte,
        collations=collations,
        unlogged=not plain and not is_cockroach and not is_yugabyte,
        rows_apart=not plain and not is_cockroach and not is_yugabyte and _keeps_rows_apart(connection),
        timelines=not plain and _has_timelines(connection),
    )


def require_version(number: int, said: str = "") -> None:
    """Raise StorageUnavailable for a database that is too old.

    `number` is its version as PostgreSQL counts, such as 180001, and `said` what it says itself.
    """
    if _YUGABYTE in said:
        if number < _OLDEST_YUGABYTE:
            raise StorageUnavailable(
                f"it is a YugabyteDB on PostgreSQL {number // 10_000}, and the ledger needs one on 15"
            )
    elif number < OLDEST:
        raise StorageUnavailable(f"it is PostgreSQL {number // 10_000}, and the ledger needs 16 or newer")


def require_encoding(encoding: str) -> None:
    """Raise StorageUnavailable for a database that cannot store every text."""
    if encoding != "UTF8":
        raise StorageUnavailable(
            f"its encoding is {encoding}, and the ledger needs UTF8; create the database again with"
            " TEMPLATE template0 ENCODING 'UTF8'"
        )


def _require_order_by_bytes(connection: Connection) -> None:
    found = connection.rows(rendered(_IN_ORDER), {"words": "{" + ",".join(_UNORDERED) + "}"})
    if [row["word"] for row in found] != sorted(_UNORDERED, key=str.encode):
        raise StorageUnavailable(
            "it does not compare text by its bytes, as ids need; make it anew with the collation C"
        )


def _keeps_rows_apart(connection: Connection) -> bool:
    """Return whether the server remembers enough rows that serializable transactions have read."""
    (found,) = connection.rows(rendered(_ROWS_APART), {})
    least = (("of_page", _ROWS_OF_PAGE), ("of_table", _ROWS_OF_TABLE), ("of_all", _ROWS_OF_ALL))
    return all(found[name] is not None and found[name] >= rows for name, rows in least)


def _has_timelines(connection: Connection) -> bool:
    """Return whether the role may ask for the timeline."""
    try:
        return bool(seen.timeline_of(connection))
    except DatabaseFailed:
        return False


def _can_notify(connection: Connection) -> bool:
    """Return whether a notification can be waited for and sent: the functions alone prove nothing."""
    try:
        connection.send(rendered(f"LISTEN {_TRIAL}"))
        connection.send(rendered("SELECT pg_notify(:channel, '')"), {"channel": _TRIAL})
        connection.send(rendered(f"UNLISTEN {_TRIAL}"))
        connection.settle()
    except DatabaseFailed:
        return False
    return True


def _has(connection: Connection, function: str) -> bool:
    """Return whether the database has a function."""
    sql = rendered("SELECT count(*) AS found FROM pg_proc WHERE proname = :name")
    return bool(connection.rows(sql, {"name": function})[0]["found"])


def _has_advisory_locks(connection: Connection) -> bool:
    """Return whether advisory locks are held: CockroachDB has functions of these names that do nothing."""
    if not _has(connection, "pg_advisory_lock_shared"):
        return False
    connection.send(rendered("SELECT pg_advisory_lock_shared(:lock)"), {"lock": secrets.randbits(62)})
    connection.sync()
    held = connection.rows(
        rendered(
            "SELECT count(*) AS locks FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ),
        {},
    )
    connection.send(rendered("SELECT pg_advisory_unlock_all()"))
    return bool(held[0]["locks"])


def require_sessions(connection: Connection, connect: Callable[[], Connection]) -> None:
    """Raise StorageUnavailable where transactions of several connections share a session.

    Locks, prepared statements, settings and notifications belong to sessions, so a ledger would seem to work
    there, and lose its locks. A pooler gives a connection a number that is not that of its process. Whether
    it also takes the session away after a transaction shows when that goes to the next one who asks.
    """
    own = _process_of(connection)
    if own == connection.process:
        return
    for _ in range(_POOL_TRIES):
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
