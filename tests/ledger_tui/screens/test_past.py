"""The time machine: every screen shows the moment, nothing is written, and two moments are compared."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.client.errors import ReadOnly
from ledger_tui.client.past import moment_ms
from ledger_tui.features.overview.view import Overview
from ledger_tui.features.past.machine import TimeMachine
from ledger_tui.resources.base import Link
from ledger_tui.server.embedded import Address
from ledger_tui.ui.status_bar import StatusBar
from ledger_tui.ui.view import LinkFollowed
from tests.ledger_tui.alone import unconnected
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def write(driver: Driver, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send a change, in a millisecond of its own."""
    await asyncio.sleep(0.003)
    answer = await driver.app.api.write(method, path, body, None)
    return answer.record


@pytest.fixture
async def story(driver: Driver) -> dict[str, Any]:
    """Post takings, a paid invoice and a payment out; return the objects."""
    account = (await driver.app.api.read("/v1/accounts")).record["data"][0]["id"]
    post = {"account": account, "amount": 500, "type": "credit", "description": "Beans"}
    first = await write(driver, "POST", "/v1/transactions", post)
    invoice = await write(
        driver, "POST", "/v1/invoices", {"account": account, "customer": "Ada", "amount": 4200}
    )
    path = f"/v1/invoices/{invoice['id']}"
    await write(driver, "POST", f"{path}/finalize")
    await write(driver, "POST", f"{path}/pay")
    last = await write(driver, "POST", "/v1/transactions", {**post, "type": "debit", "amount": 100})
    driver.view.poll_soon()
    await driver.sees("46.00")
    return {"account": account, "first": first, "last": last}


def machine(driver: Driver) -> TimeMachine:
    return driver.app.dashboard.query_one(TimeMachine)


async def has_figures_of_the_moment(driver: Driver) -> None:
    overview = driver.app.dashboard.query_one(Overview)
    await until(lambda: overview.settled and overview._known_figures.ms == machine(driver).ms)


async def step(driver: Driver, key: str) -> None:
    """Step, and wait until the moment is another one."""
    before = machine(driver).ms
    await driver.press(key)
    await until(lambda: machine(driver).ms != before, "another moment")
    await driver.rests()


async def test_a_step_back_shows_the_balance_before_the_last_event(
    driver: Driver, story: dict[str, Any]
) -> None:
    await step(driver, "comma")
    await driver.sees("PAST 20", "47.00", "space play", "invoice.paid")
    await step(driver, "comma")
    await driver.sees("5.00", "invoice.opened INV-000001")
    await step(driver, "full_stop")
    await driver.sees("47.00")
    await step(driver, "full_stop")  # what is shown is the present, until more happens
    await step(driver, "full_stop")
    assert machine(driver).ms is None
    await driver.sees("46.00", "● following")
    await driver.sees_no_more("PAST")


async def test_a_step_forward_goes_to_the_events_that_happened_in_the_meantime(
    driver: Driver, story: dict[str, Any], own_project: Address
) -> None:
    await step(driver, "comma")
    headers = {"Authorization": f"Bearer {own_project.key}"}
    post = {"account": story["account"], "amount": 300, "type": "credit", "description": "Tea"}
    for _ in range(2):
        url = f"{own_project.url}/v1/transactions"
        answer = await asyncio.to_thread(httpx.post, url, json=post, headers=headers)
        assert answer.status_code == 201
        await asyncio.sleep(0.003)
    for balance in ("46.00", "49.00", "52.00"):
        await step(driver, "full_stop")
        await driver.sees("PAST 20", balance)
    await step(driver, "full_stop")
    assert machine(driver).ms is None


async def test_a_message_says_that_playing_has_reached_the_present(
    driver: Driver, story: dict[str, Any]
) -> None:
    await step(driver, "comma")
    await driver.press("space", sees="Played to now: the screens show the present again.")
    assert machine(driver).ms is None
    await driver.press("question_mark", "escape", gone="Played to now")
    await step(driver, "comma")
    await step(driver, "escape")
    assert "Played to now" not in driver.text()


async def test_a_server_is_not_asked_at_each_step_if_it_looks_back(
    driver: Driver, story: dict[str, Any]
) -> None:
    for _ in range(3):
        await step(driver, "comma")
    assert sum("/v1/diff" in each.url for each in driver.app.traffic) == 1


async def test_invoices_are_in_their_state_then(driver: Driver, story: dict[str, Any]) -> None:
    await driver.goes_to("3")
    await driver.sees("paid")
    await step(driver, "comma")
    await step(driver, "comma")
    await driver.sees("◐ open")
    await step(driver, "comma")
    await driver.sees("draft")
    await driver.press("2", sees="+5.00", gone="42.00")
    await driver.press("escape", sees=("+42.00", "−1.00"))


