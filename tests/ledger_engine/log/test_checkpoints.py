"""A proof holds for its entry, log and witnesses, and for nothing that differs by one character."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_engine.log import checkpoints, notes
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.notes import BadNote, SigningKey
from ledger_engine.log.tree import BadProof
from tests.ledger_engine.log.logs import KEY, WITNESS, MemoryLog

LOG = MemoryLog([b'{"id":"evt_%d"}' % number for number in range(300)])
CHECKPOINT = LOG.checkpoint(300, cosign=lambda text: [WITNESS.cosign(text, 1_800_000_000)])
PROOF = LOG.proof(70, CHECKPOINT)
TEXT = str(PROOF)


def test_a_proof_says_which_witness_signed_and_when() -> None:
    read = Proof.parse(TEXT)
    assert str(read) == TEXT
    found = read.check(LOG.entries[70], KEY.verifier, [WITNESS.verifier])
    assert found == {"witness.example/w1": 1_800_000_000}


def test_a_proof_holds_without_the_witnesses() -> None:
    assert PROOF.check(LOG.entries[70], KEY.verifier) == {}


def test_the_proof_of_a_log_with_one_entry_has_no_path() -> None:
    log = MemoryLog([b"{}"])
    text = str(log.proof(0, log.checkpoint(1)))
    assert text.startswith("c2sp.org/tlog-proof@v1\nindex 0\n\nledger.example/prj_1/test\n1\n")
    Proof.parse(text).check(b"{}", KEY.verifier)


def test_a_proof_has_at_most_63_hashes() -> None:
    head, mark, checkpoint = TEXT.partition("\n\n")
    first, index, *_ = head.split("\n")
    texts = [
        "\n".join([first, index, *[notes.encode(bytes(32))] * most]) + mark + checkpoint for most in (63, 64)
    ]
    assert len(Proof.parse(texts[0]).path) == 63
    with pytest.raises(BadNote, match="at most 63"):
        Proof.parse(texts[1])


@given(st.integers(0, len(TEXT) - 1), st.characters(min_codepoint=10, max_codepoint=255))
@settings(max_examples=300, deadline=None)
def test_no_character_of_a_proof_may_differ(at: int, other: str) -> None:
    damaged = TEXT[:at] + other + TEXT[at + 1 :]
    if damaged != TEXT:
        with pytest.raises((BadNote, BadProof)):
            Proof.parse(damaged).check(LOG.entries[70], KEY.verifier, [WITNESS.verifier])


def test_another_entry_log_or_witness_is_refused() -> None:
    with pytest.raises(BadProof, match=r"^the entry does not lead to the root of the checkpoint$"):
        PROOF.check(LOG.entries[71], KEY.verifier)
    other = SigningKey("other.example/prj_1/test", notes.LOG, bytes(32)).verifier
    with pytest.raises(
        BadNote, match=r"^this is a checkpoint of ledger\.example/prj_1/test, and the key belongs"
    ):
        PROOF.check(LOG.entries[70], other)
    rotated = SigningKey(CHECKPOINT.origin, notes.LOG, bytes(32)).verifier
    with pytest.raises(BadNote, match=r"is not signed by this key$"):
        PROOF.check(LOG.entries[70], rotated)
    stranger = SigningKey("witness.example/w2", notes.WITNESS, bytes(32)).verifier
    with pytest.raises(BadNote, match=r"^the checkpoint is not signed by witness\.example/w2$"):
        PROOF.check(LOG.entries[70], KEY.verifier, [WITNESS.verifier, stranger])
    with pytest.raises(BadNote, match=r"is not the key of a log$"):
        PROOF.check(LOG.entries[70], WITNESS.verifier)
    with pytest.raises(BadNote, match=r"is not the key of a witness$"):
        PROOF.check(LOG.entries[70], KEY.verifier, [KEY.verifier])


def test_an_event_entered_by_its_commitment_is_proven_by_its_body_and_the_salt() -> None:
    event = {"id": "evt_1", "object": "event", "type": "user.created", "created": "2027-01-15T08:00:00.000Z"}
    body = json.dumps(event | {"livemode": False, "data": {"object": {"name": "Zoë"}}}).encode()
    salt = bytes(range(16))
    commitment = base64.b64encode(hashlib.sha256(salt + body).digest()).decode()
    entry = (
        f'{{"commitment":"{commitment}","created":"2027-01-15T08:00:00.000Z","id":"evt_1","livemode":false,'
        '"type":"user.created"}'
    ).encode()
    log = MemoryLog([b"{}", entry])
    proof = Proof.parse(str(log.proof(1, log.checkpoint(2), salt)))
    proof.check(body, KEY.verifier)
    with pytest.raises(BadProof):
        proof.check(body.replace(b"Zo", b"Za"), KEY.verifier)
    with pytest.raises(BadProof, match=r"^this is not the body of an event$"):
        proof.check(b"[]", KEY.verifier)
    # Without the salt, as after the user is erased, the entry itself is proven.
    log.proof(1, log.checkpoint(2)).check(entry, KEY.verifier)


@pytest.mark.parametrize(
    "text",
    [
        "origin\n1\n",
        "origin\n01\nROOT\n",
        "origin\n-1\nROOT\n",
        "origin\n1\nAAAA\n",
        "\n1\nROOT\n",
        "origin\n1\nROOT\n\nmore\n",
        "origin\n9999999999999999999\nROOT\n",
        "origin\n١\nROOT\n",
    ],
)
def test_a_malformed_checkpoint_is_refused(text: str) -> None:
    text = text.replace("ROOT", notes.encode(bytes(32)))
    with pytest.raises(BadNote):
        Checkpoint.parse(str(notes.Note(text, (KEY.sign(text),))))


def test_a_checkpoint_may_have_further_lines() -> None:
    text = checkpoints.text_of("origin", 0, bytes(32)) + "more\n"
    assert Checkpoint.parse(str(notes.Note(text, (KEY.sign(text),)))).size == 0


@pytest.mark.parametrize(
    "damage",
    [
        ("tlog-proof@v1", "tlog-proof@v2"),
        ("index 70", "index 070"),
        ("index 70", "extra AA=\nindex 70"),
        ("index 70", "index 70\n" + "\n".join([notes.encode(bytes(32))] * 63)),
        ("index 70", "index 70\nAAAA"),
    ],
)
def test_a_malformed_proof_is_refused(damage: tuple[str, str]) -> None:
    with pytest.raises(BadNote):
        Proof.parse(TEXT.replace(*damage))
