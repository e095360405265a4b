"""The cache that the works of one transaction share: values that are read once, and rows to insert.

The cache writes the values and rows of all works of a group (`group_commit`) together, at the latest before
the commit. If a statement names a table that has changes in the cache, the cache writes these changes before
the statement runs. So the statement sees the changes. If the statement itself changes a table, the cache also
drops the values of this table; a later work reads the values again. So a work needs no knowledge of other
works, and the cache writes the postings of several requests together, like the postings of one batch. The
next transaction uses the same values. But if another process has written since the last transaction, the
committer first calls `forget`, which drops all values.
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

CACHED_MAX = 100  # cached objects kept for the next transaction; a book with postings needs four objects

NOTHING: Parameters = {}  # a dict, because sqlite3 accepts no MappingProxyType
Key = tuple[type[CachedValues], str, bool]


class _Direct:
    """Implements the protocol `store.GroupCache` for the `CachedValues` objects of a unit.

    The `CachedValues` objects read and write the database through this object. Their statements bypass the
    cache.
    """

    __slots__ = ("cached", "change", "execute", "execute_many", "rows")

    def __init__(self, unit: CachingUnit) -> None:
        self.execute = unit._run
        self.execute_many = unit._run_many
        self.rows = unit._waiting
        self.cached = unit.cached
        self.change = unit._change


class CachingUnit(ABC):
    """The base class of units. A unit runs the works of a group in sequence.

    A unit holds the state of the current work, the cached values, and the rows to insert. Each engine has a
    subclass, which executes the statements.
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
        self._tables: dict[str, set[Key]] = {}  # the keys of the values cached from each table
        self._changes: dict[CachedValues, None] = {}
        self._rows: dict[tuple[str, Columns], list[Sequence[Value]]] = {}
        self._direct: _Direct | None = None
        self.wrote = False  # whether the current work has changed anything in this cache

    def begin_work(self) -> None:
        """Start the next work of the group, with its own time and an empty list of topics."""
        self._now = self._clock.now()
        self._topics = set()
        self.wrote = False

    @property
    def has_written(self) -> bool:
        """Return whether the current work has changed anything."""
        return self.wrote

    def topics(self) -> set[str]:
        """Return the topics that the current work has announced."""
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
        """Write the changed values and the waiting rows."""
        changes, self._changes = self._changes, {}
        for cache in changes:
            cache.write()
        for (table, columns), rows in self._rows.items():
            if rows:
                self._insert(table, columns, rows)
                rows.clear()

    def forget(self) -> None:
        """Drop the values and rows; call this after a rollback, or when the unit is no longer needed.

        The values refer to this unit, and the unit refers to the values. So without this call Python would
        free the memory of the unit and of the values only when its garbage collector runs.
        """
        if self._direct is not None:
            self._direct = None
            self._caches, self._tables, self._changes = {}, {}, {}
        self._rows.clear()

    def limit_size(self) -> None:
        """Drop all values if earlier transactions have left more than CACHED_MAX objects in the cache."""
        if len(self._caches) > CACHED_MAX:
            self.forget()

    def _prepare(self, words: frozenset[str], *, reads: bool) -> None:
        """Before a statement runs, write the waiting changes of every table whose name it contains.

        So the statement sees these changes. `words` are the words of the statement. If `reads` is false, the
        statement may change these tables, so this also drops the values that are cached from them.
        """
        for table in [table for table in self._tables if table in words]:
            self._write_values(table)
            if not reads:
                self._forget_values(table)
        for (table, columns), rows in self._rows.items():
            if rows and table in words:
                self._insert(table, columns, rows)
                rows.clear()

    def _write_values(self, table: str) -> None:
        for cache in [cache for cache in self._changes if table in cache.tables]:
            del self._changes[cache]
            cache.write()

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
    def execute_together(
        self, sql: str, columns: Columns, parameters: Parameters = NOTHING, /
    ) -> list[Sequence[Any]]:
        """Run one SELECT of these columns and return the values of all its rows."""

    @abstractmethod
    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run one statement for each set of parameters in `rows`. The statement returns no rows."""

    @abstractmethod
    def set_savepoint(self) -> None:
        """Begin a part of the transaction. `undo_savepoint` undoes only this part."""

    @abstractmethod
    def release_savepoint(self) -> None:
        """Write the cached changes and remove the savepoint. After an error, call `undo_savepoint`."""

    @abstractmethod
    def undo_savepoint(self) -> None:
        """Undo the changes made since the savepoint."""

    @abstractmethod
    def _run(self, sql: str, parameters: Parameters, /) -> list[Row]:
        """Run a statement; ignore the cache."""

    @abstractmethod
    def _run_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run a statement for each set of parameters; ignore the cache."""

    @abstractmethod
    def _insert(self, table: str, columns: Columns, rows: list[Sequence[Value]], /) -> None:
        """Insert these rows immediately; ignore the cache."""


# A prefetch is called once for each book, before the calls of a function such as `post`. It loads the rows
# that these calls need into the cache (`Unit.cached`).
Prefetch: TypeAlias = Callable[[Unit, Any, list[tuple[Any, ...]]], None]
_PREFETCHES: dict[Callable[..., Any], Prefetch] = {}


def prefetched_by(load: Prefetch) -> Callable[[F], F]:
    """Return a decorator for the function of a work, such as `post`.

    Several works of a group may call this function. Before the group runs, `load` is called once for each
    book, and loads the rows that all calls about this book need. The arguments of `load` are the unit, the
    tenant, and a list with the other arguments of each call.
    """

    def mark(function: F) -> F:
        _PREFETCHES[function] = load
        return function

    return mark


def prefetch(unit: Unit, group: Sequence[QueuedWork], failures: tuple[type[Exception], ...]) -> None:
    """Load the rows that a group's works need: a few large reads replace many small ones over the network.

    Only PostgreSQL uses this: SQLite reads a row faster than this function finds out which rows to read.
    Raises `failures`, the database's errors.
    """
    calls: dict[tuple[Prefetch, BookKey], list[tuple[Any, tuple[Any, ...]]]] = {}
    for job in group:
        plan = _prefetch_of(job.work)
        book = book_of(job.work)
        if plan is not None and book is not None:
            calls.setdefault((plan[0], book), []).append(plan[1:])
    for (load, _), arguments in calls.items():
        try:
            load(unit, arguments[0][0], [call for _, call in arguments])
        except failures:
            raise
        except Exception:
            # Ignore the error, for instance an invalid argument of one work. The work raises the error again
            # when it runs.
            continue


def _prefetch_of(work: Work[Any]) -> tuple[Prefetch, Any, tuple[Any, ...]] | None:
    """Return the function that prefetches for a work, with the work's tenant and other arguments.

    Return None if no function prefetches for this work.
    """
    call = getattr(work, "called", None)
    if call is None:
        return None
    function, tenant, arguments = call
    load = _PREFETCHES.get(function)
    return None if load is None else (load, tenant, arguments)
