"""Checkpoints and proofs of the transparency log are read, and any other text is refused."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger_tui.resources.proofs import parse_checkpoint, parse_proof, place_in_log

PAGE = Path(__file__).parents[3] / "docs" / "verify.md"
PROOF = next(each for each in PAGE.read_text(encoding="utf-8").split("```\n") if each.startswith("c2sp.org"))
WITNESSED = datetime.fromtimestamp(0x6AFFCD0F, UTC)


def test_a_proof_names_the_entry_the_checkpoint_and_who_has_witnessed_it() -> None:
    proof = parse_proof(PROOF)
    assert proof is not None
    assert (proof.index, proof.checkpoint.size, proof.text) == (1, 3, PROOF)
    assert proof.checkpoint.witnesses == (("witness.example/w1", WITNESSED),)
    assert proof.checkpoint.signed_by(WITNESSED) == "witnessed by witness.example/w1 now"
    sentence = "Entry 1 in the log of 3 events, witnessed by witness.example/w1 now"
    assert place_in_log(proof, WITNESSED) == sentence


def test_a_signature_of_the_log_itself_is_no_witness() -> None:
    note = f"a log\n7\nroot\n\n— a log {b64encode(bytes(68)).decode()}\n"
    checkpoint = parse_checkpoint(note)
    assert checkpoint is not None
    assert (checkpoint.size, checkpoint.signed_by(WITNESSED)) == (7, "")


@pytest.mark.parametrize(
    "text", [None, {}, "", "c2sp.org/tlog-proof@v1\nindex x\n\n", PROOF.replace("\n3\n", "\n\n")]
)
def test_anything_else_is_no_proof(text: object) -> None:
    assert parse_proof(text) is None
