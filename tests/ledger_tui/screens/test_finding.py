"""The filter line finds a text in the loaded rows, and shows a mistake while it can be corrected."""

from pathlib import Path

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.lists.filter_bar import FilterBar
from ledger_tui.settings.config import read_config
from ledger_tui.settings.saved import SavedChoices
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


def name_under_cursor(driver: Driver) -> object:
    current = driver.view.model.window.current
    assert current is not None
    return current["name"]


async def test_a_list_without_filters_says_so(with_till: Driver) -> None:
    await with_till.press("slash")
    await with_till.sees("This list has no filters; type an id to open it or part of a name to find it")
    await with_till.sees("⏎ apply")
    assert "/ filter" not in with_till.text()


def names_shown(driver: Driver) -> list[object]:
    return [row["name"] for _index, row in driver.view.model.window.at_hand()]


async def test_a_text_narrows_the_loaded_rows_while_it_is_typed(
    server: ContractServer, dashboards: Dashboards
) -> None:
    for name in ("Evening bar", "Till", "Revenue", "Safe"):
        server.add_account(name)
    async with dashboards.open() as driver:
        await driver.press("slash")
        await driver.type("EV", sees="2 of 4 loaded rows match “EV”; enter keeps them")
        await driver.type("eni", sees="1 of 4 loaded rows match “EVeni”")
        await driver.press("backspace", "backspace", "backspace", sees="2 of 4 loaded rows match “EV”")
        assert names_shown(driver) == ["Revenue", "Evening bar"]
        await driver.press("escape")  # as it was
        assert len(names_shown(driver)) == 4
        await driver.press("slash")
        await driver.type("ev", "enter", "down", sees=("“ev”", "2 of 2 among 4 loaded"))
        assert name_under_cursor(driver) == "Evening bar"
        await driver.press("slash", "e", "n", "i", "enter")  # typed over what was there
        assert names_shown(driver) == ["Revenue", "Evening bar"][1:]
        await driver.press("escape")
        assert len(names_shown(driver)) == 4
    assert not any("ev" in args.values() for _method, _path, args in server.requests)


async def test_m_says_why_there_are_no_more_rows_to_search(
    server: ContractServer, dashboards: Dashboards
) -> None:
    for number in range(130):
        server.add_account(f"Till {number}")
    async with dashboards.open() as driver:
        assert not driver.view.model.window.arranged
        await driver.press("m", sees="This list loads older rows when you move down.")
        await driver.press("end")
        await until(lambda: not driver.view.model.window.has_older)
        await driver.press("m", sees="All older rows are loaded already.")


async def test_a_text_in_no_row_is_reported(with_till: Driver) -> None:
    await with_till.press("slash")
    await with_till.type("xyz", "enter", sees="✕ No loaded row matches “xyz”.")


