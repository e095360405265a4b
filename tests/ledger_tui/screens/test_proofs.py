"""Proofs of the transparency log appear in the detail, the trace, the overview and a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_client.errors import LedgerError
from ledger_tui.resources.proofs import parse_checkpoint, parse_proof
from tests.ledger_tui.driving import Driver

pytestmark = pytest.mark.dashboard


async def test_a_key_shows_the_place_of_a_transaction_in_the_log_and_its_proof_is_saved(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    till = driver.app.names.search("Till")[0].id
    body = {"account": till, "amount": 5, "type": "credit"}
    transaction = (await driver.app.api.write("POST", "/v1/transactions", body, "b")).record["id"]

    async def sealed() -> int:
        try:
            checkpoint = parse_checkpoint((await driver.app.api.read("/v1/log/checkpoint")).body)
        except LedgerError:  # nothing is sealed yet
            return 0
        return checkpoint.size if checkpoint is not None else 0

    while await sealed() < 2:
        await driver.pilot.pause(0.1)
    await driver.press("2", sees="0.05")
    await driver.press("enter", sees="→ Its account", gone="the log of")
    await driver.press("V", sees="Entry 1 in the log of 2 events. :prove saves the proof.", gone="witnessed")
    await driver.press("T", sees="entry 1  evt_")
    await driver.press("escape", "colon", *"prove", "enter", sees=f"Saved {transaction}.tlog-proof")
    proof = parse_proof((tmp_path / f"{transaction}.tlog-proof").read_text(encoding="utf-8"))
    assert proof is not None
    assert (proof.index, proof.checkpoint.size) == (1, 2)
    await driver.press("0", sees="Log: 2 events, checked ")
    await driver.press("comma", sees="PAST", gone="Log: ")
    await driver.press("escape", sees="Log: 2 events, checked ")
    await driver.press("1", "V", sees="Choose a transaction or an event first")
