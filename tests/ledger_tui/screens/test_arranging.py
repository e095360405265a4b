"""Lists as the user wants them: sorting, columns, panes, times, several rows at once."""

from pathlib import Path

import pytest
from textual import events

from ledger_tui.app.application import LedgerApp
from ledger_tui.formats import times
from ledger_tui.formats.times import TimeStyle
from ledger_tui.server.embedded import Address
from ledger_tui.settings.config import ListSettings, Options, PaneChoice, read_config
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.driving import Driver, key_event, until


@pytest.fixture(autouse=True)
def own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(file))
    monkeypatch.setattr(times.chosen, "style", TimeStyle.UTC)
    return file


def shown(driver: Driver, name: str) -> list[object]:
    window = driver.view.model.window
    return [record[name] for record in window.rows_between(0, len(window))]


async def test_loaded_rows_are_sorted_and_columns_chosen_and_kept(
    server: ContractServer, dashboards: Dashboards, own_config: Path
) -> None:
    till = server.add_account("Till")
    for number in range(130):
        server.post(till, 1000 + number * 37 % 130, "debit" if number % 2 else "credit", f"sale {number}")
    async with dashboards.open() as driver:
        await driver.press("2", sees="1–19 of 100+")
        reads = len(server.requests)
        await driver.press("o", "down", "down", "enter")
        await driver.sees("amount            ▼ largest first", "Only the rows loaded so far are sorted")
        await driver.press("down", "down", "space", "escape")
        await driver.sees("amount ▼", "by amount ▼", "of 100 loaded")
        assert "account" not in driver.text()
        amounts = [
            (r["amount"] if r["type"] == "credit" else -r["amount"])
            for _n, r in driver.view.model.window.at_hand()
        ]
        assert amounts == sorted(amounts, reverse=True)
        assert len(amounts) == 100
        # Reaching the last row loads nothing: older rows are loaded when they are asked for, a page at once.
        await driver.press("G")
        pages = [args for _m, path, args in server.requests[reads:] if "starting_after" in args]
        assert pages == []
        await driver.press("m", sees="of 130")
        assert len([args for _m, _path, args in server.requests[reads:] if "starting_after" in args]) == 1
        # A new row is sorted in where it belongs, as the cursor is on the top row.
        await driver.press("home")
        server.post(till, 1064, "credit", "in the middle")
        await until(lambda: "in the middle" in shown(driver, "description"))
        assert shown(driver, "amount")[0] == 1128
        kept = read_config(own_config).lists["transactions"]
        assert kept.sort == "-amount"
        assert "account" not in kept.columns
        # A column moves to the right and not beyond the first one, and the last one is not hidden.
        names = [column.name for column in driver.view.resource.columns]
        await driver.press("o", "0", "J", "escape", sees="account")
        assert read_config(own_config).lists["transactions"].columns[:2] == (names[1], names[0])
        await driver.press("o", "K", "escape")
        assert read_config(own_config).lists["transactions"].columns[:2] == (names[1], names[0])
        await driver.press("o", "0", *(key for _name in names for key in ("space", "down")), "escape")
        await until(lambda: read_config(own_config).lists["transactions"].columns == (names[-1],))
        await driver.press("o", "0", "escape", sees="account")
    assert read_config(own_config).lists["transactions"] == ListSettings()


