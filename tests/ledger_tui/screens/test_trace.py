"""The trace opens from any object, event, delivery or request, and leads back."""

from __future__ import annotations

import pytest

from ledger_tui.features.trace.nodes import Node
from ledger_tui.features.trace.reading import REQUESTS_MAX, Trace, most_requests
from ledger_tui.features.trace.view import TraceView
from ledger_tui.ui.key_bar import KeyBar
from tests.ledger_engine.waiting import looked_until
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until

NOBODY = "http://127.0.0.1:9/hooks"  # the port of `discard`, where nobody listens


async def write(driver: Driver, method: str, path: str, body: dict[str, object] | None = None) -> str:
    """Send a change and return the id of the object."""
    answer = await driver.app.api.write(method, path, body, None)
    return str(answer.record.get("id"))


async def paid_invoice(driver: Driver) -> str:
    """Pay an invoice, with an endpoint that is sent `invoice.paid` in vain; return its id."""
    await write(driver, "POST", "/v1/webhook_endpoints", {"url": NOBODY, "events": ["invoice.paid"]})
    account = (await driver.app.api.read("/v1/accounts")).record["data"][0]["id"]
    invoice = await write(
        driver, "POST", "/v1/invoices", {"account": account, "customer": "Ada", "amount": 4200}
    )
    await write(driver, "PATCH", f"/v1/invoices/{invoice}", {"customer": "Ada Lovelace"})
    await write(driver, "POST", f"/v1/invoices/{invoice}/finalize")
    await write(driver, "POST", f"/v1/invoices/{invoice}/pay")
    return invoice


def trace_of(driver: Driver) -> TraceView:
    view = driver.app.dashboard.view
    assert isinstance(view, TraceView)
    return view


async def traced(driver: Driver) -> TraceView:
    """Return the view of the trace once it is read."""
    view = trace_of(driver)
    await until(lambda: view.trace is not None and view.trace.complete, "the trace")
    return view


async def go_to(driver: Driver, kind: str, holds: str) -> Node:
    """Move the cursor to a node of this kind whose line holds a text, also while others come above it."""
    view = trace_of(driver)

    def is_there() -> bool:
        node = view._tree.node
        return node is not None and node.kind == kind and holds in "".join(cell.text for cell in node.line)

    await driver.press("home")
    for _ in range(2 * len(view._tree.nodes)):
        if is_there():
            break
        await driver.press("j")
    assert is_there()
    assert view._tree.node is not None
    return view._tree.node


async def test_an_invoice_is_traced_to_its_requests_changes_events_and_deliveries(driver: Driver) -> None:
    invoice = await paid_invoice(driver)
    await driver.press("3", sees="Ada Lovelace")
    await driver.press("T")
    view = await traced(driver)
    await driver.sees("status       open → paid", "✕ Connection refused", "Till         0.00 EUR → 42.00 EUR")
    shown = "\n".join("".join(cell.text for cell in node.line) for node in view._tree.nodes)
    for method, path in (("POST", ""), ("PATCH", "/inv"), ("POST", "/finalize"), ("POST", "/pay")):
        assert f"{method} /v1/invoices" in shown
        assert path in shown
    assert view.trace is not None
    assert view.trace.requests <= REQUESTS_MAX

    await driver.press("y")
    assert driver.app.clipboard == invoice
    await go_to(driver, "request", "PATCH")
    await driver.sees("customer     Ada → Ada Lovelace")
    await go_to(driver, "event", "invoice.paid")
    await driver.press("enter", sees="sent to       http://127.0.0.1:9")
    await driver.press("escape")
    assert trace_of(driver) is view
    await go_to(driver, "object", "transaction")
    await driver.press("T")
    await until(lambda: view.trace is not None and view.trace.kind == "transactions")
    await driver.press("escape")
    await until(lambda: view.trace is not None and view.trace.record_id == invoice, "the trace before")
    await driver.press("escape", sees=("Invoices", "/ filter"))


async def test_a_trace_waits_for_the_answer_of_its_list(driver: Driver) -> None:
    invoice = await paid_invoice(driver)
    await driver.burst("3", "T")  # the list is not read yet
    view = await traced(driver)
    assert view.trace is not None
    assert view.trace.record_id == invoice
    await driver.press("escape", "slash")
    await driver.type("status:void", "enter", "T", sees="Choose an object, an event or a request first")


async def test_a_trace_leads_back_to_the_row_that_it_was_opened_from(driver: Driver) -> None:
    till = driver.app.names.search("Till")[0].id
    body: dict[str, object] = {"account": till, "amount": 1, "type": "credit", "description": "traced"}
    traced_id = await write(driver, "POST", "/v1/transactions", body)
    await driver.press("2", sees="traced")
    await driver.press("T")
    await traced(driver)
    await write(driver, "POST", "/v1/transactions", {**body, "description": "newer"})
    await driver.press("escape", sees="▲ 1 new")
    assert (driver.view.selected or {})["id"] == traced_id


