"""A key makes one object, once and for ever.

See docs/interface.md#create-idempotency, #create-duplicate; docs/decisions.md#idempotency.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from ledger_engine.access import idempotency, projects
from ledger_engine.access.api_keys import new_secret, new_value
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.endpoints import new_secret as signing_secret
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.invoices import NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.manual_clock import ManualClock

TILL = NewAccount("Till", "EUR", {})
ADA, EVE = NewUser("Ada", "ada@example.com"), NewUser("Eve", "eve@example.com")


async def create(engine: Engine, tenant: Tenant, key: str | None) -> Account:
    return await engine.write(partial(accounts.create, tenant=tenant, new=TILL, key=key))


async def names(engine: Engine, tenant: Tenant) -> list[str]:
    page = await engine.read(partial(accounts.page, tenant=tenant, request=PageRequest()))
    return [account.id for account in page.items]


@pytest.mark.parametrize("key", ["a", "a" * 255, "order 17 / retry", "~!@#$%^&*()", " "])
def test_printable_ascii_of_1_to_255_characters_is_a_key(key: str) -> None:
    assert idempotency.parse(key) == key


@pytest.mark.parametrize(
    "value",
    [new_value(True), new_value(False), new_secret("at"), new_secret("rt"), signing_secret()],
    ids=["live key", "test key", "access token", "refresh token", "signing secret"],
)
@pytest.mark.parametrize("around", ["{}", "retry-{}", "{} 2"])
def test_a_secret_is_refused_so_that_none_is_stored(value: str, around: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        idempotency.parse(around.format(value))
    assert (refused.value.code, refused.value.param) == ("invalid_value", "Idempotency-Key")
    assert value not in refused.value.message


@pytest.mark.parametrize(
    "key", ["at_20261120", "rt_" + "a" * 31, "at_" + "a" * 33, "start_" + "a" * 32, "sk_test_"]
)
def test_a_value_that_only_begins_like_a_secret_is_a_key(key: str) -> None:
    assert idempotency.parse(key) == key


@pytest.mark.parametrize("key", ["", "a" * 256, "é", "a\tb", "a\n", "\x7f", "a\x00", "☕"])
def test_anything_else_is_refused_and_the_header_named(key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        idempotency.parse(key)
    assert (refused.value.code, refused.value.param) == ("invalid_value", "Idempotency-Key")


def test_no_key_is_no_key() -> None:
    assert idempotency.parse(None) is None


async def test_a_second_use_names_the_first_object_and_makes_none(engine: Engine, tenant: Tenant) -> None:
    first = await create(engine, tenant, "key")
    with pytest.raises(DuplicateIdempotencyKey) as refused:
        await create(engine, tenant, "key")
    assert refused.value.original == first.id
    assert first.id in refused.value.message
    assert (refused.value.code, refused.value.param) == ("duplicate_idempotency_key", "Idempotency-Key")
    assert await names(engine, tenant) == [first.id]


async def test_without_a_key_each_request_makes_an_object(engine: Engine, tenant: Tenant) -> None:
    made = [await create(engine, tenant, None) for _ in range(3)]
    assert await names(engine, tenant) == [account.id for account in reversed(made)]


async def test_a_key_does_not_expire(engine: Engine, tenant: Tenant, clock: ManualClock) -> None:
    await create(engine, tenant, "key")
    clock.advance(3650 * DAY)
    with pytest.raises(DuplicateIdempotencyKey):
        await create(engine, tenant, "key")


async def test_keys_are_distinguished_by_every_letter(engine: Engine, tenant: Tenant) -> None:
    made = [await create(engine, tenant, key) for key in ("key", "KEY", "key ", "kéy")]
    assert len({account.id for account in made}) == 4


async def test_each_project_and_mode_has_its_own_keys(engine: Engine, tenant: Tenant) -> None:
    other = await engine.write(partial(projects.create, new=projects.NewProject("Other")))
    scopes = [tenant, Tenant(tenant.project, livemode=True), Tenant(other.id, False), Tenant(other.id, True)]
    made = [await create(engine, each, "key") for each in scopes]
    assert len({account.id for account in made}) == 4
    for each in scopes:
        with pytest.raises(DuplicateIdempotencyKey):
            await create(engine, each, "key")


async def test_keys_that_are_read_together_are_taken_as_if_each_was_read_alone(
    engine: Engine, tenant: Tenant, stranger: Tenant
) -> None:
    await create(engine, tenant, "used")
    await create(engine, stranger, "of another")
    new = [f"key {number}" for number in range(70)]  # which takes three statements

    def use(unit: Unit) -> None:
        together = ["of another", *new, "used", "twice", *new]
        unit.cached(idempotency.UnusedKeys, tenant).read(together)
        for key in dict.fromkeys(together):
            with nullcontext() if key != "used" else pytest.raises(DuplicateIdempotencyKey):
                idempotency.take(unit, tenant, key, f"acc_{key}")
        with pytest.raises(DuplicateIdempotencyKey):
            idempotency.take(unit, tenant, "twice", "acc_other")

    await engine.write(use)
    for key in ("of another", *new, "twice"):
        with pytest.raises(DuplicateIdempotencyKey) as refused:
            await create(engine, tenant, key)
        assert refused.value.original == f"acc_{key}"


async def test_of_keys_that_are_read_together_each_unused_one_is_known_until_it_is_taken(
    engine: Engine, tenant: Tenant
) -> None:
    await create(engine, tenant, "used")
    new = [f"key {number}" for number in range(70)]

    def look(unit: Unit) -> tuple[list[bool], list[bool]]:
        unused = unit.cached(idempotency.UnusedKeys, tenant)
        unused.read(["used", *new])
        known = [unused.take(key) for key in new]
        return known, [unused.take(key) for key in ("used", "not read", new[0])]

    assert await engine.write(look) == ([True] * 70, [False] * 3)


async def test_every_change_of_an_object_takes_the_key(engine: Engine, tenant: Tenant) -> None:
    async def write(work: Callable[..., Any], *given: Any, key: str | None = None) -> Any:
        return await engine.write(lambda unit: work(unit, tenant, *given, key=key))

    account, user = (await create(engine, tenant, None)).id, (await write(users.create, ADA)).id
    posting, invoice = NewTransaction(account, 100, "credit"), NewInvoice(account, "Café", 100)
    order = NewOrder(user, [{"quantity": 1, "unit_amount": 5}])
    posted, drafted, ordered = [
        (await write(work, new)).id
        for work, new in (
            (transactions.post, posting),
            (invoices.create, invoice),
            (orders.create, order),
        )
    ]
    works: list[tuple[Callable[..., Any], Any, str, list[str]]] = [
        (accounts.create, TILL, "acc_", []),
        (transactions.post, posting, "txn_", []),
        (transactions.post_batch, [posting, posting], "txn_", ["txn_", "txn_"]),
        (transactions.reverse, posted, "txn_", [posted, "txn_"]),
        (invoices.create, invoice, "inv_", []),
        (invoices.finalize, drafted, drafted, []),
        (invoices.pay, drafted, drafted, [drafted, "txn_"]),
        (users.create, EVE, "usr_", []),
        (users.restore, user, user, []),
        (orders.create, order, "ord_", []),
        (orders.pay, ordered, ordered, []),
        (orders.ship, ordered, ordered, []),
    ]
    for number, (work, given, *_) in enumerate(works):
        await write(work, given, key=f"key {number}")
    for number, (work, given, original, originals) in enumerate(works):
        with pytest.raises(DuplicateIdempotencyKey) as refused:
            await write(work, given, key=f"key {number}")
        assert refused.value.original.startswith(original)
        for id, beginning in zip(refused.value.originals, originals, strict=True):
            assert id.startswith(beginning)


async def test_a_work_that_fails_gives_its_key_back(engine: Engine, tenant: Tenant) -> None:
    def fail_later(unit: Unit) -> None:
        accounts.create(unit, tenant, TILL, "key")
        raise InvalidRequest("invalid_value", "Too late.", "name")

    with pytest.raises(InvalidRequest):
        await engine.write(fail_later)
    made = await create(engine, tenant, "key")
    assert await names(engine, tenant) == [made.id]


async def test_of_fifty_at_once_one_is_taken(engine: Engine, tenant: Tenant) -> None:
    outcome = await asyncio.gather(
        *(create(engine, tenant, "key") for _ in range(50)), return_exceptions=True
    )
    made = [each for each in outcome if isinstance(each, Account)]
    refused = [each for each in outcome if isinstance(each, DuplicateIdempotencyKey)]
    assert (len(made), len(refused)) == (1, 49)
    assert {each.original for each in refused} == {made[0].id}
    assert await names(engine, tenant) == [made[0].id]


async def test_a_key_of_an_older_version_tells_nothing_of_the_request(engine: Engine, tenant: Tenant) -> None:
    def older(unit: Unit) -> None:
        unit.execute(
            "INSERT INTO idempotency_keys (project, livemode, key, object, created)"
            " VALUES (:project, :livemode, 'old', 'acc_1', 1)",
            tenant.bind(),
        )

    await engine.write(older)
    tenant.fingerprint = idempotency.fingerprint("POST", b"/v1/accounts", b"{}")
    with pytest.raises(DuplicateIdempotencyKey) as refused:
        await create(engine, tenant, "old")
    assert (refused.value.original, refused.value.same_request) == ("acc_1", None)
    assert list(refused.value.originals) == []


async def test_a_second_use_tells_whether_the_request_is_the_same(engine: Engine, tenant: Tenant) -> None:
    first, other = (idempotency.fingerprint("POST", b"/v1/accounts", body) for body in (b"{}", b"[]"))
    tenant.fingerprint = first
    await create(engine, tenant, "one")
    for given, same in ((first, True), (other, False), (None, None)):
        tenant.fingerprint = given
        with pytest.raises(DuplicateIdempotencyKey) as refused:
            await create(engine, tenant, "one")
        assert refused.value.same_request is same


def test_a_fingerprint_that_was_stored_is_that_of_the_same_request_for_ever() -> None:
    assert idempotency.fingerprint("POST", b"/v1/accounts?x=1", b"{}") == -7848034231527343116


def test_method_target_and_body_each_make_another_fingerprint() -> None:
    requests = [
        ("POST", b"/v1/accounts", b"{}"),
        ("PUT", b"/v1/accounts", b"{}"),
        ("POST", b"/v1/invoices", b"{}"),
        ("POST", b"/v1/accounts?a", b"{}"),
        ("POST", b"/v1/accounts", b"{ }"),
        ("POST", b"/v1/accounts\n{}", b""),
    ]
    prints = {idempotency.fingerprint(*each) for each in requests}
    assert len(prints) == len(requests)
    assert all(-(2**63) <= each < 2**63 for each in prints)


@pytest.mark.parametrize("ids", [["txn_1"], ["inv_1", "txn_1"], ["txn_aa", "txn_ab"], ["txn_1", "txn_1"]])
async def test_all_ids_of_a_request_are_kept_in_their_order(
    engine: Engine, tenant: Tenant, ids: list[str]
) -> None:
    def use(unit: Unit) -> None:
        idempotency.take(unit, tenant, "key", ids[0])
        idempotency.store_ids(unit, tenant, "key", ids)

    await engine.write(use)
    with pytest.raises(DuplicateIdempotencyKey) as refused:
        await engine.write(use)
    assert list(refused.value.originals) == ids
