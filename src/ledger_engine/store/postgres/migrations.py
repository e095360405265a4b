"""Creates, migrates and compares the tables of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledger_engine.core.clock import SystemClock, iso
from ledger_engine.store import schema
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rendering import SqlStatement, rendered

_LOCK = 0x6C656467  # "ledg" as a number: the advisory lock of migrations has the two numbers _LOCK and 0
_UNLOGGED = "UNLOGGED "
_RECORD = "ledger_migrations"  # the table that records the migrations
_MAKE_RECORD = rendered(
    f'CREATE TABLE {_RECORD} (name TEXT COLLATE "C" PRIMARY KEY, applied_at TEXT NOT NULL)'
)
# Tables of an extension in the same schema do not count as tables of another program.
_TABLES = rendered(
    "SELECT CAST(relname AS text) AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace"
    " WHERE nspname = current_schema() AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT EXISTS ("
    "SELECT 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')"
)
_NAMES = rendered(
    "SELECT CAST(relname AS text) AS name FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
)
_RECORDED = rendered(f"SELECT name FROM {_RECORD}")
_CAN_COMPARE = rendered(
    "SELECT CAST(NOT pg_is_in_recovery()"
    " AND current_setting('transaction_read_only') = 'off'"
    " AND has_database_privilege(current_database(), 'TEMP') AS int) AS can"
)
# Lists all indexes and constraints that can refuse rows, including the ledger's own, each with its table.
_REFUSING = rendered("""
SELECT CAST(i.relname AS text) AS name, CAST(t.relname AS text) AS of,
    'an index of ' || t.relname || ' that is unique, partial or of an expression' AS what
FROM pg_index JOIN pg_class AS i ON i.oid = indexrelid JOIN pg_class AS t ON t.oid = indrelid
WHERE t.relnamespace = current_schema()::regnamespace
    AND (indisunique OR indisexclusion OR indexprs IS NOT NULL OR indpred IS NOT NULL)
UNION ALL
SELECT CAST(conname AS text), CAST(t.relname AS text), 'a constraint of ' || t.relname
FROM pg_constraint JOIN pg_class AS t ON t.oid = conrelid
WHERE t.relnamespace = current_schema()::regnamespace AND contype IN ('c', 'f', 'p', 'u', 'x')
UNION ALL
SELECT CAST(conname AS text), CAST(t.relname AS text), 'a foreign key of a table that refers to ' || t.relname
FROM pg_constraint JOIN pg_class AS t ON t.oid = confrelid
WHERE t.relnamespace = current_schema()::regnamespace AND contype = 'f'
""")
# Lists each object with its definition. PostgreSQL's functions print the name of a schema only if the schema
# is not in the search path. `schema_differences` puts the temporary schema into the search path. So the
# definition of a temporary table is the same text as the definition of the ledger's table.
_OBJECTS = rendered("""
SELECT 'table' AS kind, CAST(relname AS text) AS name, string_agg(concat_ws(' ', quote_ident(attname),
    format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
    'COLLATE ' || nullif(attcollation, 0)::regcollation, attidentity, attgenerated,
    pg_get_expr(adbin, adrelid, true)), ', ' ORDER BY attname) AS definition
FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' GROUP BY relname
UNION ALL
SELECT 'index', CAST(relname AS text),
    pg_get_indexdef(c.oid, 0, true) || CASE WHEN indisvalid THEN '' ELSE ' INVALID' END
FROM pg_class AS c JOIN pg_index ON indexrelid = c.oid WHERE relnamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = c.oid AND contype IN ('p', 'u', 'x'))
UNION ALL
SELECT 'constraint', CAST(conname AS text),
    conrelid::regclass || ' ' || pg_get_constraintdef(oid, true)
FROM pg_constraint
WHERE connamespace = current_schema()::regnamespace AND contype IN ('c', 'f', 'p', 'u', 'x')
UNION ALL
SELECT 'view', CAST(relname AS text), pg_get_viewdef(oid, true) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'v'
UNION ALL
SELECT 'trigger', CAST(tgname AS text), pg_get_triggerdef(t.oid, true)
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid
WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal
""")
_APPLIED = rendered(f"INSERT INTO {_RECORD} (name, applied_at) VALUES (:name, :at)")


class PostgresTables(schema.Tables):
    """The tables of a database, over a connection without time limits and without an open transaction."""

    engine = "postgres"

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        return [row["name"] for row in self._connection.rows(_TABLES, {})]

    def objects(self) -> list[str]:
        return [row["name"] for row in self._connection.rows(_NAMES, {})]

    def applied(self) -> list[str]:
        if _RECORD not in self.names():
            return []
        return [row["name"] for row in self._connection.rows(_RECORDED, {})]

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._connection.send(rendered("BEGIN"))
        try:
            self._connection.send(rendered(f"SELECT pg_advisory_xact_lock({_LOCK}, 0)"))
            self._connection.settle()
            yield
            self._connection.send(rendered("COMMIT"))
            self._connection.settle()
        except BaseException:
            if self._connection.usable:
                self._connection.send(rendered("ROLLBACK"))
                self._connection.settle()
            raise

    def apply(self, name: str, statements: list[str]) -> None:
        if name == schema.BASELINE:
            self._connection.send(_MAKE_RECORD)
        for statement in statements:
            self._connection.send(_as_it_is(statement))
        self._connection.send(_APPLIED, {"name": name, "at": iso(SystemClock().now())})


def _as_it_is(statement: str) -> SqlStatement:
    return SqlStatement(statement.encode(), (), False, False)


def schema_differences(connection: PostgresConnection) -> list[tuple[str, str]]:
    """Compare the database with the tables that the migrations make; see `AuditUnit.schema_differences`.

    The database must be up to date. This function makes temporary tables with the migrations, compares the
    database's tables with them, and rolls back. If PostgreSQL cannot create temporary tables, as on a
    standby, this function compares only the names of the objects.
    """
    if not connection.rows(_CAN_COMPARE, {})[0]["can"]:
        PostgresTables(connection).require_all_there()
        return []
    stored, rows = definitions(connection), connection.rows(_REFUSING, {})
    connection.send(rendered("BEGIN"))
    connection.send(rendered("SET LOCAL search_path TO pg_temp"))
    for name in schema.names("postgres"):
        for statement in schema.statements("postgres", name):
            connection.send(_as_it_is(statement.replace(_UNLOGGED, "")))
    connection.settle()
    expected = definitions(connection)
    # PostgreSQL prints the definition of a view in other words after the database was restored from a dump.
    # So create each view again from its printed definition, as a restore does, and accept these words too.
    for (kind, name), definition in expected.items():
        if kind == "view":
            statement = f"CREATE OR REPLACE VIEW {name} AS {definition}"
            connection.send(_as_it_is(statement))
    restored = definitions(connection)
    connection.send(rendered("ROLLBACK"))
    connection.settle()
    same = {part: expected[part] for part, definition in restored.items() if stored.get(part) == definition}
    refusing = {row["name"]: row["what"] for row in rows if ("table", row["of"]) in expected}
    return schema.schema_differences(stored | same, expected, refusing)


def definitions(connection: PostgresConnection) -> dict[schema.Object, str]:
    """Return the definition of each table, index, constraint, view and trigger."""
    rows = connection.rows(_OBJECTS, {})
    return {(row["kind"], row["name"]): row["definition"] for row in rows}
