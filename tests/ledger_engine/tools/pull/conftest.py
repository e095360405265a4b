"""A filled ledger, and a copy of it that is pulled through the application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_client import ledger
from ledger_engine.access import api_keys
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import create_app
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.store import Unit, books
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.tools.pull import remote
from ledger_engine.tools.pull.pull import Pulled, ReportProgress, identify, pull
from ledger_engine.tools.pull.remote import Remote
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock
from tests.made_once import put_empty_ledger

URL = "http://source.test"
LISTS = ("/v1/accounts", "/v1/transactions", "/v1/invoices", "/v1/events", "/api/users", "/api/orders")
Pull = Callable[..., Awaitable[Pulled]]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return what a pull would have waited; it waits for nothing here."""
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(ledger, "sleep", note)
    monkeypatch.setattr(remote, "sleep", note)
    return waited


def nothing(_what: str, _records: int) -> None:
    return None


@pytest.fixture
def copy(kind: str, tmp_path: Path) -> Location:
    """Return where the copy is to be."""
    if kind == "postgres":
        from tests.postgres_server import bare_database

        return bare_database()
    folder = tmp_path / "copy"
    folder.mkdir()
    return put_empty_ledger(folder / "copy.db")


@pytest.fixture
def copied(copy: Location, clock: ManualClock) -> Callable[[], Any]:
    """Return a function that opens the copy."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Engine]:
        engine = open_engine(copy, clock=clock)
        try:
            yield engine
        finally:
            await engine.close()

    return opened


@pytest.fixture
def pull_copy(app: Quart, make_key: MakeKey, copied: Callable[[], Any]) -> Pull:
    """Return a function that pulls from the filled ledger, with a test key unless one is given."""
    keys: list[str] = []

    async def run(report: ReportProgress = nothing, key: str | None = None, url: str = URL) -> Pulled:
        if not keys:
            keys.append(await make_key())
        key = key or keys[0]
        transport = httpx.ASGITransport(app=app)
        async with Remote(url, key, transport) as remote, copied() as engine:
            return await pull(remote, engine, await identify(remote, key), report)

    return run


@pytest.fixture
def fill(engine: Engine, tenant: Tenant, clock: ManualClock) -> Callable[[int], Awaitable[None]]:
    """Return a function that adds so many transactions to the source, and objects of all other kinds."""

    async def add(count: int) -> None:
        made: list[str] = []

        def others(unit: Unit) -> None:
            made.extend(
                accounts.create(unit, tenant, accounts.NewAccount(f"Account {number}", "EUR", {"n": "1"})).id
                for number in range(5)
            )
            for number in range(6):
                drafted = invoices.create(unit, tenant, invoices.NewInvoice(made[0], "Café", amount=250))
                if number % 6:
                    invoices.finalize(unit, tenant, drafted.id)
                if number % 6 == 2:
                    invoices.pay(unit, tenant, drafted.id)
                if number % 6 == 3:
                    invoices.void(unit, tenant, drafted.id)
            for role in ("member", "admin", "owner"):
                email = f"{made[0][-8:]}-{role}@example.com"
                user = users.create(unit, tenant, users.NewUser("Ada", email, role))
                items = [{"sku": "beans", "quantity": 2, "unit_amount": 90}, {"note": "none"}]
                order = orders.create(unit, tenant, orders.NewOrder(user.id, items))
                if role != "member":
                    orders.pay(unit, tenant, order.id)
                if role == "owner":
                    orders.ship(unit, tenant, order.id)
                    users.deactivate(unit, tenant, user.id)

        def postings(unit: Unit, first: int, last: int) -> None:
            batch = [
                transactions.NewTransaction(
                    made[number % 5],
                    1 + number,
                    "debit" if number % 3 else "credit",
                    f"No. {number}",
                    made[(number + 1) % 5] if number % 4 == 0 else None,
                )
                for number in range(first, last)
            ]
            posted = transactions.post_batch(unit, tenant, batch)
            transactions.reverse(unit, tenant, posted[0].id)

        await engine.write(others)
        for first in range(0, count, 1000):
            clock.advance(1_000)
            await engine.write(partial(postings, first=first, last=min(count, first + 1000)))

    return add


async def everything(app: Quart, key: str) -> dict[str, list[dict[str, Any]]]:
    """Return all lists of a server, as its clients see them."""
    found: dict[str, list[dict[str, Any]]] = {}
    async with client_of(app, key, url=URL) as client:
        for path in LISTS:
            found[path] = []
            by = "cursor" if path in ("/v1/events", "/api/orders") else "starting_after"
            by, size = ("page", "per_page") if path == "/api/users" else (by, "limit")
            after: str | None = "1" if by == "page" else ""
            while after is not None:
                answer = await client.get(path, params={size: "100"} | ({by: after} if after else {}))
                assert answer.status_code == 200, answer.text
                page = answer.json()
                found[path] += page["data"]
                if by == "page":
                    after = str(int(after) + 1) if int(after) < page["total_pages"] else None
                else:
                    after = page["next_cursor"]
    return found


async def everything_copied(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Return all lists of a copy, as a server on it shows them."""
    source = await engine.read(books.source)
    assert source is not None
    value = api_keys.new_value(source.livemode)
    tenant = Tenant(source.project, source.livemode)
    unlimited = (
        "UPDATE projects SET rate_limit = 1000000, burst = 1000000"  # a copy refuses `projects.update`
    )
    await engine.write(lambda unit: unit.execute(unlimited))
    await engine.write(
        partial(api_keys.create, tenant=tenant, new=api_keys.NewApiKey(None, "owner"), value=value)
    )
    return await everything(create_app(engine), value)
