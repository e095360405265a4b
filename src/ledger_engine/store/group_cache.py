"""Values and rows that the works of one transaction share in memory: values that are read once, and rows to
insert.

Both are written together, for all works of a group. They are written earlier when a statement names one of
their tables, so that it sees them; when it changes one, the values are read again. So works need not know of
each other, and a group of postings is written as a batch is. The written values stay true for the next
transaction, until `forget`, as long as nobody else writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import (
    BookKey,
    CachedValues,
    Columns,
    F,
    H,
    Parameters,
    Row,
    Unit,
    Value,
    Work,
    book_of,
)
from ledger_engine.store.threaded import QueuedWork

CACHED_MAX = 100  # objects that stay for the next transaction: four for each book that is posted to

NOTHING: Parameters = {}  # a dict, because sqlite3 accepts no MappingProxyType
Key = tuple[type[CachedValues], str, bool]


class _Direct:
    """The `GroupCache` of one unit."""

    __slots__ = ("cached", "change", "execute", "execute_many", "rows")

    def __init__(self, unit: CachingUnit) -> None:
        self.execute = unit._run
        self.execute_many = unit._run_many
        self.rows = unit._waiting
        self.cached = unit.cached
        self.change = unit._change


class CachingUnit(ABC):
    """The base of the units for the works of one group, which run in sequence.

    It holds the state of the running work, and values and rows; a database's own unit executes statements.
    """

    __slots__ = (
        "_caches", "_changes", "_clock", "_direct", "_ids", "_now", "_rows", "_tables", "_topics", "wrote",
    )  # fmt: skip

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids
        self._now = clock.now()
        self._topics: set[str] = set()
        self._caches: dict[Key, CachedValues] = {}
        self._tables: dict[str, set[Key]] = {}  # what is cached from each
        self._changes: dict[CachedValues, None] = {}
        self._rows: dict[tuple[str, Columns], list[Sequence[Value]]] = {}
        self._direct: _Direct | None = None
        self.wrote = False  # whether the work that runs has changed anything that is known here

    def begin_work(self) -> None:
        """Start the next work of the group, with its own time and an empty list of topics."""
        self._now = self._clock.now()
        self._topics = set()
        self.wrote = False

    @property
    def has_written(self) -> bool:
        """Whether the work that runs has changed anything."""
        return self.wrote

    def topics(self) -> set[str]:
        """Return the topics that the work announced."""
        return self._topics

    @property
    def now(self) -> int:
        return self._now

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self._now)

    def announce(self, topic: str) -> None:
        self._topics.add(topic)

    def cached(self, kind: type[H], tenant: Tenant) -> H:
        key = (kind, tenant.project, tenant.livemode)
        cache = self._caches.get(key)
        if cache is None:
            if self._direct is None:
                self._direct = _Direct(self)
            cache = self._caches[key] = kind(self._direct, tenant)
            for table in kind.tables:
                self._tables.setdefault(table, set()).add(key)
        return cast(H, cache)

    def first(self, sql: str, parameters: Parameters = NOTHING, /) -> Row | None:
        rows = self.execute(sql, parameters)
        return rows[0] if rows else None

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        self.wrote = True
        if table in self._tables:
            self._write_values(table)
            self._forget_values(table)
        self._waiting(table, columns).extend(rows)

    def flush(self) -> None:
        """Write the values that were changed and the rows that wait."""
        changes, self._changes = self._changes, {}
        for each in changes:
            each.write()
        for (table, columns), rows in self._rows.items():
            if rows:
                self._insert(table, columns, rows)
                rows.clear()

    def forget(self) -> None:
        """Drop the values and the rows, because they are rolled back or no longer needed.

        Values refer to their unit: without this they would wait for Python's collector at its end.
        """
        if self._direct is not None:
            self._direct = None
            self._caches, self._tables, self._changes = {}, {}, {}
        self._rows.clear()

    def limit_size(self) -> None:
        """Drop the values when values of many books were kept from earlier transactions."""
        if len(self._caches) > CACHED_MAX:
            self.forget()

    def _prepare(self, words: frozenset[str], *, reads: bool) -> None:
        """Write what a statement with these words may read, and forget what it may change."""
        for table in [each for each in self._tables if each in words]:
            self._write_values(table)
            if not reads:
                self._forget_values(table)
        for (table, columns), rows in self._rows.items():
            if rows and table in words:
                self._insert(table, columns, rows)
                rows.clear()

    def _write_values(self, table: str) -> None:
        for each in [cache for cache in self._changes if table in cache.tables]:
            del self._changes[each]
            each.write()

    def _forget_values(self, table: str) -> None:
        for key in self._tables.get(table, ()):
            self._caches.pop(key, None)
        self._tables.pop(table, None)

    def _waiting(self, table: str, columns: Columns, /) -> list[Sequence[Value]]:
        return self._rows.setdefault((table, columns), [])

    def _change(self, cache: CachedValues, /) -> None:
        self._changes[cache] = None
        self.wrote = True

    @abstractmethod
    def execute(self, sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
        """Run one statement and return all its rows."""

    @abstractmethod
    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run one statement that returns no rows once for each set of parameters."""

    @abstractmethod
    def set_savepoint(self) -> None:
        """Have what is changed from now on undone alone by `undo_savepoint`."""

    @abstractmethod
    def release_savepoint(self) -> None:
        """Write what is cached; what was changed since the savepoint stays, unless this raises an error."""

    @abstractmethod
    def undo_savepoint(self) -> None:
        """Undo what was changed since the savepoint."""

    @abstractmethod
    def _run(self, sql: str, parameters: Parameters, /) -> list[Row]:
        """Run a statement, whatever is held."""

    @abstractmethod
    def _run_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run a statement for each set of parameters, whatever is held."""

    @abstractmethod
    def _insert(self, table: str, columns: Columns, rows: list[Sequence[Value]], /) -> None:
        """Insert rows, whatever is held."""


# Has a unit cache (`Unit.cached`) what several calls of a function in one book will read.
Prefetch: TypeAlias = Callable[[Unit, Any, list[tuple[Any, ...]]], None]
_PREFETCHES: dict[Callable[..., Any], Prefetch] = {}


def prefetched_by(reads: Prefetch) -> Callable[[F], F]:
    """Have `reads` called before the calls of a function in one group.

    It gets the unit, the tenant, and the arguments of each call after the tenant.
    """

    def mark(function: F) -> F:
        _PREFETCHES[function] = reads
        return function

    return mark


def prefetch(unit: Unit, group: Sequence[QueuedWork], failures: tuple[type[Exception], ...]) -> None:
    """Read together what the works of a group will read one by one, where each waits for the network.

    SQLite reads a row in less time than looking after this would take. Raises `failures`, the database's
    errors.
    """
    calls: dict[tuple[Prefetch, BookKey], list[tuple[Any, tuple[Any, ...]]]] = {}
    for job in group:
        plan = _prefetch_of(job.work)
        book = book_of(job.work)
        if plan is not None and book is not None:
            calls.setdefault((plan[0], book), []).append(plan[1:])
    for (reads, _), arguments in calls.items():
        try:
            reads(unit, arguments[0][0], [each for _, each in arguments])
        except failures:
            raise
        except Exception:  # a value of one work, which will fail by itself
            continue


def _prefetch_of(work: Work[Any]) -> tuple[Prefetch, Any, tuple[Any, ...]] | None:
    """Return what prefetches for a work, with its tenant and arguments; None for nothing."""
    call = getattr(work, "called", None)
    if call is None:
        return None
    function, tenant, arguments = call
    reads = _PREFETCHES.get(function)
    return None if reads is None else (reads, tenant, arguments)
