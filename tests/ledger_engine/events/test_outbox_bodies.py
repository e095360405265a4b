"""The bodies of events: of a posting rendered from its transaction, of all others as they were stored."""

from __future__ import annotations

import json
from functools import partial

import pytest

from ledger_engine.core.records import as_json, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine

TILL = accounts.NewAccount("Till", "EUR", {})
# Everything that JSON escapes, and what it may leave as it is.
ODD = 'A "quoted" \\ slash / line\nbreak, tab\t, bell \x07, delete \x7f, U+2028 \u2028, ☕, 𝄞'


@pytest.fixture
async def posted(engine: Engine, tenant: Tenant) -> list[transactions.Transaction]:
    """One transaction of each form: with and without text, a transfer's two sides, and their reversal."""

    def work(unit: Unit) -> list[transactions.Transaction]:
        till, bank = (accounts.create(unit, tenant, TILL).id for _ in range(2))
        made = [
            transactions.post(unit, tenant, NewTransaction(till, 100, "credit", ODD)),
            transactions.post(unit, tenant, NewTransaction(till, 30, "debit")),
            transactions.post(unit, tenant, NewTransaction(till, 5, "debit", "", bank)),
        ]
        transactions.reverse(unit, tenant, made[2].id)
        return made

    await engine.write(work)
    everything = await engine.read(partial(transactions.page, tenant=tenant, wanted=outbox.PageRequest(100)))
    return everything.items[::-1]


async def test_the_event_of_a_posting_holds_the_transaction_as_the_interface_shows_it(
    engine: Engine, tenant: Tenant, posted: list[transactions.Transaction]
) -> None:
    sent, _ = await engine.read(partial(outbox.after, tenant=tenant, cursor="", limit=100))
    of_postings = [message for message in sent if message.type == "transaction.created"]
    assert [json.loads(message.body)["data"]["object"] for message in of_postings] == list(
        map(as_json, posted)
    )
    for message in of_postings:
        shown = json.loads(message.body)
        assert message.body == dumps(shown)
        assert list(shown) == ["id", "object", "type", "created", "livemode", "data"]
        assert shown["created"] == shown["data"]["object"]["created"]
    listed = await engine.read(partial(outbox.page, tenant=tenant, wanted=outbox.PageRequest(100)))
    assert [event.data for event in listed.items if event.type == "transaction.created"] == [
        json.loads(message.body)["data"] for message in reversed(of_postings)
    ]


async def test_its_bytes_are_fixed(engine: Engine, tenant: Tenant) -> None:
    account = await engine.write(partial(accounts.create, tenant=tenant, new=TILL))
    new = NewTransaction(account.id, 1250, "credit", ODD)
    made = await engine.write(partial(transactions.post, tenant=tenant, new=new))
    (_, message), _ = await engine.read(partial(outbox.after, tenant=tenant, cursor="", limit=100))
    assert message.body == (
        f'{{"id":"{message.id}","object":"event","type":"transaction.created",'
        '"created":"2026-09-21T14:13:20.000Z","livemode":false,"data":{"object":'
        f'{{"id":"{made.id}","object":"transaction","account":"{account.id}","amount":1250,"type":"credit",'
        '"description":"A \\"quoted\\" \\\\ slash / line\\nbreak, tab\\t, bell \\u0007, delete \x7f, '
        'U+2028 \u2028, ☕, 𝄞",'
        '"balance_after":1250,"created":"2026-09-21T14:13:20.000Z","livemode":false,"destination":null,'
        '"transfer":null,"reverses":null}}}'
    )


async def test_a_body_that_was_stored_with_a_posting_by_an_older_version_is_the_one_that_is_sent(
    engine: Engine, tenant: Tenant, posted: list[transactions.Transaction]
) -> None:
    stored = '{"data":{"object":{"id":"as it was"}}}'
    await engine.write(
        lambda unit: unit.execute(
            "UPDATE events SET body = :body WHERE object = :object",
            {"body": stored, "object": posted[0].id},
        )
    )
    sent, _ = await engine.read(partial(outbox.after, tenant=tenant, cursor="", limit=100))
    assert [message.body for message in sent].count(stored) == 1
    shown = await engine.read(partial(outbox.page, tenant=tenant, wanted=outbox.PageRequest(100)))
    assert [event.data for event in shown.items].count({"object": {"id": "as it was"}}) == 1
