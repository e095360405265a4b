"""Whether a SQLite file is sound: its pages, its rows, and its indexes.

SQLite's own integrity check looks up every row in every index, which takes most of its time. Here the entries
of the two large indexes are read in their order instead, to be compared with the transactions by fingerprints
(`prints`); all else is left to SQLite. When the fingerprints differ, its own check names a row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import Columns, Parameters
from ledger_engine.store.id_ranges import TEXT_MAX, Parts, TooLong
from ledger_engine.store.index_hashes import (
    DESCRIPTIONS,
    NO_DESCRIPTION,
    SIGNED,
    SPECIAL,
    Prints,
    descriptions,
    entry,
)
from ledger_engine.store.snapshot import ReportRows, report_nothing
from ledger_engine.store.sqlite.unit import SqliteUnit

_NOTHING: Parameters = {}
FAULTS_MAX = 10  # one proves the damage; more than ten do not help
ENTRIES_AT_ONCE = 10_000
_LARGE = ("transactions", "events")
# The next account and type, or type and book, of which there are entries.
_NEXT_OF_ACCOUNT = (
    "SELECT account, type, book FROM transactions INDEXED BY transactions_by_account_and_type"
    " WHERE (account, type) > (:account, :type) ORDER BY account, type LIMIT 1"
)
_NEXT_OF_TYPE = (
    "SELECT type, book FROM transactions INDEXED BY transactions_by_type"
    " WHERE (type, book) > (:type, :book) ORDER BY type, book LIMIT 1"
)
_OF_ACCOUNT = (
    "transactions INDEXED BY transactions_by_account_and_type WHERE account = :account AND type = :type"
)
_OF_TYPE = "transactions INDEXED BY transactions_by_type WHERE type = :type AND book = :book"
_PART = " AND id > :after AND id <= :last"
_IDS_OF_TYPE = (
    "SELECT coalesce(group_concat(id), ''), count(*), total(type <> :type OR book <> :book)"
    f" FROM {_OF_TYPE}{_PART}"
)
# SQLite compares the keys at both ends of a range, and reads each entry between them whatever its key is.
_OF_OTHERS = "CASE WHEN account <> :account OR type <> :type OR book <> :book THEN 1 END"
_COLUMNS = ("balance_after", "created", DESCRIPTIONS, SPECIAL, _OF_OTHERS)
_ENTRIES = {
    type: f"SELECT {', '.join(f'group_concat({each})' for each in columns)} FROM {_OF_ACCOUNT}"
    for type, columns in (("credit", ("id", "amount", *_COLUMNS)), ("debit", ("id", "-amount", *_COLUMNS)))
}


class SqliteAuditUnit(SqliteUnit):
    """The `AuditUnit` of a SQLite connection that only reads."""

    __slots__ = ("report",)
    reads_indexes = True

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, SystemClock(), IdSource())
        self.report: ReportRows = report_nothing

    def note_read(self, rows: int, /) -> None:
        self.report(rows)

    def columns(
        self, expressions: Columns, source: str, parameters: Parameters = _NOTHING, /, *, longest: int = 0
    ) -> list[str]:
        selected = ", ".join(f"group_concat({each})" for each in expressions)
        with no_text_longer(self._connection, longest):
            row: Any = self.execute(f"SELECT {selected} FROM {source}", parameters)[0]
        return ["" if text is None else str(text) for text in row]

    def inspect(self, *, thorough: bool = True) -> list[str]:
        return inspect(self._connection, thorough=thorough)

    def prints(self) -> Prints:
        return prints(self._connection, self.note_read)

    def first_not_an_object(self, table: str, column: str) -> str | None:
        row = self.first(
            f"SELECT id FROM {table}"
            f" WHERE {column} IS NOT NULL"
            f" AND CASE WHEN json_valid({column}) THEN json_type({column}) <> 'object' ELSE 1 END LIMIT 1"
        )
        return None if row is None else str(row["id"])


def inspect(connection: sqlite3.Connection, *, thorough: bool) -> list[str]:
    """Return the faults of the file, a sentence each: all that SQLite finds, or all that `prints` leaves."""
    if thorough:
        return _sentences(connection, "integrity_check", "") + _missing(connection, "")
    found = _sentences(connection, "quick_check", "")
    if found:
        return found
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    for (table,) in connection.execute(tables).fetchall():
        if table not in _LARGE:
            found += _sentences(connection, "integrity_check", table) + _missing(connection, table)
    return found[:FAULTS_MAX]


def _sentences(connection: sqlite3.Connection, check: str, table: str) -> list[str]:
    rows = connection.execute(f"PRAGMA {check}({table or FAULTS_MAX})").fetchall()
    return [str(row[0]) for row in rows if row[0] != "ok"][:FAULTS_MAX]


def _missing(connection: sqlite3.Connection, table: str) -> list[str]:
    check = f"PRAGMA foreign_key_check({table})" if table else "PRAGMA foreign_key_check"
    return [
        f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}"
        for row in connection.execute(check).fetchmany(FAULTS_MAX)
    ]


def prints(connection: sqlite3.Connection, report: ReportRows) -> Prints:
    """Return the fingerprints of the indexes of transactions and events, and the number of events."""
    found = Prints()
    reading = _Reading(connection, report, found)
    try:
        reading.by_account()
        reading.by_type()
        found.by_transfer = _of_few(connection, "transactions_by_transfer", "transfer")
        found.by_reversed = _of_few(connection, "transactions_reversed_once", "reverses")
        found.by_object = _of_few(connection, "events_about", "object", has="body")
        (found.events,) = connection.execute("SELECT count(*) FROM events NOT INDEXED").fetchone()
    except _Unsound:
        found.damaged = True
    return found


@dataclass(slots=True)
class _Reading:
    """The reading of the two large indexes of transactions, from the first entry to the last.

    Each method raises _Unsound.
    """

    connection: sqlite3.Connection
    report: ReportRows
    found: Prints

    def by_account(self) -> None:
        """Read the index by account: of each account its credits, then its debits."""
        given: dict[str, Any] = {"account": "", "type": ""}
        while (row := self.connection.execute(_NEXT_OF_ACCOUNT, given).fetchone()) is not None:
            given = {"account": row[0], "type": row[1], "book": row[2]}
            if (entries := _ENTRIES.get(row[1])) is None:
                raise _Unsound
            try:
                with no_text_longer(self.connection, TEXT_MAX):
                    texts = self.connection.execute(entries, given).fetchone()
            except TooLong:
                read, end = (
                    partial(self._account_part, entries, given),
                    partial(self._end, _OF_ACCOUNT, given),
                )
                for texts, bounds in Parts(read, end, ENTRIES_AT_ONCE):
                    self._entries(texts, _PART, bounds)
            else:
                self._entries(texts, "", given)

    def by_type(self) -> None:
        """Read the index by type: the credits of each book, then the debits."""
        given: dict[str, Any] = {"type": "", "book": -(2**63)}
        while (row := self.connection.execute(_NEXT_OF_TYPE, given).fetchone()) is not None:
            given = {"type": row[0], "book": row[1]}
            read, end = partial(self._type_part, given), partial(self._end, _OF_TYPE, given)
            for ids in Parts(read, end, ENTRIES_AT_ONCE):
                self.found.list_ids(given["book"], given["type"], ids)

    def _account_part(
        self, entries: str, given: dict[str, Any], after: str, last: str, guessed: bool
    ) -> tuple[tuple[Any, dict[str, Any]], int]:
        """Return a part of an account's entries, as texts and with its bounds, and how many there are."""
        bounds = {**given, "after": after, "last": last}
        with no_text_longer(self.connection, TEXT_MAX if guessed else 0):
            texts = self.connection.execute(entries + _PART, bounds).fetchone()
        return (texts, bounds), 0 if texts[0] is None else texts[0].count(",") + 1

    def _type_part(self, given: dict[str, Any], after: str, last: str, guessed: bool) -> tuple[str, int]:
        """Return the ids of a part of the index by type, with commas between, and how many there are."""
        bounds = {**given, "after": after, "last": last}
        with no_text_longer(self.connection, TEXT_MAX if guessed else 0):
            ids, entries, of_others = self.connection.execute(_IDS_OF_TYPE, bounds).fetchone()
        if of_others:
            raise _Unsound
        self.report(entries)
        return ids, entries

    def _end(self, source: str, given: dict[str, Any], after: str) -> str | None:
        """Return the last id of the part that begins after an id, or None when nothing follows it."""
        bounds = {**given, "after": after, "rows": ENTRIES_AT_ONCE - 1}
        for end in ("LIMIT 1 OFFSET :rows", "DESC LIMIT 1"):  # the second when fewer follow
            sql = f"SELECT id FROM {source} AND id > :after ORDER BY id {end}"
            if (row := self.connection.execute(sql, bounds).fetchone()) is not None:
                return str(row[0])
        return None

    def _entries(self, texts: Any, bounds: str, given: dict[str, Any]) -> None:
        """Take the entries of an account and type, or of a part of them, from the texts of their columns."""
        if texts[0] is None:
            return
        ids = texts[0].split(",")
        if ids != sorted(ids):
            raise _Unsound
        self.report(len(ids))
        if texts[-1] is not None:
            self._entries_of_books(bounds, given)
            return
        described = descriptions(texts[4], len(ids), lambda: self._descriptions(bounds, given))
        try:
            changes, balances = json.loads(f"[{texts[1]}]"), json.loads(f"[{texts[2]}]")
        except ValueError:
            raise _Unsound from None
        columns = (repeat(given["account"], len(ids)), ids, changes, balances, texts[3].split(","), described)
        self.found.add(given["book"], columns, texts[5].split(",") if texts[5] else ())

    def _entries_of_books(self, bounds: str, given: dict[str, Any]) -> None:
        """Take entries one by one: an account is in one book, unless somebody has changed the ledger."""
        selected = f"type, book, account, id, {SIGNED}, balance_after, created, description, {SPECIAL}"
        for type, book, *values, special in self.connection.execute(
            f"SELECT {selected} FROM {_OF_ACCOUNT}{bounds}", given
        ):
            if type != given["type"] or values[0] != given["account"]:
                raise _Unsound
            *values, created, description = values
            described = NO_DESCRIPTION if description is None else description
            columns = tuple((each,) for each in (*values, str(created), described))
            self.found.add(book, columns, () if special is None else (special,))

    def _descriptions(self, bounds: str, given: dict[str, Any]) -> list[str | None]:
        rows = self.connection.execute(f"SELECT description FROM {_OF_ACCOUNT}{bounds} ORDER BY id", given)
        return [description for (description,) in rows]


