"""The transaction of a work on a PostgreSQL connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Columns, G, Parameters, Prints, Row, Unit, Value, weight
from ledger_engine.database.postgres import values
from ledger_engine.database.postgres.connection import Connection
from ledger_engine.database.postgres.rendering import Statement, insertion, rendered

_NOTHING: Parameters = {}
_ROWS_AT_ONCE = 20_000
_INSERTED_AT_ONCE = 2000  # rows in one statement
_NUMERIC_COLUMNS = rendered(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND table_name = :table AND data_type = 'bigint'"
)
_TRANSACTIONS = (
    "SELECT book, id, account, type, transfer, reverses FROM transactions"
    " WHERE book > :book OR (book = :book AND id > :id) ORDER BY book, id LIMIT :rows"
)

_KEYS = {"transactions": "book, id", "events": "book, id"}
_OF_PRINTS = ("account", "type", "transfer", "reverses")

_Key = tuple[str, bool, str]  # a project and mode, and the id of a row
Numeric = dict[str, frozenset[str]]  # the columns of whole numbers, by the table; kept for all units


class PostgresUnit:
    """The `Unit` for the works of one group, one after the other.

    What a work writes is sent on ahead, and rows to insert are kept until somebody may read them: they go
    together, those of a whole group if possible. An error of such a statement comes up with the next result.
    """

    __slots__ = (
        "_connection",
        "_clock",
        "_ids",
        "_now",
        "_numeric",
        "_kept",
        "_held",
        "_puts",
        "_topics",
        "_others",
        "wrote",
    )

    def __init__(
        self, connection: Connection, clock: Clock, ids: IdSource, numeric: Numeric, others: int = 0
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._ids = ids
        self._now = clock.now()
        self._numeric = numeric
        self._kept: dict[tuple[str, Columns], list[Sequence[Value]]] = {}
        self._held: defaultdict[str, dict[_Key, Any]] = defaultdict(dict)
        self._puts: defaultdict[str, dict[_Key, tuple[Statement, Parameters]]] = defaultdict(dict)
        self._topics: set[str] = set()
        self._others = others  # the time that other servers had reached before
        self.wrote = False  # in the work that runs

    @property
    def now(self) -> int:
        return self._now

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        statement = rendered(sql)
        if not statement.reads:
            self._note_write(statement.words)
        self._send_before(statement.words)
        if not statement.has_rows:
            self._connection.send(statement, parameters)
            return []
        found: list[Any] = self._connection.rows(statement, parameters)
        return found

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        rows = self.execute(sql, parameters)
        return rows[0] if rows else None

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        statement = rendered(sql)
        self._note_write(statement.words)
        self._send_before(statement.words)
        for row in rows:
            self._connection.send(statement, row)

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        self._note_write((table,))
        self._kept.setdefault((table, columns), []).extend(rows)

    def held(self, table: str, tenant: Tenant, id: str = "") -> Any:
        return self._held[table].get((tenant.project, tenant.livemode, id))

    def hold(self, table: str, tenant: Tenant, id: str, value: object) -> None:
        self._held[table][tenant.project, tenant.livemode, id] = value

    def put_many(
        self,
        table: str,
        sql: str,
        tenant: Tenant,
        values: Mapping[str, object],
        rows: list[dict[str, Value]],
        /,
    ) -> None:
        statement, held, puts = rendered(sql), self._held[table], self._puts[table]
        self.wrote = True
        for (id, value), parameters in zip(values.items(), rows, strict=True):
            key = tenant.project, tenant.livemode, id
            held[key] = value
            puts[key] = statement, parameters

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self._now)

    def columns(self, expressions: Columns, source: str, parameters: Parameters = _NOTHING, /) -> list[str]:
        key = _KEYS.get(source.split(maxsplit=1)[0], "id")
        rows = self.execute(f"SELECT {', '.join(expressions)} FROM {source} ORDER BY {key}", parameters)
        return [
            ",".join([str(row[column]) for row in rows if row[column] is not None])
            for column in range(len(expressions))
        ]

    def inspect(self, *, thorough: bool = True) -> list[str]:
        return []  # PostgreSQL has its own means (docs/operations.md)

    def prints(self, report: Callable[[int], None], /) -> Prints | None:
        """Return the fingerprints of the transactions; PostgreSQL alone knows what its indexes contain."""
        found, book, id = Prints(), -(2**63), ""
        while rows := self.execute(_TRANSACTIONS, {"book": book, "id": id, "rows": _ROWS_AT_ONCE}):
            for row in rows:
                book, id = row["book"], row["id"]
                account, type, transfer, reverses = (row[each] for each in _OF_PRINTS)
                hashed = hash(id) * weight(book)
                product = hash(account) * hashed
                if type == "credit":
                    found.credits_by_account += product
                    found.credits_by_type += hashed
                else:
                    found.debits_by_account += product
                    found.debits_by_type += hashed
                if transfer:
                    found.by_transfer += hash(transfer) * hashed
                if reverses:
                    found.by_reversed += hash(reverses) * hashed
            report(2 * len(rows))
        return found

    def first_not_an_object(self, table: str, column: str) -> str | None:
        row = self.first(
            f"SELECT id FROM {table} WHERE {column} IS NOT NULL AND {column} IS NOT JSON OBJECT LIMIT 1"
        )
        return None if row is None else str(row["id"])

    def version(self) -> int:
        return self._others

    def gather(self, key: Hashable, make: Callable[[Unit], G], /) -> G | None:
        return None

    @property
    def apart(self) -> PostgresUnit:
        return self

    def announce(self, topic: str) -> None:
        self._topics.add(topic)

    def begin_work(self) -> None:
        """Start the next work of the group, with its own time and an empty list of topics."""
        self._now = self._clock.now()
        self._topics = set()
        self.wrote = False

    def topics(self) -> set[str]:
        """Return the topics that the work announced."""
        return self._topics

    def send_all(self) -> None:
        """Send the rows that were kept."""
        for table in list(self._puts):
            self._send_puts(table)
        for table, columns in list(self._kept):
            self._insert(table, columns)

    def forget(self) -> None:
        """Drop the rows that were kept, and what is known of others: they are rolled back."""
        self._kept.clear()
        self._puts.clear()
        self._held.clear()

    def _note_write(self, tables: Iterable[str]) -> None:
        """Note that the work writes to one of these tables, of which nothing is known then."""
        self.wrote = True
        for table in tables:
            if table in self._held:
                self._send_puts(table)
                del self._held[table]

    def _send_before(self, words: frozenset[str]) -> None:
        """Send the rows of these tables, before a statement that may read them."""
        for table in [each for each in self._puts if each in words]:
            self._send_puts(table)
        for table, columns in [each for each in self._kept if each[0] in words]:
            self._insert(table, columns)

    def _send_puts(self, table: str) -> None:
        for statement, parameters in self._puts.pop(table, {}).values():
            self._connection.send(statement, parameters)

    def _insert(self, table: str, columns: Columns) -> None:
        rows = self._kept.pop((table, columns))
        if len(rows) == 1:
            self._connection.put(insertion(table, columns, None), rows[0])
            return
        numeric = self._numeric.get(table)
        if numeric is None:
            found = self._connection.rows(_NUMERIC_COLUMNS, {"table": table})
            numeric = self._numeric[table] = frozenset(row["name"] for row in found)
        statement, types = insertion(table, columns, numeric), (values.UNKNOWN,) * len(columns)
        for first in range(0, len(rows), _INSERTED_AT_ONCE):
            part = rows[first : first + _INSERTED_AT_ONCE]
            arrays = [values.array(column) for column in zip(*part, strict=True)]
            self._connection.put_dumped(statement, arrays, types)
