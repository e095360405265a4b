"""The overview shows each tile, or a sentence for a missing figure; keys move between tiles and open them."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from ledger_tui.client.session import Session
from ledger_tui.client.totals import PostingRate
from ledger_tui.features.overview.view import Overview
from ledger_tui.server.embedded import Address
from ledger_tui.ui.tiles import Tile
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def post(driver: Driver, amount: int, key: str) -> None:
    account = driver.app.names.search("till")[0]
    body = {"account": account.id, "amount": amount, "type": "credit"}
    await driver.app.api.write("POST", "/v1/transactions", body, key)


async def shows_overview(driver: Driver) -> Overview:
    await driver.press("0")
    overview = driver.app.dashboard.view
    assert isinstance(overview, Overview)
    return overview


async def test_balances_stand_by_currency(server: ContractServer, dashboards: Dashboards) -> None:
    for currency, balance in (("EUR", 100000), ("EUR", 23450), ("JPY", 1234), ("KWD", -1500)):
        server.add_account("Till", currency, balance)
    async with dashboards.open() as driver:
        await driver.press("0", sees=("EUR  1,234.50", "JPY     1,234", "KWD    −1.500", "4 accounts"))


async def test_a_balance_has_its_course_over_the_last_minutes(
    server: ContractServer, dashboards: Dashboards
) -> None:
    account = server.add_account("Till")
    now = datetime.now(UTC)
    for ago, amount in ((90, 1000), (60, 500)):
        made = server.post(account, amount)
        made["created"] = (now - timedelta(seconds=ago)).isoformat()
    async with dashboards.open((120, 40)) as driver:
        await driver.press("0", sees="EUR  15.00  ▲ +15.00")


async def test_invoices_are_a_funnel_with_the_overdue_by_age(driver: Driver) -> None:
    account = driver.app.names.search("till")[0].id
    for number, due in enumerate(("2020-01-01", "2999-01-01", "2999-01-01")):
        body = {"account": account, "customer": "Ada", "amount": 1250, "due_date": due}
        made = (await driver.app.api.write("POST", "/v1/invoices", body, f"i{number}")).record
        if number < 2:
            await driver.app.api.write("POST", f"/v1/invoices/{made['id']}/finalize", None, None)
    await driver.press("0")
    await driver.sees("○ draft       1", "◐ open        2", "● paid        0", "1 overdue", "> 30 d 1")


async def test_a_tile_is_walked_to_and_opens_its_filtered_list(driver: Driver) -> None:
    account = driver.app.names.search("till")[0].id
    body = {"account": account, "customer": "Ada", "amount": 1250}
    await driver.app.api.write("POST", "/v1/invoices", body, "i")
    overview = await shows_overview(driver)
    await driver.sees("○ draft       1")
    await driver.press("tab", "tab", "shift+tab", "tab", "down")
    assert overview.tile.id == "tile-invoices"
    await driver.press("enter")
    assert driver.view.model.filters == {"status": "open"}
    await driver.press("escape")
    assert driver.app.dashboard.view is overview
    await driver.press("up", "enter")
    assert driver.view.model.filters == {"status": "draft"}
    await driver.sees("Ada")


async def test_the_newest_events_tick_and_enter_opens_the_chosen_one(driver: Driver) -> None:
    overview = await shows_overview(driver)
    await driver.sees("account.created")
    await post(driver, 4321, "t1")
    await driver.sees("transaction.created  +43.21 EUR")
    await driver.press("shift+tab", "down")
    chosen = overview.selected
    assert chosen is not None
    assert chosen["type"] == "account.created"
    await post(driver, 100, "t2")
    await driver.sees("+1.00 EUR")
    assert overview.selected == chosen  # what comes in above does not move the choice to another event
    await driver.press("enter", sees="signature")
    assert driver.view.selected == chosen


async def test_the_key_of_the_filter_names_the_lists(driver: Driver) -> None:
    await shows_overview(driver)
    await driver.press(
        "slash", sees="/ filters a list: go to a list first (1 to 5), or press : and type a name."
    )


async def test_a_click_chooses_a_tile_and_a_second_one_opens_it(driver: Driver) -> None:
    overview = await shows_overview(driver)
    await driver.sees("○ open")
    await driver.pilot.click("#tile-orders", offset=(5, 2))
    assert overview.tile.id == "tile-orders"
    await driver.pilot.click("#tile-orders", offset=(5, 2))
    await until(lambda: driver.app.dashboard.view is not overview)
    assert driver.view.model.filters == {"status": "paid"}


async def test_requests_of_other_clients_are_counted_and_not_the_dashboards_own(
    driver: Driver, own_project: Address
) -> None:
    made = await driver.app.api.write("POST", "/v1/api_keys", {"name": "shop"}, "k")
    headers = {"Authorization": f"Bearer {made.record['key']}"}
    async with httpx.AsyncClient(base_url=own_project.url, headers=headers) as shop:
        for path in ("/v1/accounts", "/v1/accounts", "/v1/accounts/acc_0"):
            await shop.get(path)
    await driver.press("0", sees=("✓ 200      2", "✕ 404      1", "the last 3 of other clients", "p50 "))
    await driver.press("tab", "tab", "tab", "tab", "down", "enter")
    assert driver.view.model.filters == {"status": "404"}


async def test_postings_are_counted_as_they_come(driver: Driver) -> None:
    await driver.press("0", sees="in the last minute")
    for number in range(7):
        await post(driver, 100, f"t{number}")
    overview = driver.app.dashboard.view
    assert isinstance(overview, Overview)
    await until(lambda: len(overview.latest) == 7)
    newest = overview.rate.newest
    await post(driver, 100, "t8")
    await until(lambda: overview.rate.newest != newest)


async def test_the_postings_of_the_last_read_stay_until_the_next_one(
    server: ContractServer, with_till: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = server.post(server.accounts[0], 100)
    made["created"] = (datetime.now(UTC) - timedelta(seconds=30)).isoformat()
    overview = await shows_overview(with_till)
    await with_till.sees("1 in the last minute")
    await with_till.press("1")
    monkeypatch.setattr(overview, "poll", lambda: 60.0)
    later = with_till.app.session.present_time + 90
    monkeypatch.setattr(Session, "present_time", later)  # the other screen was shown so long
    await with_till.press("0")
    overview.draw()
    await with_till.sees("1 in the last minute")


async def test_an_unread_figure_differs_from_a_read_one(bare: Driver) -> None:
    await bare.press("0")
    overview = bare.app.dashboard.view
    assert isinstance(overview, Overview)
    await bare.sees("0 in the last minute")
    now = bare.app.session.server_time
    times = [datetime.fromtimestamp(now - ago, UTC).isoformat() for ago in (10, 40)]
    newest, oldest = ({"id": f"txn_{time}", "created": time} for time in times)
    overview.rate = PostingRate()
    overview.rate.take([oldest], now=now - 40, all_read=True)
    overview.rate.take([newest], now=now, all_read=False)
    overview.figures["postings"] = overview.rate
    await bare.sees("·····", "· not read", "≈ ")


async def test_a_scarce_limit_is_not_eaten_by_looking(server: ContractServer, dashboards: Dashboards) -> None:
    server.limit = 60
    server.add_account()
    async with dashboards.open() as driver:
        await driver.press("0", sees="1 account")
        view = driver.app.dashboard.view
        await until(lambda: view.may_poll())
        # A quarter of 60 a minute is one request in 4 s, and a look takes five here or more.
        assert view.next_poll_at - driver.app.session.clock() > 15


async def test_each_endpoint_has_a_strip_of_its_deliveries(driver: Driver) -> None:
    overview = await shows_overview(driver)
    await driver.sees("No webhook endpoints.")
    body = {"url": "http://127.0.0.1:9/hook", "events": ["*"]}
    made = await driver.app.api.write("POST", "/v1/webhook_endpoints", body, "w")
    await post(driver, 100, "t1")
    await driver.sees("● 127.0.0.1:9/hook", "◔", "0 %", "1 of 1 failing")
    while overview.tile.id != "tile-webhooks":
        await driver.press("tab")
    await driver.press("enter")
    assert driver.view.model.filters == {"endpoint": made.record["id"]}


async def test_a_server_without_events_ticks_postings_and_one_without_a_log_its_own_requests(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Till"), 100, description="a very late sale")
    async with dashboards.open((120, 40)) as driver:
        await driver.press("0")
        await driver.sees("postings: this server shows no events", "a very late sale", "this dashboard's own")
        await driver.press("shift+tab", "enter", sees="▲ credit")


async def test_no_postings_are_reported_before_the_postings_are_read(with_till: Driver) -> None:
    await with_till.press("0", sees="No postings yet.")
    view = with_till.app.dashboard.view
    assert isinstance(view, Overview)
    view.reading = True  # nothing else is read meanwhile
    view._begin()
    view.take_figure("events", None)
    await with_till.sees_no_more("No postings yet.")


async def test_another_programs_answer_is_no_figure_until_a_ledger_is_there(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account()
    for _ in range(1000):
        server.refuse(200, {"hello": "world"})
    async with dashboards.start() as driver:
        await driver.press("0", sees=("✕ no ledger server at this address", "This is not a ledger's answer."))
        assert "No accounts yet." not in driver.text()
        assert "in the last minute" not in driver.text()
        # Without a figure that comes, a tile fits the new size all the same.
        await driver.pilot.resize_terminal(131, 40)
        tiles = driver.app.dashboard.view.query(Tile)
        heads = (driver.text(of=tile).splitlines()[0] for tile in tiles)
        assert all(head.endswith("── ") for head in heads)
        server.misfortunes.clear()
        await driver.sees("1 account", "● online")


async def test_a_quiet_ledger_shows_its_last_postings_and_the_balance_over_a_longer_time(
    server: ContractServer, dashboards: Dashboards
) -> None:
    account = server.add_account("Till")
    before = datetime.now(UTC) - timedelta(minutes=18, seconds=30)
    server.post(account, 100, description="the last sale")["created"] = before.strftime("%Y-%m-%dT%H:%M:%SZ")
    async with dashboards.open((120, 40)) as driver:
        await driver.press("0", sees=("last postings ─", "the newest 18 min", "the last sale", "in 1 h"))
        assert "postings / min" not in driver.text()
