"""A file of transactions: shown first, then posted as a whole."""

from pathlib import Path

from ledger_tui.features.batch import BatchScreen
from ledger_tui.server.embedded import Address
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def open_file(driver: Driver, file: Path) -> None:
    await driver.press("2", "b", sees=("Post a file of transactions", "decimal_amount (12.50)"))
    await driver.type(str(file), "enter")


async def test_a_file_is_shown_and_posted_as_a_whole_or_not_at_all(
    own_project: Address, tmp_path: Path
) -> None:
    file = tmp_path / "sales.csv"
    lines = [f"Till,credit,{number}.50,sale {number}" for number in range(1, 1102)]
    file.write_text("\n".join(["account,type,decimal_amount,description", *lines]), encoding="utf-8")
    async with dashboard_on(own_project, (100, 30)) as driver:
        await driver.sees("● online")
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await open_file(driver, file)
        await driver.sees(
            "+1.50 EUR  Till                  sale 1",
            "… and 1,095 more",
            "in all  ▲ credit 607,201.50 EUR",
            "1,101 transactions in 2 parts of up to 1,000",
            "⏎ post 1,101",
        )
        await driver.press("enter", sees=("Posted 1,101 transactions", "sale 1101"))

        other = tmp_path / "transfers.jsonl"
        row = '{"account":"Till","type":"credit","amount":1,"description":"back"}\n'
        other.write_text(row + row.replace("1", "9007199254740991") + row, encoding="utf-8")
        driver.turn_live()
        await open_file(driver, other)
        await driver.sees("3 transactions, all or nothing.")
        await driver.press("enter")
        await driver.sees(
            "◆ LIVE · Are you sure?", "Post 3 transactions, all or nothing.", "Type 3 to confirm"
        )
        await driver.press("3", "enter", sees=("✕ Line 2: ", "Nothing was posted."))
        assert isinstance(driver.app.screen, BatchScreen)
        await driver.press("escape")
        assert not driver.app.session.read_only
        account = driver.app.names.search("till")[0].id
        balance = (await driver.app.api.read(f"/v1/accounts/{account}")).record["balance"]
        assert balance == 60720150


async def test_on_a_server_without_batches_the_rows_are_posted_one_by_one_after_saying_so(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path
) -> None:
    server.add_account("Till")
    file = tmp_path / "sales.csv"
    text = "account,type,amount\nTill,credit,1.50\nNobody,credit,1\n"
    file.write_text(text, encoding="utf-8")
    async with dashboards.open((100, 30)) as driver:
        await open_file(driver, file)
        await driver.sees("Line 2: “1.50” is not", "Line 3: There is no account “Nobody”.", "✕ 2 faults")
        file.write_text(text.replace("Nobody", "Till"), encoding="utf-8")
        await driver.press("ctrl+d", sees="2 transactions, all or nothing.")
        await driver.press("enter", sees="This server does not support batches. 2 transactions, one by one")
        assert server.transactions == []
        await driver.press("enter", sees="Posted 2 transactions")
        await until(lambda: [t["amount"] for t in server.transactions] == [150, 100])


async def test_what_is_not_posted_can_be_posted_again_and_posting_be_stopped(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path
) -> None:
    server.add_account("Till")
    file = tmp_path / "sales.csv"
    file.write_text("account,type,decimal_amount\nTill,credit,1.50\nTill,credit,1\n", encoding="utf-8")

    def sent() -> int:
        return [request[:2] for request in server.requests].count(("POST", "/v1/transactions"))

    async with dashboards.open((100, 30)) as driver:
        await open_file(driver, file)
        await driver.sees("2 transactions, all or nothing.")
        with server.refusing(400, {"error": {"code": "invalid_value", "message": "Not so.", "param": None}}):
            await driver.press("enter", sees="✕ Not so. It was refused. Nothing was posted.")
        await driver.press("enter", sees="This server does not support batches.")
        with server.refusing(500, {"error": {"code": "internal", "message": "Disk full."}}):
            await driver.press("enter")
            await driver.sees("✕ No answer (Disk full.). Posting again is safe", "once. Nothing was posted.")
        with server.holding(None):  # the answer to the first
            await driver.press("enter")
            await until(lambda: sent() == 2, "the first")
            await driver.press("escape", sees="Stopping after the part that was sent…")
        await driver.sees("✕ Stopped. 1 of 2 are posted.")
        driver.turn_live()
        await driver.press("enter", sees=("◆ LIVE · Are you sure?", "Post 1 transaction, one by one"))
        await driver.press("escape")
        await until(lambda: isinstance(driver.app.screen, BatchScreen), "the file again")
        assert len(server.transactions) == 1


async def test_a_fault_of_a_file_is_shown_to_its_end(own_project: Address, tmp_path: Path) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("account,type,amount\nTill,credit,12.50\n", encoding="utf-8")
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        await open_file(driver, file)
        await driver.sees("decimal_amount.", "1 fault; nothing was posted.", "^d read amounts as decimals")
