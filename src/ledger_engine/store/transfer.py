"""Moving a whole ledger from one database engine to the other: what both ends of a move offer.

A source is read as it is at one moment. A target is filled table by table, in the order of each table's key,
so that a move which was interrupted goes on after the last row that arrived. Nobody can open the target as a
ledger before it is complete.

Rows are compared as PostgreSQL's COPY writes them, in its text form: both ends give the same bytes for the
same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from ledger_engine.core.errors import Conflict
from ledger_engine.store import Value
from ledger_engine.store.snapshot import ReportRows, Snapshot
from ledger_engine.store.sql_text import substituted

ROWS_AT_ONCE = 20_000  # in one commit of the target
Line = Sequence[Value]  # a row, with the values of all columns
Key = tuple[Value, ...]
Applied = list[tuple[str, str]]  # migrations and when they were applied

# What stands in a text field for these characters.
_ESCAPES = str.maketrans(
    {"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the ledger: all its columns, those of whole numbers, and those of its primary key."""

    name: str
    columns: tuple[str, ...]
    numeric: frozenset[str]
    key: tuple[str, ...]

    def select(self, after: Key | None, mark: str) -> str:
        """Return the statement that reads its rows in the order of the key, those after `after` if given.

        `mark` stands for a parameter.
        """
        where = f" WHERE ({', '.join(self.key)}) > ({', '.join([mark] * len(self.key))})" if after else ""
        return f"SELECT {', '.join(self.columns)} FROM {self.name}{where} ORDER BY {', '.join(self.key)}"

    def select_last(self) -> str:
        """Return the statement that reads the last key."""
        backwards = ", ".join(f"{column} DESC" for column in self.key)
        return f"SELECT {', '.join(self.key)} FROM {self.name} ORDER BY {backwards} LIMIT 1"


class LedgerThere(Conflict):
    """The target is a ledger already, of this move or of another."""

    def __init__(self, sentence: str) -> None:
        super().__init__("not_recoverable", sentence)


class End(Protocol):
    """One end of a move. Its methods raise Conflict for what makes the move impossible."""

    def count(self, table: Table) -> int:
        """Return the number of rows."""
        ...

    def lines(self, table: Table) -> Iterator[tuple[bytes, int]]:
        """Return all rows in the order of the key as COPY writes them, some at a time with their number."""
        ...

    def first_project(self) -> str | None:
        """Return the id of the ledger's first project."""
        ...


class Source(End, Protocol):
    """What is copied, as it was when it was opened."""

    def rows(self, table: Table, after: Key | None) -> Iterator[list[Line]]:
        """Return the rows after a key in the order of the key, ROWS_AT_ONCE at a time."""
        ...

    def applied(self) -> Applied:
        """Return the migrations."""
        ...

    def reached(self) -> int:
        """Return the time in milliseconds up to which ids were given out."""
        ...

    def require_unchanged(self) -> None:
        """Raise Conflict when somebody has written since it was opened."""
        ...


class Target(End, Protocol):
    """What is filled. It is a ledger that can be opened after `complete`, and not before."""

    def last(self, table: Table) -> Key | None:
        """Return the key of the last row that is there."""
        ...

    def write(self, table: Table, rows: list[Line]) -> None:
        """Add rows, in one commit."""
        ...

    def empty(self, table: Table) -> None:
        """Remove all rows."""
        ...

    def finish(self, applied: Applied, reached: int) -> None:
        """Make the indexes and constraints, and have ids go on after `reached`."""
        ...

    def snapshot(self, readers: int, report: ReportRows) -> AbstractContextManager[Snapshot]:
        """Open it for the audit, once it is finished; see `open_snapshot`."""
        ...

    def complete(self) -> None:
        """Make it a ledger that can be opened."""
        ...


def lines_of(rows: Sequence[Line]) -> bytes:
    """Return rows as COPY writes them."""
    fields = [
        "\t".join(
            [
                r"\N"
                if value is None
                else str(value)
                if not isinstance(value, str)
                else value
                if value.isprintable() and "\\" not in value
                else _escaped(value)
                for value in row
            ]
        )
        for row in rows
    ]
    return "\n".join([*fields, ""]).encode()


def fingerprint(end: End, table: Table, report: Callable[[int], None]) -> bytes:
    """Return the hash of all rows of a table in their order; `report` is called with how many were read."""
    hashed = blake2b(digest_size=16)
    read = 0
    for lines, rows in end.lines(table):
        hashed.update(lines)
        read += rows
        if read >= ROWS_AT_ONCE:
            report(read)
            read = 0
    report(read)
    return hashed.digest()


def require_same_project(source: str | None, target: str | None) -> None:
    """Raise Conflict when the target has begun to be the copy of another ledger."""
    if target is not None and source != target:
        raise refusal(
            f"The target has an unfinished copy of another ledger (first project {target})."
            " Choose another target, or delete that copy."
        )


def refusal(sentence: str) -> Conflict:
    """Return the error of a move that cannot be made, or not be ended."""
    return Conflict("not_recoverable", sentence)


def _escaped(text: str) -> str:
    return substituted(text).translate(_ESCAPES)
