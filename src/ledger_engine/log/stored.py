"""The stored parts of a book's log, and proofs made from these parts.

An event is *sealed* if its entry is in the log and a signed checkpoint covers the entry. A *cosignature* is
the signature of a witness under a checkpoint.

The ledger stores the hashes in the tiles from level 1 on (see `tiles`). Each of these hashes is the hash of a
full tile of the level below, so it does not change when the log grows. The ledger does not store the hashes
of level 0: this module computes them from the events, 256 at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ledger_engine.core.errors import Conflict, NotFound, StorageUnavailable
from ledger_engine.core.tenant import Tenant, mode_name
from ledger_engine.events import outbox
from ledger_engine.log import entries, notes, tiles, tree
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.notes import BadNote, Note, Signature
from ledger_engine.log.tiles import ENTRIES, LogTile
from ledger_engine.log.tree import TILE_HEIGHT, TILE_WIDTH, Edge, Range
from ledger_engine.store import Row, Unit
from ledger_engine.store.books import OF_TENANT
from ledger_engine.store.pages import PageRequest

_BOOKS = (
    "SELECT b.book, b.project, b.livemode, l.size, l.last, l.checkpoint FROM books AS b"
    " LEFT JOIN logs AS l ON l.book = b.book"
)
_BEHIND = (
    f"{_BOOKS} WHERE EXISTS (SELECT 1 FROM events AS e WHERE e.book = b.book AND e.id > coalesce(l.last, ''))"
    " ORDER BY b.book"
)


class BrokenLog(StorageUnavailable):
    """The log contradicts its last checkpoint or a kept checkpoint, so it must not be signed any more."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """A book and the sealed part of its log: the size, the last event, and the checkpoint.

    `checkpoint` is None if no event of the book is sealed.
    """

    book: LoggedBook
    size: int
    last: str
    checkpoint: str | None

    def require(self) -> Checkpoint:
        """Return the checkpoint. Raises Conflict `not_sealed_yet` or BrokenLog."""
        if self.checkpoint is None:
            raise Conflict(
                "not_sealed_yet",
                "The log has no checkpoint yet: a server signs it within a second after an event. Try again.",
            )
        try:
            return Checkpoint.parse(self.checkpoint)
        except BadNote:
            raise _broken(self) from None


@dataclass(frozen=True, slots=True)
class FullTile:
    """The hash of a full tile, and the place at which the ledger stores the hash.

    The ledger stores the hash in a tile of the level above the full tile. `level` is this higher level, and
    `number` is the hash's number among all hashes of the higher level. `last` is the id of the last event in
    the full tile.
    """

    level: int
    number: int
    hash: bytes
    last: str


@dataclass(frozen=True, slots=True)
class SealState:
    """How far the logs of all books are sealed.

    `sealed` is the time of the newest checkpoint, or None if there is no checkpoint. `events` is the number
    of sealed events, and `books_behind` the number of books with events that are not sealed yet.
    """

    sealed: int | None
    events: int
    books_behind: int


def seal_state(unit: Unit) -> SealState:
    """Return how far the logs of all books are sealed."""
    rows = unit.execute("SELECT size, sealed FROM logs")
    newest = max((row["sealed"] for row in rows), default=None)
    return SealState(newest, sum(row["size"] for row in rows), len(behind(unit)))


def behind(unit: Unit) -> list[StoredLog]:
    """Return the logs of the books with events that are not sealed yet."""
    return [_log(row) for row in unit.execute(_BEHIND)]


def books(unit: Unit) -> list[StoredLog]:
    """Return the logs of all books, sealed or not."""
    return [_log(row) for row in unit.execute(f"{_BOOKS} ORDER BY b.book")]


def every(unit: Unit) -> list[StoredLog]:
    """Return the logs of the books with sealed events."""
    return [_log(row) for row in unit.execute(f"{_BOOKS} WHERE l.size IS NOT NULL ORDER BY b.book")]


def of_tenant(unit: Unit, tenant: Tenant) -> StoredLog:
    """Return the log of the tenant's book."""
    row = unit.first(f"{_BOOKS} WHERE b.{OF_TENANT.replace('livemode', 'b.livemode', 1)}", tenant.bind())
    assert row is not None, "each project has both books"
    return _log(row)


