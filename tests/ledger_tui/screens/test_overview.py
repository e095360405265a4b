"""The overview: each figure, and each sentence where there is none."""

from datetime import UTC, datetime

from ledger_tui.state.figures import PostingRate
from ledger_tui.widgets.overview import Overview
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def post(driver: Driver, amount: int, key: str) -> None:
    account = driver.app.names.search("till")[0]
    body = {"account": account.id, "amount": amount, "type": "credit"}
    await driver.app.api.write("POST", "/v1/transactions", body, key)


async def test_balances_stand_by_currency(server: ContractServer, dashboards: Dashboards) -> None:
    for currency, balance in (("EUR", 100000), ("EUR", 23450), ("JPY", 1234), ("KWD", -1500)):
        server.add_account("Till", currency, balance)
    async with dashboards.open() as driver:
        await driver.press("0")
        await driver.sees(
            "EUR  1,234.50  2 accounts", "JPY     1,234  1 account", "KWD    −1.500", "4 accounts in all"
        )


async def test_open_invoices_are_counted_summed_and_told_when_overdue(driver: Driver) -> None:
    account = driver.app.names.search("till")[0].id
    for number, due in enumerate(("2020-01-01", "2999-01-01")):
        body = {"account": account, "customer": "Ada", "amount": 1250, "due_date": due}
        made = (await driver.app.api.write("POST", "/v1/invoices", body, f"i{number}")).record
        await driver.app.api.write("POST", f"/v1/invoices/{made['id']}/finalize", None, None)
    await driver.press("0")
    await driver.sees("◐ 2 open · 1 overdue", "EUR 25.00")


async def test_postings_are_counted_as_they_come(driver: Driver) -> None:
    await driver.press("0")
    await driver.sees("in the last minute")
    for number in range(7):
        await post(driver, 100, f"t{number}")
    overview = driver.app.dashboard.view
    assert isinstance(overview, Overview)
    await until(lambda: len(overview.latest) == 7)
    newest = overview.rate.newest
    await post(driver, 100, "t8")
    await until(lambda: overview.rate.newest != newest)


async def test_what_was_not_read_is_told_apart_from_what_was(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.press("0")
        overview = driver.app.dashboard.view
        assert isinstance(overview, Overview)
        await driver.sees("0 in the last minute")
        now = driver.app.session.server_time
        times = [datetime.fromtimestamp(now - ago, UTC).isoformat() for ago in (10, 40)]
        newest, oldest = ({"id": f"txn_{time}", "created": time} for time in times)
        overview.rate = PostingRate()
        overview.rate.take([oldest], now=now - 40, reached=True)
        overview.rate.take([newest], now=now, reached=False)
        overview.figures["rate"] = overview.rate
        await driver.sees("·····", "· not read", "≈ ")


async def test_the_latest_postings_are_listed_where_there_is_room(
    server: ContractServer, dashboards: Dashboards
) -> None:
    account = server.add_account("Till")
    server.post(account, 100, description="a very late sale")
    async with dashboards.open((120, 40)) as driver:
        await driver.press("0")
        await driver.sees("latest postings", "a very late sale")
    async with dashboards.open((80, 24)) as driver:
        await driver.press("0")
        await driver.sees("postings per minute")
        assert "a very late sale" not in driver.text()


async def test_what_is_left_of_the_rate_limit_is_a_bar(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.press("0")
        await driver.sees("5,999 of 6,000 left", "resets in ")


async def test_a_scarce_limit_is_not_eaten_by_looking(server: ContractServer, dashboards: Dashboards) -> None:
    server.limit = 60
    server.add_account()
    async with dashboards.open() as driver:
        await driver.press("0")
        await driver.sees("1 account in all")
        view = driver.app.dashboard.view
        await until(lambda: view.may_poll())
        # A quarter of 60 a minute is one request in 4 s, and a look takes two here or more.
        assert view.next_poll_at - driver.app.session.clock() > 6


async def test_delivery_health_is_told(driver: Driver) -> None:
    await driver.press("0")
    await driver.sees("No webhook endpoints.")
    body = {"url": "http://127.0.0.1:9/hook", "events": ["*"]}
    await driver.app.api.write("POST", "/v1/webhook_endpoints", body, "w")
    await post(driver, 100, "t1")
    await driver.sees("◔ 1 waiting", "to 1 endpoint", "last: ")


async def test_another_programs_answer_is_no_figure_until_a_ledger_is_there(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account()
    for _ in range(1000):
        server.refuse(200, {"hello": "world"})
    async with dashboards.start() as driver:
        await driver.press("0")
        await driver.sees("✕ no ledger server at this address", "This is not a ledger's answer.")
        assert "No accounts yet." not in driver.text()
        assert "in the last minute" not in driver.text()
        server.misfortunes.clear()
        await driver.sees("1 account in all", "● online")
