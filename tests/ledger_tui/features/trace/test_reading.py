"""A trace names the parts that it could not read, and keeps the others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger_tui.features.trace.reading import (
    FieldChange,
    Trace,
    TraceStep,
    balance_before,
    changes,
    later,
    read_trace,
)
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import ContractServer

DELIVERY = {"id": "dlv_1", "event": "evt_01", "status": "failed", "attempts": [{"number": 1, "status": 500}]}


def event(number: int, kind: str = "invoice.created", request: str | None = "req_1") -> dict[str, Any]:
    about = {"id": "inv_1", "object": "invoice"}
    return {"id": f"evt_{number:02d}", "type": kind, "request": request, "data": {"object": about}}


def refusal(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "param": None}}


async def traced(server: ContractServer, kind: str, record: dict[str, Any], *answers: Any) -> Trace:
    """Return the whole trace of a record on a server that gives these answers, each a body or a refusal."""
    async with client(server.url) as (api, _session, _traffic):
        for answer in answers:
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            server.refuse(status, body)
        traces = [each async for each in read_trace(api, kind, record)]
    assert not server.misfortunes, "each answer was asked for"
    return traces[-1]


async def test_of_an_event_the_request_and_its_other_events_are_read_up_to_a_maximum(
    server: ContractServer,
) -> None:
    changed = event(1, "invoice.updated")
    events = [changed, *(event(number) for number in range(2, 13))]
    trace = await traced(
        server,
        "events",
        changed,
        {"id": "req_1", "events": [each["id"] for each in events]},
        {"data": events},
        {"data": [changed]},  # the events of the invoice: none is older
        {"data": [{"id": "whe_1", "url": "http://h/hooks"}]},
        *([{"data": []}] * 8),
    )
    (step,) = trace.steps
    assert [each["id"] for each in step.events] == [f"evt_{number:02d}" for number in range(1, 9)]
    assert (step.more_events, step.before, trace.complete) == (4, {}, True)
    assert [*trace.endpoints] == ["whe_1"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((403, refusal("forbidden", "Not yours.")), "not shown to this credential: Not yours."),
        ((404, refusal("not_found", "No.")), "this server does not show the deliveries of an event"),
        ((400, refusal("invalid_value", "Bad id.")), "Bad id."),
    ],
)
@pytest.mark.parametrize("kind", ["deliveries", "events"])
async def test_deliveries_that_cannot_be_read_say_why_and_the_traced_one_is_kept(
    server: ContractServer, kind: str, answer: tuple[int, dict[str, Any]], reason: str
) -> None:
    by_command = event(1, request=None)
    before = [by_command] if kind == "deliveries" else []  # a delivery names its event alone
    record = DELIVERY if kind == "deliveries" else by_command
    trace = await traced(server, kind, record, *before, {"data": [{"id": "whe_1"}]}, answer)
    (step,) = trace.steps
    assert step.request_id is None
    assert step.no_deliveries == reason
    assert step.deliveries == ({"evt_01": (DELIVERY,)} if kind == "deliveries" else {})


async def test_an_event_that_is_gone_leaves_a_trace_of_the_delivery_alone(server: ContractServer) -> None:
    trace = await traced(server, "deliveries", DELIVERY, (404, refusal("not_found", "No such event.")))
    assert (trace.steps, trace.complete) == ((), True)
    assert trace.problem == "no longer exists: No such event."


NOW = 1_790_000_000.0


def test_the_fields_that_differ_are_named_in_their_order() -> None:
    before = {"id": "inv_1", "status": "open", "metadata": {"a": "1", "b": "2"}, "due_date": "2026-12-01"}
    after = {"id": "inv_1", "status": "paid", "metadata": {"a": "1", "c": "3"}, "paid_at": "2026-11-22"}
    assert changes(before, after) == [
        FieldChange("status", "open", "paid"),
        FieldChange("metadata.c", None, "3"),
        FieldChange("paid_at", None, "2026-11-22"),
        FieldChange("metadata.b", "2", None),
        FieldChange("due_date", "2026-12-01", None),
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
        return Trace(
            "events", {"id": "evt_1"}, (TraceStep("req_1", deliveries={"evt_1": ({"status": state},)}),)
        )

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
    step = TraceStep("req_1", events=({"id": "evt_1", "created": created},), deliveries=deliveries)
    assert Trace("events", {"id": "evt_1"}, (step,)).settled(NOW) == settled
