"""How far a pull is: what is a copy of what, where each list was read to, and the records not yet applied.

Each page is kept in one commit with the cursor after it, so a pull that is interrupted goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledger_engine.access import projects
from ledger_engine.access.projects import NAME_MAX
from ledger_engine.core.errors import Conflict
from ledger_engine.core.ids import is_id
from ledger_engine.core.records import dumps
from ledger_engine.core.tenant import Tenant, mode_name
from ledger_engine.store import Unit, Value, books
from ledger_engine.tools.pull.remote import LISTS


@dataclass(frozen=True, slots=True)
class Origin:
    """What is copied: the server's address, the mode, and the project's id where the server tells it."""

    url: str
    livemode: bool
    project: str | None


@dataclass(frozen=True, slots=True)
class Book:
    """The book that a copy fills."""

    number: int
    tenant: Tenant

    def bind(self, **values: Value) -> dict[str, Value]:
        """Return the parameters of a statement with the number of the book."""
        return {"book": self.number, **values}


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a list is read to. `until` is the newest record that the copy has, "" for none; `cursor` is ""
    before the first page."""

    kind: str
    until: str
    cursor: str
    done: bool


def ensure(unit: Unit, origin: Origin) -> Book:
    """Return the book of the copy, made in an empty ledger. Raises Conflict for any other ledger."""
    source = books.source(unit)
    if source is None:
        if projects.first(unit) is not None:
            raise Conflict(
                "not_recoverable",
                "The database has a ledger of its own: name a new file with --database, for the copy alone.",
            )
        name = f"Copy of {origin.url}"[:NAME_MAX]
        id = origin.project if origin.project is not None and is_id(origin.project, "prj") else None
        project = projects.create(unit, projects.NewProject(name, "enterprise"), id).id
        tenant = Tenant(project, origin.livemode)
        number = books.number_of(unit, tenant)
        unit.execute(
            "UPDATE books SET copy_of = :url WHERE book = :book", {"url": origin.url, "book": number}
        )
        unit.execute(
            "INSERT INTO pulls (book, source_project) VALUES (:book, :project)",
            {"book": number, "project": origin.project},
        )
        return Book(number, tenant)
    tenant = Tenant(source.project, source.livemode)
    (row,) = unit.execute(
        "SELECT p.book, p.source_project FROM pulls AS p JOIN books AS b ON b.book = p.book"
        " WHERE b.project = :project AND b.livemode = :livemode",
        tenant.bind(),
    )
    if source.url != origin.url:
        raise Conflict("not_recoverable", f"The database is {source.description()}, and not of {origin.url}.")
    if source.livemode != origin.livemode:
        raise Conflict(
            "not_recoverable",
            f"The database is a copy of the {mode_name(source.livemode)} mode, and the key is of the other.",
        )
    if None not in (row["source_project"], origin.project) and row["source_project"] != origin.project:
        raise Conflict(
            "not_recoverable",
            f"The database is a copy of the project {row['source_project']}, the key of {origin.project}.",
        )
    return Book(row["book"], tenant)


def newest(unit: Unit, book: Book, table: str) -> str:
    """Return the id of the newest record of the copy in this table, "" without one."""
    where = books.condition_on(table)
    row = unit.first(f"SELECT max(id) AS id FROM {table} WHERE {where}", book.tenant.bind())
    return "" if row is None or row["id"] is None else str(row["id"])


def begin(unit: Unit, book: Book) -> None:
    """Begin a pass over all lists."""
    for listed in LISTS:
        until = newest(unit, book, listed.kind) if listed.grows else ""
        unit.execute(
            "INSERT INTO pull_lists (book, kind, until, cursor) VALUES (:book, :kind, :until, '')",
            book.bind(kind=listed.kind, until=until),
        )


def readings(unit: Unit, book: Book) -> dict[str, Reading]:
    """Return where each list of the pass is, by kind; {} when none was begun."""
    rows = unit.execute("SELECT * FROM pull_lists WHERE book = :book", book.bind())
    return {row["kind"]: Reading(row["kind"], row["until"], row["cursor"], bool(row["done"])) for row in rows}


def keep(
    unit: Unit, book: Book, reading: Reading, records: list[tuple[str, dict[str, Any]]], after: str | None
) -> None:
    """Keep a page, and the cursor after it; None at the end of the list.

    Raises Conflict when another command has read on meanwhile.
    """
    moved = unit.execute(
        "UPDATE pull_lists SET cursor = :after, done = :done"
        " WHERE book = :book AND kind = :kind AND cursor = :cursor AND done = 0 RETURNING kind",
        book.bind(
            kind=reading.kind, cursor=reading.cursor, after=after or reading.cursor, done=after is None
        ),
    )
    if not moved:
        raise Conflict("not_recoverable", "Another command pulls into this database.")
    unit.execute_many(
        "INSERT INTO pulled (book, kind, id, record) VALUES (:book, :kind, :id, :record)"
        " ON CONFLICT (book, kind, id) DO UPDATE SET record = excluded.record",
        [book.bind(kind=reading.kind, id=id, record=dumps(record)) for id, record in records],
    )


def again(unit: Unit, book: Book, kind: str) -> None:
    """Have a list read again from its beginning."""
    unit.execute("DELETE FROM pulled WHERE book = :book AND kind = :kind", book.bind(kind=kind))
    unit.execute(
        "UPDATE pull_lists SET cursor = '', done = 0 WHERE book = :book AND kind = :kind",
        book.bind(kind=kind),
    )


def finish(unit: Unit, book: Book) -> None:
    """End the pass: the copy is complete as of now."""
    unit.execute("DELETE FROM pull_lists WHERE book = :book", book.bind())
    unit.execute("UPDATE pulls SET pulled_at = :now WHERE book = :book", book.bind(now=unit.now))


def release(unit: Unit, book: Book) -> None:
    """Make the copy a ledger of its own, which can be written to and no longer pulled into.

    That it was one stays noted in `pulls`, as what was copied has no events.
    """
    unit.execute("UPDATE books SET copy_of = NULL WHERE book = :book", book.bind())
    for table in ("pulled", "pull_lists"):
        unit.execute(f"DELETE FROM {table} WHERE book = :book", book.bind())
