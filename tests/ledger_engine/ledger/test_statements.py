"""Statements in the engine: opening balance, lines and closing balance always add up."""

from __future__ import annotations

import pytest

from ledger_engine.core.errors import NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, statements, transactions
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.statements import Statement, StatementLine
from ledger_engine.ledger.transactions import NewTransaction
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal


@pytest.fixture
async def till(write: Run) -> Account:
    return await write(accounts.create, NewAccount("Till", "EUR", {}))


@pytest.fixture
async def first(write: Run, till: Account, clock: ManualClock) -> int:
    """Return the time of the first of four: +500 −120 in one millisecond, +7 and −400 in the next two."""
    clock.advance(1000)
    start = clock.now()
    await write(transactions.post, NewTransaction(till.id, 500, "credit", "Float"))
    await write(transactions.post, NewTransaction(till.id, 120, "debit"))
    for amount, type in ((7, "credit"), (400, "debit")):
        clock.advance(1)
        await write(transactions.post, NewTransaction(till.id, amount, type))
    clock.advance(1000)
    return start


@pytest.fixture
def whole(read: Run) -> Run:
    """Return a statement with all its lines."""

    async def draw_up(
        account: Account, start: int | None = None, end: int | None = None
    ) -> tuple[Statement, list[StatementLine]]:
        statement = await read(statements.draw_up, account.id, start, end)
        lines: list[StatementLine] = []
        while part := await read(statements.lines, statement, lines[-1].transaction if lines else None):
            lines += part
        assert statement.opening_balance + sum(line.amount for line in lines) == statement.closing_balance
        if lines:
            assert statement.last_transaction == lines[-1].transaction
            assert statement.closing_balance == lines[-1].running_balance
        return statement, lines

    return draw_up


async def test_a_statement_without_bounds_goes_from_the_accounts_first_day_until_now(
    till: Account, first: int, whole: Run, clock: ManualClock
) -> None:
    statement, lines = await whole(till)
    assert (statement.account, statement.currency) == (till.id, "EUR")
    assert (statement.period_start, statement.period_end) == (till.created, clock.now())
    assert (statement.opening_balance, statement.closing_balance) == (0, -13)
    assert [(line.amount, line.running_balance) for line in lines] == [
        (500, 500),
        (-120, 380),
        (7, 387),
        (-400, -13),
    ]
    assert [line.date for line in lines] == [first, first, first + 1, first + 2]
    assert [line.description for line in lines] == ["Float", None, None, None]


@pytest.mark.parametrize(
    ("start", "end", "opening", "amounts"),
    [
        (0, 2, 0, [500, -120, 7, -400]),
        (0, 0, 0, [500, -120]),
        (1, 1, 380, [7]),
        (1, 2, 380, [7, -400]),
        (2, 5, 387, [-400]),
        (3, 9, -13, []),
        (-500, -1, 0, []),
        (-(10**15), 10**15, 0, [500, -120, 7, -400]),
    ],
)
async def test_both_ends_of_the_period_belong_to_it(
    till: Account, first: int, whole: Run, start: int, end: int, opening: int, amounts: list[int]
) -> None:
    statement, lines = await whole(till, first + start, first + end)
    assert statement.opening_balance == opening
    assert [line.amount for line in lines] == amounts


async def test_the_closing_balance_is_the_balance_at_the_end(
    read: Run, till: Account, first: int, whole: Run
) -> None:
    for offset in range(-1, 4):
        statement, _ = await whole(till, None, first + offset)
        held = await read(accounts.balance_at, till.id, first + offset)
        assert statement.closing_balance == held.balance


async def test_statements_that_follow_each_other_show_each_line_once(
    till: Account, first: int, whole: Run
) -> None:
    early, lines = await whole(till, None, first)
    late, more = await whole(till, first + 1, None)
    assert early.closing_balance == late.opening_balance
    assert lines + more == (await whole(till))[1]


async def test_an_account_without_postings_has_an_empty_statement(
    write: Run, whole: Run, clock: ManualClock
) -> None:
    account = await write(accounts.create, NewAccount("Empty", "JPY", {}))
    statement, lines = await whole(account)
    assert (statement.opening_balance, statement.closing_balance, lines) == (0, 0, [])
    assert statement.last_transaction is None


async def test_a_statement_that_ended_before_the_account_began_is_empty(till: Account, whole: Run) -> None:
    statement, lines = await whole(till, None, till.created - 10)
    assert (statement.closing_balance, lines) == (0, [])


async def test_a_statement_has_the_lines_of_its_account_alone(write: Run, till: Account, whole: Run) -> None:
    other = await write(accounts.create, NewAccount("Other", "EUR", {}))
    for amount in (1, 2, 3):
        await write(transactions.post, NewTransaction(till.id, amount, "credit"))
        await write(transactions.post, NewTransaction(other.id, 10 * amount, "credit"))
    assert [line.amount for line in (await whole(till))[1]] == [1, 2, 3]
    assert [line.amount for line in (await whole(other))[1]] == [10, 20, 30]


async def test_a_period_that_ends_before_it_begins_is_refused(read: Run, till: Account) -> None:
    assert await refusal(read(statements.draw_up, till.id, 2000, 1999)) == ("invalid_value", "from")


async def test_a_statement_longer_than_one_part_is_whole(write: Run, till: Account, whole: Run) -> None:
    count = 2 * statements.LINES_AT_ONCE
    for _ in range(2):
        batch = [NewTransaction(till.id, 1, "credit")] * statements.LINES_AT_ONCE
        await write(transactions.post_batch, batch)
    _, lines = await whole(till)
    assert [line.running_balance for line in lines] == list(range(1, count + 1))


async def test_a_posting_made_while_a_statement_is_read_stays_out_of_it(
    write: Run, read: Run, till: Account, first: int
) -> None:
    statement = await read(statements.draw_up, till.id, None, 2**45)
    await write(transactions.post, NewTransaction(till.id, 9, "credit"))
    lines = await read(statements.lines, statement)
    assert len(lines) == 4
    assert await read(statements.lines, statement, lines[-1].transaction) == []


async def test_nothing_comes_into_a_statement_that_was_empty(write: Run, read: Run, till: Account) -> None:
    statement = await read(statements.draw_up, till.id, None, 2**45)
    await write(transactions.post, NewTransaction(till.id, 9, "credit"))
    assert await read(statements.lines, statement) == []


async def test_another_projects_or_modes_account_has_no_statement(
    read: Run, till: Account, first: int, stranger: Tenant
) -> None:
    with pytest.raises(NotFound):
        await read(statements.draw_up, till.id, None, None, by=stranger)
    mine = await read(statements.draw_up, till.id, None, None)
    assert await read(statements.lines, mine, by=stranger) == []


async def test_a_line_has_the_description_of_its_transaction_letter_by_letter(
    till: Account, write: Run, whole: Run
) -> None:
    descriptions = ["", None, '"quoted" \\ and \'', "two\nlines\t\x01", "Öl \u2028 😀"]
    for description in descriptions:
        await write(transactions.post, NewTransaction(till.id, 2**50, "debit", description))
    _, lines = await whole(till)
    assert [line.description for line in lines] == descriptions
    assert [line.running_balance for line in lines] == [-(2**50) * count for count in range(1, 6)]
