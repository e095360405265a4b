"""A read-only dashboard offers no change, and can send none."""

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.client.api import Api
from ledger_tui.client.errors import ReadOnly
from ledger_tui.client.session import Session
from ledger_tui.client.traffic import Traffic
from ledger_tui.resources.registry import RESOURCES
from ledger_tui.settings.config import Options
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
async def test_a_change_is_not_sent_by_the_client(server: ContractServer, method: str) -> None:
    api = Api(Session(read_only=True), Traffic())
    await api.open(server.url, server.key)
    with pytest.raises(ReadOnly, match="nothing was sent"):
        await api.write(method, "/v1/accounts", {"name": "A", "currency": "EUR"}, "k")
    assert (await api.read("/v1/accounts")).status == 200
    await api.close()
    assert [sent for sent, _path, _args in server.requests] == ["GET"]


async def test_no_form_and_no_action_is_offered(server: ContractServer, dashboards: Dashboards) -> None:
    server.add_account("Till")
    async with dashboards.open(read_only=True) as driver:
        await driver.sees("read-only", "Till")
        for key in "n", "2", "n", "3", "n", "4", "n", "5", "n":
            await driver.press(key)
            assert driver.app.screen is driver.app.dashboard
        await driver.press("2", sees="No transactions here.")
        assert "Press n" not in driver.text()
        await driver.press("1")
        offered = {
            binding.binding.action
            for binding in driver.app.screen.active_bindings.values()
            if binding.enabled
        }
        changing = {f"act('{action.name}')" for resource in RESOURCES for action in resource.actions}
        assert not offered & {"create", "edit", *changing}
    assert {method for method, _path, _args in server.requests} == {"GET"}


async def test_the_palette_offers_none_either(server: ContractServer, dashboards: Dashboards) -> None:
    server.add_account("Till")
    async with dashboards.open(read_only=True) as driver:
        await driver.press("ctrl+p")
        await driver.type("new")
        await driver.pilot.pause()
        assert "  New  " not in driver.text()


@pytest.mark.parametrize("keys", [["n"], ["2", "n"], ["colon", *"clock freeze", "enter"]])
async def test_a_key_or_a_command_that_changes_something_says_why_it_does_not(
    server: ContractServer, dashboards: Dashboards, keys: list[str]
) -> None:
    server.add_account("Till")
    async with dashboards.open(read_only=True) as driver:
        await driver.press(*keys, sees="Read-only: this dashboard changes nothing.")


async def test_a_key_without_the_scope_says_so(driver: Driver) -> None:
    body = {"name": "reader", "role": "member", "scopes": ["read:projects"]}
    made = await driver.app.api.write("POST", "/v1/api_keys", body, "k")
    app = LedgerApp(Options(url=driver.app.session.url, key=str(made.record["key"])))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        reader = Driver(app, pilot)
        await reader.sees("Till", "online  read-only")
        await reader.press("n", sees="Read-only: this credential lacks write:projects.")
        assert app.screen is app.dashboard


async def test_an_exchange_of_the_key_is_not_possible(server: ContractServer, dashboards: Dashboards) -> None:
    async with dashboards.open(read_only=True) as driver:
        await driver.press("6", sees="Every request sends the API key itself.")
        await driver.press("n", sees="Read-only: this dashboard changes nothing.")
    assert {method for method, _path, _args in server.requests} == {"GET"}
