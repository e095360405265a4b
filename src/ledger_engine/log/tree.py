"""The Merkle tree of RFC 6962: its hashes and its proofs.

A proof is a list of hashes. Each hash in it is the hash of the subtree over a range of entries. A *tile*
contains up to 256 hashes that are next to each other in the tree (see `tiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]  # the index of the first entry, and the index after the last entry
# A function that returns, for (level, index), the hash of the complete subtree over the 2^level entries that
# begin at the entry index * 2^level.
Subtrees: TypeAlias = Callable[[int, int], bytes]

EMPTY = sha256(b"").digest()  # the root of a tree without entries
TILE_HEIGHT = 8  # there is one level of tiles for every 8 levels of the tree
TILE_WIDTH = 1 << TILE_HEIGHT  # the number of hashes in a full tile


class BadProof(Exception):
    """A proof is wrong, or does not belong to this entry or log."""


def leaf_hash(entry: bytes) -> bytes:
    return sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def root_of(hashes: Sequence[bytes]) -> bytes:
    """Return the root of the tree over these hashes.

    `hashes` are the hashes of leaves, or of subtrees that are complete and have the same size. Only the last
    subtree may be smaller.
    """
    level = list(hashes) or [EMPTY]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        nodes = [sha256(b"\1" + left + right).digest() for left, right in pairs]
        level = nodes + level[-1:] if len(level) % 2 else nodes
    return level[0]


def hash_of(entries: Range, subtrees: Subtrees) -> bytes:
    """Return the hash of a range of entries: one of the ranges of a proof, or all entries of a tree."""
    start, end = entries
    size = end - start
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return subtrees(level, start >> level) if size else EMPTY
    middle = _middle(start, end)
    return node_hash(hash_of((start, middle), subtrees), hash_of((middle, end), subtrees))


def inclusion(index: int, size: int) -> list[Range]:
    """Return the ranges whose hashes prove that the entry `index` is in a tree of `size` entries.

    The first range is the sibling of the entry, and the last range is a child of the root. Raises BadProof if
    the tree has no such entry.
    """
    if not 0 <= index < size:
        raise BadProof(f"a log of {size} entries has no entry {index}")
    start, end = 0, size
    ranges = []
    while end - start > 1:
        middle = _middle(start, end)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Raise BadProof unless `path`, the hashes of a proof, leads from the leaf's hash to the root."""
    ranges = inclusion(index, size)
    if len(path) != len(ranges):
        raise BadProof(f"the proof has {len(path)} hashes instead of {len(ranges)}")
    node = leaf
    for (start, _), hash in zip(ranges, path, strict=True):
        node = node_hash(node, hash) if start > index else node_hash(hash, node)
    if node != root:
        raise BadProof("the entry does not lead to the root of the checkpoint")


def consistency(old: int, size: int) -> list[Range]:
    """Return the ranges whose hashes prove that a tree of `size` entries begins with an older tree.

    The older tree has `old` entries. Raises BadProof if `old` is larger than `size`.
    """
    if not 0 <= old <= size:
        raise BadProof(f"a log of {size} entries does not begin with {old}")
    if old == 0:
        return []
    start, end = 0, size
    ranges = []
    while end != old:
        middle = _middle(start, end)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start:
        ranges.append((start, end))
    return ranges[::-1]


def check_consistency(old: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> None:
    """Raise BadProof unless the tree with the root `root` begins with the tree with the root `old_root`.

    `path` are the hashes of the proof.
    """
    ranges = consistency(old, size)
    if len(path) != len(ranges):
        raise BadProof(f"the proof has {len(path)} hashes instead of {len(ranges)}")
    if old == 0:
        roots = (EMPTY, root if size else EMPTY)
    else:
        steps = list(zip(ranges, path, strict=True))
        # The proof begins with the hash of the old tree's last complete subtree. There is one exception: if
        # the whole old tree is a subtree of the new tree, this hash would be the old root, and is left out.
        is_subtree = not (steps and steps[0][0][1] == old)
        first = old_root if is_subtree else steps.pop(0)[1]
        old_node = new_node = first
        for (start, _), hash in steps:
            if start >= old:
                new_node = node_hash(new_node, hash)
            else:
                old_node, new_node = node_hash(hash, old_node), node_hash(hash, new_node)
        roots = (old_node, new_node)
    if roots != (old_root, root):
        raise BadProof("the newer tree does not begin with the entries of the older tree")


class Edge:
    """The right edge of a growing tree: for each level of tiles, the hashes in the unfinished last tile."""

    def __init__(self, levels: Sequence[Sequence[bytes]] = ()) -> None:
        self.levels = [list(level) for level in levels]

    @property
    def size(self) -> int:
        return sum(len(level) << (TILE_HEIGHT * number) for number, level in enumerate(self.levels))

    def add(self, leaves: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Add the hashes of leaves.

        Return for each tile that became full, in order, the tile's hash and the level at which this hash is
        stored: one above the tile's own level.
        """
        full = []
        waiting = [*(self.levels[0] if self.levels else ()), *leaves]
        for first in range(0, len(waiting) - TILE_WIDTH + 1, TILE_WIDTH):
            full += self._put(1, root_of(waiting[first : first + TILE_WIDTH]))
        self._level(0)[:] = waiting[len(waiting) // TILE_WIDTH * TILE_WIDTH :]
        return full

    def add_tile(self, hash: bytes) -> None:
        """Add all leaves of a full tile at once; `hash` is the hash of the tile."""
        self._put(1, hash)

    def root(self) -> bytes:
        rest: list[bytes] = []
        for level in self.levels:
            if hashes := [*level, *rest]:
                rest = [root_of(hashes)]
        return rest[0] if rest else EMPTY

    def _put(self, number: int, hash: bytes) -> list[tuple[int, bytes]]:
        level = self._level(number)
        level.append(hash)
        full = [(number, hash)]
        if len(level) == TILE_WIDTH:
            above = root_of(level)
            level.clear()
            full += self._put(number + 1, above)
        return full

    def _level(self, number: int) -> list[bytes]:
        while len(self.levels) <= number:
            self.levels.append([])
        return self.levels[number]


def _middle(start: int, end: int) -> int:
    """Return the index at which RFC 6962 splits a range of several entries.

    The number of entries in the first part is the largest power of two that is less than the number of all
    entries in the range.
    """
    return start + (1 << ((end - start - 1).bit_length() - 1))
