"""A description is read as it was given, wherever it is stored."""

from __future__ import annotations

import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts, statements, transactions
from ledger_engine.ledger.accounts import ELSEWHERE, SHORT_MAX, NewAccount, parse_metadata
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import Run

GIVEN = [None, "", "Flat white", ELSEWHERE, "é" * SHORT_MAX, "é" * (SHORT_MAX + 1), "x, y\t" * 100]


async def test_a_description_is_the_same_in_every_list_and_event(write: Run, read: Run) -> None:
    till = await write(accounts.create, NewAccount("Till", "EUR", {}))
    posted = [
        await write(transactions.post, NewTransaction(till.id, 5, "credit", description))
        for description in GIVEN
    ]
    assert [await described(read, each.id) for each in posted] == GIVEN
    for filters in ({}, {"type": "credit"}, {"account": till.id}, {"account": till.id, "type": "credit"}):
        page = await read(transactions.page, PageRequest(), **filters)
        assert [each.description for each in reversed(page.items)] == GIVEN, filters
    statement = await read(statements.draw_up, till.id, None, None)
    assert [line.description for line in await read(statements.lines, statement)] == GIVEN
    found = [(await read(outbox.about, PageRequest(), each.id)).items for each in posted]
    assert [event.data["object"]["description"] for (event,) in found] == GIVEN
    reversal = await write(transactions.reverse, posted[-1].id)
    assert await described(read, reversal.id) == GIVEN[-1]


async def described(read: Run, id: str) -> str | None:
    found: str | None = (await read(transactions.get, id)).description
    return found


@pytest.mark.sqlite
async def test_a_long_description_is_not_in_the_index_by_account(
    engine: Engine, tenant: Tenant, write: Run
) -> None:
    till = await write(accounts.create, NewAccount("Till", "EUR", {}))
    await write(transactions.post, NewTransaction(till.id, 5, "credit", "x" * (SHORT_MAX + 1)))
    of_account = "SELECT description FROM transactions INDEXED BY transactions_by_account_and_type"
    (row,) = await engine.read(lambda unit: unit.execute(f"{of_account} WHERE account = '{till.id}'"))
    assert row["description"] == ELSEWHERE


#


@pytest.mark.parametrize(
    "pairs",
    [
        {},
        {f"key {number}": "value" for number in range(20)},
        {"k" * 64: "v" * 1024},
        {"k": ""},
        {"été": "☕"},
    ],
)
def test_twenty_pairs_of_text_are_kept(pairs: dict[str, str]) -> None:
    kept = parse_metadata(pairs)
    assert kept == pairs
    assert kept is not pairs


@pytest.mark.parametrize(
    ("pairs", "param"),
    [
        ({f"key {number}": "value" for number in range(21)}, "metadata"),
        ({"": "value"}, "metadata"),
        ({"k" * 65: "value"}, "metadata"),
        ({"colour": "v" * 1025}, "metadata.colour"),
    ],
)
def test_more_than_that_is_refused_and_named(pairs: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_metadata(pairs)
    assert (refused.value.code, refused.value.param) == ("invalid_value", param)
