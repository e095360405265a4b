"""The seam: what the rooms may ask of a database, whichever engine is behind it.

A *work* is a plain function of a `Unit`. It runs inside one transaction, all or nothing, and may be
run again from the start, so it does no input or output and takes time and ids from its unit alone.
SQL is portable text with `:name` parameters over TEXT and INTEGER columns; what differs from engine
to engine is a method of the unit, never an `if` in a room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

Value: TypeAlias = str | int | None
Parameters: TypeAlias = Mapping[str, Value]
T = TypeVar("T")


class Row(Protocol):
    """One row of an answer, by column name or position."""

    def __getitem__(self, key: str | int, /) -> Any: ...
    def keys(self) -> list[str]: ...


class Unit(Protocol):
    """The transaction a work runs in."""

    @property
    def now(self) -> int:
        """The moment of this work, in milliseconds; the same for all of it."""
        ...

    def execute(self, sql: str, parameters: Parameters = ..., /) -> list[Row]:
        """Run one statement and return all its rows."""
        ...

    def first(self, sql: str, parameters: Parameters = ..., /) -> Row | None:
        """Run one statement and return its first row, or None."""
        ...

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        """Run one statement without an answer once for each of the parameter sets."""
        ...

    def new_id(self, prefix: str) -> str:
        """Return an id that sorts after all earlier ones of its prefix."""
        ...

    def inspect(self) -> list[str]:
        """Return what the storage finds wrong with its files, a sentence each; none when they are sound."""
        ...

    def first_not_an_object(self, table: str, column: str) -> str | None:
        """Return the id of a row whose `column` holds no JSON object; None when there is no such row."""
        ...

    def announce(self, topic: str) -> None:
        """Notify the listeners of `topic` once this work is committed, and only then."""
        ...


Work: TypeAlias = Callable[[Unit], T]
Listener: TypeAlias = Callable[[frozenset[str]], None]


class Database(Protocol):
    """Runs works: reads side by side, writes one after the other and durably."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a snapshot; it may not change anything. Raises StorageUnavailable."""
        ...

    async def write(self, work: Work[T]) -> T:
        """Run `work` and return its answer once it is on the disk. Raises StorageUnavailable."""
        ...

    async def check(self) -> None:
        """Raise StorageUnavailable when works cannot be read or, so far as is known, written now."""
        ...

    def listen(self, listener: Listener) -> None:
        """Have `listener` called with the topics announced, after each commit and before its answers."""
        ...

    async def close(self) -> None:
        """Finish what was taken and let go of the files."""
        ...
