"""Accounts in the engine: their rules, their tenancy, their balance at a time."""

from __future__ import annotations

import pytest

from ledger_engine.core.errors import NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal


def new(name: str = "Till", currency: str = "EUR", metadata: dict[str, str] | None = None) -> NewAccount:
    return NewAccount(name, currency, metadata or {})


async def test_its_currency_and_metadata_are_those_of_every_object(write: Run) -> None:
    """See `test_money.py` and `test_fields.py`."""
    assert (await write(accounts.create, new(currency="kwd"))).currency == "KWD"
    assert await refusal(write(accounts.create, new(currency="XXX"))) == ("invalid_value", "currency")
    assert await refusal(write(accounts.create, new(metadata={"": "x"}))) == ("invalid_value", "metadata")


async def test_a_new_account_holds_nothing_and_is_found_again(write: Run, read: Run) -> None:
    made = await write(accounts.create, new(metadata={"shop": "1"}))
    assert (made.balance, made.currency, made.livemode, made.metadata) == (0, "EUR", False, {"shop": "1"})
    assert await read(accounts.get, made.id) == made


@pytest.mark.parametrize("name", ["x", "ü" * 255, "=SUM(A1)", "\x1b[31mred", "日本"])
async def test_a_name_is_kept_as_it_was_sent(write: Run, read: Run, name: str) -> None:
    made = await write(accounts.create, new(name))
    assert (await read(accounts.get, made.id)).name == name


@pytest.mark.parametrize("name", ["", "x" * 256])
async def test_a_name_has_1_to_255_characters(write: Run, name: str) -> None:
    assert await refusal(write(accounts.create, new(name))) == ("invalid_value", "name")


async def test_another_projects_or_modes_account_does_not_exist(
    write: Run, read: Run, stranger: Tenant
) -> None:
    made = await write(accounts.create, new())
    for attempt in (
        read(accounts.get, made.id, by=stranger),
        read(accounts.balance_at, made.id, 0, by=stranger),
        write(transactions.post, NewTransaction(made.id, 5, "credit"), by=stranger),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await read(accounts.page, PageRequest(), by=stranger)).items == []
    assert (await read(accounts.get, made.id)).balance == 0


async def test_the_balance_at_a_time_counts_what_was_posted_up_to_that_millisecond(
    write: Run, read: Run, clock: ManualClock
) -> None:
    account = await write(accounts.create, new())
    clock.advance(1000)
    first = clock.now()
    await write(transactions.post, NewTransaction(account.id, 500, "credit"))
    await write(transactions.post, NewTransaction(account.id, 100, "debit"))
    clock.advance(1)
    await write(transactions.post, NewTransaction(account.id, 25, "credit"))

    async def balance(at: int) -> int:
        answer = await read(accounts.balance_at, account.id, at)
        assert (answer.currency, answer.at) == ("EUR", at)
        return int(answer.balance)

    assert await balance(first - 1) == 0
    assert await balance(first) == 400
    assert await balance(first + 1) == 425
    assert await balance(-(10**13)) == 0
    assert await balance(2**50) == 425


async def test_the_balance_at_a_time_is_the_accounts_own(write: Run, read: Run, clock: ManualClock) -> None:
    mine, other = await write(accounts.create, new()), await write(accounts.create, new())
    await write(transactions.post, NewTransaction(mine.id, 500, "credit"))
    await write(transactions.post, NewTransaction(other.id, 9, "debit"))
    assert (await read(accounts.balance_at, mine.id, clock.now())).balance == 500
