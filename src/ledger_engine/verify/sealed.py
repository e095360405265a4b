"""Compares a book's events with its log: the tiles, the signed checkpoint, and checkpoints kept elsewhere.

The log of a book is a tree of hashes (RFC 6962). Its leaves are the hashes of entries, one entry for each
event. 256 hashes of one level form a tile. A checkpoint contains the size and the root of the tree, and is
signed. The audit computes the leaves again from the events. It trusts signed checkpoints, but not the
stored hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import mode_name
from ledger_engine.events import outbox
from ledger_engine.events.webhooks.signing import Seal, WrongKey
from ledger_engine.log import checkpoints, keys, notes, stored, tree
from ledger_engine.log.checkpoints import Checkpoint
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.keys import BrokenKey
from ledger_engine.log.notes import BadNote, VerifierKey
from ledger_engine.log.stored import StoredLog
from ledger_engine.log.tiles import ENTRY_MAX
from ledger_engine.log.tree import TILE_WIDTH, Edge
from ledger_engine.store import Row
from ledger_engine.store.read_snapshot import AuditUnit
from ledger_engine.verify.faults import Discrepancies

_AT_ONCE = 256  # tiles
_TILES = (
    "SELECT number, hash, last FROM log_tiles WHERE book = :book AND level = :level AND number >= :first"
    " ORDER BY number LIMIT :rows"
)
_COMMITMENT = "SELECT commitment, salt FROM log_commitments WHERE book = :book AND event = :id"


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint to compare the log with, and a name for it in messages, such as the path of its file."""

    name: str
    checkpoint: Checkpoint