async def test_a_text_is_found_in_a_column_for_which_the_screen_is_too_narrow(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till = server.add_account("Till")
    for number in range(6):
        server.post(till, number + 1, ("credit", "debit")[number % 2])
    async with dashboards.open((120, 40)) as driver:
        await driver.goes_to("2")
        assert "▼ debit" not in driver.text(driver.view.table)
        await driver.press("slash")
        await driver.type("debit", sees="3 of 6 loaded rows match “debit”")


async def test_a_text_is_looked_for_past_the_loaded_rows_page_by_page(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till = server.add_account("Till")
    server.post(till, 100, description="needle")
    for number in range(450):
        server.post(till, 100, description=f"sale {number}")
    async with dashboards.open() as driver:
        await driver.press("2", sees="sale 449")
        await driver.press("slash")
        await driver.type("needle", sees="No loaded row matches “needle”; enter searches older rows.")
        with server.holding(server.transactions[251]["id"]):
            await driver.press("enter", sees=("⌕ searching, 200 rows read", "esc stops"))
        await driver.sees("needle", "1 of 1 among 451 loaded")
        await driver.press("escape", "slash")
        await driver.type("nowhere")
        server.limit = 60  # the rest of the window is left to others: it waits between two pages
        await driver.press("enter", sees="No row contains this text")
    cursors = [args["starting_after"] for _m, _path, args in server.requests if "starting_after" in args]
    assert len(cursors) == len(set(cursors)) == 4


async def test_looking_ends_with_esc(server: ContractServer, dashboards: Dashboards) -> None:
    till = server.add_account("Till")
    for number in range(1200):
        server.post(till, 100, description=f"sale {number}")
    async with dashboards.open() as driver:
        await driver.press("2", sees="sale 1199")
        await driver.press("slash")
        await driver.type("nowhere")
        with server.holding(server.transactions[1000]["id"]):
            await driver.press("enter", sees="⌕ searching, 200 rows read")
            await driver.sees("esc stop ")
            sentence = "Search stopped: no match in 200 rows. m continues, esc shows all rows."
            await driver.press("escape", sees=sentence)
        await driver.sees("Nothing yet; m searches older rows.", "esc all rows")
        assert driver.view.model.window.resident == 200  # the page on its way was given up
        await driver.press("escape", sees="sale 1199", gone="esc all rows")


async def test_the_line_completes_filters_values_and_names_and_keeps_bookmarks(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(tmp_path / "config.toml"))
    till, other = server.add_account("Till, Berlin"), server.add_account("Safe")
    server.post(till, 100, "debit", "in the till")
    server.post(other, 200, "debit", "in the safe")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.with_name("Safe"))
        await driver.press("2", "slash", sees=("account:", "such as 2026-11-20T07:18"))
        await driver.type("ty", "tab", "d", "tab")
        assert driver.view.filter_bar.line == "type:debit"
        await driver.type("acc", "tab")
        await driver.type("berl", sees="Till, Berlin")
        await driver.press("down", "enter")
        assert driver.view.filter_bar.line == 'type:debit account:"Till, Berlin"'
        await driver.press("ctrl+b", sees="★ Bookmark added")
        await driver.press("enter", gone="in the safe")
        assert driver.view.model.filters == {"type": "debit", "account": till["id"]}
        await driver.press("escape", "slash", sees=("★ bookmark", 'type:debit account:"Till, Berlin"'))
        await driver.press("down", "enter", gone="in the safe")
        assert driver.view.model.filters == {"type": "debit", "account": till["id"]}
        await driver.press("slash", "ctrl+u")
        await driver.type("type:credit", "enter", "slash", "ctrl+u", sees=("used before", "type:credit"))
    used = SavedChoices(connection=server.url).used_filters("transactions")
    assert used == ["type:credit", 'type:debit account:"Till, Berlin"']
    assert SavedChoices(connection="http://another").used_filters("transactions") == []
    lists = read_config(tmp_path / "config.toml").lists
    assert lists["transactions"].filters == ('type:debit account:"Till, Berlin"',)


async def test_an_account_is_filtered_by_its_name(server: ContractServer, dashboards: Dashboards) -> None:
    till, safe = server.add_account("Till"), server.add_account("Safe")
    server.post(till, 100, description="in the till")
    server.post(safe, 200, description="in the safe")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.with_name("Till"))
        await driver.press("2", "slash")
        await driver.type("account:Till", "enter", gone="in the safe")
        await driver.sees("in the till", "account:Till")
    assert till["id"] in [args.get("account") for _method, _path, args in server.requests]


async def test_an_id_nobody_has_leaves_the_line_as_it_was_typed(driver: Driver) -> None:
    await driver.press("2", "slash")
    await driver.type("txn_nope", "enter", sees=("✕ No such transaction", "txn_nope"))
    assert driver.view.query_one(FilterBar).display
    assert "txn_nope: " not in driver.text()
    assert len(driver.app._notifications) == 0


