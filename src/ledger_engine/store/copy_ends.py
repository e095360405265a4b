"""Moving a whole ledger from one database engine to the other: the operations of both ends.

A source is read as it is at one moment. A target is filled table by table, in the order of each table's key.
It is there for others when it is complete, and not before.

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
from ledger_engine.store.read_snapshot import ReadSnapshot, ReportRows
from ledger_engine.store.sql_text import substituted

ROWS_AT_ONCE = 20_000  # that are held in memory
Line = Sequence[Value]  # a row, with the values of all columns
Applied = list[tuple[str, str]]  # migrations and when they were applied

# The text that replaces these characters in a text field.
_ESCAPES = str.maketrans(
    {"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
)


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of the ledger: all its columns, the columns of whole numbers, and the columns of its primary
    key.
    """

    name: str
    columns: tuple[str, ...]
    numeric: frozenset[str]
    key: tuple[str, ...]

    def select(self) -> str:
        """Return the statement that reads its rows in the order of the key."""
        return f"SELECT {', '.join(self.columns)} FROM {self.name} ORDER BY {', '.join(self.key)}"


class End(Protocol):
    """One end of a move. Its methods raise Conflict for anything that makes the move impossible."""

    def lines(self, table: CopiedTable) -> Iterator[tuple[bytes, int]]:
        """Return all rows in the order of the key as COPY writes them, some at a time with their number."""
        ...


class Source(End, Protocol):
    """The source of a copy, in its state when it was opened."""

    def count(self, table: CopiedTable) -> int:
        """Return the number of rows."""
        ...

    def rows(self, table: CopiedTable) -> Iterator[list[Line]]:
        """Return the rows in the order of the key, ROWS_AT_ONCE at a time."""
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


class CopyTarget(End, Protocol):
    """A ledger that is filled. It is complete when `open_target` ends without an error."""

    def write(self, table: CopiedTable, rows: list[Line]) -> None:
        """Add rows."""
        ...

    def finish(self, migrations_applied: Applied, moment: int) -> None:
        """Make the indexes and constraints, and let ids continue after `moment`."""
        ...

    def snapshot(self, readers: int, report: ReportRows) -> AbstractContextManager[ReadSnapshot]:
        """Open it for the audit once it is finished, with at most this many readers; see `open_snapshot`."""
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


def fingerprint(end: End, table: CopiedTable, report: Callable[[int], None]) -> bytes:
    """Return the hash of all rows of a table in their order; `report` is called with how many were read."""
    digest = blake2b(digest_size=16)
    read = 0
    for lines, rows in end.lines(table):
        digest.update(lines)
        read += rows
        if read >= ROWS_AT_ONCE:
            report(read)
            read = 0
    report(read)
    return digest.digest()


def refusal(sentence: str) -> Conflict:
    """Return the error of a move that cannot be made."""
    return Conflict("not_recoverable", sentence)


def _escaped(text: str) -> str:
    return substituted(text).translate(_ESCAPES)
