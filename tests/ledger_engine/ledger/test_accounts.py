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


@pytest.mark.parametrize("currency", ["eur", "Eur", "EUR", "jpy", "kwd"])
async def test_a_currency_is_taken_in_any_case(write: Run, currency: str) -> None:
    assert (await write(accounts.create, new(currency=currency))).currency == currency.upper()


@pytest.mark.parametrize("currency", ["", "EU", "EURO", "DEM", "XXX", "XAU", "BTC", "ＥＵＲ", " EUR", "ſek"])
async def test_a_currency_is_an_active_iso_4217_code(write: Run, currency: str) -> None:
    assert await refusal(write(accounts.create, new(currency=currency))) == ("invalid_value", "currency")


async def test_metadata_holds_20_pairs_of_64_and_1024_characters(write: Run, read: Run) -> None:
    metadata = {f"{number:064}": "ü" * 1024 for number in range(20)}
    made = await write(accounts.create, new(metadata=metadata))
    assert (await read(accounts.get, made.id)).metadata == metadata


@pytest.mark.parametrize(
    ("metadata", "param"),
    [
        ({str(number): "" for number in range(21)}, "metadata"),
        ({"": "x"}, "metadata"),
        ({"k" * 65: "x"}, "metadata"),
        ({"note": "x" * 1025}, "metadata.note"),
    ],
    ids=["21 pairs", "no key", "long key", "long value"],
)
async def test_metadata_beyond_its_limits_is_refused(
    write: Run, metadata: dict[str, str], param: str
) -> None:
    assert await refusal(write(accounts.create, new(metadata=metadata))) == ("invalid_value", param)


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
