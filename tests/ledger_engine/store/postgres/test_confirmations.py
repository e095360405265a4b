"""The counts of commits that a standby has received."""

from __future__ import annotations

import pytest

from ledger_engine.core.clock import SystemClock
from ledger_engine.store.postgres.confirmations import Confirmations
from ledger_engine.store.postgres.seen import Timeline
from tests.ledger_engine.store.postgres.conftest import Serve

A_SERVER = 7


def test_a_doubt_ends_with_a_commit_that_began_after_it() -> None:
    confirmations = Confirmations()
    confirmations.doubt({A_SERVER: 3})
    doubts = confirmations.doubts
    confirmations.doubt({A_SERVER: 4})
    confirmations.settle(doubts)
    assert confirmations.in_doubt
    assert confirmations.unconfirmed({A_SERVER: 3}) == {A_SERVER: 3}
    confirmations.settle(confirmations.doubts)
    assert not confirmations.in_doubt
    assert confirmations.unconfirmed({A_SERVER: 5}) == {A_SERVER: 5}
    assert confirmations.unconfirmed({A_SERVER: 4}) == {}


@pytest.mark.parametrize("was_settled", [True, False])
def test_a_number_of_a_lost_timeline_confirms_no_commit_of_the_next(was_settled: bool) -> None:
    confirmations = Confirmations()
    confirmations.doubt({A_SERVER: 3})
    if was_settled:
        confirmations.settle(confirmations.doubts)
    confirmations.forget()
    assert confirmations.in_doubt
    confirmations.settle(confirmations.doubts)
    assert confirmations.unconfirmed({A_SERVER: 3}) == {A_SERVER: 3}


async def test_confirmations_are_forgotten_when_the_database_moves_to_another_timeline(
    serve: Serve,
) -> None:
    postgres = serve(SystemClock())
    postgres._confirmations.confirm(A_SERVER, 3)
    postgres._seen_commits.on_move(Timeline(1, 1), Timeline(1, 2))
    assert postgres._confirmations.unconfirmed({A_SERVER: 3}) == {A_SERVER: 3}
