"""Transactions in the engine: postings, transfers, reversals, and the books that sum to zero.

What is refused, and that nothing of it stays, is in `test_batches.py`, for one posting and for a batch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ledger_engine.access import quotas as limits
from ledger_engine.core.errors import (
    Conflict,
    DuplicateIdempotencyKey,
    InvalidRequest,
    LedgerError,
    NotFound,
    PermissionDenied,
)
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts, balances, transactions
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests import auditing
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import read_through, refusal


@pytest.fixture
async def till(write: Run) -> Account:
    return await write(accounts.create, NewAccount("Till", "EUR", {}))


@pytest.fixture
async def safe(write: Run) -> Account:
    return await write(accounts.create, NewAccount("Safe", "EUR", {}))


@pytest.fixture
async def dollars(write: Run) -> Account:
    return await write(accounts.create, NewAccount("Dollars", "USD", {}))


@pytest.fixture
def balance(read: Run) -> Run:
    async def of(account: Account) -> int:
        return int((await read(accounts.get, account.id)).balance)

    return of


@pytest.fixture
def books(engine: Engine) -> Run:
    """Return the sum of the books, and the settlement alone, by project, mode and currency."""

    async def sums() -> dict[tuple[str, int, str], tuple[int, int]]:
        rows = await engine.read(
            lambda unit: unit.execute(
                "SELECT project, livemode, currency, sum(balance) AS total, sum(settlement) AS settlement"
                " FROM (SELECT project, livemode, currency, balance, 0 AS settlement FROM accounts"
                " UNION ALL SELECT project, livemode, currency, balance, balance FROM settlements) AS sides"
                " GROUP BY project, livemode, currency"
            )
        )
        return {
            (row["project"], row["livemode"], row["currency"]): (row["total"], row["settlement"])
            for row in rows
        }

    return sums


# One posting


async def test_a_credit_adds_and_a_debit_takes_away(
    write: Run, read: Run, till: Account, balance: Run
) -> None:
    credit = await write(transactions.post, NewTransaction(till.id, 500, "credit", "Float"))
    debit = await write(transactions.post, NewTransaction(till.id, 120, "debit"))
    assert (credit.balance_after, credit.description) == (500, "Float")
    assert (debit.balance_after, debit.description) == (380, None)
    assert (credit.destination, credit.transfer, credit.reverses) == (None, None, None)
    assert await balance(till) == 380
    assert await read(transactions.get, credit.id) == credit


async def test_the_other_side_of_a_posting_is_the_settlement(
    write: Run, till: Account, dollars: Account, books: Run, tenant: Tenant
) -> None:
    await write(transactions.post, NewTransaction(till.id, 500, "credit"))
    await write(transactions.post, NewTransaction(till.id, 120, "debit"))
    await write(transactions.post, NewTransaction(dollars.id, 7, "debit"))
    assert await books() == {(tenant.project, 0, "EUR"): (0, -380), (tenant.project, 0, "USD"): (0, 7)}


async def test_each_project_and_mode_has_its_own_settlement(
    write: Run, till: Account, books: Run, tenant: Tenant, stranger: Tenant
) -> None:
    theirs = await write(accounts.create, NewAccount("Till", "EUR", {}), by=stranger)
    await write(transactions.post, NewTransaction(till.id, 5, "credit"))
    await write(transactions.post, NewTransaction(theirs.id, 11, "credit"), by=stranger)
    assert await books() == {
        (tenant.project, 0, "EUR"): (0, -5),
        (stranger.project, int(stranger.livemode), "EUR"): (0, -11),
    }


@pytest.mark.parametrize("with_failures", [False, True])
async def test_postings_of_one_group_are_as_if_each_was_posted_alone(
    engine: Engine, write: Run, read: Run, till: Account, safe: Account, tenant: Tenant, stranger: Tenant,
    with_failures: bool,
) -> None:  # fmt: skip
    theirs = await write(accounts.create, NewAccount("Till", "EUR", {}), by=stranger)
    stored = await read(limits.stored_objects)

    def post(number: int, new: NewTransaction, **rights: Any) -> Awaitable[Any]:
        by = replace(tenant, request=f"req_{number}", **rights)
        return write(transactions.post, new, f"key {number}", by=by)

    # Works that wait together are one group, which a failure makes run again.
    good = [
        post(0, NewTransaction(till.id, 100, "credit")),
        post(1, NewTransaction(till.id, 30, "debit", destination=safe.id), quota=stored + 3),
        write(transactions.post, NewTransaction(theirs.id, 7, "credit"), by=stranger),
        post(2, NewTransaction(safe.id, 30, "debit"), may_overdraw=False),
    ]
    bad = [
        post(3, NewTransaction(safe.id, 1, "debit"), may_overdraw=False),
        post(4, NewTransaction(safe.id, 5, "credit"), quota=stored + 4),
        post(1, NewTransaction(till.id, 1, "credit")),
    ]
    outcome = await asyncio.gather(*good, *(bad if with_failures else []), return_exceptions=True)
    first, transfer, _, last, *failed = outcome
    if with_failures:
        assert [each.code for each in failed] == [
            "insufficient_funds", "quota_exceeded", "duplicate_idempotency_key"
        ]  # fmt: skip
    else:
        for each in bad:
            with pytest.raises(LedgerError):
                await each
    assert [each.balance_after for each in (first, transfer, last)] == [100, 70, 0]
    assert await read(limits.stored_objects) == stored + 4
    other_side = (await read(transactions.related, transfer.id))[0]
    events = (await read(outbox.page, PageRequest(limit=10))).items
    by_request = {each.data["object"]["id"]: each.request for each in events if each.request is not None}
    assert by_request == {
        first.id: "req_0", transfer.id: "req_1", other_side.id: "req_1", last.id: "req_2"
    }  # fmt: skip
    assert (await engine.read(auditing.verify)).fault is None


@pytest.mark.parametrize("type", ["", "Credit", "refund"])
async def test_a_type_is_credit_or_debit(write: Run, till: Account, type: str) -> None:
    assert await refusal(write(transactions.post, NewTransaction(till.id, 1, type))) == (
        "invalid_value",
        "type",
    )


async def test_balances_stay_right_when_not_all_are_kept_in_memory(
    engine: Engine, tenant: Tenant, write: Run, balance: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balances, "_KEPT_MAX", 2)
    opened = [await write(accounts.create, NewAccount(name, "EUR", {})) for name in "abcd"]
    for amount in (1, 20, 300):
        for account in opened:
            await write(transactions.post, NewTransaction(account.id, amount, "credit"))
        kept = await engine.write(lambda unit: len(unit.cached(balances.Balances, tenant)._accounts))
        assert kept <= 2
    assert [await balance(account) for account in opened] == [321] * 4


# Transfers


@pytest.mark.parametrize(("type", "opposite", "change"), [("debit", "credit", -30), ("credit", "debit", 30)])
async def test_a_transfer_is_two_transactions_that_share_their_transfer(
    write: Run,
    read: Run,
    till: Account,
    safe: Account,
    balance: Run,
    books: Run,
    type: str,
    opposite: str,
    change: int,
) -> None:
    source = await write(transactions.post, NewTransaction(till.id, 30, type, "Move", safe.id))
    [other] = (await read(transactions.page, PageRequest(), account=safe.id)).items
    assert (source.account, source.type, source.balance_after) == (till.id, type, change)
    assert (other.account, other.type, other.balance_after) == (safe.id, opposite, -change)
    assert (source.destination, other.destination) == (safe.id, till.id)
    assert source.transfer == other.transfer is not None
    assert (source.amount, other.amount) == (30, 30)
    assert (source.description, other.description) == ("Move", "Move")
    assert [await balance(till), await balance(safe)] == [change, -change]
    assert [settlement for _, settlement in (await books()).values()] == [0]


async def test_a_posting_from_an_account_to_itself_is_refused(write: Run, till: Account) -> None:
    posting = NewTransaction(till.id, 1, "debit", destination=till.id)
    assert await refusal(write(transactions.post, posting)) == ("invalid_value", "destination")


async def test_a_destination_of_another_project_or_mode_does_not_exist(
    write: Run, read: Run, till: Account, balance: Run, stranger: Tenant
) -> None:
    theirs = await write(accounts.create, NewAccount("Till", "EUR", {}), by=stranger)
    posting = NewTransaction(till.id, 1, "debit", destination=theirs.id)
    assert await refusal(write(transactions.post, posting)) == ("not_found", "destination")
    assert await balance(till) == 0
    assert (await read(accounts.get, theirs.id, by=stranger)).balance == 0


# Batches


async def test_a_batch_has_1_to_1000_items(write: Run, till: Account, balance: Run) -> None:
    good = NewTransaction(till.id, 1, "credit")
    for count in (0, 1001):
        attempt = write(transactions.post_batch, [good] * count)
        assert await refusal(attempt) == ("invalid_value", "transactions")
    posted = await write(transactions.post_batch, [good] * 1000)
    assert [item.balance_after for item in posted] == list(range(1, 1001))
    assert await balance(till) == 1000


async def test_a_batchs_key_names_its_first_transaction(write: Run, till: Account) -> None:
    batch = [NewTransaction(till.id, 1, "credit")] * 2
    posted = await write(transactions.post_batch, batch, "key-1")
    with pytest.raises(DuplicateIdempotencyKey) as refused:
        await write(transactions.post_batch, batch, "key-1")
    assert refused.value.original == posted[0].id


# Reversals


async def test_a_reversal_posts_the_opposite_and_names_what_it_undoes(
    write: Run, till: Account, balance: Run, books: Run
) -> None:
    first = await write(transactions.post, NewTransaction(till.id, 30, "credit", "Sale"))
    undone = await write(transactions.reverse, first.id)
    assert (undone.account, undone.amount, undone.type) == (till.id, 30, "debit")
    assert (undone.reverses, undone.description, undone.balance_after) == (first.id, "Sale", 0)
    assert await balance(till) == 0
    assert set((await books()).values()) == {(0, 0)}


async def test_a_transaction_is_reversed_once(write: Run, till: Account, balance: Run) -> None:
    first = await write(transactions.post, NewTransaction(till.id, 30, "credit"))
    undone = await write(transactions.reverse, first.id)
    with pytest.raises(Conflict) as refused:
        await write(transactions.reverse, first.id)
    assert undone.id in refused.value.message
    assert await balance(till) == 0


async def test_twelve_reversals_at_once_are_one(write: Run, till: Account, balance: Run) -> None:
    first = await write(transactions.post, NewTransaction(till.id, 30, "credit"))
    attempt = (write(transactions.reverse, first.id) for _ in range(12))
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {Transaction: 1, Conflict: 11}
    assert await balance(till) == 0


@pytest.mark.parametrize("from_side", ["source", "destination"])
async def test_a_transfer_is_reversed_whole_from_either_of_its_sides(
    write: Run, read: Run, till: Account, safe: Account, balance: Run, books: Run, from_side: str
) -> None:
    source = await write(transactions.post, NewTransaction(till.id, 30, "debit", None, safe.id))
    [other] = (await read(transactions.page, PageRequest(), account=safe.id)).items
    begun, left = (source, other) if from_side == "source" else (other, source)
    undone = await write(transactions.reverse, begun.id)
    assert (undone.account, undone.destination, undone.reverses) == (begun.account, left.account, begun.id)
    [back, _] = (await read(transactions.page, PageRequest(), account=left.account)).items
    assert (back.reverses, back.transfer) == (left.id, undone.transfer)
    assert undone.transfer != source.transfer
    assert [await balance(till), await balance(safe)] == [0, 0]
    assert set((await books()).values()) == {(0, 0)}
    for side in (begun, left):
        with pytest.raises(Conflict):
            await write(transactions.reverse, side.id)


async def test_a_reversal_can_be_reversed(write: Run, till: Account, balance: Run) -> None:
    first = await write(transactions.post, NewTransaction(till.id, 30, "credit"))
    undone = await write(transactions.reverse, first.id)
    again = await write(transactions.reverse, undone.id)
    assert (again.reverses, again.type) == (undone.id, "credit")
    assert await balance(till) == 30


async def test_related_transactions_are_the_other_side_and_the_reversal(
    write: Run, read: Run, till: Account, safe: Account
) -> None:
    alone = await write(transactions.post, NewTransaction(till.id, 30, "credit"))
    moved = await write(transactions.post, NewTransaction(till.id, 5, "debit", None, safe.id))
    undone = await write(transactions.reverse, moved.id)
    again = await write(transactions.reverse, undone.id)
    (other, other_undone, other_again) = [
        each.id for each in (await read(transactions.page, PageRequest(), account=safe.id)).items[::-1]
    ]

    async def related(id: str) -> set[str]:
        return {each.id for each in await read(transactions.related, id)}

    assert await related(alone.id) == set()
    assert await related(moved.id) == {other, undone.id}
    assert await related(other) == {moved.id, other_undone}
    assert await related(undone.id) == {other_undone, moved.id, again.id}
    assert await related(again.id) == {other_again, undone.id}


async def test_a_reversal_keeps_to_the_rules_of_a_posting(
    write: Run, till: Account, tenant: Tenant, balance: Run
) -> None:
    strict = replace(tenant, may_overdraw=False)
    first = await write(transactions.post, NewTransaction(till.id, 30, "credit"))
    await write(transactions.post, NewTransaction(till.id, 1, "debit"))
    attempt = write(transactions.reverse, first.id, "key-1", by=strict)
    # The request has no amount that could be at fault.
    assert await refusal(attempt) == ("insufficient_funds", None)
    assert await balance(till) == 29
    await write(transactions.reverse, first.id, "key-1")
    assert await balance(till) == -1


async def test_another_projects_or_modes_transaction_cannot_be_seen_or_reversed(
    write: Run, read: Run, till: Account, balance: Run, stranger: Tenant
) -> None:
    posted = await write(transactions.post, NewTransaction(till.id, 30, "credit"))
    assert await refusal(read(transactions.get, posted.id, by=stranger)) == ("not_found", None)
    assert await refusal(write(transactions.reverse, posted.id, by=stranger)) == ("not_found", None)
    batch = [NewTransaction(till.id, 30, "debit")]
    attempt = write(transactions.post_batch, batch, by=stranger)
    assert await refusal(attempt) == ("not_found", "transactions.0.account")
    assert await balance(till) == 30


# Lists


@pytest.fixture
async def mixed(write: Run, till: Account, safe: Account) -> list[Transaction]:
    """Eight transactions on two accounts, newest first."""
    posted = []
    for number in range(8):
        account = till if number % 2 else safe
        type = "credit" if number % 4 < 2 else "debit"
        posted.append(await write(transactions.post, NewTransaction(account.id, number + 1, type)))
    return posted[::-1]


@pytest.mark.parametrize("by_account", [True, False])
@pytest.mark.parametrize("type", [None, "credit", "debit"])
async def test_filters_go_together_and_with_the_pages(
    read: Run, till: Account, mixed: list[Transaction], by_account: bool, type: str | None
) -> None:
    account = till.id if by_account else None
    wanted = [t for t in mixed if account in (None, t.account) and type in (None, t.type)]
    listed = partial(read, transactions.page, account=account, type=type)
    assert await read_through(listed) == wanted
    newer = await listed(PageRequest(limit=1, before=wanted[-1].id))
    assert newer.items == wanted[-2:-1]


async def test_an_unknown_account_filters_everything_out(
    write: Run, read: Run, mixed: list[Transaction], stranger: Tenant
) -> None:
    theirs = await write(accounts.create, NewAccount("Till", "EUR", {}), by=stranger)
    for account in ("acc_00000000000000000000000000", "nonsense", theirs.id):
        page = await read(transactions.page, PageRequest(), account=account)
        assert (page.items, page.has_more) == ([], False)


async def test_another_project_or_mode_lists_none_of_them(
    read: Run, till: Account, mixed: list[Transaction], stranger: Tenant
) -> None:
    for filters in ({}, {"account": till.id}, {"type": "credit"}, {"created_after": 0}):
        assert (await read(transactions.page, PageRequest(), by=stranger, **filters)).items == []


async def test_a_bad_type_filters_nothing_but_is_refused(read: Run) -> None:
    assert await refusal(read(transactions.page, PageRequest(), type="x")) == ("invalid_value", "type")


async def test_created_after_is_strictly_after_to_the_millisecond(
    write: Run, read: Run, till: Account, clock: ManualClock
) -> None:
    posted = []
    for _ in range(3):
        posted.append(await write(transactions.post, NewTransaction(till.id, 1, "credit")))
        posted.append(await write(transactions.post, NewTransaction(till.id, 1, "credit")))
        clock.advance(1)
    first = posted[0].created

    async def after(moment: int, **how: Any) -> list[Transaction]:
        return list((await read(transactions.page, PageRequest(**how), created_after=moment)).items)

    assert await after(first - 1) == posted[::-1]
    assert await after(first) == posted[:1:-1]
    assert await after(first + 1) == posted[:3:-1]
    assert await after(first + 2) == []
    assert await after(-(10**14)) == posted[::-1]
    assert await after(2**60) == []
    # It holds for the page that a cursor asks for, too.
    assert await after(first, after=posted[3].id) == [posted[2]]
    assert await after(first, after=posted[2].id) == []
    assert await after(first, before=posted[0].id) == posted[:1:-1]


# Keys and races


async def test_keys_are_one_space_over_all_creates(write: Run, till: Account) -> None:
    await write(accounts.create, NewAccount("Other", "EUR", {}), "key-1")
    posting = NewTransaction(till.id, 1, "credit")
    assert (await refusal(write(transactions.post, posting, "key-1")))[0] == "duplicate_idempotency_key"
    first = await write(transactions.post, posting, "key-2")
    attempt = write(transactions.reverse, first.id, "key-2")
    assert (await refusal(attempt))[0] == "duplicate_idempotency_key"


async def test_a_refused_posting_takes_no_key(write: Run, till: Account, tenant: Tenant) -> None:
    posting = NewTransaction(till.id, 1, "debit")
    with pytest.raises(InvalidRequest):
        await write(transactions.post, posting, "key-1", by=replace(tenant, may_overdraw=False))
    with pytest.raises(PermissionDenied):
        await write(transactions.post, posting, "key-1", by=replace(tenant, quota=1))
    with pytest.raises(NotFound):
        await write(transactions.post, replace(posting, account="acc_x"), "key-1")
    await write(transactions.post, posting, "key-1")


async def test_parallel_postings_all_count_and_each_sees_its_own_balance(
    write: Run, till: Account, safe: Account, balance: Run, books: Run
) -> None:
    postings = [NewTransaction(till.id, n, "credit") for n in range(1, 41)]
    postings += [NewTransaction(till.id, n, "debit", destination=safe.id) for n in range(1, 41)]
    posted = await asyncio.gather(*(write(transactions.post, posting) for posting in postings))
    assert [await balance(till), await balance(safe)] == [0, 820]
    running = 0
    for transaction in sorted(posted, key=lambda posted: posted.id):
        running += transaction.amount if transaction.type == "credit" else -transaction.amount
        assert transaction.balance_after == running
    assert {total for total, _ in (await books()).values()} == {0}


async def test_parallel_debits_never_overdraw_together(
    write: Run, till: Account, tenant: Tenant, balance: Run
) -> None:
    await write(transactions.post, NewTransaction(till.id, 10, "credit"))
    strict = replace(tenant, may_overdraw=False)
    attempt = (write(transactions.post, NewTransaction(till.id, 3, "debit"), by=strict) for _ in range(12))
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {Transaction: 3, InvalidRequest: 9}
    assert await balance(till) == 1
