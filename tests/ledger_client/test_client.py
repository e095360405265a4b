"""The client against a real server: what it makes, repeats, refuses and follows; both forms of it."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import hmac
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ledger_client import AsyncLedger, Ledger, LedgerError, aio, errors, records, webhooks
from ledger_client.calls import ATTEMPTS, Call
from ledger_engine.http.app import RESOURCES
from ledger_engine.http.errors import CODES
from ledger_engine.http.openapi.documentation import document
from tests.contract.conftest import Server, start_server, stop_server
from tests.contract.conftest import ledger_engine as command
from tests.ledger_engine.waiting import wait_until
from tests.locations import place_of_its_own

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start_server(place_of_its_own(kind, tmp_path_factory.mktemp("client"), "client"))
    yield running
    stop_server(running)


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    words = ("keys", "create", "--mode", "test", "--role", "owner")
    return str(command(*words, database=server.database)["key"])


@pytest.fixture
def ledger(server: Server, key: str) -> Iterator[Ledger]:
    with Ledger(server.url, key) as ledger:
        yield ledger


def test_a_story_of_everything(ledger: Ledger) -> None:
    till = ledger.accounts.create("Till", "EUR", metadata={"place": "hall"})
    safe = ledger.accounts.create("Safe", "EUR")
    sale = ledger.transactions.post(till.id, 1250, "credit", description="Two flat whites")
    assert (sale.amount, sale.balance_after, sale.created.tzinfo) == (1250, 1250, UTC)
    moved = ledger.transactions.post(till.id, 250, "debit", destination=safe.id)
    assert ledger.transactions.reverse(moved.id).reverses == moved.id
    batch = [{"account": safe.id, "amount": 1, "type": "credit"}] * 3
    assert len(ledger.transactions.batch(batch)) == 3
    assert ledger.accounts.get(till.id, at=sale.created).balance == 1250
    assert ledger.accounts.balance(safe.id).balance == 3
    invoice = ledger.invoices.create(till.id, "Café", amount=700, description="d")
    assert ledger.invoices.change(invoice.id, description=None).description is None
    assert ledger.invoices.finalize(invoice.id).number == "INV-000001"
    assert ledger.invoices.pay(invoice.id).status == "paid"
    assert [each.id for each in ledger.invoices.list(status="paid")] == [invoice.id]
    user = ledger.users.create("Ada", "ada@example.com")
    order = ledger.orders.create(user.id, [{"quantity": 2, "unit_amount": 5}])
    assert ledger.orders.ship(ledger.orders.pay(order.id).id).status == "shipped"
    assert ledger.users.deactivate(user.id).status == "deactivated"
    assert ledger.users.restore(user.id).status == "active"
    endpoint = ledger.webhook_endpoints.create("http://127.0.0.1:9/hook")
    assert endpoint.secret is not None
    assert ledger.webhook_endpoints.get(endpoint.id).secret is None
    assert ledger.webhook_endpoints.delete(endpoint.id).id == endpoint.id
    project = ledger.projects.create("Branch")
    assert project.api_key is not None
    assert ledger.projects.archive(project.id).archived_at is not None
    assert {each.kind for each in ledger.diff(till.created, datetime.now(UTC))} >= {"account", "invoice"}
    assert ledger.events.get(next(iter(ledger.events.list(object=order.id))).id).type == "order.shipped"
    wait_until(lambda: [*ledger.requests.list(method="PATCH")] != [])  # they are logged a moment later
    assert ledger.requests.get(next(iter(ledger.requests.list(method="PATCH"))).id).method == "PATCH"


def test_lists_go_on_over_their_pages(ledger: Ledger) -> None:
    till = ledger.accounts.create("Many", "EUR")
    ledger.transactions.batch([{"account": till.id, "amount": n + 1, "type": "credit"} for n in range(230)])
    amounts = [each.amount for each in ledger.transactions.list(account=till.id)]
    assert amounts == [*range(230, 0, -1)]
    for number in range(101):
        ledger.users.create("U", f"u{number}@example.com")
    assert len([*ledger.users.list()]) > 101


def test_tokens_are_made_and_refreshed(server: Server, key: str) -> None:
    with Ledger(server.url) as anyone:
        pair = anyone.tokens.create(key)
        assert pair.refresh_token is not None
        fresh = anyone.tokens.refresh(pair.refresh_token)
    with Ledger(server.url, fresh.access_token) as ledger:
        assert ledger.accounts.create("By token", "EUR").balance == 0


def test_a_refusal_is_an_exception_of_its_type(ledger: Ledger, server: Server) -> None:
    with pytest.raises(errors.NotFound) as missing:
        ledger.accounts.get("acc_none")
    error = missing.value
    assert (error.status, error.type, error.code) == (404, "not_found", "not_found")
    assert error.request_id is not None
    with pytest.raises(errors.InvalidRequest) as wrong:
        ledger.accounts.create("Till", "nope")
    assert (wrong.value.code, wrong.value.param) == ("invalid_value", "currency")
    with pytest.raises(errors.NotFound) as missing:
        ledger.users.get("usr_none")
    assert missing.value.code == "not_found"
    with pytest.raises(errors.InvalidRequest):
        ledger.tokens.exchange_code(code="x", code_verifier="v" * 43)
    with Ledger(server.url, "sk_test_" + "x" * 32) as stranger, pytest.raises(errors.AuthenticationError):
        next(iter(stranger.accounts.list()))
    with Ledger("http://127.0.0.1:1") as nobody, pytest.raises(errors.NotConnected):
        nobody.tokens.create("sk_test_")


async def test_the_asynchronous_client_does_the_same(server: Server, key: str) -> None:
    async with AsyncLedger(server.url, key) as ledger:
        till = await ledger.accounts.create("Till", "KWD")
        stream = ledger.events.stream()
        following = asyncio.create_task(anext(stream))
        posted = None
        while not following.done():  # the first event after the connection is there
            posted = await ledger.transactions.post(till.id, 5, "credit")
            await asyncio.wait({following}, timeout=0.2)
        assert posted is not None
        event = following.result()
        assert (event.type, event.data["object"]["account"]) == ("transaction.created", till.id)
        await stream.aclose()
        assert till.id in [each.id async for each in ledger.accounts.list()]


class Flaky(BaseHTTPRequestHandler):
    """A server in front of another, whose first answers are lost, or refused."""

    protocol_version = "HTTP/1.1"
    target: tuple[str, int]
    faults: list[str]
    keys: list[str | None]

    def do_POST(self) -> None:  # the name that the base class calls
        import http.client

        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.keys.append(self.headers["Idempotency-Key"])
        fault = self.faults.pop(0) if self.faults else ""
        if fault in ("429", "503"):
            self.send_response(int(fault))
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        onward = http.client.HTTPConnection(*self.target)
        kept = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        onward.request(self.command, self.path, body, kept)
        answer = onward.getresponse()
        content = answer.read()
        if fault == "lost":
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name in ("Content-Type", "Idempotency-Original"):
            if answer.headers[name] is not None:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def flaky(server: Server) -> Iterator[tuple[str, type[Flaky]]]:
    own = {"target": ("127.0.0.1", server.port), "faults": [], "keys": [], "do_GET": Flaky.do_POST}
    handler = type("Handler", (Flaky,), own)
    with HTTPServer(("127.0.0.1", 0), handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{proxy.server_port}", handler
        proxy.shutdown()
        thread.join()


@pytest.mark.parametrize("fault", ["lost", "429", "503"])
def test_a_post_whose_answer_is_lost_or_refused_is_repeated_and_happens_once(
    flaky: tuple[str, type[Flaky]], key: str, ledger: Ledger, fault: str
) -> None:
    url, handler = flaky
    till = ledger.accounts.create("Once", "EUR")
    handler.faults += [fault, fault]
    with Ledger(url, key) as through:
        posted = through.transactions.post(till.id, 5, "credit")
    assert len(handler.keys) >= 3
    assert len(set(handler.keys[:3])) == 1
    assert [each.id for each in ledger.transactions.list(account=till.id)] == [posted.id]
    assert posted.balance_after == 5


def test_a_key_that_was_used_for_something_else_is_a_conflict(ledger: Ledger) -> None:
    first = ledger.accounts.create("Till", "EUR", key="sale-1")
    with pytest.raises(errors.Conflict) as refused:
        ledger.accounts.create("Other", "EUR", key="sale-1")
    assert (refused.value.original, refused.value.same_request) == (first.id, False)
    with pytest.raises(errors.Conflict):  # used by somebody before, not by an attempt of this call
        ledger.accounts.create("Till", "EUR", key="sale-1")


def test_what_may_not_be_repeated_is_not() -> None:
    import httpx

    lost = httpx.ReadError("cut")
    assert Call("DELETE", "/v1/invoices/x", attempts=1).wait_after(lost) is None
    assert Call("POST", "/v1/auth/token", keyed=False, attempts=1).wait_after(lost) is None
    assert Call("DELETE", "/x", attempts=1).wait_after(httpx.Response(429)) is not None
    assert Call("GET", "/x", attempts=ATTEMPTS).wait_after(lost) is None
    far = httpx.Response(429, headers={"Retry-After": "3600"})
    assert Call("GET", "/x", attempts=1).wait_after(far) is None


def test_a_signed_webhook_is_verified_and_any_other_refused() -> None:
    from ledger_engine.events.webhooks import signatures

    secret, body = "whsec_dGVzdHRlc3R0ZXN0", b'{"id":"evt_1"}'
    headers = dict(signatures.signed_headers(secret, None, "evt_1", int(time.time()), body))
    webhooks.verify(body, headers, secret)
    plain = {"ledger-signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}
    webhooks.verify(body, plain, secret)
    old = dict(signatures.signed_headers(secret, None, "evt_1", int(time.time()) - 301, body))
    for wrong_body, given in ((b"{}", headers), (b"{}", plain), (body, {}), (body, old)):
        with pytest.raises(webhooks.NotSigned):
            webhooks.verify(wrong_body, given, secret)
    rolled = dict(signatures.signed_headers("whsec_bmV3", secret, "evt_1", int(time.time()), body))
    webhooks.verify(body, rolled, secret)


def test_a_record_keeps_what_its_class_does_not_have() -> None:
    shown = {"balance": 1, "currency": "EUR", "at": "2026-11-20T00:00:00Z", "later": 2}
    balance = records.read(records.Balance, shown)
    assert (balance.at, balance.more) == (datetime(2026, 11, 20, tzinfo=UTC), {"later": 2})


def test_the_synchronous_client_is_made_from_the_other() -> None:
    from tools.sync_client import FOLDER, synchronous

    made = synchronous((FOLDER / "aio.py").read_text(encoding="utf-8"))
    assert made == (FOLDER / "sync.py").read_text(encoding="utf-8")


# Operations that the client does not have: pages, the administration of keys and plans, and what others read.
LEFT_OUT = {
    "get_health", "get_readiness", "get_statement", "list_related_transactions", "list_orders_of_user",
    "whoami",
    "revoke_oauth_token", "list_api_keys", "create_api_key", "revoke_api_key", "roll_api_key", "get_billing",
    "change_billing", "disable_webhook_endpoint", "enable_webhook_endpoint", "list_deliveries",
    "list_event_deliveries", "resend_failed", "list_request_events", "get_checkpoint", "get_tile",
    "get_event_proof", "get_transaction_proof", "authorize", "get_oauth_metadata",
}  # fmt: skip


def test_the_client_has_the_operations_of_the_document() -> None:
    text = (ROOT / "src/ledger_client/aio.py").read_text(encoding="utf-8")
    paths = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            paths.add("".join(v.value if isinstance(v, ast.Constant) else "{id}" for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            paths.add(node.value)
    described = document(RESOURCES)["paths"]
    known = {op["operationId"]: path for path, ops in described.items() for op in ops.values()}
    assert {name for name, path in known.items() if path not in paths} <= LEFT_OUT
    assert known.keys() >= LEFT_OUT
    named = {path for path in paths if path.startswith(("/v1/", "/api/")) and not path.endswith("/")}
    assert named - {"/v1/events/stream"} <= set(described)


KINDS = {
    "Account": records.Account,
    "Balance": records.Balance,
    "Transaction": records.Transaction,
    "Invoice": records.Invoice,
    "User": records.User,
    "Order": records.Order,
    "Event": records.Event,
    "EndpointWithSecret": records.WebhookEndpoint,
    "ProjectWithKey": records.Project,
    "TokenPair": records.TokenPair,
    "Change": records.Change,
}


@pytest.mark.parametrize("name", KINDS)
def test_a_record_has_the_fields_of_the_document(name: str) -> None:
    schemas = document(RESOURCES)["components"]["schemas"]
    if name == "Change":
        described = schemas["Difference"]["properties"]["data"]["items"]
        described = schemas[described["$ref"].split("/")[-1]] if "$ref" in described else described
    else:
        described = schemas[name]
    assert {each.name for each in fields(KINDS[name])} - {"more"} == set(described["properties"]) - {"object"}


def test_each_type_of_error_has_its_class() -> None:
    assert {type for type, _ in CODES.values()} | {"rate_limited"} == errors.TYPES.keys()
    assert all(issubclass(each, LedgerError) for each in errors.TYPES.values())


def test_both_programs_start_without_the_client() -> None:
    text = "import sys, ledger_client; sys.exit('httpx' in sys.modules or 'ledger_client.aio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0


def test_every_public_method_says_what_it_does() -> None:
    silent: list[Any] = [
        (name, method)
        for name, kind in inspect.getmembers(aio, inspect.isclass)
        if kind.__module__ == aio.__name__
        for method, value in vars(kind).items()
        if inspect.isfunction(value) and not method.startswith("_") and not value.__doc__
    ]
    assert silent == []
