"""A link to nothing leaves the user in place, and every screen offers a way back."""

from __future__ import annotations

import pytest

from ledger_tui.features.trace.view import TraceView
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Link, Via
from ledger_tui.resources.registry import TRACE
from ledger_tui.settings.config import LastPlace
from ledger_tui.ui.view import LinkFollowed
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until

pytestmark = pytest.mark.dashboard


async def test_a_way_that_leads_nowhere_leaves_one_where_one_is(with_till: Driver) -> None:
    navigation = with_till.app.dashboard.navigation
    here = navigation.location
    await navigation.open_object("zzz_1")
    await with_till.sees("No screen shows zzz_1.")
    # In this server's answers an account names no request, like an object that a command has made.
    await navigation.follow_link(
        LinkFollowed(Link("Its request", "requests", via=Via("/v1/accounts", named="request")))
    )
    await with_till.sees("Its request: none, because a command made the change.")
    await navigation.follow_link(LinkFollowed(Link("", "no such screen", "zzz_1")))
    await navigation.go_back()
    assert navigation.location == here
    assert navigation._trail == []


async def test_esc_leads_from_a_trace_to_where_it_was_opened_also_when_it_was_gone_back_to(
    with_till: Driver,
) -> None:
    navigation = with_till.app.dashboard.navigation
    await with_till.press("T", "2")
    assert navigation.view.place.kind == "transactions"
    await with_till.press("left_square_bracket")
    assert navigation.view.place is TRACE
    await with_till.press("escape")
    assert navigation.view.place.kind == "accounts"


async def test_esc_leads_from_a_screen_under_another_to_that_one(bare: Driver) -> None:
    navigation = bare.app.dashboard.navigation
    await navigation.go("webhook_endpoints")
    await bare.press("escape")
    assert navigation.view.place.kind == "events"


async def test_a_screen_without_a_list_is_begun_with_again_but_no_trace(with_till: Driver) -> None:
    navigation = with_till.app.dashboard.navigation
    await with_till.press("T")
    assert navigation.last_place == LastPlace("accounts")
    await navigation.go("token")
    assert navigation.last_place == LastPlace("token")


async def test_nothing_is_left_of_a_ledger_that_is_another_one_now(with_till: Driver) -> None:
    navigation = with_till.app.dashboard.navigation
    await with_till.press("T")
    view = navigation.view
    assert isinstance(view, TraceView)
    await until(lambda: view.trace is not None and view.trace.complete, "the trace")
    await navigation.forget()
    assert navigation.view.place.kind == "accounts"
    assert (view.trace, navigation._trail) == (None, [])


async def test_a_row_that_is_found_when_one_has_gone_elsewhere_moves_nothing(
    server: ContractServer, dashboards: Dashboards
) -> None:
    old = server.add_account("Old")
    server.add_account("New")
    async with dashboards.open() as driver:
        navigation = driver.app.dashboard.navigation
        left = navigation.view
        assert isinstance(left, ResourceView)
        await driver.press("2")
        navigation.show_row("accounts", old)
        assert (left.model.window.current or {})["name"] == "New"
        await driver.press("1")
        navigation.show_row("accounts", old)
        await until(lambda: (left.model.window.current or {}).get("name") == "Old", "the row")
