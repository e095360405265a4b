"""A trace is drawn in order, and a line names each missing part."""

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.features.trace.nodes import Node, nodes_of, summary
from ledger_tui.features.trace.reading import Trace, TraceStep

CREATED = "2026-11-20T04:31:00.000Z"
REQUEST = {"id": "req_1", "method": "POST", "path": "/v1/invoices", "created": CREATED, "status": 200}


def drawn(*steps: TraceStep, **of_trace: Any) -> list[str]:
    """Return the lines of a trace of an invoice, as they are drawn."""
    trace = Trace("invoices", {"id": "inv_1", "created": CREATED, "customer": "Ada"}, steps, **of_trace)
    nodes = nodes_of(trace, AccountNames())
    return ["".join(cell.text for cell in line) for node in nodes for line in (node.line, *node.below)]


def event(number: int, kind: str = "invoice.updated", **about: Any) -> dict[str, Any]:
    inner = {"id": "inv_1", "object": "invoice", "currency": "EUR", **about}
    return {"id": f"evt_{number}", "type": kind, "created": CREATED, "data": {"object": inner}}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the lines of what an event has changed."""
    step = TraceStep(
        "req_1", REQUEST, events=(event(1, **after),), before={"evt_1": {"currency": "EUR", **before}}
    )
    return [line.rstrip() for line in drawn(step) if "→" in line or "more fields" in line]


@pytest.mark.parametrize(
    ("of_trace", "lines"),
    [
        ({}, []),  # it is still being read
        (
            {"complete": True},
            [
                "no event is recorded for this object on this server",
                "◆ invoice  Ada",
                "created      2026-11-20 04:31:00",
            ],
        ),
        ({"problem": "gone"}, ["gone", "◆ invoice  Ada", "created      2026-11-20 04:31:00"]),
    ],
)
def test_without_an_event_the_object_and_its_times_are_shown_with_the_reason(
    of_trace: dict[str, Any], lines: list[str]
) -> None:
    assert drawn(**of_trace) == lines


def test_parts_left_out_are_counted() -> None:
    step = TraceStep("req_1", REQUEST, events=(event(1),), more_events=1200)
    lines = drawn(step, more_steps=1)
    assert lines[0] == "1 earlier request not shown"
    assert lines[-1] == "and 1,200 more events of this request"
    assert drawn(step, more_steps=3)[0] == "3 earlier requests not shown"


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (
            TraceStep(None, events=(event(1),)),
            "○ a command of the administrator, not a request · 2026-11-20",
        ),
        (TraceStep("req_1", no_request="not read"), "● req_1  not read"),
        (TraceStep("req_1"), "● req_1  …"),
        (
            TraceStep("req_1", {**REQUEST, "query": "limit=1", "duration_ms": 1.25}),
            "● POST /v1/invoices?limit=1  ✓ 200  1.2 ms",
        ),
        (TraceStep("req_1", {**REQUEST, "status": None}), "● POST /v1/invoices  ✕ no answer  – ms"),
        (
            TraceStep("req_1", {**REQUEST, "status": 409, "error_code": "not_draft"}),
            "● POST /v1/invoices  ✕ 409 not_draft  – ms",
        ),
    ],
)
def test_a_request_is_named_with_its_end_and_a_command_is_none(step: TraceStep, line: str) -> None:
    assert drawn(step)[0] == line


@pytest.mark.parametrize(
    ("steps", "counted"),
    [
        ([TraceStep("req_1")], "● 1 request ─▶"),
        ([TraceStep(None)], "○ 1 command ─▶"),
        ([TraceStep("req_1"), TraceStep("req_2"), TraceStep(None)], "● 2 requests ○ 1 command ─▶"),
    ],
)
def test_a_command_is_not_counted_as_a_request(steps: list[TraceStep], counted: str) -> None:
    line = summary(Trace("invoices", {"id": "inv_1"}, steps=tuple(steps)))
    assert "".join(cell.text for cell in line).startswith(counted)


@pytest.mark.parametrize(
    ("step", "note"),
    [
        (TraceStep("req_1", REQUEST, no_events="not read"), "not read"),
        (TraceStep("req_1", {**REQUEST, "events": []}), "it changed nothing"),
        (
            TraceStep("req_1", REQUEST, events=(event(1),), deliveries={"evt_1": ()}),
            "not sent: no endpoint receives this type, or the delivery has not begun",
        ),
        (TraceStep("req_1", REQUEST, events=(event(1),), no_deliveries="none here"), "none here"),
    ],
)
def test_a_part_missing_below_a_request_is_named(step: TraceStep, note: str) -> None:
    assert drawn(step)[-1] == note


def test_an_objects_earlier_state_is_not_made_up() -> None:
    lines = drawn(TraceStep("req_1", REQUEST, events=(event(1),)))
    assert "the earlier value is not known" in lines
    assert "new" in drawn(TraceStep("req_1", REQUEST, events=(event(1, "invoice.created"),)))


def test_a_changed_field_is_written_as_what_it_is() -> None:
    before: dict[str, Any] = {"amount": 1250, "paid": False, "lines": [1], "tags": None, "limit": 5}
    after: dict[str, Any] = {"amount": 900, "paid": True, "lines": [1, 2], "tags": ["a"], "limit": 7}
    assert changed(before, after) == [
        "amount       12.50 EUR → 9.00 EUR",
        "paid         false → true",
        "lines        1 line → 2 lines",
        "tags         – → 1 item",
        "limit        5 → 7",
    ]


def test_of_many_changed_fields_the_first_twelve_are_shown_and_the_others_counted() -> None:
    lines = changed({}, {f"field_{number}": number for number in range(15)})
    assert len(lines) == 13
    assert lines[-1] == "and 3 more fields"


def test_a_failed_attempt_names_its_status_once() -> None:
    attempts = [
        {"number": 1, "status": 500, "error": "answered 500", "latency_ms": 3},
        {"number": 2, "status": 302, "error": "redirects", "latency_ms": 4},
        {"number": 3, "status": None, "error": "refused", "latency_ms": 5},
    ]
    delivery = {"id": "dlv_1", "endpoint": "whe_1", "status": "pending", "attempts": attempts}
    step = TraceStep("req_1", REQUEST, events=(event(1),), deliveries={"evt_1": (delivery,)})
    lines = drawn(step, endpoints={"whe_1": {"url": "http://h/hooks"}})
    assert lines[-5:] == [
        "◔ h/hooks  pending after 3 attempts",
        "1  ✕ answered 500  3 ms",
        "2  ✕ 302 redirects  4 ms",
        "3  ✕ refused  5 ms",
        "next attempt at now",
    ]


def test_a_note_leads_nowhere_and_an_object_to_its_screen() -> None:
    note, found = nodes_of(Trace("invoices", {"id": "inv_1"}, problem="gone"), AccountNames())
    assert note.link is None
    assert Node("event", 0, ()).link is None
    assert found.link is not None
    assert (found.link.resource, found.link.record_id) == ("invoices", "inv_1")
