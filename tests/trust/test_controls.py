"""The campaigns find a fault that was put there: a run that cannot fail shows nothing."""

from __future__ import annotations

import pytest

from ledger_engine.http.wire import framing, head
from ledger_engine.ledger.balances import Balances
from tests.ledger_engine.http.wire import test_framing, test_head
from tests.ledger_engine.test_model import Ledger, _run


def nothing(**counts: int) -> None:
    """Count nothing: what a control does is not counted."""


@pytest.mark.hypothesis
def test_the_model_finds_a_balance_that_is_moved_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    move = Balances.move

    def wrong(self: Balances, account, moved, change, destination, other):  # type: ignore[no-untyped-def]
        return move(self, account, moved, change + (change == -1), destination, other)

    monkeypatch.setattr(Balances, "move", wrong)
    machine = type("Ledger", (Ledger,), {"kind": "sqlite", "steps": 0})
    with pytest.raises((AssertionError, ExceptionGroup)):
        _run(machine, 30, derandomize=True)


@pytest.mark.slow
def test_h11_finds_a_reader_that_takes_a_wrong_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing.Chunked, "take", framing.Sized(22).take)
    with pytest.raises(AssertionError):
        test_framing.test_wrong_chunks_are_read_as_h11_reads_them_or_refused(1, 1, nothing)


@pytest.mark.slow
def test_h11_finds_a_reader_that_takes_a_wrong_head(monkeypatch: pytest.MonkeyPatch) -> None:
    read = head.read_head

    def lenient(text: bytes) -> head.Head:
        return read(text.replace(b"\0", b" "))

    monkeypatch.setattr(test_head, "read_head", lenient)
    with pytest.raises(AssertionError):
        test_head.test_whatever_a_head_holds_it_is_read_as_h11_reads_it(1, 1, monkeypatch, nothing)
