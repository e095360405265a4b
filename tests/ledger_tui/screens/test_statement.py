"""The statement of an account, and its balance over time."""

from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver


async def post(driver: Driver, *amounts: int) -> None:
    account = driver.app.names.search("till")[0]
    for number, amount in enumerate(amounts):
        kind = "credit" if amount > 0 else "debit"
        body = {
            "account": account.id,
            "amount": abs(amount),
            "type": kind,
            "description": f"posting {number}",
        }
        await driver.app.api.write("POST", "/v1/transactions", body, f"t{number}")


async def test_a_statement_stands_between_two_balances(driver: Driver) -> None:
    await post(driver, 1000, -250, 75)
    await driver.press("h", sees=("Statement", "account:Till", "Opening balance", "Closing balance"))
    lines = [line for line in driver.text().splitlines() if "posting" in line or "balance  " in line]
    figures = [
        [word for word in line.split() if word[:1] in "+−0123456789" and "." in word] for line in lines
    ]
    assert figures[-4:] == [["+10.00", "10.00"], ["−2.50", "7.50"], ["+0.75", "8.25"], ["8.25"]]
    await driver.press("escape", sees="Accounts")


async def test_a_line_of_a_statement_leads_to_its_transaction(driver: Driver) -> None:
    await post(driver, 1000)
    await driver.press("h", sees="posting 0")
    await driver.press("down", "enter", sees=("→ The transaction", "+10.00 EUR"))
    await driver.press("enter", sees=("Transactions", "balance after 10.00"))


async def test_the_period_of_a_statement_is_a_filter(driver: Driver) -> None:
    await post(driver, 1000)
    await driver.press("h", sees="posting 0")
    await driver.press("slash", "home", "shift+end")
    account = driver.app.names.search("till")[0]
    await driver.type(f"account:{account.id} from:2020-01-01 to:2020-02-01", "enter", sees="to:2020-02-01")
    await driver.sees_no_more("posting 0")


async def test_a_statement_keeps_its_account_when_the_typed_filter_names_none(driver: Driver) -> None:
    await post(driver, 1000)
    await driver.press("h", sees="posting 0")
    await driver.press("slash", "home", "shift+end")
    await driver.type("from:2020-01-01", "enter", sees=("account:Till from:2020-01-01 ", "posting 0"))


async def test_the_balance_over_time_is_drawn_in_the_detail(driver: Driver) -> None:
    await post(driver, 1000, -250, 75)
    await driver.press("enter", sees=("10.00 ┤", " 7.50 ┤"))
    assert any(0x2800 < ord(character) < 0x2900 for character in driver.text())


async def test_the_balance_is_drawn_from_postings_without_balance_after(
    server: ContractServer, dashboards: Dashboards
) -> None:
    account = server.add_account("Till")
    for amount, kind in ((1000, "credit"), (250, "debit"), (75, "credit")):
        server.post(account, amount, kind)
    async with dashboards.open() as driver:
        await driver.press("enter", sees=("10.00 ┤", " 7.50 ┤", "its last 3 postings"))


async def test_an_account_without_postings_says_so(with_till: Driver) -> None:
    await with_till.press("enter", sees="none yet")


async def test_n_in_a_statement_posts_to_its_account(driver: Driver) -> None:
    await post(driver, 1000)
    await driver.press("h", sees="Closing balance")
    await driver.press("n", sees=("Post a transaction", "Till · EUR"))
    await driver.press("tab")
    await driver.type("2.50", "ctrl+s", sees=("Credits Till 2.50 EUR", "Till then holds 12.50 EUR"))
    await driver.press("y", sees=("Credited Till 2.50 EUR", "+2.50", "12.50"))
