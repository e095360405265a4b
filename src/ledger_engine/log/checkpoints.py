"""Checkpoints of a log, and proofs that an entry is in a log, in the forms that C2SP (c2sp.org) defines.

A checkpoint is a signed note with the origin, the size and the root of a log. The origin is the log's name.
Anyone can check a proof offline. The module `entries` explains what an entry and a commitment are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ledger_engine.log import notes
from ledger_engine.log.notes import BadNote, Note, VerifierKey
from ledger_engine.log.tree import BadProof, check_inclusion, leaf_hash

_SIZE = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_FIRST_LINE = "c2sp.org/tlog-proof@v1"
_PATH_MAX = 63  # hashes
# The fields of an entry that contains a commitment to an event's body instead of the body.
COMMITMENT_FIELDS = ("commitment", "created", "id", "livemode", "type")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The size and the root that a log had at one time, and the signed note that contains them."""

    origin: str
    size: int
    root: bytes
    note: Note

    @staticmethod
    def parse(text: str) -> Checkpoint:
        """Return the checkpoint in the text of a note. The signatures are not checked. Raises BadNote."""
        note = notes.parse(text)
        origin, *lines = note.text[:-1].split("\n")
        if len(lines) < 2 or not origin or not all(lines):
            raise BadNote("a checkpoint has lines with the origin, the size and the root")
        root = notes.decode(lines[1])
        if len(root) != 32:
            raise BadNote("the root of a checkpoint has 32 bytes")
        return Checkpoint(origin, parse_size(lines[0]), root, note)

    def require_log(self, key: VerifierKey) -> None:
        """Raise BadNote unless `key` is the key of this log and has signed the checkpoint.

        The key of this log has the kind LOG, and its name is the origin of the log.
        """
        if key.kind != notes.LOG:
            raise BadNote(f"the key of {key.name} is not the key of a log")
        if self.origin != key.name:
            raise BadNote(f"this is a checkpoint of {self.origin}, and the key belongs to {key.name}")
        if self.note.signature_of(key) is None:
            raise BadNote(f"this checkpoint of {self.origin} is not signed by this key")

    def witness_time(self, key: VerifierKey) -> int | None:
        """Return the Unix time at which this witness signed the checkpoint; None if it did not sign.

        Raises BadNote if `key` is not the key of a witness, or if a signature by this key is wrong.
        """
        if key.kind != notes.WITNESS:
            raise BadNote(f"the key of {key.name} is not the key of a witness")
        signature = self.note.signature_of(key)
        return None if signature is None else signature.time


def text_of(origin: str, size: int, root: bytes) -> str:
    """Return the text of a checkpoint: the part of its note that is signed."""
    return f"{origin}\n{size}\n{notes.encode(root)}\n"


def parse_size(text: str) -> int:
    """Return the number in a decimal text. Raises BadNote."""
    if not _SIZE.fullmatch(text):
        raise BadNote(f"{text[:100]!r} is not a size in decimal")
    return int(text)


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof that an entry is in a log; `str` returns its text, which anyone can check offline.

    `salt` is set if the entry contains a commitment to the event's body instead of the body.
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: Checkpoint
    salt: bytes | None = None

    def __str__(self) -> str:
        extra = "" if self.salt is None else f"extra {notes.encode(self.salt)}\n"
        path = "".join(f"{notes.encode(hash)}\n" for hash in self.path)
        return f"{_FIRST_LINE}\n{extra}index {self.index}\n{path}\n{self.checkpoint.note}"

    @staticmethod
    def parse(text: str) -> Proof:
        """Return the proof in a text. Raises BadNote."""
        head, between, checkpoint = text.partition("\n\n")
        first, *lines = head.split("\n")
        if first != _FIRST_LINE or not between:
            raise BadNote(f"a proof begins with {_FIRST_LINE}, and its checkpoint follows an empty line")
        salt = notes.decode(lines.pop(0)[6:]) if lines and lines[0].startswith("extra ") else None
        if not lines or not lines[0].startswith("index ") or len(lines) > 1 + _PATH_MAX:
            raise BadNote("a proof has a line with the index, and at most 63 with hashes")
        path = tuple(map(notes.decode, lines[1:]))
        if any(len(hash) != 32 for hash in path):
            raise BadNote("each hash of a proof has 32 bytes")
        return Proof(parse_size(lines[0][6:]), path, Checkpoint.parse(checkpoint), salt)

    def check(self, body: bytes, log: VerifierKey, witnesses: Collection[VerifierKey] = ()) -> dict[str, int]:
        """Check the proof. Return a dict from each witness's name to the time of the witness's signature.

        `body` is the event's body as webhooks send it. There is one exception: for an event of an erased
        user, `body` must be the event's log entry. The salt of this event is destroyed, and without the salt
        nobody can compute the entry from the event's body. Raises BadNote and BadProof.
        """
        self.checkpoint.require_log(log)
        times = {key.name: self.checkpoint.witness_time(key) for key in witnesses}
        if missing := sorted(name for name, time in times.items() if time is None):
            raise BadNote(f"the checkpoint is not signed by {', '.join(missing)}")
        entry = body if self.salt is None else commitment_entry(body, self.salt)
        checkpoint = self.checkpoint
        check_inclusion(leaf_hash(entry), self.index, checkpoint.size, self.path, checkpoint.root)
        return {name: time for name, time in times.items() if time is not None}


def commitment_to(body: bytes, salt: bytes) -> str:
    """Return the commitment to an event's body: the SHA-256 hash of the salt and the body."""
    return notes.encode(sha256(salt + body).digest())


def commitment_entry(body: bytes, salt: bytes) -> bytes:
    """Return the log entry that contains the commitment to this body instead of the body.

    Raises BadProof if `body` is not the body of an event.
    """
    try:
        event = json.loads(body)
        return entry_of(event, commitment_to(body, salt))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadProof("this is not the body of an event") from None


def entry_of(event: dict[str, Any], commitment: str) -> bytes:
    """Return the log entry with this commitment; `event` supplies the other fields of the entry."""
    fields = {name: commitment if name == "commitment" else event[name] for name in COMMITMENT_FIELDS}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
