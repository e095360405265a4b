"""The test vectors of docs/verify.md hold."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from ledger_engine.log.checkpoints import Proof, commitment_entry
from ledger_engine.log.notes import VerifierKey
from ledger_engine.log.tree import BadProof

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8").partition("## Test vectors")[2]
KEYS, POSTING, ITS_PROOF, USER, ENTRY, USERS_PROOF = re.findall(r"```\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("body", "proof"), [(POSTING, ITS_PROOF), (USER, USERS_PROOF)])
def test_a_vector_is_proven_here_and_by_the_example(body: str, proof: str) -> None:
    log, witness = map(VerifierKey.parse, KEYS.splitlines())
    parsed = Proof.parse(f"{proof}\n")
    assert parsed.check(body.encode(), log, [witness]) == {"witness.example/w1": 1_795_149_071}
    example = runpy.run_path(str(ROOT / "examples" / "check_proof.py"))["check"]
    assert example(f"{proof}\n", body.encode(), str(log), [str(witness)]).startswith("entry ")
    with pytest.raises(BadProof):
        parsed.check(body.encode().replace(b"2026", b"2027"), log, [witness])


def test_the_entry_of_a_users_event_is_the_commitment_to_its_body() -> None:
    assert commitment_entry(USER.encode(), bytes(range(16))).decode() == ENTRY
