"""Links between objects that do not name each other: found when they are followed."""

from __future__ import annotations

from typing import Any

from textual.widgets import OptionList

from ledger_tui.lists.resource_view import ResourceView
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def send(driver: Driver, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
    return (await driver.app.api.write("POST", path, body, None)).record


async def follow(driver: Driver, label: str) -> None:
    """Follow the link with this label in the open detail."""
    links = driver.view.query_one("#links", OptionList)
    await until(lambda: label in labels(links), f"the link {label!r}")
    # What is read beyond the record makes the detail longer, and a link out of view is only scrolled to.
    await driver.rests()
    await driver.pilot.pause(0)
    # Key by key: what is read beyond the record may add links and move the highlight meanwhile.
    while (at := labels(links).index(label)) != (highlighted := links.highlighted or 0):
        await driver.press("down" if at > highlighted else "up")
    driver.view.detail._bring_into_view(at)
    await driver.press("enter")


def labels(links: OptionList) -> list[str]:
    return [str(links.get_option_at_index(at).prompt).removeprefix("→ ") for at in range(links.option_count)]


def shown(driver: Driver) -> tuple[str, str]:
    """Return the kind and the id of the object on the screen."""
    view = driver.app.dashboard.view
    assert isinstance(view, ResourceView)
    return view.resource.kind, str((view.selected or {}).get("id"))


async def test_an_account_leads_to_its_invoices_statement_event_and_request(driver: Driver) -> None:
    account = str((driver.view.selected or {})["id"])
    await send(driver, "/v1/invoices", {"account": account, "customer": "Ada", "amount": 5})
    await driver.press("enter")
    for label, seen in (
        ("Its invoices", "account:Till"),
        ("Its statement", "Opening balance"),
        ("Newest event", "account.created"),
        ("Request of the last change", "POST /v1/accounts"),
    ):
        await follow(driver, label)
        await driver.sees(seen)
        await driver.press("escape")
        await until(lambda: shown(driver) == ("accounts", account), "the account")


async def test_a_transaction_leads_to_its_other_side_and_once_it_is_reversed_to_its_reversal(
    driver: Driver,
) -> None:
    till = str((driver.view.selected or {})["id"])
    safe = (await send(driver, "/v1/accounts", {"name": "Safe", "currency": "EUR"}))["id"]
    body = {"account": till, "amount": 5, "type": "debit", "destination": safe}
    moved = (await send(driver, "/v1/transactions", body))["id"]
    await driver.app.dashboard.navigation.open_object(moved)
    await until(lambda: shown(driver) == ("transactions", moved))
    await follow(driver, "Its other side")
    await driver.sees("Its other account", "▲ credit")
    await driver.press("escape")
    await driver.rests()
    assert "Its reversal" not in labels(driver.view.query_one("#links", OptionList))
    undone = (await send(driver, f"/v1/transactions/{moved}/reverse"))["id"]
    await driver.press("escape")
    await driver.app.dashboard.navigation.open_object(moved)
    await follow(driver, "Its reversal")
    await until(lambda: shown(driver) == ("transactions", undone))
    await follow(driver, "What it reverses")
    await until(lambda: shown(driver) == ("transactions", moved))


async def test_a_request_leads_to_the_object_of_its_path_and_a_user_to_their_orders(driver: Driver) -> None:
    user = (await send(driver, "/api/users", {"name": "Ada", "email": "ada@example.com"}))["id"]
    order = (await send(driver, "/api/orders", {"user_id": user, "items": [{"name": "Beans"}]}))["id"]
    await send(driver, f"/api/orders/{order}/pay")
    await driver.app.dashboard.navigation.open_object(user)
    await until(lambda: shown(driver) == ("users", user))
    await driver.sees("orders        1 ")
    links = driver.view.query_one("#links", OptionList)
    await follow(driver, next(label for label in labels(links) if label.startswith("Order of")))
    await until(lambda: shown(driver) == ("orders", order))
    await follow(driver, "Request of the last change")
    await driver.sees(f"POST /api/orders/{order}/pay")
    await follow(driver, "Order in the path")
    await until(lambda: shown(driver) == ("orders", order))


async def test_an_event_leads_to_each_of_its_deliveries(driver: Driver) -> None:
    await send(driver, "/v1/webhook_endpoints", {"url": "http://127.0.0.1:9/hooks"})
    await send(driver, "/v1/accounts", {"name": "Safe", "currency": "EUR"})
    await driver.press("7", sees="0/1")
    await driver.press("enter")
    await follow(driver, "Delivery to http://127.0.0.1:9/hooks")
    await until(lambda: shown(driver)[0] == "deliveries")
    await driver.press("home", sees=("Connection refused", "endpoint:…"))
    await driver.press("escape")
    await until(lambda: shown(driver)[0] == "events", "the event")


async def test_the_ids_of_the_credential_are_offered(driver: Driver) -> None:
    await driver.press("6", sees=("key_", "prj_"))
    await driver.press("i", sees=("Jump to", "project  prj_", "no screen: ⏎ copies it"))


async def test_a_server_with_the_contract_alone_has_no_link_to_events_once_it_has_refused_one(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Beans")
    async with dashboards.open() as driver:
        await driver.press("enter")
        await follow(driver, "Newest event")
        await driver.sees("Newest event: ")
        assert shown(driver)[0] == "accounts"
        await driver.press("escape", "enter", sees="→ Its transactions", gone="→ Newest event")
