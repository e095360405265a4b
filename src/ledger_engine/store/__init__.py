"""The interface through which all other packages use a database, SQLite or PostgreSQL.

A *work* is a plain function of a `Unit`. It runs inside one transaction and may run again from the start, so
it does no input or output, and takes time and ids only from the unit. SQL is portable text with `:name`
parameters over TEXT and INTEGER columns; the unit has a method for each difference between the engines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ledger_engine.core.ids import IdMark
from ledger_engine.core.measuring import CommitObserver
from ledger_engine.core.tenant import Tenant

Value: TypeAlias = str | int | None
Parameters: TypeAlias = Mapping[str, Value]
Columns: TypeAlias = tuple[str, ...]
BookKey: TypeAlias = tuple[str, bool]  # a project's id, and whether the book is its live mode
T = TypeVar("T")
H = TypeVar("H", bound="CachedValues")
F = TypeVar("F", bound=Callable[..., Any])


class Row(Protocol):
    """A row of a result, by column name or position."""

    def __getitem__(self, key: str | int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def keys(self) -> list[str]: ...


class GroupCache(Protocol):
    """The database as `CachedValues` objects see it: they read and write their tables through this protocol.

    A statement of a `CachedValues` object does not see changes that are only in the cache. A statement of a
    work does see these changes, because the cache writes them to the database before the statement runs.
    """

    def execute(self, sql: str, parameters: Parameters, /) -> list[Row]:
        """Run one statement and return all its rows."""
        ...

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run one statement for each set of parameters in `rows`. The statement returns no rows."""
        ...

    def rows(self, table: str, columns: Columns, /) -> list[Sequence[Value]]:
        """Return the list of rows that will be inserted into `table`; the caller adds rows to this list."""
        ...

    def cached(self, kind: type[H], tenant: Tenant, /) -> H:
        """Return the object of the class `kind` for the tenant's book, and create it if necessary.

        A `CachedValues` object calls this to use an object of another class.
        """
        ...

    def change(self, cache: CachedValues, /) -> None:
        """Mark `cache` as changed, so that the unit calls `cache.write` before the commit.

        The unit also calls `cache.write` before each statement on the tables of `cache`. Call `change` again
        for each change, because a call of `cache.write` removes the mark, and so does the failure of a work.
        """
        ...


class CachedValues(Protocol):
    """Values of one book that the works of a transaction share: read once, changed in memory, written once.

    A work makes all its checks first and then changes the values. So a work cannot fail halfway through a
    change. After a commit the next transaction uses the same values, unless another process has written.
    """

    # All tables in which these values are stored, even a table that another cached object writes.
    tables: ClassVar[frozenset[str]]

    def __init__(self, cache: GroupCache, tenant: Tenant, /) -> None:
        """Hold the values of the tenant's book."""
        ...

    def write(self) -> None:
        """Store everything that was changed since the last call."""
        ...


class Unit(Protocol):
    """The transaction in which a work runs.

    Until the transaction ends, nobody else changes the rows that the work has read.
    """

    @property
    def now(self) -> int:
        """The time of this work in milliseconds. It does not change while the work runs."""
        ...

    def execute(self, sql: str, parameters: Parameters = ..., /) -> list[Row]:
        """Run one statement and return all its rows."""
        ...

    def first(self, sql: str, parameters: Parameters = ..., /) -> Row | None:
        """Run one statement and return its first row, or None."""
        ...

    def execute_together(
        self, sql: str, columns: Columns, parameters: Parameters = ..., /
    ) -> list[Sequence[Any]]:
        """Run one SELECT of these columns and return the values of all its rows.

        Use this if a long work reads many short rows. SQLite returns all rows in one step. With a step for
        each row, the work would take the interpreter's lock from the event loop after every row.
        """
        ...

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run one statement for each set of parameters in `rows`. The statement returns no rows."""
        ...

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        """Insert rows; each row contains a value for each column, in the order of `columns`.

        The unit inserts the rows of several works together. It does so before the next statement that names
        the table, or before the commit. Use this for rows that are written often. Rows are sequences and not
        dicts, because making a dict takes as long as inserting the row.
        """
        ...

    def cached(self, kind: type[H], tenant: Tenant, /) -> H:
        """Return the one object of this kind that the works of this transaction share for the tenant's book.

        The first call creates the object. After a statement that changes one of the object's tables, call
        this again, because the cache has dropped the old object.
        """
        ...

    def new_id(self, prefix: str) -> str:
        """Return an id that sorts after all earlier ids with this prefix."""
        ...

    def announce(self, topic: str) -> None:
        """Notify the listeners of `topic` when this work is committed, and only then."""
        ...


Work: TypeAlias = Callable[[Unit], T]
Listener: TypeAlias = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class LongWork(Generic[T]):
    """A work that takes some milliseconds.

    A long write, such as a batch, shares its commit with no other work. A long read, such as a part of an
    account statement, lets shorter works go first.
    """

    work: Work[T]

    @property
    def book(self) -> BookKey | None:
        """The book of `work`."""
        return book_of(self.work)

    @property
    def project(self) -> str | None:
        """The project of `work`."""
        return project_of(self.work)

    def __call__(self, unit: Unit) -> T:
        return self.work(unit)


# Books that belong to no project. A work of a project never writes rows of these books.
OWN: BookKey = ("", False)  # rows that each server writes for itself, such as its log of requests
LOG: BookKey = ("log", False)  # the signed logs
ATTEMPTS: BookKey = ("attempts", False)  # the outcomes of webhook attempts
LEASES: BookKey = ("leases", False)
OF_NO_PROJECT = frozenset({OWN, LOG, ATTEMPTS, LEASES})


@dataclass(frozen=True, slots=True)
class BookWork(Generic[T]):
    """A work of the book `book`. Use it if the function of the work is not marked with `in_one_book`."""

    work: Work[T]
    book: BookKey

    def __call__(self, unit: Unit) -> T:
        return self.work(unit)


def book_of(work: Work[Any]) -> BookKey | None:
    """Return the book in a work's attribute `book`; None for a work of the whole ledger.

    If several servers write, works of different books can run at the same time.
    """
    book: BookKey | None = getattr(work, "book", None)
    return book


def project_of(work: Work[Any]) -> str | None:
    """Return the project in a work's attribute `project`; None if the work belongs to no single project."""
    project: str | None = getattr(work, "project", None)
    return project


