"""A batch leaves what its transactions leave when they are posted one by one, and fails where they would."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import LedgerError, PermissionDenied
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store import Unit
from ledger_engine.store.books import condition_on
from ledger_engine.store.engine import Engine
from tests.ledger_engine.conftest import Run

Fault = tuple[str, str, str | None]

ACCOUNTS = (("Till", "EUR"), ("Safe", "EUR"), ("Bank", "EUR"), ("Dollars", "USD"), ("More dollars", "USD"))
SETTLEMENT_MAX = 2**62
_ID = re.compile(r"\b(?:txn|acc|evt|prj)_[0-9a-z]{26}\b")


@dataclass(frozen=True)
class Books:
    """A project with some accounts: a test describes its postings by the accounts' numbers."""

    tenant: Tenant
    ids: list[str]

    def batch(self, *items: tuple[Any, ...]) -> list[NewTransaction]:
        """Each item is an account's number, a signed amount, and maybe a description and a destination."""
        return [self._new(*item) for item in items]

    def _new(
        self, account: Any, amount: int, description: str | None = None, destination: Any = None
    ) -> NewTransaction:
        kind = "credit" if amount > 0 else "debit"
        return NewTransaction(self._id(account), abs(amount), kind, description, self._id(destination))

    def _id(self, account: Any) -> Any:
        return self.ids[account] if isinstance(account, int) else account


@pytest.fixture
def make_books(engine: Engine) -> Run:
    async def make(**rights: Any) -> Books:
        new = projects.NewProject("Twin", "enterprise", rate_limit=1, burst=1)
        project = await engine.write(partial(projects.create, new=new))
        tenant = Tenant(project.id, livemode=False, request="req_1", **rights)

        def open_accounts(unit: Unit) -> list[str]:
            return [accounts.create(unit, tenant, NewAccount(*each, {})).id for each in ACCOUNTS]

        return Books(tenant, await engine.write(open_accounts))

    return make


@pytest.fixture
def twins(make_books: Run) -> Run:
    """Two projects that differ in nothing but their ids."""

    async def make(**rights: Any) -> tuple[Books, Books]:
        return await make_books(**rights), await make_books(**rights)

    return make


async def post_together(engine: Engine, books: Books, batch: list[NewTransaction]) -> list[Transaction]:
    return await engine.write(partial(transactions.post_batch, tenant=books.tenant, batch=batch))


async def post_in_turn(engine: Engine, books: Books, batch: list[NewTransaction]) -> list[Transaction]:
    """Post one by one, in one work; the `param` of an error is that of a batch."""

    def work(unit: Unit) -> list[Transaction]:
        posted = []
        for number, new in enumerate(batch):
            try:
                posted.append(transactions.post(unit, books.tenant, new))
            except LedgerError as error:
                error.param = error.param and f"transactions.{number}.{error.param}"
                raise
        return posted

    return await engine.write(work)


async def fault_of(asked: Awaitable[Any]) -> Fault:
    """The error that `asked` must end in, with the ids in its message numbered."""
    with pytest.raises(LedgerError) as refused:
        await asked
    return refused.value.code, refused.value.message, refused.value.param


async def rows_of(engine: Engine, books: Books) -> dict[str, list[dict[str, Any]]]:
    """What the project has in the tables a posting writes, without its book and with numbers for its ids."""

    def work(unit: Unit) -> dict[str, list[dict[str, Any]]]:
        found = {}
        numbers: dict[str, str] = {}

        def number(match: re.Match[str]) -> str:
            return numbers.setdefault(match[0], f"{match[0][:3]}_{len(numbers)}")

        for table, order in (
            ("accounts", "id"),
            ("transactions", "id"),
            ("events", "id"),
            ("settlements", "currency"),
            ("counters", "livemode"),
        ):
            rows = unit.execute(
                f"SELECT * FROM {table} WHERE {condition_on(table)} ORDER BY {order}",
                books.tenant.bind(),
            )
            found[table] = [
                {name: _ID.sub(number, value) if isinstance(value, str) else value for name, value in row}
                for row in ((item for item in dict(row).items() if item[0] != "book") for row in rows)
            ]
        return found

    return await engine.read(work)


MIXED = [
    (0, 500, 'Espresso "doppio" ☕\n'),
    (0, -120),
    (0, -80, "to the safe", 1),
    (1, 30, None, 0),
    (3, 700, "tip: 5 \\ 7"),
    (3, -200, "", 4),
    (2, 1),
    (0, -1_000),
    (1, -10, None, 2),
    (0, 7),
]


def many(seed: int, count: int) -> list[tuple[Any, ...]]:
    """As many postings and transfers on all accounts, drawn from a seed."""
    random = Random(seed)
    items: list[tuple[Any, ...]] = []
    for _ in range(count):
        account = random.randrange(5)
        siblings = [other for other, (_, currency) in enumerate(ACCOUNTS) if currency == ACCOUNTS[account][1]]
        destination = random.choice([*siblings, None])
        amount = random.choice((-1, 1)) * random.randint(1, 10 ** random.randint(1, 15))
        items.append((account, amount, None, None if destination == account else destination))
    return items


