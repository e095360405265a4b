"""A copy shows what its source shows, is sound, cannot be changed; a pull goes on where it was stopped."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import api_keys
from ledger_engine.core.errors import Conflict, PermissionDenied
from ledger_engine.core.settings import BadSettings, ServeSettings
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import endpoints
from ledger_engine.http.app import create_app
from ledger_engine.ledger import accounts, invoices, users
from ledger_engine.server import ledger
from ledger_engine.store import Unit, books
from ledger_engine.store.engine import Engine
from ledger_engine.tools.pull import applying, pull
from ledger_engine.tools.pull.remote import PullFailed, Remote
from ledger_engine.tools.pull.staging import Origin
from tests import auditing
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.tools.pull.conftest import URL, Pull, everything, everything_copied, nothing
from tests.ledger_tui.contract_server import KEY, ContractServer

Fill = Callable[[int], Awaitable[None]]
Copied = Callable[[], Any]


class Interrupted(BaseException):
    """What stops a pull, like Ctrl-C."""


def stopping_after(steps: int) -> Callable[[str, int], None]:
    """Return what stops a pull when it has told so many steps."""
    left = [steps]

    def tell(_what: str, _records: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise Interrupted

    return tell


async def assert_equal(copied: Copied, app: Quart, key: str) -> None:
    async with copied() as engine:
        shown = await everything_copied(engine)
        report = await engine.read(auditing.verify)
    assert report.fault is None, report
    assert shown == await everything(app, key)
    assert URL in str(report.checked["copy_of"])


@pytest.mark.slow
async def test_a_pull_that_was_interrupted_ten_times_ends_equal_to_the_source(
    fill: Fill,
    pull_copy: Pull,
    copied: Copied,
    app: Quart,
    make_key: MakeKey,
    soak: int,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 400 if soak == 1 else 4_000 * soak
    monkeypatch.setattr(applying, "TURN", count // 8)
    chance = random.Random(seed)
    await fill(count)
    for interruption in range(10):
        with pytest.raises(Interrupted):
            await pull_copy(stopping_after(chance.randrange(1, 2 + count // 250)))
        async with copied() as engine:  # sound at every point, and not said to be complete
            report = await engine.read(auditing.verify)
        assert report.fault is None, report
        assert "not yet complete" in str(report.checked["copy_of"])
        if interruption == 4:
            await fill(20)  # what is made meanwhile comes too
    await pull_copy()
    await assert_equal(copied, app, await make_key())


@pytest.mark.slow
async def test_each_turn_of_applying_can_be_the_last_before_an_interruption(
    fill: Fill,
    pull_copy: Pull,
    copied: Copied,
    app: Quart,
    make_key: MakeKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(applying, "TURN", 7)  # odd, so that a turn would part the sides of a transfer
    await fill(30)

    def tell(what: str, records: int) -> None:
        if what.startswith("Storing") and records:
            raise Interrupted

    stopped = 0
    while True:
        try:
            await pull_copy(tell)
        except Interrupted:
            stopped += 1
        else:
            break
        async with copied() as engine:
            assert (await engine.read(auditing.verify)).fault is None
    assert stopped > 10
    await assert_equal(copied, app, await make_key())


@pytest.mark.slow
async def test_a_later_pull_brings_what_is_new_and_what_has_changed(
    fill: Fill,
    pull_copy: Pull,
    copied: Copied,
    app: Quart,
    make_key: MakeKey,
    engine: Engine,
    tenant: Tenant,
    clock: ManualClock,
) -> None:
    await fill(20)
    first = await pull_copy()
    assert first.applied.new["transactions"] == 20 + 5 + 2 + 1  # transfers, a reversed transfer, an invoice
    clock.advance(60_000)

    def change(unit: Unit) -> None:
        rows = unit.execute("SELECT id FROM invoices WHERE status = 'open' ORDER BY id LIMIT 1")
        invoices.pay(unit, tenant, rows[0]["id"])
        user = unit.execute("SELECT id, email FROM users WHERE status = 'active' ORDER BY id LIMIT 1")[0]
        users.deactivate(unit, tenant, user["id"])
        users.create(unit, tenant, users.NewUser("Eve", user["email"]))  # the address is free again

    await engine.write(change)
    second = await pull_copy()
    assert +second.applied.new == {"transactions": 1, "users": 1, "events": 4}
    await assert_equal(copied, app, await make_key())
    third = await pull_copy()
    assert third.applied.new.total() == 0


async def test_a_copy_of_the_live_mode_is_in_the_live_mode(
    pull_copy: Pull, copied: Copied, app: Quart, make_key: MakeKey, engine: Engine, tenant: Tenant
) -> None:
    live = Tenant(tenant.project, livemode=True)
    new = accounts.NewAccount("Till", "EUR", {})
    await engine.write(partial(accounts.create, tenant=live, new=new))
    key = await make_key(livemode=True)
    assert (await pull_copy(key=key)).livemode
    async with copied() as engine_of_copy:
        settings = ServeSettings(None, embedded=True)
        async with ledger.credential(engine_of_copy, settings) as (dashboards_key, _):  # which sees that mode
            assert dashboards_key is not None
            assert dashboards_key.startswith("sk_live_")
            found = await everything(create_app(engine_of_copy), dashboards_key)
        assert [each["name"] for each in found["/v1/accounts"]] == ["Till"]
        with pytest.raises(BadSettings) as refused:
            async with ledger.credential(engine_of_copy, ServeSettings(None, api_key="sk_test_" + "k" * 32)):
                pass
        assert str(refused.value) == (
            f"--api-key cannot be used: This ledger is a copy of the live mode of {URL} and has no data in"
            " test mode."
        )
    await assert_equal(copied, app, key)


async def test_a_copy_is_read_only_and_says_what_it_is_a_copy_of(
    fill: Fill, pull_copy: Pull, copied: Copied
) -> None:
    await fill(4)
    pulled = await pull_copy()
    tenant = Tenant(pulled.project, livemode=False)
    value = api_keys.new_value(livemode=False)
    new = api_keys.NewApiKey(None, "owner")
    async with copied() as engine:
        before = await everything_copied(engine)
        await engine.write(partial(api_keys.create, tenant=tenant, new=new, value=value))
        newest = {path: found[0]["id"] for path, found in before.items()}
        async with client_of(create_app(engine), value, url=URL) as client:
            account, user = newest["/v1/accounts"], newest["/api/users"]
            posting = {"account": account, "amount": 1, "type": "credit"}
            for method, path, body in (
                ("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}),
                ("POST", "/v1/transactions", posting),
                ("POST", "/v1/transactions/batch", {"transactions": [posting]}),
                ("POST", "/v1/invoices", {"account": account, "customer": "Ada", "amount": 1}),
                ("PATCH", f"/v1/invoices/{before['/v1/invoices'][-1]['id']}", {"customer": "Eve"}),
                ("POST", "/api/users", {"name": "Eve", "email": "eve@example.com", "role": "member"}),
                ("POST", f"/api/users/{user}/restore", None),
                ("POST", "/api/orders", {"user_id": before["/api/users"][-1]["id"], "items": [{}]}),
                ("POST", f"/api/orders/{before['/api/orders'][-1]['id']}/pay", None),
                ("POST", "/v1/webhook_endpoints", {"url": "http://127.0.0.1:9/", "events": ["*"]}),
                ("POST", "/v1/projects", {"name": "Shop"}),
                ("PATCH", f"/v1/projects/{pulled.project}", {"name": "Shop"}),
                ("DELETE", f"/v1/projects/{pulled.project}", None),
                ("PATCH", "/v1/billing", {"plan": "pro"}),
            ):
                answer = await client.request(method, path, json=body)
                assert answer.status_code == 403, (method, path, answer.text)
                error = answer.json()["error"]
                assert (error if isinstance(error, str) else error["code"]) == "read_only"
                assert URL in answer.text
            assert (await client.get("/api/health")).json()["copy_of"] == URL
        assert await everything_copied(engine) == before
        with pytest.raises(PermissionDenied):
            await engine.write(
                partial(
                    endpoints.create,
                    tenant=tenant,
                    new=endpoints.NewEndpoint("http://127.0.0.1:9/", ["*"]),
                    secret="whsec_1",
                    sealed="",
                )
            )


async def test_a_released_copy_is_a_ledger_of_its_own(fill: Fill, pull_copy: Pull, copied: Copied) -> None:
    await fill(4)
    pulled = await pull_copy()
    tenant = Tenant(pulled.project, livemode=False)
    async with copied() as engine:
        await pull.release(engine, Origin(URL, False, pulled.project))
        assert await engine.read(books.source) is None
        new = accounts.NewAccount("Till", "EUR", {})
        await engine.write(partial(accounts.create, tenant=tenant, new=new))
        assert (await engine.read(auditing.verify)).fault is None
    with pytest.raises(Conflict, match="ledger of its own"):
        await pull_copy()


async def test_a_copy_takes_nothing_from_another_source(
    fill: Fill, pull_copy: Pull, make_key: MakeKey, stranger: Tenant
) -> None:
    await fill(2)
    await pull_copy()
    with pytest.raises(Conflict, match=r"not of http://other\.test"):
        await pull_copy(url="http://other.test")
    other = await make_key(livemode=stranger.livemode, of=stranger.project)
    with pytest.raises(Conflict, match="The database is a copy of"):
        await pull_copy(key=other)


async def test_a_source_whose_balances_do_not_add_up_is_refused(
    fill: Fill, pull_copy: Pull, engine: Engine
) -> None:
    await fill(8)
    await engine.write(
        lambda unit: unit.execute(
            "UPDATE transactions SET balance_after = balance_after + 1 WHERE amount = 3"
        )
    )
    with pytest.raises(PullFailed, match="but the transactions add up to"):
        await pull_copy()


@pytest.mark.slow
async def test_a_server_with_the_contracts_endpoints_alone_is_copied(copied: Copied) -> None:
    with ContractServer() as server:
        accounts_there = [server.add_account(f"Account {number}") for number in range(3)]
        for number in range(250):
            server.post(accounts_there[number % 3], 1 + number, "debit" if number % 2 else "credit")
        server.users.append(
            {"id": server.new_id("usr"), "name": "Ada", "email": "ada@example.com", "role": "member"}
        )
        user = server.users[0]["id"]
        items = [{"name": "Beans", "unit_amount": 5}]
        server.orders.append({"id": server.new_id("ord"), "user_id": user, "items": items, "status": "paid"})
        async with copied() as engine:
            first = await contract_pull(server, engine)
            assert dict(first.applied.new) == {"accounts": 3, "transactions": 250, "users": 1, "orders": 1}
            assert first.not_shown == ["events", "invoices"]
            server.post(accounts_there[0], 7)
            assert (await contract_pull(server, engine)).applied.new["transactions"] == 1
            assert (await engine.read(auditing.verify)).fault is None
            shown = await everything_copied(engine)
        assert shown["/v1/accounts"] == [{**each, "livemode": False} for each in reversed(accounts_there)]
        theirs = [each | {"description": each["description"]} for each in reversed(server.transactions)]
        fields = ("id", "account", "amount", "type", "description")
        assert [{name: each[name] for name in fields} for each in shown["/v1/transactions"]] == theirs


async def test_a_balance_that_the_transactions_do_not_explain_is_refused(copied: Copied) -> None:
    with ContractServer() as server:
        server.add_account("Till", balance=500)
        async with copied() as engine:
            with pytest.raises(
                PullFailed, match=r"shows the balance 500 for .*, but its transactions add up to 0"
            ):
                await contract_pull(server, engine)


async def test_ids_that_are_not_in_the_order_of_time_are_refused(copied: Copied) -> None:
    with ContractServer() as server:
        account = server.add_account()
        server.post(account, 1)
        server.post(account, 2)
        server.transactions.reverse()
        async with copied() as engine:
            with pytest.raises(PullFailed, match="is not that of time"):
                await contract_pull(server, engine)


async def contract_pull(server: ContractServer, engine: Engine) -> pull.Pulled:
    async with Remote(server.url, KEY) as remote:
        return await pull.pull(remote, engine, await pull.identify(remote, KEY), nothing)


NOTHING = {"data": [], "has_more": False, "next_cursor": None}
USER = {"id": "usr_01ka0000000000000000000000"}


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/v1/accounts", {"data": [], "has_more": True, "next_cursor": "acc_1"}),
        ("/api/users", {"data": [USER] * 100}),
    ],
)
async def test_a_list_that_would_never_end_is_refused(
    copied: Copied, path: str, page: dict[str, object]
) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        assert len(asked) < 50, "the list is read on and on"
        return httpx.Response(200, json=page if request.url.path == path else NOTHING)

    async with Remote(URL, KEY, httpx.MockTransport(answer)) as remote, copied() as engine:
        with pytest.raises(PullFailed, match="brings nothing new"):
            await pull.pull(remote, engine, Origin(URL, livemode=False, project=None), nothing)


async def test_a_list_without_a_list_is_refused_when_a_balance_is_looked_at(copied: Copied) -> None:
    with ContractServer() as server:
        server.add_account(balance=500)
        broken = httpx.Response(200, json={"data": {"x": 1}})

        async def answer(request: httpx.Request) -> httpx.Response:
            if "account" in request.url.params:
                return broken
            async with httpx.AsyncClient(trust_env=False) as client:
                found = await client.get(request.url, headers=request.headers)
            return httpx.Response(found.status_code, headers=found.headers, content=found.content)

        async with (
            Remote(server.url, KEY, httpx.MockTransport(answer)) as remote,
            copied() as engine,
        ):
            with pytest.raises(PullFailed, match="no page of a list"):
                await pull.pull(remote, engine, await pull.identify(remote, KEY), nothing)


#


@pytest.mark.parametrize("livemode", [True, False])
async def test_the_mode_of_a_key_of_another_form_is_what_the_server_says(livemode: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        whoami = {"project": None, "livemode": livemode}
        return httpx.Response(200, json=whoami if request.url.path == "/v1/whoami" else NOTHING)

    async with Remote(URL, "at_1", httpx.MockTransport(answer)) as remote:
        assert await pull.identify(remote, "at_1") == Origin(URL, livemode, None)


@pytest.mark.parametrize("whoami", [httpx.Response(404), httpx.Response(200, json={"livemode": "yes"})])
async def test_a_key_whose_mode_cannot_be_told_is_refused(whoami: httpx.Response) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return whoami if request.url.path == "/v1/whoami" else httpx.Response(200, json=NOTHING)

    async with Remote(URL, "at_1", httpx.MockTransport(answer)) as remote:
        with pytest.raises(PullFailed, match="Give a key that begins with sk_test_ or sk_live_"):
            await pull.identify(remote, "at_1")


async def test_a_source_without_the_account_that_the_copy_has_is_another_project(copied: Copied) -> None:
    with ContractServer() as server:
        account = server.add_account()["id"]
        async with copied() as engine:
            await contract_pull(server, engine)
            server.accounts.clear()
            server.add_account("Other")
            with pytest.raises(PullFailed, match=rf"no longer has the account {account}.*another project"):
                await contract_pull(server, engine)


async def test_a_list_of_invoices_whose_numbers_have_a_gap_is_read_some_times_and_refused(
    copied: Copied,
) -> None:
    asked: list[str] = []
    invoice = {"id": "inv_01ka0000000000000000000000", "number": "INV-000002"}

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        found = [invoice] if request.url.path == "/v1/invoices" else []
        return httpx.Response(200, json=NOTHING | {"data": found})

    async with Remote(URL, KEY, httpx.MockTransport(answer)) as remote, copied() as engine:
        with pytest.raises(PullFailed, match="invoices have a gap"):
            await pull.pull(remote, engine, Origin(URL, livemode=False, project=None), nothing)
    assert asked.count("/v1/invoices") == pull._READ_AGAIN_MAX


async def test_an_account_that_is_posted_to_while_it_is_compared_is_left_to_the_next_pull(
    copied: Copied,
) -> None:
    with ContractServer() as server:
        account = server.add_account()
        server.post(account, 1)

        async def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path == f"/v1/accounts/{account['id']}":  # asked before the lists and after them
                server.post(account, 5)
            async with httpx.AsyncClient(trust_env=False) as client:
                found = await client.get(request.url, headers=request.headers)
            return httpx.Response(found.status_code, headers=found.headers, content=found.content)

        async with copied() as engine:
            await contract_pull(server, engine)
            async with Remote(server.url, KEY, httpx.MockTransport(answer)) as remote:
                origin = await pull.identify(remote, KEY)
                pulls = [await pull.pull(remote, engine, origin, nothing) for _ in range(2)]
            assert [each.applied.new["transactions"] for each in pulls] == [1, 2]
            assert (await engine.read(auditing.verify)).fault is None


@pytest.mark.parametrize("status", [400, 404])
async def test_a_list_whose_cursor_the_source_no_longer_knows_is_read_from_its_beginning(
    copied: Copied, status: int
) -> None:
    refusing: int | None = 500  # the answer to every cursor
    gone: set[str] = set()

    async def answer(request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("starting_after")
        if cursor is not None and (refusing or cursor in gone):
            gone.add(cursor)
            return httpx.Response(refusing or status)
        async with httpx.AsyncClient(trust_env=False) as client:
            found = await client.get(request.url, headers=request.headers)
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    with ContractServer() as server:
        for number in range(150):
            server.add_account(f"Account {number}")
        async with (
            copied() as engine,
            Remote(server.url, KEY, httpx.MockTransport(answer)) as remote,
        ):
            origin = await pull.identify(remote, KEY)
            with pytest.raises(PullFailed, match="Run the command again to go on from here"):
                await pull.pull(remote, engine, origin, nothing)
            refusing = status
            server.add_account("Another, so that the second page begins elsewhere")
            with pytest.raises(PullFailed, match=f"/v1/accounts: it answered {status}"):
                await pull.pull(remote, engine, origin, nothing)
            refusing = None
            server.add_account("Yet another")
            pulled = await pull.pull(remote, engine, origin, nothing)
            assert pulled.applied.new["accounts"] == 152
            assert (await engine.read(auditing.verify)).fault is None
