"""The help shows the possible keys of each action in groups, also keys from the config file."""

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.app.command_line import CommandScreen
from ledger_tui.server.embedded import Address
from ledger_tui.settings.config import Config, Options
from ledger_tui.ui.key_bar import KeyBar
from tests.ledger_tui.conftest import dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def drafted(driver: Driver) -> None:
    """Show the invoices with one draft under the cursor."""
    await driver.sees("● online")
    write = driver.app.api.write
    account = (await write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")).record
    body = {"account": account["id"], "customer": "Ada", "amount": 1250}
    await write("POST", "/v1/invoices", body, "i")
    await driver.press("3", sees=("○ draft", "12.50  EUR  Ada"))
    await driver.rests()


@pytest.mark.parametrize("keys", [["1"], ["7", "w"], ["0"]], ids=["accounts", "endpoints", "overview"])
async def test_undo_is_possible_only_after_a_change_and_not_in_the_past(
    own_project: Address, keys: list[str]
) -> None:
    async with dashboard_on(own_project, (100, 60)) as driver:
        await driver.app.api.write("POST", "/api/users", {"name": "Ada", "email": "ada@example.com"}, "a")
        await driver.press("4", sees="Ada")
        await driver.press(*keys, "question_mark", sees="Everywhere")
        await driver.press("slash")
        nothing = ("Not now. Nothing to undo: you have changed", "u  undo the last change")
        await driver.type("undo", sees=nothing, gone="Everywhere")
        await driver.press("escape", "4", "X", "y", sees="u restores it")
        await driver.press(*keys, "question_mark", "slash")
        await driver.type("undo", sees=("Everywhere", "u  undo the last change"), gone="Not now")
        await driver.press("escape", "comma", sees="PAST")
        await driver.press("question_mark", "slash")
        past = ("Not now. This is the past", "u  undo the last change")
        await driver.type("undo", sees=past, gone="Everywhere")


async def test_the_keys_that_work_everywhere_have_one_order_on_all_screens(own_project: Address) -> None:
    orders = []
    async with dashboard_on(own_project, (79, 90)) as driver:  # one column
        await driver.sees("● online")
        for keys in ("1", "2", "3", "6", "7", "8", "0"):
            await driver.press(*keys, "question_mark", sees="Everywhere")
            lines = [line.strip("│ ▁▂▃▄▅▆▇█") for line in driver.text().splitlines()]
            everywhere = lines[lines.index("Everywhere") + 1 : lines.index("In time")]
            orders.append([line for line in everywhere if "view" not in line])  # only if there is one
            await driver.press("escape")
    assert orders[0][:2] == [":  command line", "1234567890  the screens"]
    assert [order for order in orders if order != orders[0]] == []


async def test_a_space_separates_the_columns_also_next_to_a_long_line(with_till: Driver) -> None:
    await with_till.press("colon")
    await with_till.type("flows", "enter", sees="⏎ open   esc back")
    await with_till.press("question_mark", sees="next tile, previous … or a request first")


MOVES = ("↑ k ↓ j  up, down", "PgUp ^b  page up", "PgDn ^f  page down", "Home  newest", "End G  oldest")


@pytest.mark.parametrize("keys", [{}, {"refresh": "f5,Z"}], ids=["as they are", "one moved"])
async def test_every_key_of_each_action_is_shown(server: ContractServer, keys: dict[str, str]) -> None:
    server.add_account("Till")
    app = LedgerApp(Options(url=server.url, key=server.key, config=Config(keys=keys)))
    async with app.run_test(size=(70, 70)) as pilot:
        driver = Driver(app, pilot)
        await until(lambda: driver.view.model.window.loaded)
        await driver.press("question_mark")
        await driver.sees("esc close", *MOVES, "/  filter", "⏎  open", "1234567890  the screens")
        await driver.sees("f5 Z  refresh" if keys else " r  refresh")


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (160, 45)], ids=str)
async def test_the_keys_of_the_screen_and_of_the_object_are_seen_at_once_in_two_columns(
    own_project: Address, size: tuple[int, int]
) -> None:
    async with dashboard_on(own_project, size) as driver:
        await drafted(driver)
        await driver.press("question_mark", sees=("Here", "On this object", "PgDn ^f  page down"))
        first = next(line for line in driver.text().splitlines() if "Here" in line)
        assert "On this object" in first
        await driver.sees("F  finalize", "e  edit", "T  trace", "P E  in $PAGER, in $EDITOR")


async def test_a_help_with_keys_below_its_frame_shows_that_and_its_end_does_not(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await drafted(driver)
        await driver.press("question_mark", sees="↓ more")
        await driver.press("end", gone="↓ more")
        await driver.press("slash")
        await driver.type("pag", gone="finalize")
        assert "↓ more" not in driver.text()


async def test_the_search_finds_keys_that_do_nothing_here_or_now(own_project: Address) -> None:
    async with dashboard_on(own_project, (100, 30)) as driver:
        await drafted(driver)
        await driver.press("question_mark", "slash")
        await driver.type(
            "pay", sees=("Not now. Still a draft: F finalizes it first.", "p  pay"), gone="void"
        )
        await driver.press("ctrl+u")
        await driver.type("ship", sees=("Not now, or on other screens", "s  ship  5 Orders"))
        await driver.press("ctrl+u")
        await driver.type("xyz", sees="No key is described by “xyz”.")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=str)
