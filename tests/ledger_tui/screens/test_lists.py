"""Reading: lists, cursor, filter, detail, links, on a server with the bare contract."""

from collections.abc import AsyncIterator

import pytest

from ledger_tui.client.records import ListPage
from ledger_tui.lists.detail_pane import DetailPane
from ledger_tui.lists.filter_bar import FilterBar
from tests.ledger_tui.cheap_textual import strips_on_screen
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until

SIZES = [(80, 24), (120, 40)]


def fill(server: ContractServer, transactions: int = 350) -> None:
    accounts = [
        server.add_account("Beans, Berlin", "EUR", 123450),
        server.add_account("Tokyo shop", "JPY", 1234),
        server.add_account("Kuwait branch", "KWD", -1500),
    ]
    for number in range(transactions):
        server.post(
            accounts[number % 3], 1000 + number, "debit" if number % 2 else "credit", f"sale {number}"
        )


@pytest.fixture
async def filled(server: ContractServer, dashboards: Dashboards) -> AsyncIterator[Driver]:
    fill(server)
    async with dashboards.open() as opened:
        yield opened


@pytest.mark.parametrize("size", SIZES)
async def test_accounts_show_their_balances_with_their_decimals(
    server: ContractServer, dashboards: Dashboards, size: tuple[int, int]
) -> None:
    fill(server, 0)
    async with dashboards.open(size) as driver:
        await driver.sees("Beans, Berlin", "1,234.50  EUR", "1,234  JPY", "−1.500  KWD", "1–3 of 3")


@pytest.mark.parametrize("size", SIZES)
async def test_mode_and_connection_are_always_visible(
    server: ContractServer, dashboards: Dashboards, size: tuple[int, int]
) -> None:
    fill(server)
    async with dashboards.open(size) as driver:
        for keys in ([], ["2"], ["slash"], ["escape", "enter"], ["n"], ["escape", "question_mark"]):
            await driver.press(*keys, sees=(" TEST ", "● online", "5,999/6,000 req/min"))


