"""The client against a real server: what it makes, repeats, refuses and follows; both forms of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ledger_client import AsyncLedger, Ledger, TokenPair, errors, records
from ledger_client.calls import ATTEMPTS, ApiCall, as_it_is
from tests.contract.conftest import Server, start_server, stop_server
from tests.contract.conftest import ledger_engine as command
from tests.ledger_engine.waiting import wait_until
from tests.locations import place_of_its_own

pytestmark = pytest.mark.process


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
    statement = ledger.accounts.statement(till.id)
    assert [line.amount for line in statement.lines] == [1250, -250, 250]
    assert statement.lines[0].date == sale.created
    assert ledger.accounts.statement_csv(till.id).startswith("date,")
    assert {each.account for each in ledger.transactions.related(moved.id)} >= {safe.id}
    invoice = ledger.invoices.create(till.id, "Café", amount=700, description="d")
    assert ledger.invoices.change(invoice.id, description=None).description is None
    assert ledger.invoices.finalize(invoice.id).number == "INV-000001"
    assert ledger.invoices.pay(invoice.id).status == "paid"
    assert [each.id for each in ledger.invoices.list(status="paid")] == [invoice.id]
    with pytest.raises(errors.Conflict) as final:
        ledger.invoices.void(invoice.id)
    assert final.value.code == "invoice_not_open"
    user = ledger.users.create("Ada", "ada@example.com")
    order = ledger.orders.create(user.id, [{"quantity": 2, "unit_amount": 5}])
    assert ledger.orders.ship(ledger.orders.pay(order.id).id).status == "shipped"
    assert [each.id for each in ledger.users.orders(user.id)] == [order.id]
    assert ledger.users.deactivate(user.id).status == "deactivated"
    assert ledger.users.restore(user.id).status == "active"
    endpoint = ledger.webhook_endpoints.create("http://127.0.0.1:9/hook")
    assert endpoint.secret is not None
    assert ledger.webhook_endpoints.get(endpoint.id).secret is None
    assert ledger.webhook_endpoints.disable(endpoint.id).status == "disabled"
    assert ledger.webhook_endpoints.enable(endpoint.id).status == "enabled"
    assert ledger.events.resend_failed(till.created, endpoint=endpoint.id).deliveries == 0
    ledger.webhook_endpoints.disable(endpoint.id)
    resent = ledger.events.resend(next(ledger.events.list(object=till.id)).id)
    assert (resent.data, [(each.endpoint, each.reason) for each in resent.skipped]) == (
        [],
        [(endpoint.id, "disabled")],
    )
    assert ledger.webhook_endpoints.delete(endpoint.id).id == endpoint.id
    project = ledger.projects.create("Branch")
    assert project.api_key is not None
    assert project.api_key.key is not None
    assert ledger.projects.change(project.id, name="Second branch").name == "Second branch"
    assert ledger.projects.archive(project.id).archived_at is not None
    assert {each.kind for each in ledger.diff(till.created, datetime.now(UTC))} >= {"account", "invoice"}
    assert ledger.diff_summary(till.created, datetime.now(UTC))["invoices"] == 1
    shipped = next(ledger.events.list(object=order.id))
    assert ledger.events.get(shipped.id).type == "order.shipped"
    assert ledger.events.deliveries(shipped.id) == []
    wait_until(lambda: [*ledger.requests.list(method="PATCH")] != [])  # they are logged a moment later
    patched = ledger.requests.get(
        next(ledger.requests.list(method="PATCH", path=f"/v1/invoices/{invoice.id}")).id
    )
    assert patched.events == [each.id for each in ledger.requests.events(patched.id)] != []


def test_a_loop_that_deletes_what_it_lists_leaves_nothing(ledger: Ledger) -> None:
    for _ in range(101):  # more than one page
        ledger.webhook_endpoints.create("http://127.0.0.1:9/hook")
    for endpoint in ledger.webhook_endpoints.list():
        ledger.webhook_endpoints.delete(endpoint.id)
    assert [*ledger.webhook_endpoints.list()] == []


def test_the_keys_the_plan_and_the_state_of_the_server(ledger: Ledger) -> None:
    made = ledger.api_keys.create("till", scopes=["read:projects"])
    assert made.key is not None
    with Ledger(f"{ledger.url}/v1/", made.key) as till:
        assert till.whoami().scopes == ["read:projects"]
        with pytest.raises(errors.PermissionDenied) as refused:
            till.accounts.create("Till", "EUR")
    assert refused.value.code == "missing_scope"
    rolled = ledger.api_keys.roll(made.id)
    assert ledger.api_keys.revoke(rolled.id).revoked_at is not None
    assert {made.id, rolled.id} <= {each.id for each in ledger.api_keys.list()}
    assert ledger.projects.billing().plan == "enterprise"
    with Ledger(ledger.url) as nobody:
        assert (nobody.health().ok, nobody.readiness()) == (True, True)
        assert nobody.tokens.metadata()["code_challenge_methods_supported"] == ["S256"]


def test_an_event_is_proven_by_the_log(ledger: Ledger) -> None:
    posted = ledger.transactions.post(ledger.accounts.create("Proof", "EUR").id, 1, "credit")
    event = next(ledger.events.list(object=posted.id))
    wait_until(lambda: _proof(ledger, event.id) != "")  # it is sealed within a second
    assert _proof(ledger, event.id).startswith("c2sp.org/tlog-proof@v1\n")
    assert ledger.transactions.proof(posted.id)
    size = int(ledger.log.checkpoint().splitlines()[1])
    assert len(ledger.log.tile(f"0/000.p/{size}")) == 32 * size


def _proof(ledger: Ledger, id: str) -> str:
    with contextlib.suppress(errors.Conflict):
        return ledger.events.proof(id)
    return ""


def test_a_path_without_a_method_is_a_request(ledger: Ledger) -> None:
    made = ledger.request("POST", "/v1/accounts", body={"name": "Till", "currency": "EUR"})
    assert (made.status, made.object["name"]) == (201, "Till")
    as_text = ledger.request("POST", "/v1/accounts", body=b'{"name": "Till", "currency": "EUR"}')
    assert as_text.headers["request-id"].startswith("req_")
    with pytest.raises(ValueError, match="aware datetime"):
        ledger.accounts.get("acc_1", at=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_request_keeps_the_query_in_its_path(ledger: Ledger) -> None:
    for number in range(2):
        ledger.accounts.create(f"Query {number}", "EUR")
    assert len(ledger.request("GET", "/v1/accounts?limit=1").json["data"]) == 1


def test_several_threads_use_one_client(ledger: Ledger) -> None:
    till = ledger.accounts.create("Busy", "EUR")
    with ThreadPoolExecutor(8) as threads:
        posted = [threads.submit(ledger.transactions.post, till.id, 1, "credit") for _ in range(40)]
        assert sorted(each.result().balance_after for each in posted) == [*range(1, 41)]


INTERRUPTED = """
import os, signal, sys, threading
from ledger_client import Ledger

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
with Ledger(sys.argv[1], sys.argv[2]) as ledger:
    stream = ledger.events.stream()
    print("begins", flush=True)
    try:
        for event in stream:
            print(event.type, flush=True)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    except KeyboardInterrupt:
        stream.close()
        print(ledger.whoami().role, flush=True)
