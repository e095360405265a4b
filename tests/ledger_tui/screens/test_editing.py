"""If others edit an object at the same time, the form shows their changes before it overwrites them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger_tui.client.api import ApiResponse
from ledger_tui.forms.form_screen import FormScreen
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver


@pytest.fixture
def draft(server: ContractServer) -> dict[str, Any]:
    """Return a draft on a server whose invoices have ETags."""
    server.etags = True
    account = server.add_account("Till")
    record = {
        "id": server.new_id("inv"),
        "object": "invoice",
        "status": "draft",
        "account": account["id"],
        "customer": "Ada",
        "amount": 1250,
        "currency": "EUR",
        "description": "Beans",
    }
    server.invoices.append(record)
    return record


@pytest.fixture
async def editor(draft: dict[str, Any], dashboards: Dashboards) -> AsyncIterator[Driver]:
    """Open the form of the draft and type another customer."""
    async with dashboards.open() as driver:
        await driver.sees("Till")
        await driver.press("3", "slash")
        await driver.type(draft["id"], "enter", sees="○ draft")
        await driver.press("e", "tab", sees=("Edit the draft", "Beans"))
        await driver.press("home", "shift+end")
        await driver.type("Eve")
        yield driver


async def test_a_change_is_sent_with_the_etag_of_the_draft(
    server: ContractServer, draft: dict[str, Any], editor: Driver
) -> None:
    await editor.press("ctrl+s", sees=" is a draft: ")
    assert draft["customer"] == "Eve"
    assert [tag is not None for tag in server.if_match] == [True]


async def test_a_change_by_somebody_else_is_named_and_nothing_is_sent(
    server: ContractServer, draft: dict[str, Any], editor: Driver
) -> None:
    draft |= {"customer": "Grace", "amount": 1300}
    await editor.press("ctrl+s", sees=("Changed by somebody else", "Customer", "Ada → Grace", "yours: Eve"))
    await editor.sees("12.50 → 13.00")
    assert "Beans" not in editor.text(editor.app.screen.query_one("#changed"))
    await editor.press("escape", sees="Nothing was sent")
    assert isinstance(editor.app.screen, FormScreen)
    assert (draft["customer"], server.if_match) == ("Grace", [])


async def test_keeping_theirs_goes_on_with_the_other_fields_as_typed(
    server: ContractServer, draft: dict[str, Any], editor: Driver
) -> None:
    draft["description"] = "Espresso"
    await editor.press("ctrl+s", sees="Beans → Espresso")
    await editor.press("k", sees="The form now shows their values")
    assert isinstance(editor.app.screen, FormScreen)
    typed = editor.app.screen.typed()
    assert (typed["customer"], typed["description"]) == ("Eve", "Espresso")
    await editor.press("ctrl+s", sees=" is a draft: ")
    assert (draft["customer"], draft["description"]) == ("Eve", "Espresso")


async def test_overwriting_sends_the_form_as_it_is(
    server: ContractServer, draft: dict[str, Any], editor: Driver
) -> None:
    draft |= {"description": "Espresso", "customer": "Grace"}
    await editor.press("ctrl+s", sees="Beans → Espresso")
    await editor.press("o", sees=" is a draft: ")
    assert (draft["customer"], draft["description"]) == ("Eve", "Beans")
    assert [tag is not None for tag in server.if_match] == [True]


async def test_a_change_just_before_ours_is_refused_by_the_server_and_shown(
    server: ContractServer, draft: dict[str, Any], editor: Driver
) -> None:
    server.changes_first = {"customer": "Grace"}
    await editor.press("ctrl+s", sees=("Changed by somebody else", "Ada → Grace"))
    assert draft["customer"] == "Grace"
    server.changes_first = {"metadata": {"team": "north"}}  # in no field of the form
    await editor.press("o", sees="Somebody else changed the object, but none of this form's fields.")
    await editor.press("ctrl+s", sees=" is a draft: ")
    assert draft["customer"] == "Eve"
    assert len(server.if_match) == 3


async def test_the_same_change_by_somebody_else_is_no_question(
    server: ContractServer, draft: dict[str, Any], editor: Driver
) -> None:
    draft["customer"] = "Eve"
    await editor.press("ctrl+s", sees="Nothing was changed.")
    assert server.if_match == []


async def test_without_etags_a_change_by_somebody_else_is_named_too(
    server: ContractServer, draft: dict[str, Any], editor: Driver
) -> None:
    server.etags = False
    draft |= {"description": "Espresso", "customer": "Grace"}
    await editor.press("ctrl+s", sees=("Changed by somebody else", "Ada → Grace", "yours: Eve"))
    assert (draft["customer"], server.if_match) == ("Grace", [])
    await editor.press("o", sees=" is a draft: ")
    assert (draft["customer"], draft["description"]) == ("Eve", "Beans")
    assert server.if_match == [None]


async def test_a_whole_server_has_an_etag_for_the_draft_and_the_other_change_is_named(
    driver: Driver,
) -> None:
    api = driver.app.api
    account = (await api.read("/v1/accounts")).record["data"][0]["id"]
    body = {"account": account, "customer": "Ada", "amount": 1250}
    draft = (await api.write("POST", "/v1/invoices", body, None)).record
    await driver.goes_to("3")
    await driver.press("e", "tab", sees="Edit the draft")
    await driver.type("X")
    path = f"/v1/invoices/{draft['id']}"
    await api.write("PATCH", path, {"description": "Espresso"}, None)
    await driver.press("ctrl+s", sees=("Changed by somebody else", "– → Espresso"))
    await driver.press("k", sees="The form now shows their values")
    await driver.press("ctrl+s", sees=" is a draft: ")
    now = (await api.read(path)).record
    assert (now["customer"], now["description"]) == ("X", "Espresso")


async def test_a_whole_server_refuses_a_change_that_another_one_came_before(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = driver.app.api
    account = (await api.read("/v1/accounts")).record["data"][0]["id"]
    body = {"account": account, "customer": "Ada", "amount": 1250}
    path = f"/v1/invoices/{(await api.write('POST', '/v1/invoices', body, None)).record['id']}"
    call = api.call

    async def second(method: str, *arguments: Any, **named: Any) -> ApiResponse:
        if method == "PATCH":
            monkeypatch.setattr(api, "call", call)
            await call("PATCH", path, body={"customer": "Grace"})
        return await call(method, *arguments, **named)

    await driver.goes_to("3")
    await driver.press("e", "tab", sees="Edit the draft")
    await driver.type("X")
    monkeypatch.setattr(api, "call", second)
    await driver.press("ctrl+s", sees=("Changed by somebody else", "Ada → Grace", "yours: X"))
    assert (await api.read(path)).record["customer"] == "Grace"
    await driver.press("o", sees=" is a draft: ")
    assert (await api.read(path)).record["customer"] == "X"