async def test_nothing_is_written_in_the_past(driver: Driver, story: dict[str, Any]) -> None:
    await step(driver, "comma")
    await driver.press("n")
    assert len(driver.app.screen_stack) == 1
    why = "This is the past: nothing can be changed."
    await driver.sees("n creates an account.", why, "Press esc to return to now.")
    driver.app.clear_notifications()
    await driver.press("x", sees=("x moves money between two accounts.", why))
    driver.app.clear_notifications()
    await driver.press("u", sees=why)
    assert "Nothing to undo" not in driver.text()
    with pytest.raises(ReadOnly):
        await driver.app.api.write("POST", "/v1/accounts", {"name": "x", "currency": "EUR"}, None)
    driver.app.clear_notifications()
    await driver.press("enter")  # esc closes the detail first
    await driver.press("n", sees=(why, ":at now returns to now."))
    assert "Press esc" not in driver.text()
    driver.app.clear_notifications()
    await driver.press("escape", "n", sees="Press esc to return to now.")
    await driver.press("escape", "n")
    await until(lambda: len(driver.app.screen_stack) == 2, "the form")


async def test_one_esc_leaves_a_filter_in_the_past_and_the_next_esc_the_past(
    driver: Driver, story: dict[str, Any]
) -> None:
    await driver.goes_to("2")
    await driver.press("slash")
    await driver.type("type:credit", "enter", sees=" type:credit ")
    await step(driver, "comma")
    await driver.press("escape", gone=" type:credit ")
    await driver.sees("PAST 20", "esc now")
    await driver.press("slash")
    await driver.type("type:credit", "enter", sees=" type:credit ")
    await driver.press("escape", gone=" type:credit ")
    await driver.sees("PAST 20", "esc now")
    await driver.press("escape", gone="PAST 20")


@pytest.mark.parametrize("width", [80, 120])
async def test_the_top_line_calls_the_past_read_only_in_every_width(
    driver: Driver, story: dict[str, Any], width: int
) -> None:
    await driver.pilot.resize_terminal(width, 30)
    await step(driver, "comma")
    await until(lambda: re.search(r" PAST [-:\d ]+ read-only ", driver.text().splitlines()[0]), "the words")


async def test_a_typed_moment_a_click_and_playing_go_through_time(
    driver: Driver, story: dict[str, Any]
) -> None:
    await driver.press("colon")
    await driver.type(f"at {story['first']['created']}", "enter")
    await until(lambda: machine(driver).ms == moment_ms(story["first"]["created"]))
    await driver.sees("5.00", "transaction.created Beans")
    line = machine(driver)
    await until(lambda: line._first_ms is not None, "the ledger's beginning")
    await driver.pilot.click(TimeMachine, offset=(line.size.width - 6, 1))
    await until(lambda: machine(driver).ms != moment_ms(story["first"]["created"]))
    await driver.press("colon")
    await driver.type("at -2x", "enter", sees="✕ Write a time as")
    await driver.press("escape", "colon")
    await driver.type(f"at {story['first']['created']}", "enter")
    await until(lambda: machine(driver).ms == moment_ms(story["first"]["created"]))
    await driver.press("space")
    assert machine(driver).playing
    await driver.sees("▶ playing", "space pause")
    await until(lambda: machine(driver).ms is None, "the end of what happened")
    await driver.sees("46.00")
    await driver.press("space")  # in the present it marks the row
    await driver.sees("● 1 marked")


async def test_the_bar_of_the_past_begins_with_the_steps_and_names_the_earlier_and_the_later_moment(
    own_project: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LedgerApp, "NOTIFICATION_TIMEOUT", 300)  # no message goes away by itself
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        for name in ("Till", "Bank", "Safe"):
            await write(driver, "POST", "/v1/accounts", {"name": name, "currency": "EUR"})
        await driver.press("r", sees="Safe")
        await driver.press("y", sees="Copied acc_")
        await step(driver, "comma")
        await driver.sees("esc now   ⏎ open   , prev   . next   a from here   b to   space play   ? keys")
        await driver.sees(":at -2h  any moment")
        await driver.sees_no_more("Copied acc_")  # it spoke of the present
        await driver.press("b", sees=("Comparing to ", "a from here   b to   d compare   ? keys"))
        await step(driver, "comma")
        await driver.press("a", sees=("d shows what changed", "a from here   b to   d compare   ? keys"))
        marks = machine(driver).marks
        assert marks["a"] < marks["b"]
        await step(driver, "full_stop")
        await driver.press("a", "y", sees="Copied acc_")
        assert machine(driver).marks == {"a": marks["b"], "b": marks["b"]}
        await driver.press("escape", gone="Copied acc_")


def test_moments_marked_in_the_wrong_order_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    context = unconnected()
    line = TimeMachine(lambda: None, StatusBar(context.session), context)
    sentences: list[str] = []
    monkeypatch.setattr(line, "notify", sentences.append)
    for name, ms in (("a", 2_000), ("b", 1_000)):
        context.session.moment_ms = ms
        line.mark(name)
    assert line.marks == {"a": 1_000, "b": 2_000}
    assert sentences == [
        "Comparing from 1970-01-01: step to another moment, then press d. Here d compares with now.",
        "Comparing from 1970-01-01 to 1970-01-01: d shows what changed.",
    ]
    assert line._marks_text() == "a from 1970-01-01   b to 1970-01-01"