def edge(unit: Unit, log: StoredLog) -> Edge:
    """Return the right edge of a log. Raises BrokenLog if the stored hashes do not lead to its checkpoint."""
    levels, start = [], 0
    for level in range(_levels(log.size), 0, -1):
        width = log.size >> TILE_HEIGHT * level
        rows = _tiles(unit, log.book, level, width // TILE_WIDTH * TILE_WIDTH, width)
        levels.append(_hashes(log, rows))
        start = width * TILE_WIDTH
    whole_edge = Edge([_leaves(unit, log, start, log.size), *reversed(levels)])
    if log.checkpoint is not None:
        checkpoint = log.require()
        if (whole_edge.size, whole_edge.root()) != (
            checkpoint.size,
            checkpoint.root,
        ) or checkpoint.size != log.size:
            raise _broken(log)
    return whole_edge


def require_begins_with(unit: Unit, log: StoredLog, checkpoint: Checkpoint) -> None:
    """Raise BrokenLog unless the log has merely grown since the checkpoint.

    The log must have at least as many sealed entries as the checkpoint, and its first entries must lead to
    the checkpoint's root.
    """
    if checkpoint.size > log.size:
        raise BrokenLog(
            f"a kept checkpoint of {checkpoint.origin} has {checkpoint.size} entries, but this ledger has"
            f" sealed only {log.size}: it was rolled back, or is a fork"
        )
    if hashes(unit, log, [(0, checkpoint.size)]) != (checkpoint.root,):
        raise BrokenLog(
            f"a kept checkpoint of {checkpoint.origin} has {checkpoint.size} entries that differ from the"
            " entries here: this ledger was rolled back, or is a fork"
        )


def store(unit: Unit, log: StoredLog, full: Sequence[FullTile], new_log: StoredLog) -> bool:
    """Replace the stored `log` by `new_log`, and store the hashes in `full`.

    `new_log` is the log after it has grown or was signed again. `full` are the tiles that became full.
    If the stored log no longer has the size of `log`, store nothing and return False.
    """
    rows = unit.execute(
        "INSERT INTO logs (book, size, last, checkpoint, sealed)"
        " VALUES (:book, :size, :last, :checkpoint, :now)"
        " ON CONFLICT (book) DO UPDATE SET size = excluded.size, last = excluded.last,"
        " checkpoint = excluded.checkpoint, sealed = excluded.sealed"
        " WHERE logs.size = :before RETURNING book",
        {
            "book": log.book.number,
            "size": new_log.size,
            "last": new_log.last,
            "checkpoint": new_log.checkpoint,
            "now": unit.now,
            "before": log.size,
        },
    )
    if not rows:
        return False
    unit.execute_many(
        "INSERT INTO log_tiles (book, level, number, hash, last)"
        " VALUES (:book, :level, :number, :hash, :last)",
        [
            {
                "book": log.book.number,
                "level": tile.level,
                "number": tile.number,
                "hash": notes.encode(tile.hash),
                "last": tile.last,
            }
            for tile in full
        ],
    )
    return True


def hashes(unit: Unit, log: StoredLog, ranges: Sequence[Range]) -> tuple[bytes, ...]:
    """Return the hashes of these ranges of entries, for a proof."""

    @cache
    def tile(number: int) -> list[bytes]:
        first = number * TILE_WIDTH
        return _leaves(unit, log, first, min(first + TILE_WIDTH, log.size))

    def read(level: int, first: int, end: int) -> list[bytes]:
        if level == 0:
            number, start = divmod(first, TILE_WIDTH)
            return tile(number)[start : start + end - first]
        return _hashes(log, _tiles(unit, log.book, level, first, end))

    subtrees = tiles.subtrees(read)
    return tuple(tree.hash_of(each, subtrees) for each in ranges)


def index_of(unit: Unit, log: StoredLog, event: str) -> int:
    """Return the index of a sealed event in the log."""
    number, after = 0, ""
    for level in range(_levels(log.size), 0, -1):
        first = number * TILE_WIDTH
        row = unit.first(
            "SELECT count(*) AS before, max(last) AS last FROM log_tiles WHERE book = :book"
            " AND level = :level AND number >= :first AND number < :end AND last < :event",
            {
                "book": log.book.number,
                "level": level,
                "first": first,
                "end": first + TILE_WIDTH,
                "event": event,
            },
        )
        assert row is not None
        number, after = first + row["before"], row["last"] or after
    row = unit.first(
        "SELECT count(*) AS before FROM events WHERE book = :book AND id > :after AND id < :event",
        {"book": log.book.number, "after": after, "event": event},
    )
    assert row is not None
    return number * TILE_WIDTH + int(row["before"])


def event_at(unit: Unit, log: StoredLog, size: int) -> str:
    """Return the id of the last event among the first `size` entries; '' if the log has fewer entries."""
    if not 0 < size <= log.size:
        return ""
    before = _before(unit, log, size - 1)
    row = unit.first(
        "SELECT id FROM events WHERE book = :book AND id > :before ORDER BY id LIMIT 1 OFFSET :rows",
        {"book": log.book.number, "before": before, "rows": (size - 1) % TILE_WIDTH},
    )
    return "" if row is None else str(row["id"])


def checkpoint_note(unit: Unit, tenant: Tenant) -> str:
    """Return the last checkpoint with its stored cosignatures. Raises Conflict `not_sealed_yet`."""
    log = of_tenant(unit, tenant)
    return str(_with_cosignatures(unit, log.book, log.require()).note)


def tile_content(unit: Unit, tenant: Tenant, tile: LogTile) -> bytes:
    """Return a tile of hashes or a bundle of entries.

    Raises NotFound if the log is too small to contain the tile.
    """
    log = of_tenant(unit, tenant)
    if log.checkpoint is None or tile.size > log.size:
        raise NotFound("tile", tile.path)
    first = tile.number * TILE_WIDTH
    if tile.level == ENTRIES:
        part = entries.read(unit, log.book, _before(unit, log, first), tile.width)
        return tiles.bundle(part.entries)
    if tile.level == 0:
        return b"".join(_leaves(unit, log, first, first + tile.width))
    rows = _tiles(unit, log.book, tile.level, first, first + tile.width)
    return b"".join(_hashes(log, rows))


def proof_of_event(unit: Unit, tenant: Tenant, event: str) -> str:
    """Return the proof that an event is in the log.

    Raises NotFound, Conflict `not_sealed_yet`, and PermissionDenied if the event is about a user and the
    tenant lacks `read:users`.
    """
    outbox.get(unit, tenant, event)
    log = of_tenant(unit, tenant)
    if log.checkpoint is None or event > log.last:
        raise Conflict(
            "not_sealed_yet", f"{event} is not in the log yet: a server adds it within a second. Try again."
        )
    index = index_of(unit, log, event)
    checkpoint = _most_cosigned(unit, log.book, index) or _with_cosignatures(unit, log.book, log.require())
    path = hashes(unit, log, tree.inclusion(index, checkpoint.size))
    return str(Proof(index, path, checkpoint, entries.salt_of(unit, log.book, event)))


def proof_of_transaction(unit: Unit, tenant: Tenant, transaction: str) -> str:
    """Return the proof that the event of a transaction is in the log.

    Raises the errors of `proof_of_event`.
    """
    return proof_of_event(unit, tenant, event_of_transaction(unit, tenant, transaction))


def event_of_transaction(unit: Unit, tenant: Tenant, transaction: str) -> str:
    """Return the id of the event of a transaction. Raises NotFound."""
    events = outbox.about(unit, tenant, PageRequest(1), transaction).items
    if not events or not transaction.startswith("txn_"):
        raise NotFound("transaction", transaction)
    return events[0].id


def bytes_to_check(unit: Unit, tenant: Tenant, event: str) -> bytes:
    """Return the bytes that are needed to check the proof of an event; see `entries.bytes_to_check`."""
    return entries.bytes_to_check(unit, of_tenant(unit, tenant).book, event)


def _broken(log: StoredLog) -> BrokenLog:
    mode = mode_name(log.book.livemode)
    return BrokenLog(
        f"the events of {log.book.project}, {mode} mode, do not lead to the signed checkpoint of {log.size}"
        " entries: some sealed events were changed or removed"
    )


def _levels(size: int) -> int:
    """Return the highest level of hashes in a log of this size."""
    level = 0
    while size >> TILE_HEIGHT * (level + 1):
        level += 1
    return level


def _tiles(unit: Unit, book: LoggedBook, level: int, first: int, end: int) -> list[Row]:
    return unit.execute(
        "SELECT hash, last FROM log_tiles WHERE book = :book AND level = :level"
        " AND number >= :first AND number < :end ORDER BY number",
        {"book": book.number, "level": level, "first": first, "end": end},
    )


def _hashes(log: StoredLog, rows: Sequence[Row]) -> list[bytes]:
    try:
        return [notes.decode(row["hash"]) for row in rows]
    except BadNote:
        raise _broken(log) from None


def _before(unit: Unit, log: StoredLog, first: int) -> str:
    """Return the id of the last event before the tile of the entry `first`; '' for the first tile."""
    number = first // TILE_WIDTH
    return _tiles(unit, log.book, 1, number - 1, number)[0]["last"] if number else ""


def _leaves(unit: Unit, log: StoredLog, first: int, end: int) -> list[bytes]:
    """Return the hashes of the entries from `first` up to but not including `end`.

    `first` must be the first entry of a tile, and all these entries must be in this tile.
    """
    if first == end:
        return []
    part = entries.leaves(unit, log.book, _before(unit, log, first), end - first)
    if part.ids and part.ids[-1] > log.last:
        raise _broken(log)
    return part.entries


def _most_cosigned(unit: Unit, book: LoggedBook, index: int) -> Checkpoint | None:
    """Return a cosigned checkpoint that covers the entry `index` of the book's log.

    If there are several such checkpoints, return the checkpoint with the most signatures. If several of them
    have equally many signatures, return the newest. Return None if there is no such checkpoint.
    """
    rows = unit.execute(
        "SELECT checkpoint FROM log_cosignatures WHERE book = :book AND size > :index",
        {"book": book.number, "index": index},
    )
    checkpoints: list[Checkpoint] = []
    for row in rows:
        with contextlib.suppress(BadNote):
            checkpoints.append(_with_cosignatures(unit, book, Checkpoint.parse(row["checkpoint"])))
    return max(checkpoints, key=lambda each: (len(each.note.signatures), each.size), default=None)


def _with_cosignatures(unit: Unit, book: LoggedBook, checkpoint: Checkpoint) -> Checkpoint:
    """Return a copy of the checkpoint. Its note also contains the cosignatures stored for the same size.

    Unreadable cosignatures are left out.
    """
    rows = unit.execute(
        "SELECT witness, line FROM log_cosignatures WHERE book = :book AND size = :size ORDER BY witness",
        {"book": book.number, "size": checkpoint.size},
    )
    note = checkpoint.note
    lines = tuple(each for row in rows if (each := cosignature(row)) is not None)
    return Checkpoint(
        checkpoint.origin, checkpoint.size, checkpoint.root, Note(note.text, note.signatures + lines)
    )


def cosignature(row: Row) -> Signature | None:
    """Return the signature in a row of `log_cosignatures`.

    Return None if the signature cannot be read, or names another witness than the row.
    """
    try:
        (signature,) = notes.parse_signatures(row["line"])
    except (BadNote, ValueError):
        return None
    return signature if signature.name == row["witness"] else None


def garbled_cosignatures(unit: Unit) -> list[tuple[str, int]]:
    """Return each witness whose stored signature is unreadable, with the number of the book."""
    rows = unit.execute("SELECT book, witness, line FROM log_cosignatures ORDER BY book, witness")
    return [(row["witness"], row["book"]) for row in rows if cosignature(row) is None]


def _log(row: Row) -> StoredLog:
    book = LoggedBook(row["book"], row["project"], bool(row["livemode"]))
    return StoredLog(book, row["size"] or 0, row["last"] or "", row["checkpoint"])