def sums_of(items: list[tuple[Any, ...]]) -> tuple[list[int], dict[str, int], int]:
    """The balances of accounts and settlements after these postings on new books, and the number of sides."""
    balances, settlements, sides = [0] * len(ACCOUNTS), dict.fromkeys(["EUR", "USD"], 0), 0
    for account, amount, *more in items:
        destination = more[1] if len(more) > 1 else None
        balances[account] += amount
        if destination is None:
            settlements[ACCOUNTS[account][1]] -= amount
        else:
            balances[destination] -= amount
        sides += 1 if destination is None else 2
    return balances, settlements, sides


@pytest.mark.parametrize("items", [MIXED, many(1, 60), many(2, 60)], ids=["mixed", "drawn 1", "drawn 2"])
async def test_a_batch_leaves_the_rows_that_its_transactions_leave_one_by_one(
    engine: Engine, twins: Run, items: list[tuple[Any, ...]]
) -> None:
    together, in_turn = await twins()
    for _ in range(2):  # also on what is there already
        answered = await post_together(engine, together, together.batch(*items))
        expected = await post_in_turn(engine, in_turn, in_turn.batch(*items))
        assert [item.balance_after for item in answered] == [item.balance_after for item in expected]
    rows = await rows_of(engine, together)
    assert rows == await rows_of(engine, in_turn)
    balances, settlements, sides = sums_of(items)
    assert [row["balance"] for row in rows["accounts"]] == [2 * balance for balance in balances]
    assert {row["currency"]: row["balance"] for row in rows["settlements"]} == {
        currency: 2 * balance for currency, balance in settlements.items()
    }
    assert rows["counters"][0]["stored_objects"] == len(ACCOUNTS) + 2 * sides == 5 + len(rows["transactions"])


async def test_the_event_of_each_transaction_holds_its_record(
    engine: Engine, make_books: Run, recorded: Run
) -> None:
    books = await make_books()
    batch = books.batch(*MIXED)
    posted = await engine.write(partial(transactions.post_batch, tenant=books.tenant, batch=batch))
    events = await recorded("transaction.created")
    shown = {event["data"]["object"]["id"]: event["data"]["object"] for event in events}
    assert [shown[item.id] for item in posted] == list(map(as_json, posted))
    assert len(shown) == len(MIXED) + 4  # the other sides of the transfers


async def test_the_ids_of_a_batch_rise_in_its_order(engine: Engine, make_books: Run, recorded: Run) -> None:
    books = await make_books()
    posted = await post_together(engine, books, books.batch(*many(3, 40)))
    announced = [event["data"]["object"]["id"] for event in await recorded("transaction.created")]
    # Each event tells of a later transaction than the one before.
    assert announced == sorted(announced)
    assert [item.id for item in posted] == sorted(item.id for item in posted)
    assert set(announced) > {item.id for item in posted}


async def test_a_batch_may_have_an_account_of_its_own_for_each_item(
    engine: Engine, make_books: Run, recorded: Run
) -> None:
    books = await make_books()

    def open_accounts(unit: Unit) -> list[str]:
        return [accounts.create(unit, books.tenant, NewAccount("A", "EUR", {})).id for _ in range(110)]

    books = replace(books, ids=await engine.write(open_accounts))
    items = [(number, number + 1, None, (number + 55) % 110 if number % 3 else None) for number in range(110)]
    posted = await post_together(engine, books, books.batch(*items, *items))
    rows = (await rows_of(engine, books))["accounts"][len(ACCOUNTS) :]
    expected = [2 * (number + 1) for number in range(110)]
    for _, amount, _, destination in items:
        if destination is not None:
            expected[destination] -= 2 * amount
    assert [row["balance"] for row in rows] == expected
    assert len(posted) == 220
    asked = post_together(engine, books, books.batch(*items[:70], ("acc_x", 5), *items))
    assert (await fault_of(asked))[::2] == ("not_found", "transactions.70.account")


async def test_where_overdraft_is_refused_a_credit_below_zero_is_not(engine: Engine, make_books: Run) -> None:
    books = await make_books()
    await post_together(engine, books, books.batch((0, -10)))
    strict = replace(books, tenant=replace(books.tenant, may_overdraw=False))
    posted = await post_together(engine, strict, books.batch((0, 3), (1, 4), (0, 2, None, 1)))
    assert [item.balance_after for item in posted] == [-7, 4, -5]
    asked = post_together(engine, strict, books.batch((0, 4), (0, -1)))
    code, message, param = await fault_of(asked)
    assert (code, param) == ("insufficient_funds", "transactions.1.amount")
    assert message == f"{books.ids[0]} has a balance of -1, and this project does not allow overdrafts."


