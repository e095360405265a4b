"""A detail shows more than its record, or a sentence if the additional data is missing or cannot be read."""

from typing import Any

import pytest

from ledger_client.errors import NotConnected
from ledger_tui.client.names import AccountNames
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.base import Resource
from ledger_tui.resources.directory import USERS, UserOrders
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.requests import REQUESTS


def facts(resource: Resource, found: Any) -> list[str]:
    assert resource.more is not None
    sections = resource.more.sections({"currency": "EUR"}, found, AccountNames())
    return [fact.value.text for section in sections for fact in section.facts]


def links(resource: Resource, found: Any) -> list[str | None]:
    assert resource.more is not None
    return [link.record_id for link in resource.more.links({}, found)]


@pytest.mark.parametrize(("resource", "said"), [(ACCOUNTS, ["away"]), (USERS, ["away"]), (REQUESTS, [])])
def test_an_unread_part_leads_nowhere_and_is_named_at_its_place(resource: Resource, said: list[str]) -> None:
    assert resource.more is not None
    sections, links = resource.more.parts_for({"currency": "EUR"}, NotConnected("away"), AccountNames())
    assert [fact.value.text for section in sections for fact in section.facts] == said
    assert links == ()


def test_the_events_of_a_request_are_named_up_to_ten() -> None:
    events = [f"evt_{n}" for n in range(12)]
    assert facts(REQUESTS, events) == events[:10]
    assert links(REQUESTS, events) == events[:10]
    assert facts(REQUESTS, []) == ["it caused none"]


def test_the_orders_of_a_user_are_counted() -> None:
    orders = [{"id": "ord_1"}, {"id": "ord_2"}]
    assert facts(USERS, UserOrders(orders)) == ["2"]
    assert facts(USERS, UserOrders(orders, more=True)) == ["2+"]
    assert facts(USERS, UserOrders(orders, of_all=True)) == ["2 among the newest 100"]
    assert facts(USERS, UserOrders([], of_all=True)) == ["none among the newest 100"]
    assert links(USERS, UserOrders(orders)) == ["ord_1", "ord_2"]


@pytest.mark.parametrize(
    ("reason", "why"),
    [("gone", "the receiver answered 410 Gone"), ("another one", "another one"), (None, None)],
)
def test_an_endpoint_that_is_disabled_says_why(reason: str | None, why: str | None) -> None:
    record = {"id": "whe_1", "status": "disabled", "disabled_reason": reason}
    (section,) = ENDPOINTS.detail(record, AccountNames()).sections
    assert {fact.label: fact.value.text for fact in section.facts}.get("why") == why
