"""A log in memory, to make proofs of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger_engine.log import checkpoints, notes, tree
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.notes import Note, Signature, SigningKey
from ledger_engine.log.tree import Range

ORIGIN = "ledger.example/prj_1/test"
KEY = SigningKey(ORIGIN, notes.LOG, bytes(range(32)))
WITNESS = SigningKey("witness.example/w1", notes.WITNESS, bytes(range(1, 33)))


def mth(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962's definition of the root, of the hashes of leaves."""
    if len(leaves) < 2:
        return leaves[0] if leaves else tree.EMPTY
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return tree.node_hash(mth(leaves[:half]), mth(leaves[half:]))


@dataclass
class MemoryLog:
    """The log of these entries."""

    entries: Sequence[bytes]

    def __post_init__(self) -> None:
        self.levels = [[tree.leaf_hash(entry) for entry in self.entries]]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            self.levels.append([tree.node_hash(a, b) for a, b in zip(below[::2], below[1::2], strict=False)])

    def subtree(self, level: int, index: int) -> bytes:
        return self.levels[level][index]

    def root(self, size: int) -> bytes:
        return tree.hash_of((0, size), self.subtree)

    def hashes(self, ranges: Sequence[Range]) -> tuple[bytes, ...]:
        return tuple(tree.hash_of(each, self.subtree) for each in ranges)

    def checkpoint(
        self, size: int, key: SigningKey = KEY, cosign: Callable[[str], Sequence[Signature]] = lambda text: ()
    ) -> Checkpoint:
        root = self.root(size)
        text = checkpoints.text_of(key.verifier.name, size, root)
        return Checkpoint(key.verifier.name, size, root, Note(text, (key.sign(text), *cosign(text))))

    def proof(self, index: int, checkpoint: Checkpoint, salt: bytes | None = None) -> Proof:
        return Proof(index, self.hashes(tree.inclusion(index, checkpoint.size)), checkpoint, salt)