REFUSED: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]], str, str]] = {
    "an unknown account": ({}, [(0, 5), ("acc_x", 5)], "not_found", "transactions.1.account"),
    "an unknown destination": (
        {},
        [(0, 5), (0, 5, None, 1), (1, 5, None, "acc_x")],
        "not_found",
        "transactions.2.destination",
    ),
    "two currencies": (
        {},
        [(0, 5), (3, 5), (0, -5, None, 3)],
        "currency_mismatch",
        "transactions.2.destination",
    ),
    "an overdraft": (
        {"may_overdraw": False},
        [(0, 5), (0, -5), (1, 7), (1, -7, None, 0), (0, -8)],
        "insufficient_funds",
        "transactions.4.amount",
    ),
    "an overdraft of the destination": (
        {"may_overdraw": False},
        [(0, 5), (1, 6, None, 0)],
        "insufficient_funds",
        "transactions.1.amount",
    ),
    "a balance too high": (
        {},
        [(0, MAX_AMOUNT), (0, -1), (0, 1), (0, 1)],
        "balance_out_of_range",
        "transactions.3.amount",
    ),
    "a balance too low": (
        {},
        [(0, -MAX_AMOUNT), (1, 4), (0, -1)],
        "balance_out_of_range",
        "transactions.2.amount",
    ),
    "a destination's balance too high": (
        {},
        [(1, MAX_AMOUNT), (0, -1, None, 1)],
        "balance_out_of_range",
        "transactions.1.amount",
    ),
    "an amount of 0": ({}, [(0, 5), (0, 0)], "invalid_value", "transactions.1.amount"),
    "an amount too large": ({}, [(0, 5), (0, 2**53)], "invalid_value", "transactions.1.amount"),
    "a long description": ({}, [(0, 5), (0, 5, "x" * 501)], "invalid_value", "transactions.1.description"),
    "itself for a destination": (
        {},
        [(0, 5), (0, 5, None, 0)],
        "invalid_value",
        "transactions.1.destination",
    ),
    # The first rule that is broken counts, whichever are broken besides.
    "everything at once": (
        {"quota": 5},
        [("acc_x", 0, "x" * 501, "acc_x")],
        "invalid_value",
        "transactions.0.amount",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_batch_fails_at_the_item_and_with_the_words_of_one_by_one(
    engine: Engine, twins: Run, case: str
) -> None:
    rights, items, code, param = REFUSED[case]
    together, in_turn = await twins()
    await post_together(engine, together, together.batch((2, 9)))
    await post_in_turn(engine, in_turn, in_turn.batch((2, 9)))
    before = await rows_of(engine, together)
    together, in_turn = (
        replace(books, tenant=replace(books.tenant, **rights)) for books in (together, in_turn)
    )
    fault = await fault_of(post_together(engine, together, together.batch(*items, (0, 1))))
    expected = await fault_of(post_in_turn(engine, in_turn, in_turn.batch(*items, (0, 1))))
    names = dict(zip(in_turn.ids, together.ids, strict=True))
    assert fault == (expected[0], _ID.sub(lambda id: names[id[0]], expected[1]), expected[2])
    assert (fault[0], fault[2]) == (code, param)
    assert await rows_of(engine, together) == await rows_of(engine, in_turn) == before


@pytest.mark.parametrize("amount", [1, -1])
async def test_a_settlement_out_of_range_fails_the_item_that_takes_it_there(
    engine: Engine, make_books: Run, amount: int
) -> None:
    books = await make_books()
    await post_together(engine, books, books.batch((0, 1)))
    edge = {"max": -amount * (SETTLEMENT_MAX - 1)}
    await engine.write(lambda unit: unit.execute("UPDATE settlements SET balance = :max", edge))
    # There and back, to the edge and beyond it.
    batch = books.batch((3, amount), (0, amount), (0, -amount), (0, amount), (1, amount))
    code, message, param = await fault_of(post_together(engine, books, batch))
    assert (code, param) == ("balance_out_of_range", "transactions.4.amount")
    assert message == "The settlement in EUR would be out of range."
    await post_together(engine, books, batch[:4])
    [settled] = [row for row in (await rows_of(engine, books))["settlements"] if row["currency"] == "EUR"]
    assert settled["balance"] == -amount * SETTLEMENT_MAX


async def test_a_batch_fills_the_quota_to_its_edge_and_not_beyond(engine: Engine, make_books: Run) -> None:
    books = await make_books()  # which holds five objects
    batch = books.batch((0, 5), (0, -5, None, 1), (0, 5), ("acc_x", 5))
    for quota, code in ((8, "quota_exceeded"), (9, "quota_exceeded"), (10, "not_found")):
        tenant = replace(books.tenant, quota=quota)
        assert (await fault_of(post_together(engine, replace(books, tenant=tenant), batch)))[0] == code
    tight = replace(books, tenant=replace(books.tenant, quota=9))
    await post_together(engine, tight, batch[:3])
    assert (await rows_of(engine, books))["counters"][0]["stored_objects"] == 9
    with pytest.raises(PermissionDenied, match="The plan's quota of 9 stored objects is used up"):
        await post_together(engine, tight, batch[:1])
    with pytest.raises(PermissionDenied, match="The plan's quota of 11 stored objects has 2 left"):
        await post_together(engine, replace(books, tenant=replace(books.tenant, quota=11)), batch[:3])
