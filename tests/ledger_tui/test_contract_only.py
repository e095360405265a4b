"""The whole dashboard on a server that has interface.md's endpoints and nothing more.

On every screen and with every key, a sentence replaces a part that the server lacks, nothing ends in a
traceback, and every offered part works.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual.binding import Binding

from ledger_tui.resources.base import Place
from ledger_tui.resources.registry import PLACES
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.driving import Driver, until

pytestmark = pytest.mark.dashboard

SIZES = [(80, 24), (120, 40)]
LEAVES = {"app.quit", "app.suspend_process"}

# The sentence on each screen for a part that the server lacks.
SENTENCES = {
    "accounts": ["Till", "1.00  EUR"],
    "transactions": ["▲ credit", "+1.00  EUR"],
    "invoices": ["This server has no list of invoices; / opens one by its id."],
    "users": ["Ada", "member"],
    "orders": ["○ open", "1"],
    "token": [f"sk_test_…{KEY[-4:]}", "does not describe credentials", "probably enterprise"],
    "events": ["This server shows no events."],
    "requests": ["This server keeps no request log; these are", "✓ 200   GET     /api/orders"],
    "api_keys": ["This server does not show its API keys"],
    "overview": [
        "EUR  1.00",
        "1 account",
        "This server has no",
        "This server shows no webhook deliveries.",
        "this dashboard's own",
        "postings: this server shows no events",
        "counting…",
    ],
}


def fill(server: ContractServer) -> None:
    account = server.add_account("Till")
    server.post(account, 100)
    server.users.append({"id": "usr_1", "name": "Ada", "email": "ada@example.com", "role": "member"})
    server.orders.append({"id": "ord_1", "user_id": "usr_1", "items": [{"name": "Beans"}], "status": "open"})


@pytest.fixture
async def filled(server: ContractServer, dashboards: Dashboards) -> AsyncIterator[Driver]:
    fill(server)
    async with dashboards.open() as opened:
        yield opened


def assert_sound(driver: Driver) -> None:
    """No worker failed, because its fault would be shown as unexpected."""
    assert driver.app.is_running
    shown = driver.text()
    assert "unexpected" not in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("size", SIZES)
async def test_each_screen_shows_what_there_is_and_says_what_is_not(
    server: ContractServer, dashboards: Dashboards, size: tuple[int, int]
) -> None:
    fill(server)
    async with dashboards.open(size) as driver:
        for place in PLACES:
            await driver.press(place.key)
            await driver.sees(*SENTENCES[place.kind])
            assert_sound(driver)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind)
async def test_no_key_of_any_screen_leads_to_a_fault(
    server: ContractServer, dashboards: Dashboards, place: Place
) -> None:
    fill(server)
    key = place.key
    async with dashboards.open() as driver:
        await driver.press(key)
        await driver.rests()
        for pressed in keys_of(driver):
            await driver.press(pressed)
            assert_sound(driver)
            # Back to where it began, whatever the key opened.
            while len(driver.app.screen_stack) > 1:
                await driver.press("escape")
            await driver.burst("escape", key)
        await driver.rests()
        assert_sound(driver)


def keys_of(driver: Driver) -> list[str]:
    """Return a key of every action that has one at the focus, also of the disabled ones."""
    found: dict[str, str] = {}
    for _node, binding, _enabled, _tip in driver.app.screen.active_bindings.values():
        assert isinstance(binding, Binding)
        # The number keys are pressed on the way here, from every screen.
        if binding.id and binding.action not in LEAVES and not binding.action.startswith("show"):
            found.setdefault(binding.action, binding.key)
    assert len(found) > 6
    return [*found.values()]


async def test_an_invoice_is_drafted_edited_and_met_again_without_a_list(
    server: ContractServer, filled: Driver
) -> None:
    await until(lambda: filled.app.names.search("till"))
    await filled.press("3", sees="This server has no list of invoices")
    await filled.press("n", sees="New invoice")
    await filled.type("till", "enter")
    await filled.type("Ada", "tab")
    await filled.type(
        "12.50", "ctrl+s", sees=("The invoice for Ada is a draft: 12.50 EUR", "○ draft", "12.50  EUR  Ada")
    )
    await filled.press("e", sees="Edit the draft")
    await filled.press("tab", "home", "shift+end")
    await filled.type("Grace", "ctrl+s", sees=("The invoice for Grace is a draft", "Grace"))
    assert server.invoices[0]["customer"] == "Grace"
    # Finalizing it goes beyond the interface.
    await filled.press("F", "y", sees="Could not finalize: this server does not offer the action")
    assert_sound(filled)


async def test_an_open_invoice_is_opened_by_its_id_and_voided(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server)
    server.invoices.append({"id": "inv_1", "status": "open", "customer": "Ada", "amount": 1250})
    async with dashboards.open() as driver:
        await driver.press("3", "slash")
        await driver.type("inv_1", "enter", sees=("[◐ open]", "Ada"))
        await driver.press("v", "y", sees=(" is void", "[✕ void]"))
        assert server.invoices[0]["status"] == "void"


async def test_tokens_are_exchanged_and_rotated(filled: Driver) -> None:
    await filled.press("6", "n", sees="renews itself in")
    await filled.press("L", sees="rotated       once")


async def test_a_user_is_created_and_deactivated_and_an_order_placed(
    server: ContractServer, filled: Driver
) -> None:
    await filled.press("4", "n", sees="New user")
    await filled.type("Grace", "tab")
    await filled.type("grace@example.com", "ctrl+s", sees=("User Grace ", "grace@example.com"))
    await filled.press("X", "y", sees="User Grace is deactivated")
    await filled.press("5", sees="○ open")
    await filled.press("n", sees="Place an order")
    await until(lambda: filled.app.names.users.search("ada"))
    await filled.type("ada@", sees="⏎ choose")
    await filled.press("enter")
    await filled.type("2 x Beans", "ctrl+s", sees="The order of ")
    assert server.orders[-1]["user_id"] == "usr_1"
    assert server.orders[-1]["items"] == [{"name": "Beans", "quantity": 2}]


async def test_postings_without_a_time_are_counted_as_they_are_seen(
    server: ContractServer, filled: Driver
) -> None:
    await filled.press("0", sees="counting…")
    server.post(server.accounts[0], 50)
    await filled.sees("EUR  1.50", "1 account")
    assert_sound(filled)


async def test_a_missing_part_is_not_asked_for_again_and_again(
    server: ContractServer, filled: Driver
) -> None:
    for key in ("7", "9", "3"):
        await filled.press(key, sees="This server")
    view = filled.app.dashboard.view
    before = [path for _method, path, _args in server.requests].count("/v1/invoices")
    for _ in range(3):
        view.next_poll_at = 0.0
        view.tick()
    await filled.rests()
    assert [path for _method, path, _args in server.requests].count("/v1/invoices") == before
    await filled.press("r")  # but when asked to, it is
    await until(lambda: [path for _method, path, _args in server.requests].count("/v1/invoices") > before)
