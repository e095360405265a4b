"""The interface for copying a whole ledger from one database engine to the other: a source and a target.

The copy reads the source in its state at one moment. It fills the target table by table, with the rows in the
order of the primary key. Other connections see the target only when it is complete.

To compare the rows of the two ends, the copy turns them into the text that PostgreSQL's COPY writes. Equal
rows then give equal bytes on both engines.
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

ROWS_AT_ONCE = 20_000  # at most this many rows are in memory at the same time
Line = Sequence[Value]  # the values of all columns of a row
Applied = list[tuple[str, str]]  # the names of migrations, each with the time at which it was applied

# Escapes for the characters that a text field of COPY cannot contain.
_ESCAPES = str.maketrans(
    {"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
)


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of the ledger: all columns, the columns of whole numbers, and the primary key."""

    name: str
    columns: tuple[str, ...]
    numeric: frozenset[str]
    key: tuple[str, ...]

    def select(self) -> str:
        """Return the statement that reads the table's rows in the order of the key."""
        return f"SELECT {', '.join(self.columns)} FROM {self.name} ORDER BY {', '.join(self.key)}"


class End(Protocol):
    """One end of a copy. Its methods raise Conflict if the copy is impossible."""

    def lines(self, table: CopiedTable) -> Iterator[tuple[bytes, int]]:
        """Yield all rows in the order of the key, in blocks.

        A block consists of some rows as the text that COPY writes, and of the number of these rows.
        """
        ...


class Source(End, Protocol):
    """The source of a copy, in the state in which it was opened."""

    def count(self, table: CopiedTable) -> int:
        """Return the number of rows."""
        ...

    def rows(self, table: CopiedTable) -> Iterator[list[Line]]:
        """Yield the rows in the order of the key, ROWS_AT_ONCE at a time."""
        ...

    def applied(self) -> Applied:
        """Return the migrations that were applied to the source."""
        ...

    def reached(self) -> int:
        """Return the time in milliseconds up to which the source has issued ids."""
        ...

    def require_unchanged(self) -> None:
        """Raise Conflict if somebody has written to the source since it was opened."""
        ...


class CopyTarget(End, Protocol):
    """A ledger that is being filled. It is complete when the block of `open_target` ends without an error."""

    def write(self, table: CopiedTable, rows: list[Line]) -> None:
        """Add rows to a table."""
        ...

    def finish(self, migrations_applied: Applied, moment: int) -> None:
        """Create the indexes and constraints, and let new ids start after `moment`."""
        ...

    def snapshot(self, readers: int, report: ReportRows) -> AbstractContextManager[ReadSnapshot]:
        """Open the finished target for the audit, with at most this many readers; see `open_snapshot`."""
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
    """Return the hash of all rows of a table, in the order of the key.

    `report` is called repeatedly with the number of rows read since the previous call.
    """
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
    """Return the error for a copy that cannot be made."""
    return Conflict("not_recoverable", sentence)


def _escaped(text: str) -> str:
    return substituted(text).translate(_ESCAPES)
