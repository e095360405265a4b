"""Checks the rows and indexes of a ledger on PostgreSQL.

The rows must refer to rows that exist, and have valid amounts and types. The indexes must agree with the
tables.

A row can refer to a missing row only if somebody has switched foreign keys off. The extension amcheck checks
the indexes. Without amcheck this module does not check the indexes, and `why_indexes_unchecked` returns the
reason. An SQL query cannot check an index, because PostgreSQL answers the query from the index, even if the
index is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.unit import PostgresUnit
from ledger_engine.store.read_snapshot import ReportRows, report_nothing

_FAULTS_MAX = 10
_OF_CONTENT = ("22", "42")  # impossible values, and missing tables or columns
_DAMAGED = ("XX001", "XX002")  # a damaged page of a table, a damaged index
_AMCHECK = rendered(
    "SELECT CAST(check_ IS NOT NULL AS int) AS there,"
    " CAST(coalesce(has_function_privilege(check_, 'EXECUTE'), false) AS int) AS allowed"
    " FROM (SELECT to_regprocedure('bt_index_check(regclass, boolean)') AS check_) AS found"
)
_INDEXES = rendered(
    "SELECT CAST(indexrelid::regclass AS text) AS name, CAST(indrelid::regclass AS text) AS indexed"
    " FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam"
    " WHERE relnamespace = current_schema()::regnamespace AND amname = 'btree' AND indisvalid ORDER BY 1"
)
# Returns, for each foreign key, a statement that finds a row with a reference to a missing row.
_FOREIGN_KEYS = rendered("""
SELECT format(
    'SELECT %L AS named_by, %L AS named WHERE EXISTS (SELECT 1 FROM %s AS c WHERE %s'
    ' AND NOT EXISTS (SELECT 1 FROM %s AS p WHERE %s))',
    conrelid::regclass, confrelid::regclass, conrelid::regclass,
    string_agg(format('c.%I IS NOT NULL', child.attname), ' AND '), confrelid::regclass,
    string_agg(format('p.%I = c.%I', parent.attname, child.attname), ' AND ')
) AS found
FROM pg_constraint
CROSS JOIN LATERAL unnest(conkey, confkey) AS pair (child, parent)
JOIN pg_attribute AS child ON child.attrelid = conrelid AND child.attnum = pair.child
JOIN pg_attribute AS parent ON parent.attrelid = confrelid AND parent.attnum = pair.parent
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
GROUP BY conname, conrelid, confrelid ORDER BY conrelid::regclass::text, conname
""")
# Finds a transaction with an amount or a type that a constraint of the table forbids.
_FORBIDDEN = rendered(
    "SELECT id FROM transactions WHERE amount <= 0 OR type NOT IN ('credit', 'debit')"
    " ORDER BY book, id LIMIT 1"
)
_CHECK = rendered("SELECT bt_index_check(CAST(:name AS regclass), true)")
_SAVEPOINT, _RELEASE = rendered("SAVEPOINT index_check"), rendered("RELEASE SAVEPOINT index_check")
_BACK = rendered("ROLLBACK TO SAVEPOINT index_check")


class PostgresAuditUnit(PostgresUnit):
    """The `AuditUnit` of a PostgreSQL connection."""

    __slots__ = ("_differences", "report")

    def __init__(self, connection: PostgresConnection, differences: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(connection, SystemClock(), IdSource(), {})
        self._differences = differences
        self.report: ReportRows = report_nothing

    def note_read(self, rows: int, /) -> None:
        self.report(rows)

    def is_damage(self, error: Exception, /) -> bool:
        if isinstance(error, DatabaseFailed):
            return error.state in _DAMAGED or error.state[:2] in _OF_CONTENT
        return not isinstance(error, ConnectionLost | StorageUnavailable)

    def inspect(self) -> list[str]:
        return faults(self._connection)

    def schema_differences(self) -> list[tuple[str, str]]:
        return list(self._differences)


def why_indexes_unchecked(connection: PostgresConnection) -> str | None:
    """Return why the indexes cannot be checked, worded as part of a sentence; None if they can be checked."""
    (reason,) = connection.rows(_AMCHECK, {})
    if not reason["there"]:
        return "the extension amcheck is not installed"
    return None if reason["allowed"] else "the role may not execute bt_index_check of amcheck"


def faults(connection: PostgresConnection) -> list[str]:
    """Check foreign keys, the values of transactions and, if possible, indexes; return a sentence per fault.

    Each of the three checks runs only if the earlier checks have found no fault. Call this in a transaction;
    the transaction can continue even after faults.
    """
    return _missing(connection) or _forbidden(connection) or _wrong_indexes(connection)


def _missing(connection: PostgresConnection) -> list[str]:
    """Return a sentence for each foreign key with a row that refers to a missing row."""
    keys = connection.rows(_FOREIGN_KEYS, {})
    if not keys:
        return []
    rows = connection.rows(rendered(" UNION ALL ".join([key["found"] for key in keys])), {})
    return [f"a row of {row['named_by']} refers to a missing row of {row['named']}" for row in rows]


def _forbidden(connection: PostgresConnection) -> list[str]:
    rows = connection.rows(_FORBIDDEN, {})
    return [f"transaction {row['id']} has an amount or a type that is not allowed" for row in rows]


def _wrong_indexes(connection: PostgresConnection) -> list[str]:
    if why_indexes_unchecked(connection) is not None:
        return []
    indexes: list[str] = []
    for index in connection.rows(_INDEXES, {}):
        connection.send(_SAVEPOINT)
        try:
            connection.rows(_CHECK, {"name": index["name"]})
        except DatabaseFailed as error:
            if error.state not in _DAMAGED:
                raise
            connection.send(_BACK)
            indexes.append(f"index {index['name']} of {index['indexed']}: {error}")
        connection.send(_RELEASE)
        connection.settle()
        if len(indexes) == _FAULTS_MAX:
            break
    return indexes
