"""What differs between two states of an object, and how much later something was."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger_tui.features.trace.model import Change, Step, Trace, balance_before, changes, later

NOW = 1_790_000_000.0


def test_the_fields_that_differ_are_named_in_their_order() -> None:
    before = {"id": "inv_1", "status": "open", "metadata": {"a": "1", "b": "2"}, "due_date": "2026-12-01"}
    after = {"id": "inv_1", "status": "paid", "metadata": {"a": "1", "c": "3"}, "paid_at": "2026-11-22"}
    assert changes(before, after) == [
        Change("status", "open", "paid"),
        Change("metadata.c", None, "3"),
        Change("paid_at", None, "2026-11-22"),
        Change("metadata.b", "2", None),
        Change("due_date", "2026-12-01", None),
    ]


def test_the_same_state_has_no_change_however_deep_it_is() -> None:
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"in": deep}
    assert changes({"id": "inv_1", "x": [1]}, {"id": "inv_1", "x": [1]}) == []
    assert len(changes({}, {"metadata": deep})) == 1


@pytest.mark.parametrize(
    ("transaction", "before"),
    [
        ({"type": "credit", "amount": 5, "balance_after": 3}, -2),
        ({"type": "debit", "amount": 5, "balance_after": 3}, 8),
        ({"type": "debit", "amount": 5}, None),
        ({"type": "else", "amount": 5, "balance_after": 3}, None),
    ],
)
def test_the_balance_before_a_transaction_follows_from_it(
    transaction: dict[str, Any], before: int | None
) -> None:
    assert balance_before(transaction) == before


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "+0 ms"),
        (0.0123, "+12 ms"),
        (0.9999, "+1.0 s"),
        (59.94, "+59.9 s"),
        (300, "+5 min"),
        (7200, "+2.0 h"),
        (3 * 86400, "+3 d"),
        (-0.002, "−2 ms"),
    ],
)
def test_how_much_later_is_said_in_one_unit(seconds: float, text: str) -> None:
    assert later(seconds) == text


def test_a_trace_with_a_pending_delivery_is_not_settled() -> None:
    def trace(state: str) -> Trace:
        return Trace("events", {"id": "evt_1"}, (Step("req_1", deliveries={"evt_1": ({"status": state},)}),))

    assert trace("succeeded").settled(NOW)
    assert trace("failed").settled(NOW)
    assert not trace("pending").settled(NOW)


@pytest.mark.parametrize(
    ("seconds_ago", "deliveries", "settled"),
    [
        (1, {"evt_1": ()}, False),
        (60, {"evt_1": ()}, True),
        (1, {"evt_1": ({"status": "succeeded"},)}, True),
        (1, {}, True),  # they were not asked for
    ],
)
def test_a_trace_with_an_event_whose_deliveries_may_still_come_is_not_settled(
    seconds_ago: int, deliveries: dict[str, Any], settled: bool
) -> None:
    created = datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat()
    step = Step("req_1", events=({"id": "evt_1", "created": created},), deliveries=deliveries)
    assert Trace("events", {"id": "evt_1"}, (step,)).settled(NOW) == settled
