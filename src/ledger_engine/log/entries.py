"""The entries of a book's log, one for each event, ordered by the events' ids: the order of the commits.

An entry is the event's body, with two exceptions: if the event is about a user, or if the body is too long
for an entry, the entry contains a *commitment* instead of the body. A commitment is the hash of a random salt
and the body. When a user is erased, the ledger deletes the salts of the user's events, so that nobody can
test guesses of the erased text against the hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger_engine.core.clock import iso
from ledger_engine.events import outbox
from ledger_engine.log import checkpoints, notes, tree
from ledger_engine.log.tiles import ENTRY_MAX
from ledger_engine.store import Row, Unit, Value

SALT = 16  # bytes
# If the bodies of the events in `EntryRange.uncommitted` have more than this many bytes in total, no further
# event is added. This limit exists because one transaction makes the commitments to all these bodies.
COMMITTED_AT_ONCE = 4_000_000
_EVENTS = (
    f"SELECT {outbox.SHORT_COLUMNS}, :livemode AS livemode FROM events AS e {outbox.JOIN}"
    " WHERE e.book = :book AND e.id > :after ORDER BY e.id LIMIT :limit"
)


@dataclass(frozen=True, slots=True)
class LoggedBook:
    """A book with a log. The name of the log (its origin) ends with the project and the mode of the book."""

    number: int
    project: str
    livemode: bool


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Some consecutive events: their ids, and in `entries` one value for each id.

    In a range from the function `read`, this value is the event's log entry. In a range from the function
    `leaves`, this value is the leaf hash of the log entry.

    The range ends before the first event that needs a commitment and has none. `uncommitted` has the ids of
    this event and of later events that need a commitment and have none.
    """

    ids: list[str]
    entries: list[bytes]
    uncommitted: list[str]


def read(unit: Unit, book: LoggedBook, after: str, limit: int) -> EntryRange:
    """Return the entries of up to `limit` events after the id `after`."""
    return _range_after(unit, book, after, limit, bytes)


def leaves(unit: Unit, book: LoggedBook, after: str, limit: int) -> EntryRange:
    """Return the same range as `read`, with the leaf hash of each entry instead of the entry."""
    return _range_after(unit, book, after, limit, tree.leaf_hash)


def _range_after(
    unit: Unit, book: LoggedBook, after: str, limit: int, form: Callable[[bytes], bytes]
) -> EntryRange:
    """Return the range after the id `after`, with the result of `form` for each entry.

    Only one long body is in memory at a time.
    """
    rows = unit.execute(
        _EVENTS, {"book": book.number, "livemode": book.livemode, "after": after, "limit": limit}
    )
    commitments = _commitments(unit, book, rows[0][0], rows[-1][0]) if rows else {}
    part, to_commit = EntryRange([], [], []), 0
    for row in rows:
        id: str = row[0]
        is_long, is_of_user = row[2] == "", row[1] in outbox.USER_KINDS
        commitment = commitments.get(id) if is_long or is_of_user else None
        if commitment is None:
            entry = (outbox.long_body(unit, book.number, id) if is_long else outbox.body_of(row)).encode()
            if is_of_user or len(entry) > ENTRY_MAX:
                commitment = commitments.get(id)
                if commitment is None:
                    part.uncommitted.append(id)
                    to_commit += len(entry)
        if to_commit > COMMITTED_AT_ONCE:
            break
        if not part.uncommitted:
            if commitment is not None:
                entry = checkpoints.entry_of(_shown_fields(row), commitment)
            part.ids.append(id)
            part.entries.append(form(entry))
    return part


def store_commitments(unit: Unit, book: LoggedBook, salts: Mapping[str, bytes]) -> None:
    """Store commitments to the bodies of some events; `salts` maps each event's id to its salt.

    The same work reads the bodies and stores the commitments, so that no user can be erased in between.
    """
    for id, salt in salts.items():
        row = _event(unit, book, id)
        if row is not None:
            commitment = checkpoints.commitment_to(outbox.body_of(row).encode(), salt)
            unit.execute(
                "INSERT INTO log_commitments (book, event, commitment, salt)"
                " VALUES (:book, :id, :commitment, :salt) ON CONFLICT (book, event) DO NOTHING",
                {"book": book.number, "id": id, "commitment": commitment, "salt": notes.encode(salt)},
            )


def bytes_to_check(unit: Unit, book: LoggedBook, id: str) -> bytes:
    """Return the bytes that `checkpoints.Proof.check` needs to check the proof of an event.

    These bytes are the event's body as webhooks send it. If the event's user was erased, they are the event's
    log entry instead.
    """
    row = _event(unit, book, id)
    assert row is not None, "an event with a proof is stored"
    commitment = _commitments(unit, book, id, id).get(id)
    if commitment is not None and salt_of(unit, book, id) is None:
        return checkpoints.entry_of(_shown_fields(row), commitment)
    return outbox.body_of(row).encode()


def salt_of(unit: Unit, book: LoggedBook, id: str) -> bytes | None:
    """Return the salt of the commitment in an event's entry.

    Return None if the entry has no commitment, or if the event's user was erased.
    """
    row = unit.first(
        "SELECT salt FROM log_commitments WHERE book = :book AND event = :id", {"book": book.number, "id": id}
    )
    return None if row is None or row["salt"] is None else notes.decode(row["salt"])


def _event(unit: Unit, book: LoggedBook, id: str) -> Row | None:
    parameters: dict[str, Value] = {"book": book.number, "livemode": book.livemode, "id": id}
    return unit.first(
        f"SELECT {outbox.COLUMNS}, :livemode AS livemode FROM events AS e {outbox.JOIN}"
        " WHERE e.book = :book AND e.id = :id",
        parameters,
    )


def _commitments(unit: Unit, book: LoggedBook, first: str, last: str) -> dict[str, str]:
    rows: Sequence[Row] = unit.execute(
        "SELECT event, commitment FROM log_commitments"
        " WHERE book = :book AND event >= :first AND event <= :last",
        {"book": book.number, "first": first, "last": last},
    )
    return {row["event"]: row["commitment"] for row in rows}


def _shown_fields(row: Row) -> dict[str, Any]:
    """Return the fields of an event that its entry contains next to the commitment."""
    return {
        "id": row["id"],
        "type": row["type"],
        "created": iso(row["created"]),
        "livemode": bool(row["livemode"]),
    }
