"""A trace names what it could not read, and keeps what it has."""

from typing import Any

import pytest

from ledger_tui.features.trace.model import Trace
from ledger_tui.features.trace.reading import read_trace
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
    assert trace.problem == "not there any more: No such event."
