"""Tiles as C2SP (c2sp.org) defines them: their paths, and their content.

A tile contains up to 256 hashes. On level 0 these are the hashes of entries; on each higher level, each hash
is the root of a full tile of the level below. A bundle contains up to 256 entries instead of hashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ledger_engine.log.tree import TILE_HEIGHT, TILE_WIDTH, Subtrees, root_of

ENTRIES: Literal["entries"] = "entries"  # in the path of a bundle, this word replaces the level
LEVEL_MAX = 63
ENTRY_MAX = 0xFFFF  # bytes, because a bundle has two bytes for the length of an entry
_PATH = re.compile(r"(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", re.ASCII)
_NUMBER_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class LogTile:
    """A tile of hashes, or a bundle of entries. If `width` is less than `TILE_WIDTH`, the tile is partial."""

    level: int | Literal["entries"]
    number: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        digits = str(self.number)
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        number = "/".join([f"x{group}" for group in groups[:-1]] + groups[-1:])
        return f"{self.level}/{number}" + ("" if self.width == TILE_WIDTH else f".p/{self.width}")

    @property
    def size(self) -> int:
        """Return the smallest size of a log that contains this tile."""
        level = 0 if self.level == ENTRIES else self.level
        return (self.number * TILE_WIDTH + self.width) << (TILE_HEIGHT * level)


def parse(path: str) -> LogTile | None:
    """Return the tile of a path such as `0/x001/234`; None for any other path."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    digits = match[2].replace("x", "").replace("/", "")
    level = ENTRIES if match[1] == ENTRIES else int(match[1])
    width = int(match[3] or TILE_WIDTH)
    if len(digits) > _NUMBER_DIGITS_MAX or (level != ENTRIES and level > LEVEL_MAX) or width > TILE_WIDTH:
        return None
    tile = LogTile(level, int(digits), width)
    return tile if tile.path == path else None


ReadHashes: TypeAlias = Callable[[int, int, int], "list[bytes]"]


def subtrees(read: ReadHashes) -> Subtrees:
    """Return a function that computes the hashes of a log's complete subtrees from the hashes in its tiles.

    `read(level, start, end)` must return the hashes in the tiles of `level`, from `start` up to but not
    including `end`.
    """

    def hash_of(level: int, index: int) -> bytes:
        above, within = divmod(level, TILE_HEIGHT)
        return root_of(read(above, index << within, (index + 1) << within))

    return hash_of


def bundle(entries: Iterable[bytes]) -> bytes:
    """Return a bundle: each entry, preceded by its length in two bytes."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)
