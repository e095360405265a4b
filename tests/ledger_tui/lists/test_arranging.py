"""Columns, sorting and filters that the dashboard applies itself."""

from datetime import date

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.lists.arranging import check_lists, columns_of, order_of, selected_by
from ledger_tui.resources.base import FilterContext
from ledger_tui.resources.difference import DIFFERENCE
from ledger_tui.resources.invoices import INVOICES
from ledger_tui.resources.requests import requests_resource
from ledger_tui.resources.webhooks import WebhookLog, events_resource
from ledger_tui.settings.config import BadConfig, ListSettings

NAMES = AccountNames()
TODAY = date(2026, 11, 20)
CONTEXT = FilterContext(NAMES, TODAY)


def test_chosen_columns_come_in_their_order_and_unknown_ones_are_refused() -> None:
    shown = columns_of(INVOICES, ListSettings(columns=("customer", "created", "amount")))
    assert [column.name for column in shown] == ["customer", "created", "amount"]
    assert columns_of(INVOICES, ListSettings()) == INVOICES.columns
    for lists, said in (
        ({"bills": ListSettings()}, "lists.bills: there is no such list; choose one of accounts"),
        (
            {"invoices": ListSettings(columns=("colour",))},
            'lists.invoices.columns: there is no column "colour"',
        ),
        (
            {"users": ListSettings(("name",), "-name"), "orders": ListSettings(columns=("colour",))},
            'lists.orders.columns: there is no column "colour"',
        ),
        ({"invoices": ListSettings(sort="-colour")}, 'lists.invoices.sort: there is no column "colour"'),
    ):
        with pytest.raises(BadConfig, match=said):
            check_lists(lists, "config.toml")


def test_numbers_are_sorted_by_value_and_times_by_when_they_were() -> None:
    rows = [
        {"id": "1", "amount": 900, "currency": "EUR", "created": "2026-11-03T00:00:00Z"},
        {"id": "2", "amount": 100_000, "currency": "JPY", "created": "2026-11-01T00:00:00Z"},
        {"id": "3", "amount": 123_456, "currency": "EUR", "created": "2026-11-02T00:00:00Z"},
        {"id": "4", "amount": None, "currency": "EUR", "created": None},
    ]
    for sort, ids in (("amount", "1324"), ("created", "4231")):
        order = order_of(INVOICES, ListSettings(sort=sort), NAMES)
        assert order is not None
        assert "".join(row["id"] for row in sorted(rows, key=order)) == ids
    assert order_of(INVOICES, ListSettings(), NAMES) is None


def test_differences_sort_by_their_value() -> None:
    rows = [{"difference": value} for value in (25, None, -20_000, 900, -5, 10_000)]
    order = order_of(DIFFERENCE, ListSettings(sort="difference"), NAMES)
    assert order is not None
    values = [row["difference"] for row in sorted(rows, key=order)]
    assert values == [-20_000, -5, 25, 900, 10_000, None]


def test_own_requests_are_hidden_by_default() -> None:
    log = requests_resource(lambda request_id: request_id == "req_1")
    hidden, shown = selected_by(log, {}, CONTEXT), selected_by(log, {"own": "yes"}, CONTEXT)
    assert hidden is not None
    assert shown is not None
    assert [hidden({"id": id_}) for id_ in ("req_1", "req_2")] == [False, True]
    assert [shown({"id": id_}) for id_ in ("req_1", "req_2")] == [True, True]
    assert log.list_path({"own": "yes", "status": "404"}) == ("/v1/requests", {"status": "404"})


def test_events_are_selected_by_type_endpoint_and_failure() -> None:
    log = WebhookLog()
    log.endpoints = {"whe_1": {"id": "whe_1", "url": "https://example.com/hooks"}}
    log.note_deliveries([{"event": "evt_1", "endpoint": "whe_1", "status": "failed"}])
    events = [{"id": "evt_1", "type": "invoice.paid"}, {"id": "evt_2", "type": "invoices.paid"}]
    resource = events_resource(log)
    for filters, ids in (
        ({"type": "invoice"}, ["evt_1"]),
        ({"type": "invoice.*"}, ["evt_1"]),
        ({"type": "invoices.paid"}, ["evt_2"]),
        ({"endpoint": "example.com"}, ["evt_1"]),
        ({"failed": "yes"}, ["evt_1"]),
        ({"failed": "no"}, ["evt_2"]),
    ):
        keep = selected_by(resource, filters, CONTEXT)
        assert keep is not None
        assert [event["id"] for event in events if keep(event)] == ids, filters


def test_a_text_is_found_in_the_whole_record_and_in_each_column() -> None:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Main till", "currency": "EUR"}])
    record = {
        "id": "inv_1",
        "object": "invoice",
        "account": "acc_1",
        "amount": 123456,
        "description": "Beans",
        "lines": [{"description": "Espresso", "quantity": 2, "unit_amount": 3}],
        "metadata": {"team": "north"},
    }
    for text in ("beans", "ESPRESSO", "team", "north", "1,234.56", "EUR", "inv_1"):
        keep = selected_by(INVOICES, {}, FilterContext(names, TODAY), text)
        assert keep is not None
        assert keep(record), text
    for text in ("invoice", "quantity", "tea leaves"):  # what no screen shows of it
        keep = selected_by(INVOICES, {}, FilterContext(names, TODAY), text)
        assert keep is not None
        assert not keep(record), text
