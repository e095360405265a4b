"""A book's log compared with its events: its tiles, the signed checkpoint, and checkpoints kept elsewhere.

The leaves are made again from the events, so nothing of the log is believed but what was signed.
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
    """A checkpoint that was kept outside the ledger, and the name of its file."""

    name: str
    checkpoint: Checkpoint


@dataclass(slots=True)
class EntryAudit:
    """The entries of one book's log: `add` each event, then `finish`.

    `edge` is the edge of the entries that are no longer added. Tiles are told apart by their last events when
    they were sealed, so that an event missing from one tile does not make the following tiles wrong.
    """

    unit: AuditUnit
    log: StoredLog
    edge: Edge
    kept: Sequence[KeptCheckpoint]
    faults: Discrepancies
    _signed_checkpoints: list[KeptCheckpoint] = field(default_factory=list)
    _roots: dict[int, bytes | None] = field(default_factory=dict)  # by the size of each checkpoint
    _sizes: list[int] = field(default_factory=list)  # of those, which are not reached yet
    _last: dict[int, str] = field(default_factory=dict)  # the last event of each of these sizes
    _tiles: list[Row] = field(default_factory=list)  # the next ones that are stored
    _number: int = 0  # of the next tile to be read
    _ids: list[str] = field(default_factory=list)  # of the entries of a tile
    _leaves: list[bytes] = field(default_factory=list)
    _count_added: int = 0  # how many of these the edge has
    _wrong: list[tuple[str, str, str]] = field(default_factory=list)

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
        """How many entries there are."""
        return self.edge.size + len(self._leaves) - self._count_added

    def add(self, id: str, kind: str, created: int, body: bytes) -> None:
        """Add the next event."""
        while self._tiles and id > self._tiles[0]["last"]:
            self._end_tile()
        if not self._tiles and len(self._leaves) == TILE_WIDTH:
            self._into_edge()
        if kind in outbox.USER_KINDS or len(body) > ENTRY_MAX:
            body = self._committed(id, kind, created, body)
        self._ids.append(id)
        self._leaves.append(tree.leaf_hash(body))

    def finish(self) -> None:
        """Compare what can be compared at the end, and note what is wrong."""
        while self._tiles:
            self._end_tile()
        self._into_edge()
        self._look_at_levels()
        right = all(
            self._roots.get(kept.checkpoint.size) == kept.checkpoint.root for kept in self._signed_checkpoints
        )
        for first, last, message in self._wrong:
            if right:
                message = "what is stored of them is not right, though they lead to what was signed"
            self._note(first, f"of the events from {first} to {last} of {self._named()}: {message}.")
        if self._last.get(self.log.size, self.log.last) != self.log.last:
            self._note(
                self.log.last, f"{self.log.last} is not the last event that the log of {self._named()} has."
            )
        for kept in self._signed_checkpoints:
            self._look_at_signature(kept, "log")
            if self._roots.get(kept.checkpoint.size) != kept.checkpoint.root and not self._wrong:
                self._note(
                    self.log.book.project,
                    f"the {self.size} events of {self._named()} do not lead to {kept.name}, which is of"
                    f" {kept.checkpoint.size}.",
                )
        self._compare_kept()

    def _read_signed(self) -> list[KeptCheckpoint]:
        """Return the ledger's own checkpoints, as far as they can be read."""
        rows = self.unit.execute(
            "SELECT witness, size, checkpoint, line FROM log_cosignatures WHERE book = :book"
            " ORDER BY witness",
            {"book": self.log.book.number},
        )
        texts = [(f"the checkpoint that {row['witness']} signed", row["checkpoint"]) for row in rows]
        if self.log.checkpoint is not None:
            texts.append(("the checkpoint that was signed", self.log.checkpoint))
        checkpoints = []
        for name, text in texts:
            try:
                checkpoints.append(KeptCheckpoint(name, Checkpoint.parse(text)))
            except BadNote as error:
                self._note(self.log.book.project, f"{name} of {self._named()} cannot be read: {error}.")
        for row in rows:
            if stored.cosignature(row) is None:
                self._note(
                    self.log.book.project,
                    f"the signature of the witness {row['witness']} that is stored of {self._named()} cannot"
                    " be read, or is another one's.",
                )
            if all(each.checkpoint.size != row["size"] for each in checkpoints):
                self._note(
                    self.log.book.project,
                    f"the size of the checkpoint that {row['witness']} signed of {self._named()} is another"
                    " one.",
                )
        if self.log.size and not (checkpoints and checkpoints[-1].checkpoint.size == self.log.size):
            self._note(self.log.book.project, f"the log of {self._named()} has a size that is not signed.")
        return checkpoints

    def _read_tiles(self) -> None:
        parameters = {"book": self.log.book.number, "level": 1, "first": self._number, "rows": _AT_ONCE}
        self._tiles = self.unit.execute(_TILES, parameters)

    def _end_tile(self) -> None:
        """Compare the entries of the next tile with their stored hashes."""
        row = self._tiles.pop(0)
        hash = tree.root_of(self._leaves)
        whole = len(self._leaves) == TILE_WIDTH
        if row["number"] != self._number:
            self._note_tile(row, "a stored hash before them is missing")
        elif len(self._leaves) != TILE_WIDTH:
            self._note_tile(
                row, f"there are {len(self._leaves)} in place of {TILE_WIDTH}{self._added_one(row)}"
            )
        elif notes.encode(hash) != row["hash"]:
            self._note_tile(row, "at least one is not as it was sealed")
        self._number = row["number"] + 1
        self._into_edge(hash if whole and not self._count_added else None)
        if not self._tiles:
            self._read_tiles()

    def _note_tile(self, row: Row, message: str) -> None:
        last = row["last"]
        first = next((id for id in self._ids if id), last)
        self._wrong.append((first, last, message))

    def _added_one(self, row: Row) -> str:
        """Return the entry that a tile contains in excess, if that can be determined."""
        if len(self._leaves) == TILE_WIDTH + 1:
            for at, id in enumerate(self._ids):
                rest = self._leaves[:at] + self._leaves[at + 1 :]
                if notes.encode(tree.root_of(rest)) == row["hash"]:
                    return f"; {id} was added"
        return ""

    def _into_edge(self, hash: bytes | None = None) -> None:
        """Add the tile's entries to the edge, keep the roots on the way; a whole tile has a `hash`."""
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

    def _committed(self, id: str, kind: str, created: int, body: bytes) -> bytes:
        """Return the entry of an event that is entered by its commitment."""
        row = self.unit.first(_COMMITMENT, {"book": self.log.book.number, "id": id})
        if row is None:
            if id <= self.log.last:
                self.faults.add("log", id, f"event {id} was sealed, and the commitment to it is missing.")
            return b""
        try:
            if row["salt"] is not None:
                if checkpoints.commitment_to(body, notes.decode(row["salt"])) != row["commitment"]:
                    self.faults.add(
                        "event", id, f"event {id} is not the one that the log has a commitment to."
                    )
            elif kind not in outbox.USER_KINDS or b'"email":null' not in body:
                self.faults.add("log", id, f"the salt of the commitment to event {id} is missing.")
        except BadNote:
            self.faults.add("log", id, f"the salt of the commitment to event {id} cannot be read.")
        event_fields = {"id": id, "type": kind, "created": iso(created), "livemode": self.log.book.livemode}
        return checkpoints.entry_of(event_fields, row["commitment"])

    def _look_at_levels(self) -> None:
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
                self.log.book.project, f"the log of {self._named()} has more hashes or fewer than its size."
            )
        for level, width, _ in due[:-1]:
            for number in range(width // TILE_WIDTH):
                below = self._tiles_of(level, number * TILE_WIDTH, TILE_WIDTH)
                above = self._tiles_of(level + 1, number, 1)
                if above and notes.encode(_root_of(below)) != above[0]["hash"]:
                    self._note(
                        self.log.book.project,
                        f"hash {number} of level {level + 1} of the log of {self._named()} does not fit those"
                        " below.",
                    )

    def _tiles_of(self, level: int, first: int, rows: int) -> list[Row]:
        parameters = {"book": self.log.book.number, "level": level, "first": first, "rows": rows}
        return self.unit.execute(_TILES, parameters)

    def _note(self, object: str, message: str) -> None:
        self.faults.add("log", object, message)

    def _look_at_signature(self, each: KeptCheckpoint, kind: str) -> None:
        if not _is_signed(each.checkpoint, self._keys()):
            self.faults.add(
                kind,
                self.log.book.project,
                f"{each.name} ({each.checkpoint.size} entries) is not signed by a key that this ledger has"
                f" for the log of {self._named()}.",
            )

    def _keys(self) -> list[VerifierKey]:
        return [each.verifier for each in keys.public(self.unit, self.log.book)]

    def _compare_kept(self) -> None:
        """Compare with the checkpoints that were kept outside the ledger, the smallest first."""
        count = 0
        for kept in sorted(self.kept, key=lambda entry: entry.checkpoint.size):
            self._look_at_signature(kept, "checkpoint")
            size = kept.checkpoint.size
            root = self._roots.get(size)
            if root == kept.checkpoint.root:
                count = size
            elif root is None:
                self.faults.add(
                    "checkpoint",
                    self._last.get(count, ""),
                    f"{kept.name} has {size} entries of {self._named()}, and this ledger ends after"
                    f" {self.size}: the last {size - self.size} were removed, or its write-ahead log was cut"
                    " off.",
                )
            else:
                after, last = self._last.get(count), self._last.get(size, "its end")
                self.faults.add(
                    "checkpoint",
                    self._last.get(size, ""),
                    f"{kept.name} does not hold: of the events {f'after {after} ' if after else ''}up to"
                    f" {last} of {self._named()} some were changed, removed or added.",
                )

    def _named(self) -> str:
        return f"{self.log.book.project}, {mode_name(self.log.book.livemode)} mode"


def look_at_key(unit: AuditUnit, faults: Discrepancies) -> None:
    """Note a key that cannot sign. One that is encrypted is left to the server, which can read it."""
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
    """Return how far a book is sealed."""
    row = unit.first("SELECT size, last, checkpoint FROM logs WHERE book = :book", {"book": book.number})
    return (
        StoredLog(book, 0, "", None)
        if row is None
        else StoredLog(book, row["size"], row["last"], row["checkpoint"])
    )
