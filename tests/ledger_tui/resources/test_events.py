"""How an event is drawn: its object in a few words, its signature, and who has received it."""

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.resources.base import Cell
from ledger_tui.resources.events import events_resource, known_by
from ledger_tui.resources.webhook_log import WebhookLog

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


def test_the_detail_leads_to_the_object_and_to_the_request_that_caused_it() -> None:
    detail = events_resource(WebhookLog()).detail
    event = {"id": "evt_1", "request": "req_1", "data": {"object": {"object": "invoice", "id": "inv_1"}}}
    links = detail(event, AccountNames()).links
    assert [(link.resource, link.record_id) for link in links] == [
        ("invoices", "inv_1"),
        ("requests", "req_1"),
    ]
    assert detail({"id": "evt_1", "data": {"object": {"object": "unheard of"}}}, AccountNames()).links == ()
