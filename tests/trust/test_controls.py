"""The campaigns find a fault that was put there: a run that cannot fail shows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_engine.http.wire import framing, head
from ledger_engine.ledger.balances import Balances
from tests.contract import test_mutations
from tests.faults.server import Server
from tests.ledger_engine.http.wire import test_framing, test_head
from tests.ledger_engine.test_model import Ledger, _run

ANSWERING_500 = """
from ledger_engine import cli
from ledger_engine.http.wire.http1 import HttpExchange

def start(self, status, headers, start=HttpExchange._start):
    start(self, 500 if status == 405 else status, headers)

HttpExchange._start = start
cli.main()
"""


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
        _run(machine, 30, derandomize=True, shrinks=False)


@pytest.mark.process
def test_mutated_requests_find_a_server_that_answers_with_500_once(tmp_path: Path) -> None:
    server = Server(tmp_path / "ledger.db", program=ANSWERING_500)
    server.start()
    try:
        with pytest.raises(AssertionError, match="request"):
            test_mutations.test_any_request_is_answered_in_order_and_leaves_the_next_one_unharmed(
                server, server.cli, 1, 1, nothing
            )
    finally:
        server.kill()


@pytest.mark.slow
def test_h11_finds_a_reader_that_takes_a_wrong_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing.ChunkedBody, "take", framing.SizedBody(22).take)
    with pytest.raises(AssertionError):
        test_framing.test_wrong_chunks_are_read_as_h11_reads_them_or_refused(1, 1, nothing)


@pytest.mark.slow
def test_h11_finds_a_reader_that_takes_a_wrong_head(monkeypatch: pytest.MonkeyPatch) -> None:
    read = head.read_head

    def lenient(text: bytes) -> head.Head:
        return read(text.replace(b"\0", b" "))

    monkeypatch.setattr(test_head, "read_head", lenient)
    with pytest.raises(AssertionError):
        test_head.test_every_head_is_read_as_h11_reads_it(1, 1, monkeypatch, nothing)
