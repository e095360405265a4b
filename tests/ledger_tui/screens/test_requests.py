"""The screen shows the server's request log, or the dashboard's own requests if there is none."""

import asyncio
import shlex
from contextlib import suppress

import httpx

from ledger_client.errors import LedgerError
from ledger_tui.server.embedded import Address
from tests.ledger_tui.driving import Driver, until


async def test_requests_are_listed_with_status_duration_and_error(driver: Driver) -> None:
    await show_own(driver)
    await driver.sees("✓ 201   POST    /v1/accounts", "✓ 200   GET     /v1/accounts?limit=100")


async def test_the_dashboards_own_requests_are_hidden_unless_they_are_asked_for(
    driver: Driver, own_project: Address
) -> None:
    headers = {"Authorization": f"Bearer {own_project.key}"}
    await asyncio.to_thread(httpx.get, f"{own_project.url}/v1/invoices?limit=3", headers=headers)
    await driver.press("8", sees="/v1/invoices?limit=3")
    assert [row["path"] for _n, row in driver.view.model.window.at_hand()] == ["/v1/invoices"]
    await driver.press("slash")
    await driver.type("own:yes", "enter", sees=("POST    /v1/accounts", "own:yes"))


async def show_own(driver: Driver, also: str = "") -> None:
    """Show the request log with the dashboard's own requests."""
    await driver.press("8", "slash", "ctrl+u")
    await driver.type(f"own:yes {also}", "enter")


async def test_a_request_shows_its_body_its_answer_and_the_events_it_caused(driver: Driver) -> None:
    await show_own(driver, "method:POST")
    await driver.sees("✓ 201")
    await driver.press("enter")
    await driver.sees("POST /v1/accounts", '"name": "Till"', "events        evt_", "answer", '"balance": 0')
    assert driver.app.tokens.key not in driver.text()


async def test_an_event_leads_to_the_request_that_caused_it(driver: Driver, own_project: Address) -> None:
    await driver.press("7", sees="account.created")
    await driver.press("enter", sees="→ The request that caused it")
    request = (driver.view.selected or {})["request"]
    url, headers = f"{own_project.url}/v1/requests/{request}", {"Authorization": f"Bearer {own_project.key}"}
    await until(lambda: httpx.get(url, headers=headers).is_success, "the request in the log")
    await driver.press("down", "enter", sees=("POST /v1/accounts", "✓ 201"))
    await driver.press("escape", sees="account.created")


async def test_filters_of_the_log_run_on_the_server(driver: Driver) -> None:
    await driver.press("8", "slash")
    await driver.type("status:20", "enter", sees="A status is like 404 or 4xx.")
    await driver.press("home", "shift+end")
    await driver.type("status:201 own:yes", "enter", sees="✓ 201", gone="✓ 200")


async def test_the_answers_of_a_class_of_status_are_selected_from_the_loaded_rows(driver: Driver) -> None:
    for number in range(2):
        with suppress(LedgerError):
            await driver.app.api.call("GET", f"/v1/accounts/acc_{number}")
    await show_own(driver, "status:4xx")
    await driver.sees(
        "✕ 404   GET     /v1/accounts/acc_0", "✕ 404   GET     /v1/accounts/acc_1", "status:4xx"
    )
    rows = [row for _n, row in driver.view.model.window.at_hand()]
    assert {row["status"] for row in rows} == {404}
    await driver.press("slash", "ctrl+u")
    await driver.type("status:44", "enter", sees="A status is like 404 or 4xx.")


async def test_a_typed_value_that_no_row_contains_becomes_its_filter(driver: Driver) -> None:
    await show_own(driver, "method:POST")
    await driver.press("slash", "ctrl+u")
    await driver.type("4xx", "enter")
    await until(lambda: driver.view.model.filters.get("status") == "4xx", "the filter")
    assert not driver.view.model.text


async def test_a_logged_request_is_copied_as_curl(driver: Driver) -> None:
    await show_own(driver, "method:POST")
    await driver.sees("✓ 201")
    await driver.press("c")
    await until(lambda: driver.app.clipboard)
    words = shlex.split(driver.app.clipboard)
    assert words[:4] == ["curl", "-X", "POST", f"{driver.app.session.url}/v1/accounts"]
    assert "Idempotency-Key: a" in words
    assert '"name"' in words[-1]
    assert driver.app.tokens.key not in driver.app.clipboard


async def test_where_the_server_keeps_no_log_the_own_requests_are_shown(with_till: Driver) -> None:
    await with_till.press("8")
    await with_till.sees(
        "This server keeps no request log; these are this dashboard's own requests.",
        "✓ 200   GET     /v1/accounts?limit=100",
        "✕ 404   GET",
    )
    await with_till.press("1", "n")
    await with_till.type("Second", "tab")
    await with_till.type("EUR", "ctrl+s", sees="Account Second exists: EUR")
    await with_till.press("8", sees="✓ 201   POST    /v1/accounts")
    await with_till.press("slash")
    await with_till.type("path:/v1/acc")  # no path of its own, so nothing is below it
    await with_till.press("enter")
    await until(lambda: not len(with_till.view.model.window))
    await with_till.press("slash", "ctrl+u")
    await with_till.type("path:/v1/accounts method:post", "enter", sees="✓ 201   POST    /v1/accounts")
    assert {row["method"] for _n, row in with_till.view.model.window.at_hand()} == {"POST"}


async def test_each_id_on_the_screen_of_a_request_can_be_jumped_to(driver: Driver) -> None:
    account = driver.app.names.search("till")[0].id
    await show_own(driver, "method:POST")
    await driver.sees("✓ 201")
    await driver.press("enter", sees=("events        evt_", '"name": "Till"', account))
    await driver.press("i")
    own = driver.view.selected["id"]
    await driver.sees("Jump to", "evt_", account, f"id  {own}")
    await driver.press("end", "up", "enter", sees="→ Its transactions")


async def test_n_where_nothing_is_made_by_hand_says_so(driver: Driver) -> None:
    for key in ("8", "0"):
        await driver.press(
            key, "n", sees="n works on other screens: new tokens (6 Token), new (many screens)"
        )
        driver.app.clear_notifications()
        await driver.sees_no_more("made by hand")
