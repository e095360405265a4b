"""The way back is written as the places at which links were followed."""

from typing import Any

import pytest

from ledger_tui.app.navigation import breadcrumb
from ledger_tui.client.names import AccountNames
from ledger_tui.ui.view import Location


@pytest.mark.parametrize(
    ("kind", "record", "words"),
    [
        ("invoices", {"id": "inv_1", "number": "INV-000001", "customer": "Ada"}, "Invoice INV-000001"),
        ("accounts", {"id": "acc_1", "name": "Ti\x1bll"}, "Account Ti␛ll"),
        ("events", {"id": "evt_1", "type": "invoice.paid"}, "Event invoice.paid"),
        ("requests", {"id": "req_1", "method": "POST", "path": "/v1/x"}, "Request POST /v1/x"),
        ("deliveries", {"id": "dlv_1", "event_type": "invoice.paid"}, "Delivery invoice.paid"),
        ("deliveries", {"id": "dlv_01m828h6x6ex8bqbd2qbd56789"}, "Delivery …d56789"),
    ],
)
def test_an_object_is_named_as_people_know_it(kind: str, record: dict[str, Any], words: str) -> None:
    assert breadcrumb(Location(kind, {}, record["id"], record), AccountNames()) == words


def test_a_list_is_named_with_its_filter_and_the_names_in_it() -> None:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    assert breadcrumb(Location("transactions", {"account": "acc_1"}), names) == "Transactions account:Till"
    endpoint = Location("deliveries", {"endpoint": "whe_01m828h6x6ex8bqbd2qbdmtqkn"})
    assert breadcrumb(endpoint, names) == "Deliveries endpoint:…dmtqkn"
    assert breadcrumb(Location("overview"), names) == "Overview"
