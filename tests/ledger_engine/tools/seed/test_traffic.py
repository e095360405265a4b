"""The demo's traffic, sent to a real server: what each client does, and each of their mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from ledger_client import AsyncLedger
from ledger_client.errors import NotConnected
from ledger_engine.tools.seed import deeds, traffic
from ledger_engine.tools.seed.deeds import Past
from ledger_engine.tools.seed.traffic import DemoTraffic
from ledger_tui.server.embedded import Address, EmbeddedServer

pytestmark = pytest.mark.process

CLIENTS = ("web shop", "tills", "billing", "reporting", "old import")
BURST = 200  # of the plan


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    server = EmbeddedServer(str(tmp_path_factory.mktemp("traffic") / "ledger.db"))
    yield server.start()
    server.stop()


class Shop:
    """A project with an account, a user and a key for each client; notes each answer's status."""

    def __init__(self, root: httpx.AsyncClient, sent: DemoTraffic) -> None:
        self.root = root
        self.traffic = sent
        self.statuses: list[int] = []

    async def does(self, act: traffic.Act) -> list[int]:
        """Return the statuses of the answers to what a client does."""
        self.statuses.clear()
        await act(self.traffic)
        return [*self.statuses]


@pytest.fixture
async def shop(served: Address, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    plan = getattr(request, "param", "enterprise")
    headers = {"Authorization": f"Bearer {served.key}"}
    async with httpx.AsyncClient(base_url=served.url, headers=headers, trust_env=False) as root:
        made = await root.post("/v1/projects", json={"name": "Shop", "plan": plan})
        root.headers["Authorization"] = f"Bearer {made.json()['api_key']['key']}"
        account = (await root.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})).json()
        await root.post("/api/users", json={"name": "Ada", "email": "ada@example.com"})
        keys = {}
        for name in CLIENTS:
            scopes = {"scopes": ["read:projects", "read:users"]} if name == "reporting" else {}
            keys[name] = (await root.post("/v1/api_keys", json={"name": name, **scopes})).json()["key"]
        like: dict[str, Any] = {"account": account["id"], "amount": 1250, "customer": "Ada", "metadata": {}}
        posting = SimpleNamespace(**like, type="credit", description="Beans", destination=None)
        lines = [{"description": "Beans", "quantity": 20, "unit_amount": 1250}]
        invoice = SimpleNamespace(**like, lines=lines)
        order = SimpleNamespace(items=[{"name": "Beans", "quantity": 1, "unit_amount": 1250}])
        past = Past([posting], [invoice], [order])  # type: ignore[list-item]
        sent = DemoTraffic(served.url, keys, past, BURST, random=Random(1))
        opened = Shop(root, sent)

        async def note(answer: httpx.Response) -> None:
            opened.statuses.append(answer.status_code)

        hooks = {"response": [note]}
        async with AsyncLedger(served.url, attempts=1, event_hooks=hooks, trust_env=False) as ledger:
            sent._ledger = ledger
            yield opened


async def test_invoices_and_orders_are_moved_through_their_lives(shop: Shop) -> None:
    assert await shop.does(deeds.post) == [201]
    for act in (deeds.draft_invoice, deeds.place_order):
        for _ in range(3 * deeds.LEFT):
            assert (await shop.does(act))[-1] == 201
    for act, moves in (
        (deeds.finalize_invoice, 2), (deeds.pay_order, 2), (deeds.pay_invoice, 1), (deeds.ship_order, 1)
    ):  # fmt: skip
        for _ in range(moves * deeds.LEFT):
            assert await shop.does(act) == [200, 200]
        assert await shop.does(act) == [200], "it is listed, and no more"
    for path, states in (("/v1/invoices", "draft open paid"), ("/api/orders", "open paid shipped")):
        objects = (await shop.root.get(path, params={"limit": 50})).json()["data"]
        assert Counter(each["status"] for each in objects) == dict.fromkeys(states.split(), deeds.LEFT)
    assert await shop.does(deeds.refund) == [200, 201]
    assert await shop.does(DemoTraffic.pay_again) == [200, 409]