async def test_the_help_shows_the_keys_that_the_object_forbids_below_the_possible_keys_with_the_reason(
    own_project: Address, size: tuple[int, int]
) -> None:
    async with dashboard_on(own_project, size) as driver:
        await drafted(driver)
        await driver.press("question_mark", sees=("F  finalize", "Not now. Still a draft: F"))
        lines = driver.text().splitlines()
        places = [
            next(n for n, line in enumerate(lines) if text in line)
            for text in ("On this object", "F  finalize", "T  trace", "Not now. Still", "p  pay", "v  void")
        ]
        assert places == sorted(places)
        await driver.press("escape", "F", "y", sees="INV-000001 is open")
        await driver.press("question_mark", sees=("p  pay", "Not now. INV-000001 is open.", "F  finalize"))


async def test_an_empty_line_separates_each_reason_from_the_key_before_it(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await drafted(driver)
        await driver.press("F", "y", sees="INV-000001 is open")
        await driver.press("p", "y", sees="INV-000001 is paid")
        await driver.press("question_mark", sees=("Not now. INV-000001 is paid.", "V  proof in the log"))
        group = [line[39:].strip("│ ▁▂▃▄▅▆▇█") for line in driver.text().splitlines() if line.startswith("│")]
        reasons = [number for number, line in enumerate(group) if line.startswith("Not now.")]
        assert [group[number - 1] for number in reasons] == ["", ""]
        assert group[reasons[0] + 1 : reasons[1] - 1] == ["F  finalize   p  pay", "v  void       e  edit"]


async def test_a_help_that_fits_shows_no_rest(own_project: Address) -> None:
    async with dashboard_on(own_project, (120, 40)) as driver:
        await drafted(driver)
        await driver.press("question_mark", sees="On this object")
        await driver.rests()
        await driver.sees_no_more("↓ more")
        await driver.pilot.resize_terminal(120, 24)
        await driver.sees("↓ more")


async def test_the_bar_of_the_accounts_names_the_transfer_on_80_columns(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await drafted(driver)
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Bank", "currency": "EUR"}, "second")
        await driver.press("1", sees=" ⏎ open   / filter   n new   x transfer   h statement   : flows ")


async def test_the_help_and_the_bar_offer_nothing_that_is_impossible_now(own_project: Address) -> None:
    async with dashboard_on(own_project, (250, 70)) as driver:
        await drafted(driver)
        bar = driver.app.screen.query_one(KeyBar).render().plain
        await driver.press("question_mark", sees=("F  finalize", "Everywhere", ":at -2h  go to a moment"))
        assert "F finalize" in bar
        possible = driver.text().replace("p  pay", "", 1).replace("v  void", "", 1)
        for key in ("p pay", "v void", "f follow", "g sums", "d compare", ". next", "] next"):
            assert key not in bar, key
            assert key.replace(" ", "  ") not in possible, key


@pytest.mark.parametrize("width", [100, 120, 160, 250])
async def test_the_bar_names_the_past_and_the_flows_and_fills_its_line(
    own_project: Address, width: int
) -> None:
    async with dashboard_on(own_project, (width, 30)) as driver:
        await drafted(driver)
        for key in "1234567890":
            await driver.press(key)
            bar = driver.app.screen.query_one(KeyBar)
            line = bar.render().plain
            assert ", past   " in line, key
            assert ": flows   " in line, key
            assert line.endswith(("? keys", "q quit")), key
            assert bar.size.width - len(line) < 40 or line.endswith("q quit"), key


async def test_the_bar_of_the_webhooks_begins_with_the_trace_on_80_columns(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await drafted(driver)
        await driver.press("7", sees=" ⏎ open   T trace   / filter   w endpoints ")


async def test_the_empty_palette_begins_with_the_keys_of_the_bar_in_its_order(own_project: Address) -> None:
    async with dashboard_on(own_project, (160, 45)) as driver:
        await drafted(driver)
        line = driver.app.screen.query_one(KeyBar).render().plain
        bar = [key.split(" ", 1)[1].lower() for key in line.split("   ")]
        await driver.press("colon")
        assert isinstance(driver.app.screen, CommandScreen)
        offers = [offer.text.lower() for offer in driver.app.screen._offers]
        shown = bar[: bar.index("keys")]  # the bar always ends with this key, however narrow it is
        shown.remove("flows")
        assert offers[: len(shown) + 1] == ["flows", *shown]
        assert bar[:4] == ["open", "filter", "new", "finalize"]


async def test_the_colon_and_enter_open_the_flows_as_the_bar_says(own_project: Address) -> None:
    async with dashboard_on(own_project, (100, 30)) as driver:
        await driver.sees(": flows ")
        await driver.press("colon", "enter", sees="Flows  the last")
        assert driver.app.dashboard.view.place.kind == "flows"
        await driver.press("colon", "enter", sees="Type a screen, an id, or a command; tab completes it.")


async def test_the_palette_finds_the_refund_on_every_screen_and_goes_where_it_is_made(
    own_project: Address,
) -> None:
    async with dashboard_on(own_project, (100, 30)) as driver:
        for key in "1234567890":
            await driver.press(key, "colon")
            await driver.type("refund", sees="Reverse  ")
            await driver.press("escape")
        await driver.press("colon")
        await driver.type("refund", sees="Transactions: choose a row, then U")
        await driver.press("enter", sees="Choose a row: U reverses it.")
        assert driver.view.place.kind == "transactions"
