"""Plans and quotas (docs/interface.md#limits)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from ledger_engine.access import quotas as limits
from ledger_engine.core.errors import InvalidRequest, PermissionDenied
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.invoices import NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser
from ledger_engine.store.engine import Engine
from tests.ledger_engine.refusals import refusal


@pytest.mark.parametrize(
    ("plan", "per_minute", "burst", "stored_objects", "webhook_endpoints"),
    [
        ("free", 60, 10, 10_000, 5),
        ("pro", 600, 50, 500_000, 50),
        ("enterprise", 6_000, 200, None, None),  # the burst is docs/decisions.md#projects-enterprise's
    ],
)
def test_a_plan_allows_what_the_contract_says(
    plan: str, per_minute: int, burst: int, stored_objects: int | None, webhook_endpoints: int | None
) -> None:
    assert set(limits.PLANS) == {"free", "pro", "enterprise"}
    assert limits.PLANS[plan] == limits.Plan(per_minute, burst, stored_objects, webhook_endpoints)


async def open_account(engine: Engine, tenant: Tenant) -> Account:
    return await engine.write(partial(accounts.create, tenant=tenant, new=NewAccount("Till", "EUR", {})))


async def post(engine: Engine, tenant: Tenant, *news: NewTransaction) -> None:
    await engine.write(partial(transactions.post_batch, tenant=tenant, batch=list(news)))


async def counted(engine: Engine, tenant: Tenant) -> int:
    row = await engine.read(
        lambda unit: unit.first(
            "SELECT stored_objects FROM counters WHERE project = :project AND livemode = :livemode",
            tenant.bind(),
        )
    )
    return 0 if row is None else int(row["stored_objects"])


async def test_the_last_object_of_the_quota_is_stored_and_the_next_is_not(
    engine: Engine, tenant: Tenant
) -> None:
    tenant.quota = 3
    for _ in range(3):
        await open_account(engine, tenant)
    assert await refusal(open_account(engine, tenant)) == ("quota_exceeded", None)
    assert await counted(engine, tenant) == 3
    tenant.quota = 4  # a larger plan makes room at once
    await open_account(engine, tenant)


async def test_every_kind_of_object_counts_and_both_sides_of_a_transfer(
    engine: Engine, tenant: Tenant
) -> None:
    source, target = await open_account(engine, tenant), await open_account(engine, tenant)
    assert await counted(engine, tenant) == 2
    await post(engine, tenant, NewTransaction(source.id, 5, "credit"))
    assert await counted(engine, tenant) == 3
    await post(engine, tenant, NewTransaction(source.id, 5, "credit", destination=target.id))
    assert await counted(engine, tenant) == 5
    user = await engine.write(partial(users.create, tenant=tenant, new=NewUser("Ada", "ada@example.com")))
    await engine.write(partial(users.deactivate, tenant=tenant, id=user.id))  # it is still stored
    bob = await engine.write(partial(users.create, tenant=tenant, new=NewUser("Bob", "bob@example.com")))
    for number, create in enumerate(
        (
            partial(users.create, new=NewUser("Eve", "eve@example.com")),
            partial(orders.create, new=NewOrder(bob.id, [{}])),
            partial(invoices.create, new=NewInvoice(source.id, "Café Nord", amount=900)),
        ),
        start=7,
    ):
        for quota, code in ((number, "quota_exceeded"), (number + 1, None)):
            attempt = engine.write(partial(create, tenant=replace(tenant, quota=quota)))
            if code is None:
                await attempt
            else:
                assert await refusal(attempt) == (code, None)
        assert await counted(engine, tenant) == number + 1


async def test_a_refused_object_does_not_count(engine: Engine, tenant: Tenant) -> None:
    account = await open_account(engine, tenant)
    with pytest.raises(InvalidRequest):
        await post(engine, tenant, NewTransaction(account.id, 0, "credit"))
    assert await counted(engine, tenant) == 1


async def test_each_mode_has_a_quota_of_its_own(engine: Engine, tenant: Tenant) -> None:
    tenant.quota = 1
    await open_account(engine, tenant)
    await open_account(engine, Tenant(tenant.project, livemode=True, quota=1))
    with pytest.raises(PermissionDenied):
        await open_account(engine, tenant)