_IN_ONE_BOOK: set[Callable[..., Any]] = set()


def in_one_book(function: F) -> F:
    """Mark a function whose works read and change only one book, and no rows that several books share."""
    _IN_ONE_BOOK.add(function)
    return function


def keeps_to_book(function: Callable[..., Any]) -> bool:
    """Return whether `in_one_book` marks a function."""
    return function in _IN_ONE_BOOK


class Everything(frozenset[str]):
    """The set of all topics. It is announced for a commit whose topics are unknown."""

    def __contains__(self, topic: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


@dataclass(slots=True)
class Losses:
    """Acknowledged changes that the storage has lost, as far as this process knows.

    `refused` is the reason why the storage is not used, as a sentence; None while the storage is used.
    `accepted` is a sentence about the commits that are lost for good. `commits` is the number of commits that
    an operator gave up by starting a server with `--accept-loss`. A commit may contain several changes.
    """

    refused: str | None = None
    accepted: str | None = None
    commits: int = 0


class Figure(NamedTuple):
    """A measured value of the storage. If `counted` is true, the value is a counter and never decreases."""

    name: str
    value: float
    help: str
    counted: bool = False


Measure: TypeAlias = Callable[[], Awaitable[list[Figure]]]


class Rewinder(Protocol):
    """A database that can be copied, and be set back to a copy, while it is in use."""

    async def copy_to(self, file: Path, note: Callable[[], T]) -> tuple[IdMark, T]:
        """Copy the database, in its state between two commits, to a new file.

        Calls `note` at the same moment. Returns two values: the position in the sequence of ids at this
        moment, which `replace_by` takes as `mark`, and the result of `note`. Raises StorageUnavailable.
        """
        ...

    async def replace_by(self, file: Path, mark: IdMark, then: Callable[[], None]) -> None:
        """Replace the whole content of the database by the content of `file`, in one commit.

        New ids continue after `mark`. Calls `then` after the replacement and before the next work. Raises
        StorageUnavailable if nothing was changed.
        """
        ...

    async def forget_newest(self) -> None:
        """Accept that the newest events are missing, because they were removed on purpose."""
        ...


class Database(Protocol):
    """Runs works: reads in parallel, writes in sequence and durably."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a snapshot, and return the result of `work`.

        `work` must not change anything. Raises StorageUnavailable.
        """
        ...

    def read_at_once(self, work: Work[T]) -> tuple[T] | None:
        """Run `work`, which reads a few rows by an index, in this thread; return its result in a tuple.

        Return None if the work could take long; then call `read`. Raises the errors of the work.
        """
        ...

    async def write(self, work: Work[T]) -> T:
        """Run `work` and return its result when the changes are on the disk. Raises StorageUnavailable."""
        ...

    async def check(self) -> None:
        """Raise StorageUnavailable if a test read fails.

        If the last write failed, this also makes a test write, and raises if the test write fails too.
        """
        ...

    def listen(self, listener: Listener) -> None:
        """Call `listener` with the topics of each commit, before the callers of `write` get their answers."""
        ...

    def observe_commits(self, observer: CommitObserver) -> None:
        """Call `observer` after each commit of this process, in the thread that committed."""
        ...

    async def close(self) -> None:
        """Finish the accepted works and close the files."""
        ...
