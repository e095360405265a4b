"""Proven points: how far an audit found a ledger right, so that the next looks only at what came after.

A point is a JSON file beside the ledger or elsewhere, never in it: who can change the ledger should not be
able to say that it was proven.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ledger_engine.core.clock import iso
from ledger_engine.core.errors import Conflict
from ledger_engine.store import Unit
from ledger_engine.store.files import write_private

_FORM = 1  # of the file
_SIZE_MAX = 100_000_000  # bytes


@dataclass(frozen=True, slots=True)
class Proven:
    """What was proven of one book: up to which transaction and event, '' without any.

    `transactions` is how many it had then, `balance_after` what the last one says, and `settlements` the
    balance of each by its currency.
    """

    transaction: str
    event: str
    transactions: int
    balance_after: int
    settlements: dict[str, int]


@dataclass(frozen=True, slots=True)
class Point:
    """The books that were proven `at` a time, by project and mode."""

    at: str
    books: dict[tuple[str, int], Proven]

    @staticmethod
    def of(unit: Unit, counted: Mapping[int, int]) -> Point:
        """Return the point of this snapshot, of which everything was checked."""
        books = {}
        for row in unit.execute("SELECT book, project, livemode FROM books ORDER BY book"):
            last = _last(unit, row["book"])
            settled = unit.execute(
                "SELECT currency, balance FROM settlements WHERE project = :project AND livemode = :livemode",
                {"project": row["project"], "livemode": row["livemode"]},
            )
            books[row["project"], row["livemode"]] = Proven(
                transaction=last[0],
                event=_last_event(unit, row["book"]),
                transactions=counted.get(row["book"], 0),
                balance_after=last[1],
                settlements={each["currency"]: each["balance"] for each in settled},
            )
        return Point(iso(unit.now), books)

    def by_book(self, unit: Unit) -> dict[int, Proven]:
        """Return what was proven, by the number of the book. Raises Conflict when it is of another ledger."""
        numbers = {
            (row["project"], row["livemode"]): row["book"]
            for row in unit.execute("SELECT book, project, livemode FROM books")
        }
        found = {}
        for of, proven in self.books.items():
            if of not in numbers:
                raise _of_another(f"the project {of[0]}")
            found[numbers[of]] = proven
            _require_there(unit, numbers[of], proven)
        return found


def read(file: Path) -> Point:
    """Return the point in a file. Raises Conflict for a file that is none, and OSError."""
    try:
        point = json.loads(_beginning(file))
        if point["form"] != _FORM:
            raise ValueError
        return Point(str(point["at"]), {_mode(each): _proven(each) for each in point["books"]})
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Conflict(
            "not_recoverable",
            f"{file} was not written by `ledger-engine verify --save`; that command writes one.",
        ) from None


def save(point: Point, file: Path) -> None:
    """Write the point to a file, in one step and private to its owner. Raises OSError."""
    books = [
        {"project": project, "livemode": bool(livemode), **asdict(proven)}
        for (project, livemode), proven in point.books.items()
    ]
    text = json.dumps({"form": _FORM, "at": point.at, "books": books}, indent=2) + "\n"
    write_private(file, text)


def require_replaceable(file: Path) -> None:
    """Raise Conflict when a point cannot be written to the file, or would replace something else."""
    if not file.parent.is_dir():
        raise Conflict("not_recoverable", f"There is no folder {file.parent}.")
    if file.exists():
        try:
            read(file)
        except (Conflict, OSError):
            raise Conflict(
                "not_recoverable",
                f"{file} exists and was not written by `ledger-engine verify --save`; name another file.",
            ) from None


def _beginning(file: Path) -> bytes:
    """Return the content of the file, or as much as a point may have: the file may be a ledger."""
    with file.open("rb") as opened:
        return opened.read(_SIZE_MAX)


def _mode(book: Any) -> tuple[str, int]:
    return str(book["project"]), int(bool(book["livemode"]))


def _proven(book: Any) -> Proven:
    settlements = {str(currency): int(balance) for currency, balance in book["settlements"].items()}
    return Proven(
        str(book["transaction"]),
        str(book["event"]),
        int(book["transactions"]),
        int(book["balance_after"]),
        settlements,
    )


def _require_there(unit: Unit, book: int, proven: Proven) -> None:
    """Raise Conflict unless the ledger has the last transaction and event that were proven."""
    for table, id in (("transactions", proven.transaction), ("events", proven.event)):
        columns = "balance_after" if table == "transactions" else "0 AS balance_after"
        row = unit.first(
            f"SELECT {columns} FROM {table} WHERE book = :book AND id = :id", {"book": book, "id": id}
        )
        if id and row is None:
            raise _of_another(id)
        if row is not None and table == "transactions" and row["balance_after"] != proven.balance_after:
            raise _of_another(f"{id} with a balance of {proven.balance_after} after it")


def _of_another(missing: str) -> Conflict:
    return Conflict(
        "not_recoverable",
        f"This ledger lacks {missing}, which the saved point names. The point is of another ledger, or this"
        " one is an older backup. Verify without --since.",
    )


def _last(unit: Unit, book: int) -> tuple[str, int]:
    row = unit.first(
        "SELECT id, balance_after FROM transactions NOT INDEXED WHERE book = :book ORDER BY id DESC LIMIT 1",
        {"book": book},
    )
    return ("", 0) if row is None else (row["id"], row["balance_after"])


def _last_event(unit: Unit, book: int) -> str:
    row = unit.first("SELECT max(id) AS id FROM events WHERE book = :book", {"book": book})
    return "" if row is None or row["id"] is None else str(row["id"])
