"""Tiles have C2SP's paths, and every hash of the tree is found from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_engine.log import tiles, tree
from ledger_engine.log.tiles import ENTRIES, LogTile
from tests.ledger_engine.log.test_tree import LEAVES, LOG


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (LogTile(0, 1_234_067), "0/x001/x234/067"),
        (LogTile(0, 0), "0/000"),
        (LogTile(63, 999, 1), "63/999.p/1"),
        (LogTile(ENTRIES, 1_000, 255), "entries/x001/000.p/255"),
    ],
)
def test_a_tile_has_its_path(tile: LogTile, path: str) -> None:
    assert tile.path == path
    assert tiles.parse(path) == tile


@given(st.integers(0, 63) | st.just(ENTRIES), st.integers(0, 10**18 - 1), st.integers(1, 256))
def test_every_path_leads_back_to_its_tile(level: int, number: int, width: int) -> None:
    tile = LogTile(level, number, width)
    assert tiles.parse(tile.path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "",
        "0",
        "00/000",
        "64/000",
        "0/0",
        "0/x000/001",
        "0/001/002",
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/257",
        "entries/000.p/701",
        "1/x001/234.p/999",
        "0/000.p/01",
        "0/000/",
        "/0/000",
        "0/000.p/",
        "entries/1",
        "0/٠٠٠",
        "-1/000",
        "0/" + "x001/" * 6 + "001",
    ],
)
def test_any_other_path_is_none(path: str) -> None:
    assert tiles.parse(path) is None


def test_a_tile_exists_from_the_size_of_the_log_that_fills_it() -> None:
    # C2SP's example of 70,000 entries.
    assert [LogTile(0, 273, 112).size, LogTile(1, 1, 17).size, LogTile(2, 0, 1).size] == [
        70_000,
        69_888,
        65_536,
    ]
    assert LogTile(ENTRIES, 0, 3).size == 3


def test_all_subtrees_are_found_from_the_tiles() -> None:
    above = [tree.root_of(LEAVES[first : first + 256]) for first in (0, 256)]
    levels = [LEAVES, above]
    found = tiles.subtrees(lambda level, first, end: levels[level][first:end])
    for level, hashes in enumerate(LOG.levels):
        assert [found(level, index) for index in range(len(hashes))] == hashes


def test_a_bundle_has_each_entry_after_its_length() -> None:
    assert tiles.bundle([b"", b"ab", b"c" * 256]) == b"\0\0\0\2ab\1\0" + b"c" * 256