async def test_live_mode_is_another_word_and_another_look(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.key = "sk_live_0123456789abcdefghijklmnopqrstuv"
    async with dashboards.open() as driver:
        await driver.sees("◆ LIVE")
        assert " TEST " not in driver.text()
        assert driver.app.dashboard.has_class("-live")


async def test_a_transaction_shows_its_accounts_name_and_currency(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 6)
    async with dashboards.open() as driver:
        await driver.press("2")
        await driver.sees(
            "▼ debit", "−1.005  KWD  Kuwait br", "▲ credit", "+1,004  JPY  Tokyo shop", "sale 3"
        )


async def test_the_list_is_a_window_that_loads_as_the_eye_moves_and_back(filled: Driver) -> None:
    await filled.press("2", sees="1–19 of 100+")
    while not filled.view.model.window.complete or filled.view.model.window.cursor < 349:
        await filled.press("pagedown")
    await filled.sees("332–350 of 350", "sale 0")
    await filled.press("home", sees=("1–19 of 350", "sale 349"))


async def test_new_rows_come_on_top_of_a_cursor_that_is_there(server: ContractServer, filled: Driver) -> None:
    await filled.press("2", sees="following")
    server.post(server.accounts[0], 77, description="just now")
    await filled.sees("just now", "1–19 of 101")


async def test_new_rows_are_counted_while_the_cursor_is_elsewhere_and_f_goes_to_them(
    server: ContractServer, filled: Driver
) -> None:
    await filled.press("2", sees="following")
    await filled.press("down", "down")
    held = filled.view.model.window.current
    for number in range(12):
        server.post(server.accounts[0], 77, description=f"news {number}")
    await filled.sees("▲ 12 new, f shows them")
    assert filled.view.model.window.current == held
    assert "news 11" not in filled.text()
    await filled.pilot.resize_terminal(50, 24)
    await filled.sees("▲ 12 new  ")  # the name of the key has no space
    await filled.press("f", sees=("news 11", "following"))


async def test_a_balance_that_changes_on_the_server_changes_on_the_screen(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 0)
    async with dashboards.open() as driver:
        server.post(server.accounts[0], 50)
        await driver.sees("1,235.00  EUR")


async def test_filters_run_on_the_server(server: ContractServer, filled: Driver) -> None:
    await filled.press("2", "slash")
    await filled.type("type:debit after:2026-01-01", "enter", sees=("type:debit after:2026-01-01", "▼ debit"))
    await filled.sees_no_more("▲ credit")
    assert (
        "GET",
        "/v1/transactions",
        {"type": "debit", "created_after": "2026-01-01", "limit": "100"},
    ) in (server.requests)
    await filled.press("escape", sees="▲ credit")


async def test_a_mistyped_filter_is_reported_and_nothing_is_sent(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 5)
    async with dashboards.open() as driver:
        await driver.press("2", "slash")
        await driver.type("type:creditt", "enter", sees="✕ Only credit or debit.")
        assert driver.view.query_one(FilterBar).display
        assert not any("type" in args for _method, _path, args in server.requests)


async def test_an_answer_for_the_list_before_the_filter_is_dropped(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 10)
    async with dashboards.open() as driver:
        window = driver.view.model.window
        await until(lambda: window.in_flight is None)  # a look for news may be under way
        stale = window.want_news()
        assert stale is not None
        await driver.press("r")
        await until(lambda: window.loaded and window.in_flight is None)

        driver.view.record_list.take_page(stale, ListPage([{"id": "acc_stale", "name": "stale"}], None))
        assert window.index_of("acc_stale") is None


async def detail_of_first_transaction(driver: Driver) -> None:
    await driver.press("2", sees="sale 5")
    await driver.press("down", "enter")


async def test_enter_opens_the_detail_in_place_of_the_list_where_it_is_narrow(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 6)
    async with dashboards.open((80, 24)) as driver:
        await detail_of_first_transaction(driver)
        await driver.sees("description   sale 4", "→ Its account", "2 of 6")
        assert "sale 5" not in driver.text()
        await driver.press("escape", sees="sale 5")
        assert driver.view.model.window.current == server.transactions[4]


async def test_the_detail_stands_beside_the_list_where_it_is_wide(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 6)
    async with dashboards.open((120, 40)) as driver:
        await driver.press("2", sees=("sale 5", "description   sale 5"))
        await driver.press("down", sees=("sale 5", "description   sale 4"))


async def test_a_link_leads_to_the_other_object_and_escape_leads_back(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 6)
    async with dashboards.open() as driver:
        await detail_of_first_transaction(driver)
        await driver.sees("→ Its account")
        await driver.press("enter", sees=("→ Its transactions", "Tokyo shop"))
        await driver.press("enter", sees=('account:"Tokyo shop"', "sale 1"))
        await driver.press("escape", sees="→ Its transactions")
        assert driver.view.resource.kind == "accounts"


async def test_an_object_whose_row_is_not_at_hand_is_fetched_by_its_id(
    server: ContractServer, dashboards: Dashboards
) -> None:
    first = server.add_account("The very first", "CHF", 100)
    for number in range(300):
        server.add_account(f"Account {number}")
    async with dashboards.open() as driver:
        await driver.press("slash")
        await driver.type(str(first["id"]), "enter", sees=("The very first", "1.00 CHF"))
        assert driver.view.query_one(DetailPane).display
        await driver.press("escape", sees="Account 299")


async def test_an_unknown_id_is_reported(server: ContractServer, dashboards: Dashboards) -> None:
    fill(server, 0)
    async with dashboards.open() as driver:
        await driver.press("slash")
        await driver.type("acc_nobody", "enter", sees="There is no such account.")


async def test_an_empty_ledger_says_what_to_do(bare: Driver) -> None:
    await bare.sees("No accounts yet. Press n to create the first.")


async def test_y_copies_the_id_and_c_a_curl_command(server: ContractServer, dashboards: Dashboards) -> None:
    fill(server, 0)
    async with dashboards.open() as driver:
        await driver.press("y")
        assert driver.app.clipboard == server.accounts[-1]["id"]
        await driver.press("c")
        assert driver.app.clipboard.startswith(f"curl {server.url}/v1/accounts ")
        assert server.key not in driver.app.clipboard


async def test_help_lists_the_keys(server: ContractServer, dashboards: Dashboards) -> None:
    fill(server, 0)
    async with dashboards.open((80, 40)) as driver:
        await driver.press("question_mark")
        await driver.sees("copy as curl", "refresh", "the screens", "page down", "^p  palette")
        await driver.press("escape", gone="copy as curl")


@pytest.mark.parametrize("size", SIZES)
async def test_at_most_twelve_keys_are_in_the_bar(
    server: ContractServer, dashboards: Dashboards, size: tuple[int, int]
) -> None:
    fill(server)
    async with dashboards.open(size) as driver:
        for keys in ([], ["2"], ["enter"], ["escape", "slash"]):
            await driver.press(*keys)
            bar = driver.text().splitlines()[-1]
            assert 1 <= len(bar.split("   ")) <= 12 + bar.count("    ") * 40
            assert len([part for part in bar.strip().split("   ") if part.strip()]) <= 12


HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202e[@click=app.quit]x[/] [bold]"


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_text_is_drawn_literally_everywhere(
    server: ContractServer, dashboards: Dashboards, size: tuple[int, int]
) -> None:
    account = server.add_account(HOSTILE, "EUR")
    account["metadata"] = {HOSTILE: HOSTILE}
    server.post(account, 100, description=HOSTILE)
    async with dashboards.open(size) as driver:
        await driver.sees("␛]52;c;aGk=␇")
        await driver.press("enter", sees=("[@click=app.quit]x[/]", "[bold]", "metadata"))
        await driver.press("escape", "2", sees="␛]52;c;aGk=␇")
        await driver.press("enter", sees="description   ␛]52;c;aGk=␇")
        await driver.press("escape")
        await driver.lists_only(account)
        await driver.press("n", sees=("␛]52;c;aGk=␇", "Post a transaction"))
        raw = "".join(segment.text for strip in strips_on_screen(driver.app) for segment in strip)
        assert not set(raw) & {"\x1b", "\x07", "\x9b", "\u202e"}


async def test_a_mouse_click_puts_the_cursor_on_a_row(server: ContractServer, dashboards: Dashboards) -> None:
    fill(server, 0)
    async with dashboards.open() as driver:
        await driver.pilot.click("PagedTable", offset=(10, 2))
        assert driver.view.model.window.cursor == 2


@pytest.mark.parametrize("key", ["ctrl+p", "colon"])
async def test_the_palette_is_the_command_line_and_finds_screens_and_actions_by_other_words_too(
    server: ContractServer, dashboards: Dashboards, key: str
) -> None:
    fill(server, 6)
    async with dashboards.open() as driver:
        await driver.press(key)
        await driver.sees("Filter", "tab complete")  # what has a key here, before anything is typed
        await driver.type("transact", "enter", sees="sale 5")
        for typed, offered in (
            ("revoke", "api_keys"),
            ("refund", "Reverse"),
            ("xyz", "Nothing found. Try"),
        ):
            await driver.press(key)
            await driver.type(typed, sees=offered)
            await driver.press("escape")
        await driver.press(key)
        await driver.type("refund", "enter", sees="Reverse the transaction, ")


async def test_the_balance_after_a_transaction_has_its_currency(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Kuwait branch", "KWD"), 1500)["balance_after"] = 1500
    async with dashboards.open() as driver:
        await driver.press("2", sees="Kuwait br")
        await driver.press("enter", sees="balance after 1.500 KWD")


async def test_orders_show_the_names_of_users(server: ContractServer, dashboards: Dashboards) -> None:
    server.users.append({"id": "usr_1", "name": "Ada", "email": "ada@example.com", "role": "member"})
    server.orders.append({"id": "ord_1", "user_id": "usr_1", "status": "open", "items": []})
    async with dashboards.open() as driver:
        await driver.press("5", sees="Ada", gone="usr_1")