async def test_two_moments_are_compared_and_the_difference_is_explained(
    driver: Driver, story: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await driver.press("colon")
    await driver.type(f"at {story['first']['created']}", "enter", sees=("PAST", "5.00"))
    await driver.press("a", sees="Comparing from ")
    await driver.press("d", sees=("What changed", "1 account", "1 invoice", "2 postings", "+41.00 EUR"))
    navigation = driver.app.dashboard.navigation
    await driver.press("d")  # compares with now again
    await driver.rests()
    again = Link("What changed", "difference", filters=dict(navigation.resource_view.model.filters))
    navigation.post_message(LinkFollowed(again))
    await driver.sees("This is the comparison of these moments.")
    assert len(navigation._trail) == 1
    await driver.press("ctrl+e", sees="Export to CSV")
    await driver.press("enter")
    await until((tmp_path / "difference.csv").exists, "the file")
    head, till, *_others = (tmp_path / "difference.csv").read_text().splitlines()
    assert head.startswith("id,object,kind,name,currency,from,to,")
    assert ",account,Till,EUR," in till
    await driver.press("home", "enter")
    await driver.sees("invoices paid +42.00  1×", "payments out  −1.00  1×", "+41.00  ✓ the difference")
    await driver.press("enter", sees=("Transactions", "before:"), gone="+5.00")
    await driver.press("escape", "escape", sees="What changed")


async def test_the_trace_of_an_invoice_is_as_far_as_it_had_got(driver: Driver, story: dict[str, Any]) -> None:
    await driver.goes_to("3")
    await driver.press("T", sees="invoice.paid")
    await step(driver, "comma")
    await driver.sees("invoice.paid")
    await step(driver, "comma")
    await driver.sees_no_more("invoice.paid INV")
    await driver.sees("draft → open")


async def test_the_overview_shows_the_figures_of_the_moment(driver: Driver, story: dict[str, Any]) -> None:
    await driver.press("0", sees="46.00")
    await step(driver, "comma")
    await has_figures_of_the_moment(driver)
    before = driver.app.traffic.count
    await step(driver, "comma")
    await driver.sees("5.00")
    await has_figures_of_the_moment(driver)
    assert driver.app.traffic.count - before < 10  # the orders were not read again, as no event changed them


async def test_figures_of_another_moment_are_marked_until_those_of_the_moment_are_read(
    driver: Driver, story: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.press("0", sees=("46.00", "No webhook endpoints."))
    overview = driver.app.dashboard.view
    assert isinstance(overview, Overview)
    for keys, moment in (("comma", "PAST"), ("escape", "UTC")):
        with monkeypatch.context() as patch:
            patch.setattr(overview, "may_poll", lambda: False)  # the answers are on their way
            await step(driver, keys)
            await driver.sees(moment, "loading…")
            assert "No webhook endpoints." not in driver.text()
        await until(lambda: overview.settled)
        await driver.sees("46.00" if keys == "escape" else "47.00")
    await driver.press("3", sees="INV-000001")
    with monkeypatch.context() as patch:
        patch.setattr(driver.view.record_list, "_load", lambda _want: None)
        await step(driver, "comma")
        await driver.sees("Invoices  loading…")


async def test_an_answer_that_comes_after_the_return_to_now_does_not_lead_back(
    driver: Driver, story: dict[str, Any]
) -> None:
    wanted = machine(driver)
    wanted.go(wanted.now_ms - 1000)  # which asks the server
    wanted.go(None)
    await until(lambda: not any(each.group == "past" and each.is_running for each in driver.app.workers))
    await driver.pilot.pause()
    assert wanted.ms is None
    await step(driver, "comma")  # and the next step is taken
    assert wanted.ms is not None


async def test_a_server_with_the_contract_alone_says_that_it_shows_no_earlier_moment(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Beans"), 700)
    sentence = "This server does not show earlier moments."
    async with dashboards.open((110, 30)) as driver:
        await driver.sees("7.00")
        await driver.press("comma", sees=sentence)
        await driver.press("question_mark", "escape", gone=sentence)
        asked = len(server.requests)
        for key in ("comma", "full_stop"):
            await driver.press(key, sees=sentence)
        await driver.press("colon")
        await driver.type("at -2h", "enter", sees=sentence)
        assert machine(driver).ms is None
        assert not any("/v1/diff" in path for _method, path, _args in server.requests[asked:])
        await driver.sees("7.00")
        assert "PAST" not in driver.text()


async def test_the_differences_say_where_no_server_shows_them(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        moments = {"from": "2026-11-20T06:00:00Z", "to": "2026-11-20T07:00:00Z"}
        driver.app.dashboard.navigation.post_message(
            LinkFollowed(Link("What changed", "difference", filters=moments))
        )
        await driver.sees("This server does not show earlier moments.")
