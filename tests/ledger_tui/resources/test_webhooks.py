"""An event is drawn with its object in a few words, its signature, and its receivers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.resources.base import Cell
from ledger_tui.resources.webhooks import (
    DELIVERIES,
    KEPT,
    Listening,
    WebhookLog,
    answer_sections,
    events_resource,
    known_by,
)

ATTEMPT = {"number": 1, "status": 200, "attempted_at": "2026-11-20T06:37:26.000Z", "latency_ms": 3}


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"amount": 1250, "currency": "EUR", "type": "debit"}, ["−12.50 EUR"]),
        ({"amount": 1250, "account": "acc_1"}, ["1.250 KWD"]),
        ({"amount": 1250, "account": "acc_2"}, ["1,250"]),
        ({"total": 990, "currency": "JPY", "items": [{}]}, ["990 JPY", "1 item"]),
        ({"items": [{}, {}]}, ["2 items"]),
        (
            {"number": "INV-1", "name": "Till", "customer": "Eve", "description": "Rent"},
            ["INV-1", "Till", "Eve"],
        ),
        ({"amount": "12", "name": 3}, []),
    ],
)
def test_an_object_is_known_by_its_amount_its_first_names_and_its_items(
    about: dict[str, Any], words: list[str]
) -> None:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "KWD"}])
    assert known_by(about, names) == words


def cells(log: WebhookLog) -> list[Cell]:
    return [column.cell({"id": "evt_1"}, AccountNames()) for column in events_resource(log).columns]


@pytest.mark.parametrize(
    ("right", "mark"), [(None, Cell("–", "dim")), (True, Cell("✓", "plus")), (False, Cell("✗ BAD", "bad"))]
)
def test_the_list_shows_whether_the_signature_was_right(right: bool | None, mark: Cell) -> None:
    log = WebhookLog()
    if right is not None:
        log.note_signature("evt_1", right)
    assert cells(log)[1] == mark


@pytest.mark.parametrize(
    ("statuses", "tries", "shown"),
    [
        ([], 0, Cell("–", "dim")),
        (["succeeded", "succeeded"], 1, Cell("✓ 2/2", "plus")),
        (["succeeded", "pending"], 2, Cell("◔ 1/2 ×2", "accent")),
        (["failed", "pending"], 3, Cell("✕ 0/2 ×3", "bad")),
    ],
)
def test_the_list_shows_how_many_endpoints_have_received_it_and_the_worst(
    statuses: list[str], tries: int, shown: Cell
) -> None:
    log = WebhookLog()
    log.note_deliveries(
        {"event": "evt_1", "endpoint": f"whe_{n}", "status": status, "attempts": [ATTEMPT] * tries}
        for n, status in enumerate(statuses)
    )
    assert cells(log)[3] == shown


def test_the_detail_names_each_endpoint_by_its_url_or_its_id() -> None:
    log = WebhookLog()
    log.endpoints["whe_1"] = {"id": "whe_1", "url": "https://shop.example/hook"}
    log.note_deliveries(
        {"event": "evt_1", "endpoint": id, "status": status, "attempts": [ATTEMPT]}
        for id, status in (("whe_1", "succeeded"), ("whe_2", "unheard of"))
    )
    sections = events_resource(log).detail({"id": "evt_1"}, AccountNames()).sections
    facts = [(fact.label, fact.value.text) for section in sections for fact in section.facts]
    assert [value for label, value in facts if label == "sent to"] == ["https://shop.example/hook", "whe_2"]
    assert [value for label, value in facts if label == "delivery"] == ["✓ succeeded", "· unheard of"]


@pytest.mark.parametrize(
    ("attempt", "fact"),
    [
        ({"status": 200, "latency_ms": 3, "response": {"body": ""}}, ("answer", "200 after 3 ms", "plus")),
        (
            {
                "status": 503,
                "error": "answered 503",
                "latency_ms": 43,
                "response": {"body": "shut\n today"},
            },
            ("answer", "503 after 43 ms: “shut today”", "bad"),
        ),
        (
            {"status": 400, "error": "answered 400", "latency_ms": 9, "response": {"body": {"no": "x" * 80}}},
            ("answer", f'400 after 9 ms: “{{"no": "{"x" * 51}…”', "bad"),
        ),
        (
            {"status": None, "error": "connection refused", "latency_ms": 1},
            ("reason", "connection refused", "bad"),
        ),
    ],
)
def test_the_newest_answer_of_each_receiver_stands_above_the_payload(
    attempt: dict[str, Any], fact: tuple[str, str, str]
) -> None:
    log = WebhookLog()
    first = {"number": 1, "status": 500, "error": "answered 500", "attempted_at": "2026-11-20T06:37:26.000Z"}
    delivery = {"event": "evt_1", "endpoint": "whe_1", "status": "pending", "attempts": [first, attempt]}
    log.note_deliveries([delivery])
    event = {"id": "evt_1", "data": {"object": {"object": "invoice", "id": "inv_1"}}}
    sections = events_resource(log).detail(event, AccountNames()).sections
    above = itertools.takewhile(lambda section: section.title != "object", sections)
    assert fact in [(each.label, each.value.text, each.value.tone) for part in above for each in part.facts]
    facts = DELIVERIES.detail(delivery, AccountNames()).sections[0].facts
    assert fact == (facts[1].label, facts[1].value.text, facts[1].value.tone)


def test_the_detail_leads_to_the_object_and_to_the_request_that_caused_it() -> None:
    detail = events_resource(WebhookLog()).detail
    event = {"id": "evt_1", "request": "req_1", "data": {"object": {"object": "invoice", "id": "inv_1"}}}
    links = detail(event, AccountNames()).links
    assert [(link.resource, link.record_id) for link in links] == [
        ("invoices", "inv_1"),
        ("requests", "req_1"),
    ]
    assert detail({"id": "evt_1", "data": {"object": {"object": "unheard of"}}}, AccountNames()).links == ()


def test_an_event_counts_once_and_its_signature_is_remembered() -> None:
    log = WebhookLog()
    assert log.note_signature("evt_1", True)
    assert not log.note_signature("evt_1", True)
    assert log.note_signature("evt_2", False)
    assert (log.received, log.wrong) == (2, 1)
    assert [log.signed(event) for event in ("evt_1", "evt_2", "evt_3", None)] == [True, False, None, None]


@pytest.mark.parametrize(
    ("headers", "count"), [({"a": "1"}, "1 header"), ({"a": "1", "b": "2"}, "2 headers")]
)
def test_the_headers_of_an_answer_are_counted(headers: dict[str, str], count: str) -> None:
    delivery = {"attempts": [{"number": 1, "response": {"headers": headers, "body": "ok"}}]}
    assert answer_sections(delivery)[-1].facts[0].label == count


def test_a_delivery_shows_its_latest_state() -> None:
    log = WebhookLog()
    delivery = {"event": "evt_1", "endpoint": "whe_1", "status": "pending"}
    log.note_deliveries([delivery, {"event": "evt_1", "endpoint": "whe_2", "status": "failed"}, {"event": 5}])
    log.note_deliveries([{**delivery, "status": "succeeded"}])
    assert [d["status"] for d in log.deliveries("evt_1")] == ["succeeded", "failed"]
    assert log.deliveries("evt_2") == []


def test_however_long_it_listens_it_forgets_the_oldest() -> None:
    log = WebhookLog()
    for number in range(KEPT + 10):
        log.note_signature(f"evt_{number}", True)
    assert log.signed("evt_0") is None
    assert log.signed(f"evt_{KEPT + 9}") is True
    assert log.received == KEPT + 10


def test_a_forgotten_log_counts_from_zero_and_still_listens() -> None:
    log = WebhookLog()
    log.listening = Listening.ON
    log.endpoints = {"whe_1": {"id": "whe_1"}}
    log.note_signature("evt_1", False)
    log.note_deliveries([{"event": "evt_1", "endpoint": "whe_1", "status": "failed"}])
    log.forget()
    assert (log.received, log.wrong, log.signed("evt_1")) == (0, 0, None)
    assert (log.endpoints, log.deliveries("evt_1")) == ({}, [])
    assert log.listening is Listening.ON
    assert log.note_signature("evt_1", True)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"data": [{"id": "dlv_1"}], "skipped": []}, "Sending invoice.paid again"),
        ({}, "Sending invoice.paid again"),
        (
            {"data": [{}], "skipped": [{"endpoint": "whe_1", "reason": "deleted"}]},
            "Sending invoice.paid again. Nothing is sent to whe_1: it is deleted",
        ),
        (
            {"data": [], "skipped": [{"endpoint": "whe_1", "reason": "disabled"}]},
            "Nothing is sent to whe_1: it is disabled",
        ),
        ({"data": [], "skipped": []}, "Nothing is sent: no endpoint receives invoice.paid"),
    ],
)
def test_a_resend_says_what_is_sent_and_what_is_not(answer: dict[str, Any], sentence: str) -> None:
    (resend,) = events_resource(WebhookLog()).actions
    assert resend.result is not None
    assert resend.result(answer, "invoice.paid") == sentence
