"""The reads and writes that the works of one group share on PostgreSQL."""

from __future__ import annotations

import asyncio
from functools import partial

import psycopg
import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import DuplicateIdempotencyKey, NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.operations import _TenantWork
from ledger_engine.ledger import accounts, invoices, transactions
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store import Parameters
from ledger_engine.store.engine import Engine
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rendering import RenderedRow, SqlStatement
from tests import auditing
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.postgres.conftest import Serve

pytestmark = pytest.mark.process
TILL = accounts.NewAccount("Till", "usd", {})


@pytest.fixture
async def engine(serve: Serve) -> Engine:
    return Engine(serve(ManualClock(START)), ManualClock(START))


@pytest.fixture
async def tenant(engine: Engine) -> Tenant:
    new = projects.NewProject("Roastery", "enterprise", rate_limit=1_000_000, burst=1_000_000)
    return Tenant((await engine.write(partial(projects.create, new=new))).id, livemode=False)


def posting(
    tenant: Tenant, account: str, amount: int, to: str | None = None, key: str | None = None
) -> _TenantWork[object]:
    new = NewTransaction(account, amount, "debit", None, to)
    return _TenantWork(transactions.post, tenant, (new, key), {})


async def make_accounts(engine: Engine, tenant: Tenant, count: int) -> list[str]:
    return [(await engine.write(partial(accounts.create, tenant=tenant, new=TILL))).id for _ in range(count)]


def count_waits(patch: pytest.MonkeyPatch) -> list[PostgresConnection]:
    """Return a list that gets the connection each time an answer of the server is waited for."""
    waits: list[PostgresConnection] = []
    settle = PostgresConnection.settle

    def counted(self: PostgresConnection) -> object:
        waits.append(self)
        return settle(self)

    patch.setattr(PostgresConnection, "settle", counted)
    return waits


async def test_a_group_of_postings_is_few_exchanges_with_the_server(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await make_accounts(engine, tenant, 20)
    waits = count_waits(monkeypatch)
    await asyncio.gather(
        *(engine.write(posting(tenant, id, 1, to)) for id in ids for to in (None, ids[0]) if id != to)
    )
    assert len(waits) < 30  # of 39 postings, which one by one wait five times each
    monkeypatch.undo()
    report = await engine.read(auditing.verify)
    assert (report.fault, report.transactions) == (None, 20 + 2 * 19)


async def test_the_next_postings_on_the_same_accounts_read_nothing(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    (id,) = await make_accounts(engine, tenant, 1)
    await engine.write(posting(tenant, id, 1))
    await engine.write(posting(tenant, id, 2))
    read: list[str] = []

    def noted(self: PostgresConnection, statement: SqlStatement, parameters: Parameters) -> list[RenderedRow]:
        text = statement.text.decode()
        if " announced" not in text:  # of the other servers, which are followed at any time
            read.append(text)
        return rows(self, statement, parameters)

    rows = PostgresConnection.rows
    monkeypatch.setattr(PostgresConnection, "rows", noted)
    await engine.write(posting(tenant, id, 3))
    assert read == []
    monkeypatch.undo()
    assert (await engine.read(partial(accounts.get, tenant=tenant, id=id))).balance == -6


async def test_keys_of_a_group_are_looked_up_together_and_each_is_used_once(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    (id,) = await make_accounts(engine, tenant, 1)
    await engine.write(posting(tenant, id, 1, key="key 7"))
    waits = count_waits(monkeypatch)
    await asyncio.gather(
        *(engine.write(posting(tenant, id, 1, key=f"key {number}")) for number in range(40) if number != 7)
    )
    assert len(waits) < 20  # of 39 postings
    monkeypatch.undo()
    results = await asyncio.gather(
        *(engine.write(posting(tenant, id, 1, key=f"key {number}")) for number in (50, 7, 51, 50, 39, 52)),
        engine.write(partial(accounts.create, tenant=tenant, new=TILL, key="key 53")),
        engine.write(posting(tenant, id, 1, key="key 53")),
        return_exceptions=True,
    )
    refused = [place for place, each in enumerate(results) if isinstance(each, DuplicateIdempotencyKey)]
    assert refused == [1, 3, 4, 6]  # works of the whole ledger come last
    assert [each for each in results if isinstance(each, BaseException)] == [
        results[each] for each in refused
    ]
    assert (await engine.read(partial(accounts.get, tenant=tenant, id=id))).balance == -(1 + 39 + 4)


async def test_cached_values_are_read_again_when_others_wrote_them(engine: Engine, tenant: Tenant) -> None:
    (id,) = await make_accounts(engine, tenant, 1)
    line = [{"description": "Beans", "quantity": 1, "unit_amount": 5}]
    invoice = invoices.NewInvoice(account=id, customer="Ada", lines=line)

    def all_at_once(unit: object) -> int:
        for _ in range(3):
            transactions.post(unit, tenant, NewTransaction(id, 10, "credit"))
            made = invoices.create(unit, tenant, invoice)
            invoices.finalize(unit, tenant, made.id)
            invoices.pay(unit, tenant, made.id)
            accounts.create(unit, tenant, accounts.NewAccount("Till", "usd", {}))
        return accounts.get(unit, tenant, id).balance

    assert await engine.write(all_at_once) == 3 * 15
    assert (await engine.read(auditing.verify)).fault is None


async def test_a_value_that_cannot_be_read_fails_its_own_work_alone(engine: Engine, tenant: Tenant) -> None:
    (id,) = await make_accounts(engine, tenant, 1)
    works = [posting(tenant, each, 1) for each in (id, "acc_\ud800", "acc_\0", id)]
    results = await asyncio.gather(*(engine.write(each) for each in works), return_exceptions=True)
    assert isinstance(results[1], UnicodeEncodeError)
    assert isinstance(results[2], NotFound)
    assert (await engine.read(partial(accounts.get, tenant=tenant, id=id))).balance == -2


async def test_the_cache_holds_nothing_of_a_failed_work(
    engine: Engine, tenant: Tenant, beside: psycopg.Connection
) -> None:
    (id,) = await make_accounts(engine, tenant, 1)

    def fail(unit: object) -> None:
        transactions.post(unit, tenant, NewTransaction(id, 1000, "credit"))
        raise NotFound("account", "acc_1")

    for _ in range(2):  # with savepoints from the second group on
        works = [posting(tenant, id, 1), fail, posting(tenant, id, 1), fail, posting(tenant, id, 1)]
        await asyncio.gather(*(engine.write(each) for each in works), return_exceptions=True)
    assert (await engine.read(partial(accounts.get, tenant=tenant, id=id))).balance == -6
    assert (await engine.read(auditing.verify)).fault is None
