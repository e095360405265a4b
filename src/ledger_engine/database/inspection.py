"""Whether a SQLite file is sound: its pages, its rows, and its indexes.

SQLite's own integrity check looks up every row in every index, which takes most of its time. Here the entries
of the two large indexes are read in their order and summed up instead, to be compared with the same sum
over the transactions (`Prints`); all else is left to SQLite. When the sums differ, its own check names a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ledger_engine.database import Prints, weight

FAULTS_MAX = 10  # one proves the damage; more than ten do not help
ENTRIES_AT_ONCE = 10_000
_LARGE = ("transactions", "events")
# The events that have a body, each looked up in their index, and how many entries that has. With a plus
# before the column SQLite does not read the index in place of the table, as it does in spite of NOT INDEXED.
_EVENTS_ABOUT = """
SELECT (SELECT count(*) FROM events AS e WHERE +e.body IS NOT NULL AND EXISTS (
            SELECT 1 FROM events AS i INDEXED BY events_about
            WHERE i.object = e.object AND i.body IS NOT NULL AND i.book = e.book AND i.id = e.id)) AS found,
       (SELECT count(*) FROM events WHERE +body IS NOT NULL) AS rows,
       (SELECT count(*) FROM events INDEXED BY events_about WHERE body IS NOT NULL) AS entries"""

_INDEXES = ("transactions_by_account_and_type", "transactions_by_type")
_OF_TYPE = "type || book = :value"

ReportRows = Callable[[int], None]


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
    events_about = tuple(connection.execute(_EVENTS_ABOUT).fetchone())
    if len(set(events_about)) > 1:
        found += _sentences(connection, "integrity_check", "events") or ["events do not fit their index"]
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


def prints(connection: sqlite3.Connection, report: ReportRows) -> Prints | None:
    """Return the fingerprints of the indexes of transactions, None for what fits no transactions at all."""
    found = Prints()
    by_account, by_type = [_Index(connection, each, report) for each in _INDEXES]
    try:
        for account, book in _accounts(connection):
            factor = hash(account)
            for type in ("credit", "debit"):
                (summed,) = by_account.sums(f"account = :value AND type = '{type}'", [account], book)
                if type == "credit":
                    found.credits_by_account += factor * summed
                else:
                    found.debits_by_account += factor * summed
        for (book,) in connection.execute("SELECT book FROM books").fetchall():
            credits, debits = by_type.sums(_OF_TYPE, [f"credit{book}", f"debit{book}"], book)
            found.credits_by_type += credits
            found.debits_by_type += debits
        found.by_transfer = _of_few(connection, "transactions_by_transfer", "transfer")
        found.by_reversed = _of_few(connection, "transactions_reversed_once", "reverses")
    except _OutOfOrder:
        return None
    return found if by_account.is_read() and by_type.is_read() else None


@dataclass(slots=True)
class _Index:
    """One of the two large indexes of transactions, and how many of its entries were read."""

    connection: sqlite3.Connection
    name: str
    report: ReportRows
    read: int = 0

    def sums(self, where: str, values: Sequence[str], book: int) -> list[int]:
        """Return for each value the weighted sum of the ids of its entries, which should be of the book.

        They are read some thousands at a time, those of all values side by side, as SQLite may look up their
        transactions, which are side by side. Raises _OutOfOrder.
        """
        table = f"transactions INDEXED BY {self.name}"
        # Not by its own entries: SQLite would look up the transaction of each that it passes over.
        passed = (
            f"{table} WHERE {where}" if where != _OF_TYPE else "transactions NOT INDEXED WHERE book = :book"
        )
        given: dict[str, str | int] = {"value": values[0], "book": book, "after": "", "rows": ENTRIES_AT_ONCE}
        totals = dict.fromkeys(values, 0)
        while True:
            last = self.connection.execute(
                f"SELECT id FROM {passed} AND id > :after ORDER BY id LIMIT 1 OFFSET :rows", given
            ).fetchone()
            part = f"{table} WHERE {where} AND id > :after"
            if last is not None:
                part += " AND id <= :last"
                given["last"] = last[0]
            for value in values:
                totals[value] += self._part(part, given | {"value": value})
            if last is None:
                return list(totals.values())
            given["after"] = last[0]

    def _part(self, part: str, given: dict[str, str | int]) -> int:
        text, others = self.connection.execute(
            f"SELECT group_concat(id), count(nullif(book, :book)) FROM {part}", given
        ).fetchone()
        ids = [] if text is None else text.split(",")
        if ids != sorted(ids):
            raise _OutOfOrder
        self.read += len(ids)
        self.report(len(ids))
        if not others:
            return weight(int(given["book"])) * sum(map(hash, ids))
        # Somebody has changed the ledger: an account is in one book.
        rows = self.connection.execute(f"SELECT id, book FROM {part}", given).fetchall()
        return sum(weight(own) * hash(id) for id, own in rows)

    def is_read(self) -> bool:
        """Return whether all its entries were read."""
        (entries,) = self.connection.execute(
            f"SELECT count(*) FROM transactions INDEXED BY {self.name}"
        ).fetchone()
        return bool(entries == self.read)


class _OutOfOrder(Exception):
    """An index whose entries do not ascend."""


def _accounts(connection: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Yield the accounts and their books."""
    after: str | None = ""
    while after is not None:
        rows = connection.execute(
            "SELECT a.id, b.book FROM accounts AS a JOIN books AS b"
            " ON b.project = a.project AND b.livemode = a.livemode WHERE a.id > ? ORDER BY a.id LIMIT ?",
            (after, ENTRIES_AT_ONCE),
        ).fetchall()
        after = rows[-1][0] if rows else None
        yield from rows


def _of_few(connection: sqlite3.Connection, index: str, column: str) -> int:
    """Return the fingerprint of an index that only some transactions are in. Raises _OutOfOrder."""
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
            raise _OutOfOrder
        total += sum(hash(value) * hash(id) * weight(book) for value, book, id in rows)
        after = rows[-1]
