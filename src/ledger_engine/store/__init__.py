"""The database interface: everything that packages may use of a database, whichever engine is behind it.

A *work* is a plain function of a `Unit`. It runs inside one transaction and may run again from the start, so
it does no input or output, and takes time and ids only from its unit. SQL is portable text with `:name`
parameters over TEXT and INTEGER columns; what differs between engines is a method of the unit.
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
BookKey: TypeAlias = tuple[str, bool]  # a project's id, and whether it is its live mode
T = TypeVar("T")
H = TypeVar("H", bound="CachedValues")
F = TypeVar("F", bound=Callable[..., Any])


class Row(Protocol):
    """A row of a result, by column name or position."""

    def __getitem__(self, key: str | int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def keys(self) -> list[str]: ...


class GroupCache(Protocol):
    """The unit of `CachedValues` objects: their statements see only rows that are written already."""

    def execute(self, sql: str, parameters: Parameters, /) -> list[Row]:
        """Run one statement and return all its rows."""
        ...

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run one statement that returns no rows once for each set of parameters."""
        ...

    def rows(self, table: str, columns: Columns, /) -> list[Sequence[Value]]:
        """Return the list of rows that wait to be inserted, as the rows of `Unit.insert_many` do; the caller
        appends to it.
        """
        ...

    def cached(self, kind: type[H], tenant: Tenant, /) -> H:
        """Return the other object of this kind, and make it if need be."""
        ...

    def change(self, cache: CachedValues, /) -> None:
        """Have the object written before a statement that names its tables, and before the commit.

        Call it for each change, because the changes of a failed work are undone.
        """
        ...


class CachedValues(Protocol):
    """Values of one book that the works of a transaction share: read once, changed in memory, written once.

    They are changed only when nothing of the change can fail any more. Those of a group that was
    committed may be kept for the next one, as long as nobody else has written.
    """

    tables: ClassVar[frozenset[str]]  # that they are read from and written to, here or in others of them

    def __init__(self, cache: GroupCache, tenant: Tenant, /) -> None:
        """Hold the values of the tenant's book."""
        ...

    def write(self) -> None:
        """Store what was changed since the last time."""
        ...