async def test_numbers_and_times_sort_from_the_largest_and_names_from_a(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Till"), 100)
    async with dashboards.open() as driver:
        await driver.press("2", "o", "enter", sees="created (UTC)     ▼ newest first")
        await driver.press("enter", sees="created (UTC)     ▲ oldest first")
        await driver.press("enter", gone="oldest first")
        await driver.press("down", "enter", sees="type              ▲ A to Z")
        await driver.press("enter", sees="type              ▼ Z to A")
        await driver.press("down", "enter", sees="amount            ▼ largest first")
        await driver.press("enter", sees="amount            ▲ smallest first")
        await driver.press("escape", sees="by amount ▲")


async def test_panes_are_cycled_and_resized_and_times_written_in_another_way(
    server: ContractServer, dashboards: Dashboards, own_config: Path
) -> None:
    server.add_account("Till")
    async with dashboards.open((80, 24)) as driver:
        view = driver.view
        assert (view.record_list.display, view.detail.display) == (True, False)
        await driver.press("z", sees=("Till", "→ Its transactions"))
        assert (view.record_list.display, view.detail.display) == (True, True)
        width = view.detail.outer_size.width
        await driver.press("greater_than_sign")
        assert view.detail.outer_size.width == width - 4
        await driver.press("less_than_sign", "less_than_sign")
        assert view.detail.outer_size.width == width + 4
        await driver.press("z")
        assert (view.record_list.display, view.detail.display) == (False, True)
        await driver.press("z")
        assert (view.record_list.display, view.detail.display) == (True, False)
        await driver.sees("2026-11-20 04:31:00")
        await driver.press("t", sees="created (local)")
        await driver.press("t", sees=("created (ago)", " ago"))
        assert read_config(own_config).times is TimeStyle.RELATIVE
        await driver.press("t", sees=("2026-11-20 04:31:00", "created (UTC)"))
        await driver.press("z")
    config = read_config(own_config)
    assert config.panes == PaneChoice(split=True, detail_width=width + 4)
    app = LedgerApp(Options(url=server.url, key=KEY, config=config))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Till", "→ Its transactions")
        assert driver.view.detail.outer_size.width == width + 4
        own_config.write_text("times =", encoding="utf-8")  # by an editor that is not done yet
        await driver.press("z", "z", "t", sees="created (local)")
        await driver.sees("The time format could not be saved. Your choice applies until you quit.")
        assert own_config.read_text(encoding="utf-8") == "times ="


async def _fill_invoices(driver: Driver, opened: int, drafts: int) -> None:
    api = driver.app.api
    account = (await api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")).record["id"]
    for number in range(opened + drafts):
        body = {"account": account, "customer": f"Customer {number}", "amount": 1000 + number}
        made = (await api.write("POST", "/v1/invoices", body, f"i{number}")).record["id"]
        if number < opened:
            await api.write("POST", f"/v1/invoices/{made}/finalize", None, None)


async def test_marked_rows_are_voided_together_and_each_failure_is_told(own_project: Address) -> None:
    async with dashboard_on(own_project, (100, 40)) as driver:
        await driver.sees("● online")
        await _fill_invoices(driver, opened=4, drafts=1)
        await driver.goes_to("3")
        await driver.press("ctrl+a", sees=("● 5 marked", "●"))
        await driver.press("down", "space", sees="● 4 marked")
        paid, number = next(
            (row["id"], row["number"]) for row in driver.view.model.marked if row["status"] == "open"
        )
        await driver.press(
            "v",
            sees=(
                "Void 3 invoices?",
                "in all 30.03 EUR",
                "1 more marked object is left out",
                "Type 3 to void these 3 invoices",
            ),
        )
        # One is paid by somebody else in between, so that it cannot be voided any more.
        await driver.app.api.write("POST", f"/v1/invoices/{paid}/pay", None, "p")
        await driver.type("3", "enter", sees=("Voided: 2, failed: 1", f"✕ {number}, ", "esc close"))
        await driver.press("escape")
        await until(lambda: shown(driver, "status").count("void") == 2)
        assert [record["number"] for record in driver.view.model.marked] == [number]  # for another try
        await driver.press("escape", gone="marked")
        await driver.press("space", "space", sees="● 2 marked")
        await driver.press("escape", gone="marked")


async def test_in_live_mode_the_number_of_marked_rows_is_typed(own_project: Address) -> None:
    async with dashboard_on(own_project, (100, 40)) as driver:
        await driver.sees("● online")
        await _fill_invoices(driver, opened=2, drafts=0)
        await driver.press("3", sees="Customer 1")
        driver.turn_live()
        await driver.press("ctrl+a", "v", sees=("◆ LIVE · Confirm", "Type 2 to void these 2 invoices, then"))
        await driver.press("y", "enter", sees="✕ The number does not match.")
        assert shown(driver, "status") == ["open", "open"]
        await driver.press("backspace", "2", "enter", sees="Voided: 2")


async def test_a_number_that_came_before_the_question_does_not_confirm_it(own_project: Address) -> None:
    again = "Type it again: the question had not been shown yet."
    async with dashboard_on(own_project, (100, 40)) as driver:
        await driver.sees("● online")
        await _fill_invoices(driver, opened=2, drafts=0)
        await driver.press("3", sees="Customer 1")
        await driver.press("ctrl+a", sees="● 2 marked")
        await driver.burst("v", "2", "enter")
        await driver.sees("Type 2 to void these 2 invoices", again)
        await driver.press("escape", gone=again)
        driver.app.post_message(key_event("v"))
        driver.app.post_message(events.Paste("2"))
        await driver.burst("enter")
        await driver.sees("Type 2 to void these 2 invoices", again)
        assert shown(driver, "status") == ["open", "open"]
        await driver.type("2", "enter", sees="Voided: 2")


async def test_a_changed_balance_flashes_unless_motion_is_reduced(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till = server.add_account("Till")
    async with dashboards.open() as driver:
        await driver.sees("Till")
        table = driver.view.table
        server.post(till, 500)
        await until(lambda: table.flashing.get(till["id"]) == {"balance"})
        await until(lambda: till["id"] not in table.flashing)
        driver.app.animation_level = "none"
        server.post(till, 500)
        await driver.sees("10.00  EUR")
        assert till["id"] not in table.flashing


async def test_a_record_without_a_terminal_to_hand_over_stays_and_says_so(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add_account("Till")
    monkeypatch.setenv("PAGER", "cat")
    async with dashboards.open() as driver:
        await driver.press("P", sees="Another program cannot take over this terminal.")