@contextmanager
def no_text_longer(connection: sqlite3.Connection, length: int) -> Iterator[None]:
    """Raise TooLong rather than have SQLite make a text of more bytes, unless `length` is 0."""
    if not length:
        yield
        return
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
    try:
        yield
    except sqlite3.DataError as error:
        raise TooLong from error
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


class _Unsound(Exception):
    """An index whose entries do not ascend, or that has not those of its table."""


def _of_few(connection: sqlite3.Connection, index: str, column: str, has: str = "") -> int:
    """Return the fingerprint of an index by `column` of the rows whose column `has` is not NULL.

    Only some transactions or events are in it. Raises _Unsound.
    """
    table = index.partition("_")[0]
    total, after = 0, ("", -(2**63), "")
    while True:
        # In the index's own order, as SQLite would hide a wrong one by sorting.
        rows = [
            tuple(row)
            for row in connection.execute(
                f"SELECT {column}, book, id FROM {table} INDEXED BY {index}"
                f" WHERE {has or column} IS NOT NULL AND ({column}, book, id) > (?, ?, ?)"
                f" ORDER BY {column}, book, id LIMIT ?",
                (*after, ENTRIES_AT_ONCE),
            )
        ]
        if not rows:
            return total
        if rows != sorted(rows):
            raise _Unsound
        total += sum(entry(value, book, id) for value, book, id in rows)
        after = rows[-1]