class Unit(Protocol):
    """The transaction a work runs in. Until it ends, nobody else changes what the work has read."""

    @property
    def now(self) -> int:
        """The time of this work in milliseconds, the same throughout."""
        ...

    def execute(self, sql: str, parameters: Parameters = ..., /) -> list[Row]:
        """Run one statement and return all its rows."""
        ...

    def first(self, sql: str, parameters: Parameters = ..., /) -> Row | None:
        """Run one statement and return its first row, or None."""
        ...

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run one statement that returns no rows once for each set of parameters."""
        ...

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        """Insert rows, each with a value for every one of the columns, in their order.

        They are inserted before a statement that names the table, or before the commit: rows of several works
        together. Naming the values of a row takes as long as inserting it, so this is for rows that are
        written often.
        """
        ...

    def cached(self, kind: type[H], tenant: Tenant, /) -> H:
        """Return the one object of this kind that the works of this transaction share for the tenant's book.

        The first of them makes it. It holds until a statement changes one of its tables: after that, call
        this again.
        """
        ...

    def new_id(self, prefix: str) -> str:
        """Return an id that sorts after all earlier ones of its prefix."""
        ...

    def announce(self, topic: str) -> None:
        """Notify the listeners of `topic` when this work is committed, and only then."""
        ...


Work: TypeAlias = Callable[[Unit], T]
Listener: TypeAlias = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class LongWork(Generic[T]):
    """A work that takes many milliseconds to write, such as a batch: it shares its commit with no other."""

    work: Work[T]

    @property
    def book(self) -> BookKey | None:
        """The book of the work within."""
        return book_of(self.work)

    def __call__(self, unit: Unit) -> T:
        return self.work(unit)


# Books that are no project's. Works of projects never write their content.
OWN: BookKey = ("", False)  # rows that only their own server writes, such as its answers
LOG: BookKey = ("log", False)  # the signed logs
ATTEMPTS: BookKey = ("attempts", False)  # what came of webhooks
LEASES: BookKey = ("leases", False)
OF_NO_PROJECT = frozenset({OWN, LOG, ATTEMPTS, LEASES})


@dataclass(frozen=True, slots=True)
class BookWork(Generic[T]):
    """A work of one book, if `in_one_book` does not mark its function already."""

    work: Work[T]
    book: BookKey

    def __call__(self, unit: Unit) -> T:
        return self.work(unit)


def book_of(work: Work[Any]) -> BookKey | None:
    """Return the book in a work's attribute `book`; None for the whole ledger.

    If several servers write, works of different books may run at the same time.
    """
    book: BookKey | None = getattr(work, "book", None)
    return book


def project_of(work: Work[Any]) -> str | None:
    """Return the project that a work is run for, from its attribute `project`; None for no single one."""
    project: str | None = getattr(work, "project", None)
    return project


_IN_ONE_BOOK: set[Callable[..., Any]] = set()


def in_one_book(function: F) -> F:
    """Mark a function whose works read and change nothing that belongs to another book, or to all."""
    _IN_ONE_BOOK.add(function)
    return function


def keeps_to_book(function: Callable[..., Any]) -> bool:
    """Return whether a function is marked by `in_one_book`."""
    return function in _IN_ONE_BOOK


class Everything(frozenset[str]):
    """All topics, if it is unknown which of them were announced."""

    def __contains__(self, topic: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


@dataclass(slots=True)
class Losses:
    """Acknowledged changes that the storage has lost, as far as this process knows.

    `refused` gives the reason for not using the storage, in a sentence; None while it is used. `accepted`
    names the changes that are lost for good, and `changes` is their number.
    """

    refused: str | None = None
    accepted: str | None = None
    changes: int = 0


class Figure(NamedTuple):
    """A measured value of the storage; a `counted` one only grows while the process runs."""

    name: str
    value: float
    help: str
    counted: bool = False


Measure: TypeAlias = Callable[[], Awaitable[list[Figure]]]


class Rewinder(Protocol):
    """A database that can be copied as it is, and be as its copy again, while it is in use."""

    async def copy_to(self, file: Path, note: Callable[[], T]) -> tuple[IdMark, T]:
        """Copy the database to a new file as it is between two commits.

        Return where the ids are, and what `note` returns at that moment. Raises StorageUnavailable.
        """
        ...

    async def replace_by(self, file: Path, mark: IdMark, then: Callable[[], None]) -> None:
        """Replace everything by the content of `file`, in one commit; the ids go on from `mark`.

        `then` is called before the next work. Raises StorageUnavailable, and then nothing is changed.
        """
        ...

    async def forget_newest(self) -> None:
        """Take the events that are there for all: the newest were removed on purpose."""
        ...


class Database(Protocol):
    """Runs works: reads in parallel, writes in sequence and durably."""

    async def read(self, work: Work[T]) -> T:
        """Run `work`, which must not change anything, on a snapshot. Raises StorageUnavailable."""
        ...

    def read_at_once(self, work: Work[T]) -> tuple[T] | None:
        """Run `work`, which reads a few rows by an index, in this thread; return its result in a tuple.

        Return None where that would take long. Raises what the work raises.
        """
        ...

    async def write(self, work: Work[T]) -> T:
        """Run `work` and return its result once that is on the disk. Raises StorageUnavailable."""
        ...

    async def check(self) -> None:
        """Raise StorageUnavailable when works cannot be read or, as far as is known, written now."""
        ...

    def listen(self, listener: Listener) -> None:
        """Call `listener` with the announced topics after each commit, before its works are answered."""
        ...

    def observe_commits(self, observer: CommitObserver) -> None:
        """Call `observer` after each commit that this process makes, in the thread that made it."""
        ...

    async def close(self) -> None:
        """Finish the works accepted and close the files."""
        ...