@dataclass(slots=True)
class EntryAudit:
    """The audit of one book's log. Call `add` for each event, then `finish`.

    An audit that begins at a checkpoint reads only the entries after this checkpoint. `edge` is the right
    edge (`tree.Edge`) of the log's tree at this checkpoint; without a checkpoint the edge is empty. The audit
    ends a tile at the stored id of the tile's last event, and not after 256 events. So if an event is missing
    from one tile, the following tiles still match.
    """

    unit: AuditUnit
    log: StoredLog
    edge: Edge
    kept: Sequence[KeptCheckpoint]
    faults: Discrepancies
    _signed_checkpoints: list[KeptCheckpoint] = field(default_factory=list)
    # For the size of each checkpoint: the root of the tree over this many entries, computed by the audit.
    _roots: dict[int, bytes | None] = field(default_factory=dict)
    # The sizes of checkpoints that the computed tree has not reached yet, the largest first.
    _sizes: list[int] = field(default_factory=list)
    # For the size of each checkpoint: the last event of the computed tree when it had this size.
    _last: dict[int, str] = field(default_factory=dict)
    _tiles: list[Row] = field(default_factory=list)  # the next stored tiles
    _number: int = 0  # the number of the next tile to read
    _ids: list[str] = field(default_factory=list)  # the ids of the events in the current tile
    _leaves: list[bytes] = field(default_factory=list)  # the hashes of the entries in the current tile
    _count_added: int = 0  # how many entries of the current tile the edge already contains
    # Tiles that do not match their stored hash: the first and the last event, and a message.
    _wrong_tiles: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._signed_checkpoints = self._read_signed()
        self._leaves = list(self.edge.levels[0]) if self.edge.levels else []
        self._count_added = len(self._leaves)
        self._ids = ["" for _ in self._leaves]
        self._number = self.edge.size // TILE_WIDTH
        for size in {each.checkpoint.size for each in (*self.kept, *self._signed_checkpoints)}:
            if size < self.edge.size:
                self._roots[size] = stored.hashes(self.unit, self.log, [(0, size)])[0]
            elif size == self.edge.size:
                self._roots[size] = self.edge.root()
            else:
                self._sizes.append(size)
        self._sizes.sort(reverse=True)
        self._read_tiles()

    @property
    def size(self) -> int:
        """Return the number of entries in the computed tree."""
        return self.edge.size + len(self._leaves) - self._count_added

    def add(self, id: str, kind: str, created: int, body: bytes) -> None:
        """Add the next event."""
        while self._tiles and id > self._tiles[0]["last"]:
            self._end_tile()
        if not self._tiles and len(self._leaves) == TILE_WIDTH:
            self._add_to_edge()
        if kind in outbox.USER_KINDS or len(body) > ENTRY_MAX:
            body = self._commitment_entry(id, kind, created, body)
        self._ids.append(id)
        self._leaves.append(tree.leaf_hash(body))

    def finish(self) -> None:
        """Compare the tree of all entries with the log and the checkpoints, and note the faults."""
        while self._tiles:
            self._end_tile()
        self._add_to_edge()
        self._check_levels()
        roots_match = all(
            self._roots.get(kept.checkpoint.size) == kept.checkpoint.root for kept in self._signed_checkpoints
        )
        for first, last, message in self._wrong_tiles:
            if roots_match:
                message = "their stored hashes are wrong, although the events lead to the signed checkpoint"
            self._note(first, f"the events from {first} to {last} of {self._name()}: {message}.")
        if self._last.get(self.log.size, self.log.last) != self.log.last:
            self._note(self.log.last, f"{self.log.last} is not the last event in the log of {self._name()}.")
        for kept in self._signed_checkpoints:
            self._check_signature(kept, "log")
            if self._roots.get(kept.checkpoint.size) != kept.checkpoint.root and not self._wrong_tiles:
                self._note(
                    self.log.book.project,
                    f"the {self.size} events of {self._name()} do not lead to {kept.name}, a checkpoint of"
                    f" {kept.checkpoint.size} events.",
                )
        self._compare_kept()

    def _read_signed(self) -> list[KeptCheckpoint]:
        """Return the readable checkpoints that the ledger itself stores.

        Also note the faults of the stored checkpoints, and of the stored signatures of witnesses.
        """
        rows = self.unit.execute(
            "SELECT witness, size, checkpoint, line FROM log_cosignatures WHERE book = :book"
            " ORDER BY witness",
            {"book": self.log.book.number},
        )
        texts = [(f"the checkpoint that {row['witness']} signed", row["checkpoint"]) for row in rows]
        if self.log.checkpoint is not None:
            texts.append(("the signed checkpoint", self.log.checkpoint))
        checkpoints = []
        for name, text in texts:
            try:
                checkpoints.append(KeptCheckpoint(name, Checkpoint.parse(text)))
            except BadNote as error:
                self._note(self.log.book.project, f"{name} of {self._name()} cannot be read: {error}.")
        for row in rows:
            if stored.cosignature(row) is None:
                self._note(
                    self.log.book.project,
                    f"the stored signature of the witness {row['witness']} for {self._name()} cannot be"
                    " read, or belongs to another witness.",
                )
            if all(each.checkpoint.size != row["size"] for each in checkpoints):
                self._note(
                    self.log.book.project,
                    f"the stored size of the checkpoint that {row['witness']} signed for {self._name()} is"
                    " wrong.",
                )
        if self.log.size and not (checkpoints and checkpoints[-1].checkpoint.size == self.log.size):
            self._note(
                self.log.book.project, f"no signed checkpoint has the size of the log of {self._name()}."
            )
        return checkpoints

    def _read_tiles(self) -> None:
        parameters = {"book": self.log.book.number, "level": 1, "first": self._number, "rows": _AT_ONCE}
        self._tiles = self.unit.execute(_TILES, parameters)

    def _end_tile(self) -> None:
        """Compare the entries of the current tile with the tile's stored hash, and begin the next tile."""
        row = self._tiles.pop(0)
        hash = tree.root_of(self._leaves)
        whole = len(self._leaves) == TILE_WIDTH
        if row["number"] != self._number:
            self._note_tile(row, "the stored hash of an earlier tile is missing")
        elif len(self._leaves) != TILE_WIDTH:
            self._note_tile(
                row, f"there are {len(self._leaves)} events instead of {TILE_WIDTH}{self._added_event(row)}"
            )
        elif notes.encode(hash) != row["hash"]:
            self._note_tile(row, "at least one of these events has changed since it was sealed")
        self._number = row["number"] + 1
        self._add_to_edge(hash if whole and not self._count_added else None)
        if not self._tiles:
            self._read_tiles()

    def _note_tile(self, row: Row, message: str) -> None:
        last = row["last"]
        first = next((id for id in self._ids if id), last)
        self._wrong_tiles.append((first, last, message))

    def _added_event(self, row: Row) -> str:
        """Return a text that names the event that somebody added to the current tile; "" if there is none.

        An event was added if the tile matches its stored hash without this event.
        """
        if len(self._leaves) == TILE_WIDTH + 1:
            for at, id in enumerate(self._ids):
                rest = self._leaves[:at] + self._leaves[at + 1 :]
                if notes.encode(tree.root_of(rest)) == row["hash"]:
                    return f"; {id} was added"
        return ""

    def _add_to_edge(self, hash: bytes | None = None) -> None:
        """Add the entries of the current tile to the edge.

        If the tree reaches the size of a checkpoint on the way, store the tree's root and last event at this
        size. If the tile is full and the caller has already computed its hash, `hash` is this hash.
        """
        leaves, ids = self._leaves[self._count_added :], self._ids[self._count_added :]
        while self._sizes and self._sizes[-1] <= self.edge.size + len(leaves):
            size = self._sizes.pop()
            more = size - self.edge.size
            self.edge.add(leaves[:more])
            self._roots[size] = self.edge.root()
            self._last[size] = ids[more - 1]
            leaves, ids = leaves[more:], ids[more:]
        if hash is not None and len(leaves) == TILE_WIDTH and self.edge.size % TILE_WIDTH == 0:
            self.edge.add_tile(hash)
        else:
            self.edge.add(leaves)
        self._leaves, self._ids, self._count_added = [], [], 0

    def _commitment_entry(self, id: str, kind: str, created: int, body: bytes) -> bytes:
        """Return the log entry of an event whose entry contains a commitment instead of the body.

        A commitment is the SHA-256 hash of a random salt and the body. Note the faults of the commitment.
        """
        row = self.unit.first(_COMMITMENT, {"book": self.log.book.number, "id": id})
        if row is None:
            if id <= self.log.last:
                self.faults.add("log", id, f"event {id} was sealed, but the commitment to it is missing.")
            return b""
        try:
            if row["salt"] is not None:
                if checkpoints.commitment_to(body, notes.decode(row["salt"])) != row["commitment"]:
                    self.faults.add(
                        "event", id, f"event {id} does not match the commitment to it in the log."
                    )
            elif kind not in outbox.USER_KINDS or b'"email":null' not in body:
                self.faults.add("log", id, f"the salt of the commitment to event {id} is missing.")
        except BadNote:
            self.faults.add("log", id, f"the salt of the commitment to event {id} cannot be read.")
        event_fields = {"id": id, "type": kind, "created": iso(created), "livemode": self.log.book.livemode}
        return checkpoints.entry_of(event_fields, row["commitment"])

    def _check_levels(self) -> None:
        """Compare the hashes of each level with the hashes of the level below."""
        rows = self.unit.execute(
            "SELECT level, count(*) AS tiles, max(number) AS last FROM log_tiles WHERE book = :book"
            " GROUP BY level ORDER BY level",
            {"book": self.log.book.number},
        )
        due: list[tuple[int, int, int]] = []
        width = self.log.size
        while width := width // TILE_WIDTH:
            due.append((len(due) + 1, width, width - 1))
        if [tuple(row) for row in rows] != due:
            self._note(
                self.log.book.project,
                f"the number of hashes in the log of {self._name()} does not match its size.",
            )
        for level, width, _ in due[:-1]:
            for number in range(width // TILE_WIDTH):
                below = self._tiles_of(level, number * TILE_WIDTH, TILE_WIDTH)
                above = self._tiles_of(level + 1, number, 1)
                if above and notes.encode(_root_of(below)) != above[0]["hash"]:
                    self._note(
                        self.log.book.project,
                        f"hash {number} of level {level + 1} of the log of {self._name()} does not match the"
                        " hashes below it.",
                    )

    def _tiles_of(self, level: int, first: int, rows: int) -> list[Row]:
        parameters = {"book": self.log.book.number, "level": level, "first": first, "rows": rows}
        return self.unit.execute(_TILES, parameters)

    def _note(self, object: str, message: str) -> None:
        self.faults.add("log", object, message)

    def _check_signature(self, each: KeptCheckpoint, kind: str) -> None:
        if not _is_signed(each.checkpoint, self._keys()):
            self.faults.add(
                kind,
                self.log.book.project,
                f"{each.name} ({each.checkpoint.size} entries) is not signed by a key that this ledger has"
                f" for the log of {self._name()}.",
            )

    def _keys(self) -> list[VerifierKey]:
        return [each.verifier for each in keys.public(self.unit, self.log.book)]

    def _compare_kept(self) -> None:
        """Compare the log with the checkpoints that were kept outside the ledger, the smallest first."""
        count = 0
        for kept in sorted(self.kept, key=lambda entry: entry.checkpoint.size):
            self._check_signature(kept, "checkpoint")
            size = kept.checkpoint.size
            root = self._roots.get(size)
            if root == kept.checkpoint.root:
                count = size
            elif root is None:
                self.faults.add(
                    "checkpoint",
                    self._last.get(count, ""),
                    f"{kept.name} has {size} entries of {self._name()}, but this ledger ends after"
                    f" {self.size}: the last {size - self.size} were removed, or the ledger's write-ahead log"
                    " was cut off.",
                )
            else:
                after, last = self._last.get(count), self._last.get(size, f"entry {size}")
                self.faults.add(
                    "checkpoint",
                    self._last.get(size, ""),
                    f"{kept.name} does not match: some events {f'after {after} ' if after else ''}up to"
                    f" {last} of {self._name()} were changed, removed or added.",
                )

    def _name(self) -> str:
        return f"{self.log.book.project}, {mode_name(self.log.book.livemode)} mode"


def check_key(unit: AuditUnit, faults: Discrepancies) -> None:
    """Note a fault if the log's key cannot sign.

    An encrypted key is not checked, because only the server can read it.
    """
    key = keys.current(unit)
    if key is None:
        return
    try:
        key.private(Seal(None))
    except BrokenKey as error:
        faults.add("log", "", f"the key of the log cannot sign, so nothing is sealed: {error}")
    except WrongKey:
        return


def _root_of(rows: Sequence[Row]) -> bytes:
    try:
        return tree.root_of([notes.decode(row["hash"]) for row in rows])
    except BadNote:
        return b""


def _is_signed(checkpoint: Checkpoint, by: Sequence[VerifierKey]) -> bool:
    for key in by:
        try:
            checkpoint.require_log(key)
        except BadNote:
            continue
        return True
    return False


def log_of(unit: AuditUnit, book: LoggedBook) -> StoredLog:
    """Return the stored log of a book."""
    row = unit.first("SELECT size, last, checkpoint FROM logs WHERE book = :book", {"book": book.number})
    return (
        StoredLog(book, 0, "", None)
        if row is None
        else StoredLog(book, row["size"], row["last"], row["checkpoint"])
    )