async def test_after_an_id_nobody_has_the_list_is_followed_on(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Before")
    async with dashboards.open() as driver:
        await driver.press("slash")
        await driver.type("acc_nope", "enter", sees="There is no such account.")
        await driver.press("escape")
        server.add_account("After")
        await driver.sees("After", "● following")
        assert name_under_cursor(driver) == "After"


async def test_one_large_amount_hides_columns_no_longer_than_it_is_listed(
    server: ContractServer, dashboards: Dashboards
) -> None:
    plain, large = server.add_account("Plain"), server.add_account("Large")
    server.post(plain, 100, description="small change")
    server.post(large, 9_007_199_254_740_991, description="all there is")
    async with dashboards.open() as driver:
        await driver.press("2", sees="+90,071,992,547,409.91")
        assert "▲ credit" not in driver.text()
        await driver.press("slash")
        await driver.type(f"account:{plain['id']}", "enter", sees=("small change", "▲ credit"))


async def test_an_amount_out_of_sight_takes_no_room(server: ContractServer, dashboards: Dashboards) -> None:
    account = server.add_account("Till")
    server.post(account, 9_007_199_254_740_991)
    for number in range(60):
        server.post(account, 100, description=f"sale {number}")
    async with dashboards.open() as driver:
        await driver.press("2", sees=("sale 59", "description"))
        await driver.press("G", sees="+90,071,992,547,409.91")


async def test_messages_are_shown_above_the_line_of_keys_one_at_a_time_and_never_over_a_dialog(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LedgerApp, "NOTIFICATION_TIMEOUT", 300)  # none goes away by itself
    server.add_account("Till")
    async with dashboards.open() as driver:
        before = driver.text().splitlines()
        await driver.press("y", sees="Copied acc_")
        await driver.press("c", sees="Copied as curl")
        text = driver.text()
        assert "Copied as curl" in text.splitlines()[-2]
        assert "Copied acc_" not in text
        assert [*text.splitlines()[1:-2], text.splitlines()[-1]] == [*before[1:-2], before[-1]]
        await driver.press("question_mark", sees="esc close", gone="Copied as curl")
        await driver.press("escape", "y", sees="Copied acc_")
        await driver.press("colon", gone="Copied acc_")


async def test_a_filters_error_and_the_list_of_filters_are_shown_whole(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open((80, 24)) as driver:
        await driver.press("2", "slash")
        await driver.type("foo:bar", "enter", sees="✕ “foo:bar” is not one of")
        for filter_ in driver.view.resource.filters:
            await driver.sees(f"{filter_.name}:{filter_.example}")


async def test_a_second_filter_is_added_to_the_first(server: ContractServer, dashboards: Dashboards) -> None:
    server.post(server.add_account("Till"), 100, "debit")
    async with dashboards.open() as driver:
        await driver.press("2", "slash")
        await driver.type("type:debit", "enter", "slash")
        await driver.type("after:2026-01-01", "enter", sees=" type:debit after:2026-01-01 ")
        assert driver.view.model.filters == {"type": "debit", "created_after": "2026-01-01"}
        await driver.press("slash", "ctrl+w", "enter")
        assert driver.view.model.filters == {"type": "debit"}


async def test_an_added_value_replaces_the_filter_of_the_same_name_and_the_line_says_so(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Till"), 100, "debit")
    async with dashboards.open((120, 40)) as driver:
        await driver.press("2", "slash")
        await driver.type("type:debit after:2026-01-01", "enter", "slash")
        await driver.type("type:credit", sees="enter filters the list: after:2026-01-01 type:credit")
        await driver.press("enter", sees=" type:credit after:2026-01-01 ")
        await driver.press("slash")
        await driver.type("debit", sees="enter filters the list: after:2026-01-01 type:debit")
        await driver.press("enter", sees=" type:debit after:2026-01-01 ")


async def test_a_text_behind_a_filter_narrows_the_filtered_list(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till = server.add_account("Till")
    for number in range(4):
        server.post(till, 100, ("credit", "debit")[number % 2], description=f"sale {number}")
    async with dashboards.open() as driver:
        await driver.press("2", "slash")
        await driver.type("type:debit", "enter", sees="1–2 of 2", gone="sale 2")
        await driver.press("slash")
        await driver.type("sale 3", sees="1 of 2 loaded rows match “sale 3”")
        await driver.press("enter", sees=(" type:debit ", "“sale 3”", "1 of 1 among 2 loaded"))
        await driver.press("slash")
        await driver.type("sale 1", "enter", sees=(" type:debit ", "“sale 1”", "1 of 1 among 2 loaded"))
        await driver.press("escape", sees=(" type:debit ", "1–2 of 2"), gone="“sale 1”")


@pytest.mark.parametrize("line", ["sale type:debit", "type:debit sale", "sale debit"])
async def test_a_line_may_hold_filters_and_a_text(
    line: str, server: ContractServer, dashboards: Dashboards
) -> None:
    till = server.add_account("Till")
    for number in range(4):
        type_name, text = ("credit", "debit")[number % 2], ("sale", "rent")[number // 2]
        server.post(till, 100, type_name, description=f"{text} {number}")
    async with dashboards.open() as driver:
        await driver.press("2", "slash")
        await driver.type(line, sees="enter filters the list: type:debit, and finds “sale”")
        await driver.press("enter", sees=(" type:debit ", "“sale”", "1 of 1 among 2 loaded", "sale 1"))
        await driver.press("escape", sees=(" type:debit ", "rent 3"))


async def test_a_text_in_a_row_stays_a_text_although_one_of_its_words_is_a_state(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till = server.add_account("Till")
    server.post(till, 100, description="old debit note")
    server.post(till, 100, description="sale")
    async with dashboards.open() as driver:
        await driver.press("2", "slash")
        await driver.type("old debit", sees="1 of 2 loaded rows match “old debit”; enter keeps them")
        await driver.press("enter", sees=("“old debit”", "1 of 1 among 2 loaded"))
        assert not driver.view.model.filters


async def test_an_account_is_filtered_by_part_of_its_name_also_one_that_was_not_read_yet(
    server: ContractServer, dashboards: Dashboards
) -> None:
    old = server.add_account("Operating, Kuwait", "KWD")
    server.post(old, 1000)
    for number in range(120):  # more than the page that is read at the start
        server.add_account(f"Shop {number}")
    async with dashboards.open() as driver:
        await driver.press("2", "slash")
        await driver.type("account:Operating", "enter", sees=('account:"Operating, Kuwait"', "1 of 1"))
        assert driver.view.model.filters == {"account": old["id"]}
        await driver.press("slash", "ctrl+u")
        await driver.type("account:Shop", "enter", sees=("✕ “Shop” may be", "more; write more of it."))
        await driver.press("ctrl+u")
        await driver.type("account:Nobody", "enter", sees="✕ No account is called “Nobody”")


async def test_the_palette_finds_accounts_and_users_that_were_loaded(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Operating, Kuwait", "KWD", 1500)
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("operating"))
        await driver.press("2", "ctrl+p")
        await driver.type("operating", sees="Account Operating, Kuwait")
        await driver.press("enter", sees=("→ Its transactions", "1.500 KWD"))


def post_odd_and_even(server: ContractServer, count: int) -> None:
    till = server.add_account("Till")
    for number in range(count):
        server.post(till, 100, description="even" if number % 2 == 0 else "odd")


async def narrow_to_odd(driver: Driver) -> None:
    await driver.press("2", sees="odd")
    await driver.press("slash")
    await driver.type("odd", "enter")


async def test_scrolling_through_narrowed_rows_loads_older_pages_one_by_one(
    server: ContractServer, dashboards: Dashboards
) -> None:
    post_odd_and_even(server, 350)
    async with dashboards.open() as driver:
        await narrow_to_odd(driver)
        await driver.sees("of 50 among 100 loaded")
        reads = len(server.requests)
        await driver.press("end", sees="of 100 among 200 loaded")
        cursors = [args for _m, _path, args in server.requests[reads:] if "starting_after" in args]
        assert len(cursors) == 1


async def test_the_end_of_narrowed_rows_loads_the_next_page_also_while_another_request_is_under_way(
    server: ContractServer, dashboards: Dashboards
) -> None:
    post_odd_and_even(server, 150)
    async with dashboards.open() as driver:
        await narrow_to_odd(driver)
        with server.holding(None):
            await until(lambda: driver.view.model.window.in_flight)
            await driver.press("end")
        await driver.sees("of 75 among 150 loaded")


async def test_orders_name_their_users_and_are_filtered_by_them(
    server: ContractServer, dashboards: Dashboards
) -> None:
    for name in ("Ada Lovelace", "Grace Hopper"):
        user = {
            "id": server.new_id("usr"),
            "name": name,
            "email": f"{name[:3]}@example.com",
            "role": "member",
        }
        server.users.append(user)
        server.orders.append(
            {"id": server.new_id("ord"), "user_id": user["id"], "items": [{"name": "Mug"}], "status": "open"}
        )
    async with dashboards.open() as driver:
        await driver.press("5", sees=("Ada Lovelace", "Grace Hopper"))
        await driver.press("slash")
        await driver.type("user:grace", sees="Gra@example.com")
        await driver.press("down", "enter", "enter", sees='user:"Grace Hopper"', gone="Ada Lovelace")