async def test_a_strangers_draft_is_left_alone(shop: Shop) -> None:
    account = (await shop.root.get("/v1/accounts")).json()["data"][0]["id"]
    draft = {"account": account, "amount": 1250, "customer": "Ada"}
    made = await shop.root.post("/v1/invoices", json=draft)
    assert made.status_code == 201, made.text
    for _ in range(deeds.LEFT):
        await shop.does(deeds.draft_invoice)
    assert await shop.does(deeds.finalize_invoice) == [200], "it is listed, and no more"
    invoices = (await shop.root.get("/v1/invoices")).json()["data"]
    assert {each["status"] for each in invoices} == {"draft"}


@pytest.mark.parametrize(
    ("act", "status"),
    [
        (DemoTraffic.ask_wrongly, 400),
        (DemoTraffic.ask_for_nothing, 404),
        (DemoTraffic.overstep, 403),
        (DemoTraffic.repeat, 409),
    ],
)
async def test_a_mistake_has_its_status(shop: Shop, act: traffic.Act, status: int) -> None:
    for _ in range(5):  # each kind of it, by chance
        assert (await shop.does(act))[-1] == status


async def test_in_an_empty_project_nothing_is_changed_and_nothing_fails(shop: Shop) -> None:
    made = (await shop.root.post("/v1/projects", json={"name": "Empty"})).json()
    shop.traffic._keys = dict.fromkeys(CLIENTS, made["api_key"]["key"])
    shop.traffic.past = Past([], [], [])
    listed = {
        deeds.refund, deeds.finalize_invoice, deeds.pay_invoice, deeds.place_order, deeds.pay_order,
        deeds.ship_order, DemoTraffic.look, DemoTraffic.pay_again,
    }  # fmt: skip
    for act in traffic.ACTS.keys() - {
        DemoTraffic.ask_wrongly,
        DemoTraffic.ask_for_nothing,
        DemoTraffic.overstep,
    }:
        assert await shop.does(act) == ([200] if act in listed else []), act


async def test_more_than_an_account_holds_is_not_debited(shop: Shop) -> None:
    like: Any = shop.traffic.past.postings[0]
    like.type = "debit"
    assert await shop.does(deeds.post) == [200], "the balance is read, and no more"
    assert await shop.does(DemoTraffic.repeat) == []
    like.type = "credit"
    for _ in range(3):  # together more than a debit like it takes
        await shop.does(deeds.post)
    like.type = "debit"
    assert await shop.does(deeds.post) == [200, 201]


async def test_an_invoice_without_lines_has_a_similar_amount(shop: Shop) -> None:
    like: Any = shop.traffic.past.invoices[0]
    like.lines = None
    assert await shop.does(deeds.draft_invoice) == [201]
    (invoice,) = (await shop.root.get("/v1/invoices")).json()["data"]
    assert invoice["lines"] is None
    assert 0 < invoice["amount"] < 2 * like.amount


async def test_a_refused_object_is_not_taken_for_the_demos_own(shop: Shop) -> None:
    shop.traffic._keys = {**shop.traffic._keys, "tills": shop.traffic._keys["reporting"]}
    assert await shop.does(deeds.post) == [403]
    assert shop.traffic._ids == set()


async def test_a_server_that_is_never_there_is_told_after_some_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "_TRIES", 2)
    nowhere = DemoTraffic("http://127.0.0.1:1", {}, Past([], [], []), BURST)
    with pytest.raises(NotConnected):
        await nowhere.run()


# More than this plan allows in a minute, so that it does not matter how fast the machine sends them.
@pytest.mark.parametrize("shop", ["free"], indirect=True)
async def test_more_than_a_client_may_send_is_429(shop: Shop) -> None:
    statuses = await shop.does(DemoTraffic.flood)
    assert set(statuses) == {200, 429}