abandoned = Ledger(sys.argv[1], sys.argv[2]).accounts.list()
next(abandoned)
"""


def test_ctrl_c_ends_a_stream_and_the_client_works_on(server: Server, key: str, ledger: Ledger) -> None:
    words = [sys.executable, "-c", INTERRUPTED, server.url, key]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begins\n"
        lines = iter(program.stdout.readline, "")
        seen: list[str] = []
        reader = threading.Thread(target=lambda: seen.extend(lines))
        reader.start()
        while not seen:  # the first event after the connection is there
            ledger.accounts.create("Till", "EUR")
            reader.join(0.2)
        assert program.wait(60) == 0
        reader.join()
    assert seen[-1] == "owner\n"


def test_a_client_works_on_in_a_forked_process(ledger: Ledger) -> None:
    till = ledger.accounts.create("Before", "EUR")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if ledger.accounts.get(till.id).name == "Before" else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert ledger.accounts.get(till.id).name == "Before"


def test_lists_go_on_over_their_pages(ledger: Ledger) -> None:
    till = ledger.accounts.create("Many", "EUR")
    ledger.transactions.batch([{"account": till.id, "amount": n + 1, "type": "credit"} for n in range(230)])
    amounts = [each.amount for each in ledger.transactions.list(account=till.id)]
    assert amounts == [*range(230, 0, -1)]
    for number in range(101):
        ledger.users.create("U", f"u{number}@example.com")
    assert len([*ledger.users.list()]) >= 101


def test_tokens_are_made_and_refreshed(server: Server, key: str) -> None:
    with Ledger(server.url) as anyone:
        pair = anyone.tokens.create(key)
        assert pair.refresh_token is not None
        fresh = anyone.tokens.refresh(pair.refresh_token)
    with Ledger(server.url, fresh.access_token) as ledger:
        assert ledger.accounts.create("By token", "EUR").balance == 0


def test_a_pair_of_tokens_is_refreshed_before_it_expires_by_one_request(server: Server, key: str) -> None:
    pairs: list[TokenPair] = []
    with Ledger(server.url) as anyone:
        pair = anyone.tokens.create(key)
    with Ledger(server.url, pair, on_refresh=pairs.append) as ledger:
        assert ledger.whoami().kind == "access_token"
        assert pairs == []
        assert ledger._ledger._tokens is not None
        later = time.monotonic() + 3301
        ledger._ledger._tokens.clock = lambda: later
        with ThreadPoolExecutor(8) as threads:
            assert {each.id for each in threads.map(lambda _: ledger.whoami(), range(8))} != set()
        (fresh,) = pairs
        assert fresh.refresh_token != pair.refresh_token
        ledger.whoami()
        assert len(pairs) == 1


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
        ledger.tokens.exchange_code("x", "v" * 43)
    with Ledger(server.url, "sk_test_" + "x" * 32) as stranger, pytest.raises(errors.AuthenticationError):
        next(stranger.accounts.list())
    for url, kind, words in (
        ("http://127.0.0.1:1", errors.NotConnected, "connection refused"),
        ("ftp://127.0.0.1", errors.NotSent, "is not the address"),
        ("http://127.0.0.1:99999", errors.NotSent, "is not the address"),
    ):
        with pytest.raises(kind, match=words), Ledger(url, attempts=1) as nobody:
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


@pytest.mark.parametrize(
    ("method", "more", "error", "again"),
    [
        ("GET", {}, errors.NotConnected("cut"), True),
        ("GET", {}, errors.ApiError("", status=502), True),
        ("GET", {}, errors.ApiError("", status=501), False),
        ("GET", {}, errors.Unreadable("no JSON"), False),
        ("GET", {}, errors.NotFound("", status=404), False),
        ("GET", {"attempts": ATTEMPTS - 1}, errors.NotConnected("cut"), False),
        ("POST", {}, errors.NotConnected("cut"), True),
        ("POST", {"is_anonymous": True}, errors.NotConnected("cut"), False),
        ("DELETE", {}, errors.NotConnected("cut"), False),
        ("DELETE", {}, errors.RateLimited("", status=429), True),
    ],
)
def test_only_what_may_be_repeated_is(
    method: str, more: dict[str, Any], error: errors.LedgerError, again: bool
) -> None:
    call = ApiCall(as_it_is, method, "/x", **more)
    call.make_repeatable()
    assert (call.wait_after(error, ATTEMPTS) is not None) == again


def test_a_post_has_the_key_that_it_is_given_also_as_a_header() -> None:
    for given in ({"key": "k"}, {"headers": {"Idempotency-Key": "k"}}, {"headers": {"idempotency-key": "k"}}):
        call = ApiCall(as_it_is, "POST", "/x", **given)
        call.make_repeatable()
        assert (call.key, call.headers) == ("k", {"idempotency-key": "k"})
    for method, length in (("POST", 36), ("GET", 0), ("DELETE", 0)):
        call = ApiCall(as_it_is, method, "/x")
        call.make_repeatable()
        assert len(call.headers.get("idempotency-key", "")) == length


def test_a_refusal_is_waited_for_as_long_as_it_says_up_to_a_minute() -> None:
    refused = errors.error_of(429, {"Retry-After": "7"}, {"error": "rate_limited", "message": "wait"})
    wait = ApiCall(as_it_is, "GET", "/x").wait_after(refused, ATTEMPTS)
    assert wait is not None
    assert wait >= 7
    far = errors.error_of(429, {"Retry-After": "3600"}, None)
    assert ApiCall(as_it_is, "GET", "/x").wait_after(far, ATTEMPTS) is None


def test_a_batch_that_is_refused_is_an_error_that_names_the_item(ledger: Ledger) -> None:
    till = ledger.accounts.create("Batch", "EUR")
    rows = [{"account": till.id, "amount": amount, "type": "credit"} for amount in (1, 0)]
    with pytest.raises(errors.InvalidRequest) as refused:
        ledger.transactions.batch(rows)
    assert refused.value.param == "transactions.1.amount"
    assert [*ledger.transactions.list(account=till.id)] == []


def test_a_batch_whose_answer_was_lost_returns_what_it_made(
    flaky: tuple[str, type[Flaky]], key: str, ledger: Ledger
) -> None:
    url, handler = flaky
    till = ledger.accounts.create("Batch", "EUR")
    handler.faults += ["lost"]
    with Ledger(url, key) as through:
        rows = [{"account": till.id, "amount": amount, "type": "credit"} for amount in (1, 2, 3)]
        posted = through.transactions.batch(rows)
    assert [each.amount for each in posted] == [1, 2, 3]
    assert [each.id for each in posted] == [each.id for each in ledger.transactions.list(account=till.id)][
        ::-1
    ]


def test_a_record_keeps_what_its_class_does_not_have() -> None:
    shown = {"balance": 1, "currency": "EUR", "at": "2026-11-20T00:00:00Z", "later": 2}
    balance = records.read(records.Balance, shown)
    assert (balance.at, balance.more) == (datetime(2026, 11, 20, tzinfo=UTC), {"later": 2})
