"""Whether a SQLite file is sound: its pages, its rows, and its indexes.

SQLite's own integrity check looks up every row in every index, which takes most of its time. Here the entries
of the two large indexes are read in their order instead, to be compared with the transactions by fingerprints
(`prints`); all else is left to SQLite. When the fingerprints differ, its own check names a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from ledger_engine.database.prints import (
    DESCRIPTIONS,
    NO_DESCRIPTION,
    SIGNED,
    SPECIAL,
    Prints,
    descriptions,
    weight,
)

FAULTS_MAX = 10  # one proves the damage; more than ten do not help
ENTRIES_AT_ONCE = 10_000
TEXT_MAX = 2_000_000  # bytes of what is read at once of an account: the ids of some 65,000 entries
_LARGE = ("transactions", "events")
# All events, those that have a body, how many of these are in their index, and how many entries that has.
_EVENTS = """
SELECT count(*) AS events, count(e.body) AS bodies,
       total(CASE WHEN e.body IS NOT NULL THEN EXISTS (
           SELECT 1 FROM events AS i INDEXED BY events_about
           WHERE i.object = e.object AND i.body IS NOT NULL AND i.book = e.book AND i.id = e.id
       ) END) AS found,
       (SELECT count(*) FROM events INDEXED BY events_about WHERE body IS NOT NULL) AS entries
FROM events AS e NOT INDEXED"""
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
_COLUMNS = ("id", SIGNED, "balance_after", "created", DESCRIPTIONS, SPECIAL, "nullif(book, :book)")
_ENTRIES = f"SELECT {', '.join(f'group_concat({each})' for each in _COLUMNS)} FROM {_OF_ACCOUNT}"
_TYPES = ("credit", "debit")

ReportRows = Callable[[int], None]


def inspect(connection: sqlite3.Connection, *, thorough: bool) -> list[str]:
    """Return the faults of the file, a sentence each: all that SQLite finds, or all that `prints` leaves.

    Raises sqlite3.OperationalError for a file of an older version.
    """
    # Its indexes have other columns: `prints` would read them through the table, again and again.
    connection.execute("SELECT long_description FROM transactions LIMIT 0")
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
    """Return the fingerprints of the indexes of transactions, and the number of events."""
    found = Prints()
    reading = _Reading(connection, report, found)
    try:
        reading.by_account()
        reading.by_type()
        found.by_transfer = _of_few(connection, "transactions_by_transfer", "transfer")
        found.by_reversed = _of_few(connection, "transactions_reversed_once", "reverses")
        found.events = _events(connection)
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
            if row[1] not in _TYPES:
                raise _Unsound
            try:
                with _no_text_longer(self.connection, TEXT_MAX):
                    texts = self.connection.execute(_ENTRIES, given).fetchone()
            except sqlite3.DataError:
                for bounds, bound in self._parts(_OF_ACCOUNT, given):
                    self._entries(self.connection.execute(_ENTRIES + bounds, bound).fetchone(), bounds, bound)
            else:
                self._entries(texts, "", given)

    def by_type(self) -> None:
        """Read the index by type: the credits of each book, then the debits."""
        given: dict[str, Any] = {"type": "", "book": -(2**63)}
        while (row := self.connection.execute(_NEXT_OF_TYPE, given).fetchone()) is not None:
            given = {"type": row[0], "book": row[1]}
            for bounds, bound in self._parts(_OF_TYPE, given):
                part = f"SELECT coalesce(group_concat(id), ''), count(*) FROM {_OF_TYPE}{bounds}"
                ids, entries = self.connection.execute(part, bound).fetchone()
                self.found.list_ids(given["book"], given["type"], ids)
                self.report(entries)

    def _parts(self, source: str, given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the conditions, with their parameters, on parts of some thousand entries."""
        bounds = " AND id > :after"
        after: str | None = ""
        while after is not None:
            given = given | {"after": after, "rows": ENTRIES_AT_ONCE}
            last = self.connection.execute(
                f"SELECT id FROM {source}{bounds} ORDER BY id LIMIT 1 OFFSET :rows", given
            ).fetchone()
            after = None if last is None else last[0]
            yield bounds if after is None else f"{bounds} AND id <= :last", given | {"last": after}

    def _entries(self, texts: Any, bounds: str, given: dict[str, Any]) -> None:
        """Take the entries of an account and type, or of a part of them, from the texts of their columns."""
        if texts[0] is None:
            return
        ids = texts[0].split(",")
        if ids != sorted(ids):
            raise _Unsound
        self.report(len(ids))
        if texts[-1] is not None:  # somebody has changed the ledger: an account is in one book
            self._entries_of_books(bounds, given)
            return
        described = descriptions(texts[4], len(ids), lambda: self._descriptions(bounds, given))
        columns = (
            repeat(given["account"], len(ids)),
            ids,
            *(each.split(",") for each in texts[1:4]),
            described,
        )
        self.found.add(given["book"], columns, texts[5].split(",") if texts[5] else ())

    def _entries_of_books(self, bounds: str, given: dict[str, Any]) -> None:
        values = f"book, account, id, {SIGNED}, balance_after, created, description, {SPECIAL}"
        for book, *entry, special in self.connection.execute(
            f"SELECT {values} FROM {_OF_ACCOUNT}{bounds}", given
        ):
            entry[-1] = NO_DESCRIPTION if entry[-1] is None else entry[-1]
            columns = tuple((str(each),) for each in entry)
            self.found.add(book, columns, () if special is None else (special,))

    def _descriptions(self, bounds: str, given: dict[str, Any]) -> list[str | None]:
        rows = self.connection.execute(f"SELECT description FROM {_OF_ACCOUNT}{bounds} ORDER BY id", given)
        return [description for (description,) in rows]


@contextmanager
def _no_text_longer(connection: sqlite3.Connection, length: int) -> Iterator[None]:
    """Have SQLite raise sqlite3.DataError rather than make a text of more bytes."""
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
    try:
        yield
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


class _Unsound(Exception):
    """An index whose entries do not ascend, or that has not those of its table."""


def _events(connection: sqlite3.Connection) -> int:
    """Return how many events there are. Raises _Unsound unless those that have a body are in their index."""
    events, bodies, found, entries = connection.execute(_EVENTS).fetchone()
    if not bodies == found == entries:
        raise _Unsound
    return int(events)


def _of_few(connection: sqlite3.Connection, index: str, column: str) -> int:
    """Return the fingerprint of an index that only some transactions are in. Raises _Unsound."""
    total, after = 0, ("", -(2**63), "")
    while True:
        # In the index's own order, as SQLite would hide a wrong one by sorting.
        rows = [
            tuple(row)
            for row in connection.execute(
                f"SELECT {column}, book, id FROM transactions INDEXED BY {index}"
                f" WHERE {column} IS NOT NULL AND ({column}, book, id) > (?, ?, ?)"
                f" ORDER BY {column}, book, id LIMIT ?",
                (*after, ENTRIES_AT_ONCE),
            )
        ]
        if not rows:
            return total
        if rows != sorted(rows):
            raise _Unsound
        total += sum(hash(value) * hash(id) * weight(book) for value, book, id in rows)
        after = rows[-1]
