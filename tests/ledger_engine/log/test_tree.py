"""The tree is RFC 6962's: its known hashes, and proofs of every size up to 600."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_engine.log import tree
from ledger_engine.log.tree import TILE_WIDTH, BadProof, Edge
from tests.ledger_engine.log.logs import MemoryLog, mth

# The vectors of the Certificate Transparency project.
ENTRIES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
KNOWN = MemoryLog([bytes.fromhex(entry) for entry in ENTRIES])
LOG = MemoryLog([b"entry %d" % number for number in range(600)])
LEAVES = LOG.levels[0]
SIZES = st.integers(0, 600)


def test_the_roots_of_rfc_6962_are_found() -> None:
    assert tree.EMPTY.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert [KNOWN.root(size).hex() for size in range(1, 9)] == ROOTS


def test_a_known_path_is_found_and_leads_to_its_root() -> None:
    path = KNOWN.hashes(tree.inclusion(0, 8))
    assert [hash.hex() for hash in path] == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
    tree.check_inclusion(tree.leaf_hash(b""), 0, 8, path, bytes.fromhex(ROOTS[7]))


def test_the_root_of_each_size_is_that_of_the_definition() -> None:
    edge = Edge()
    for size in range(601):
        expected = mth(LEAVES[:size])
        assert (LOG.root(size), tree.root_of(LEAVES[:size]), edge.root()) == (expected,) * 3
        assert edge.size == size
        edge.add(LEAVES[size : size + 1])


@given(SIZES, st.data())
@settings(max_examples=60, deadline=None)
def test_an_edge_grows_by_any_number_of_leaves(size: int, data: st.DataObject) -> None:
    edge = Edge()
    found = []
    at = 0
    while at < size:
        until = data.draw(st.integers(at + 1, size))
        found += edge.add(LEAVES[at:until])
        at = until
    full = [mth(LEAVES[first : first + TILE_WIDTH]) for first in range(0, size - 255, TILE_WIDTH)]
    assert (edge.root(), edge.size, found) == (LOG.root(size), size, [(1, hash) for hash in full])


def test_an_edge_says_each_tile_that_became_full_on_every_level() -> None:
    below = [b"%032d" % number for number in range(TILE_WIDTH - 1)]
    edge = Edge([[], below])
    assert edge.size == 255 * 256
    (low, hash), (high, above) = edge.add(LEAVES[:TILE_WIDTH])
    assert (low, high, hash) == (1, 2, mth(LEAVES[:TILE_WIDTH]))
    assert edge.root() == above == tree.root_of([*below, hash])
    assert [len(level) for level in edge.levels] == [0, 0, 1]


@given(SIZES.filter(bool), st.data())
@settings(max_examples=100, deadline=None)
def test_every_entry_is_proven_and_no_other_entry_place_path_or_root_is(
    size: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, size - 1))
    path, root = LOG.hashes(tree.inclusion(index, size)), LOG.root(size)
    tree.check_inclusion(LEAVES[index], index, size, path, root)
    other = LEAVES[index - 1] if size > 1 else bytes(32)
    for leaf, place, hashes, wanted in [
        (other, index, path, root),
        (LEAVES[index], (index + 1) % (size + 1), path, root),
        (LEAVES[index], index, (*path, bytes(32)), root),
        (LEAVES[index], index, path[:-1] or (bytes(32),), root),
        (LEAVES[index], index, path, bytes(32)),
    ]:
        with pytest.raises(BadProof):
            tree.check_inclusion(leaf, place, size, hashes, wanted)


@given(SIZES, SIZES, st.data())
@settings(max_examples=100, deadline=None)
def test_a_tree_is_proven_to_begin_with_an_older_one_and_with_no_other(
    one: int, other: int, data: st.DataObject
) -> None:
    old, size = sorted((one, other))
    path = LOG.hashes(tree.consistency(old, size))
    old_root, root = LOG.root(old), LOG.root(size)
    tree.check_consistency(old, old_root, size, root, path)
    wrong = [(old, old_root, (*path, bytes(32)))]
    if old:
        wrong.append((old, bytes(32), path))
    if path:
        at = data.draw(st.integers(0, len(path) - 1))
        wrong += [(old, old_root, path[:-1]), (old, old_root, (*path[:at], bytes(32), *path[at + 1 :]))]
    for earlier, earlier_root, hashes in wrong:
        with pytest.raises(BadProof):
            tree.check_consistency(earlier, earlier_root, size, root, hashes)


def test_a_proof_of_a_missing_entry_is_refused() -> None:
    with pytest.raises(BadProof, match=r"^a log of 3 entries has no entry 3$"):
        tree.inclusion(3, 3)
    with pytest.raises(BadProof, match=r"^a log of 3 entries does not begin with 4$"):
        tree.consistency(4, 3)