async def test_a_failed_delivery_is_traced_to_its_request_and_sent_again(driver: Driver) -> None:
    await paid_invoice(driver)
    await driver.press("7", "w", sees="127.0.0.1:9")
    await driver.press("h", sees="invoice.paid")
    await driver.press("T")
    view = await traced(driver)
    await driver.sees("/pay", "✓ 200", "transaction.created")
    await go_to(driver, "delivery", "127.0.0.1:9")

    def attempts() -> int:
        assert view.trace is not None
        return sum(len(delivery["attempts"]) for delivery in view.trace.deliveries())

    attempts_before = attempts()  # on a slow machine the server may have tried again already
    await driver.press("s", sees="Sending ")
    await until(lambda: attempts() > attempts_before, "another attempt")
    await driver.press("enter", sees="attempt 2")
    await driver.press("escape")
    assert trace_of(driver) is view
    driver.turn_live()
    await go_to(driver, "delivery", "127.0.0.1:9")
    await driver.press("s")
    await until(lambda: len(driver.app.screen_stack) == 2, "the question")
    await driver.press("escape")


async def test_a_delivery_to_a_deleted_endpoint_stays_in_the_trace(driver: Driver) -> None:
    await paid_invoice(driver)
    endpoint = (await driver.app.api.read("/v1/webhook_endpoints")).record["data"][0]["id"]
    path = f"/v1/webhook_endpoints/{endpoint}/deliveries"

    async def attempts() -> list[object]:
        found = (await driver.app.api.read(path)).record["data"]
        return [attempt for delivery in found for attempt in delivery["attempts"]]

    await looked_until(attempts, bool)
    await write(driver, "DELETE", f"/v1/webhook_endpoints/{endpoint}")
    await driver.press("3", sees="Ada Lovelace")
    await driver.press("T")
    view = await traced(driver)
    await driver.sees("✕ Connection refused", endpoint)
    assert "no webhook endpoint is registered" not in driver.text()
    assert [delivery["status"] for delivery in (view.trace or Trace("", {})).deliveries()] == ["failed"]


async def test_a_request_and_a_node_of_a_trace_are_traced(driver: Driver) -> None:
    await driver.press("8", "slash")
    await driver.type("method:POST own:yes", "enter", sees="✓ 201")
    await driver.press("T")
    view = await traced(driver)
    await driver.sees("POST /v1/accounts", "account.created", "no webhook endpoint is registered")
    await driver.press("i", sees=("Jump to", "evt_", "object  acc_"))
    await driver.press("escape", "c")
    assert "/v1/requests/req_" in driver.app.clipboard
    # no delivery is under the cursor
    await driver.press("question_mark", sees=("On this object", "Not now. Only a delivery that failed"))
    await driver.press("escape", "escape")
    assert driver.app.dashboard.view is not view


async def test_a_trace_does_not_offer_the_trace_of_its_own_object(driver: Driver) -> None:
    await paid_invoice(driver)
    await driver.press("3", sees="Ada Lovelace")
    await driver.press("T")
    view = await traced(driver)
    while (view.selected or {}).get("id") != view.location.record_id:
        await driver.press("j")
    await driver.press("T", sees="You are already looking at the trace of this object.")
    assert "T trace" not in driver.app.screen.query_one(KeyBar).render().plain
    await go_to(driver, "object", "transaction")
    assert "T trace" in driver.app.screen.query_one(KeyBar).render().plain


async def test_a_server_with_the_contract_alone_says_what_it_lacks(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Beans")
    async with dashboards.open() as driver:
        await driver.press("T")
        await traced(driver)
        await driver.sees("this server shows no events", "account  Beans", "created      2026-11-20 04:31:00")
        await driver.press("enter", sees="→ Its transactions")
        await driver.press("escape", "8", sees="✕ 404   GET     /v1/requests")
        await driver.press("T", sees=("this server shows no events", "GET /v1/requests", "by this dashboard"))
        await driver.press("6", "T", sees="Choose an object, an event or a request first")


async def test_with_a_small_rate_limit_a_trace_takes_a_quarter_of_it(
    server: ContractServer, dashboards: Dashboards
) -> None:
    assert [most_requests(limit) for limit in (None, 6000, 60, 20, 8)] == [15, 15, 15, 5, 4]
    server.add_account("Beans")
    server.limit = 20
    async with dashboards.open((120, 40)) as driver:  # where the panes are wide, but not wider
        before = len(server.requests)
        await driver.press("T")
        await traced(driver)
        assert len(server.requests) - before <= 5
        await driver.sees("this server shows no events", "account  Beans", "created      2026-11-20 04:31:00")


@pytest.mark.parametrize("limit", [5])
async def test_a_part_that_a_trace_may_no_longer_read_is_named(driver: Driver, limit: int) -> None:
    await paid_invoice(driver)
    await driver.press("3", sees="Ada Lovelace")
    driver.app.session.limit = 4 * limit
    note = driver.app.session._note_limits
    driver.app.session._note_limits = lambda _headers: None  # type: ignore[method-assign]
    await driver.press("T")
    view = await traced(driver)
    assert view.trace is not None
    assert view.trace.requests == limit
    await driver.sees(f"not read: a trace sends at most {limit} requests here")
    driver.app.session._note_limits = note  # type: ignore[method-assign]
