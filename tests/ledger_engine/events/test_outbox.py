"""The outbox: an event and its change are one commit (docs/decisions.md#events-recorded)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.core.clock import iso
from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.records import as_json, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts, orders, transactions, users
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store import Unit, pages
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.stored_events import EVERY_EVENT

TILL = NewAccount("Till ☕", "EUR", {"shop": "1"})


async def recorded(engine: Engine) -> list[dict[str, Any]]:
    rows = await engine.read(lambda unit: unit.execute(EVERY_EVENT))
    return [dict(row) | {"body": outbox.body_of(row)} for row in rows]


async def test_an_event_holds_the_object_as_it_was_then(engine: Engine, tenant: Tenant) -> None:
    tenant.request = "req_1"
    account = await engine.write(partial(accounts.create, tenant=tenant, new=TILL))
    shown = as_json(account)
    await engine.write(
        partial(transactions.post, tenant=tenant, new=NewTransaction(account.id, 100, "credit"))
    )
    event = (await recorded(engine))[0]
    assert (event["type"], event["object"], event["request"]) == ("account.created", account.id, "req_1")
    assert (event["project"], event["livemode"]) == (tenant.project, 0)
    assert json.loads(event["body"]) == {
        "id": event["id"],
        "object": "event",
        "type": "account.created",
        "created": iso(START),
        "livemode": False,
        "data": {"object": shown},
    }
    assert shown["balance"] == 0


async def test_a_change_that_fails_leaves_no_event(engine: Engine, tenant: Tenant) -> None:
    def create_and_fail(unit: Unit) -> None:
        accounts.create(unit, tenant, TILL)
        raise InvalidRequest("invalid_value", "No.", None)

    with pytest.raises(InvalidRequest):
        await engine.write(create_and_fail)
    assert await recorded(engine) == []


async def test_both_sides_of_a_transfer_have_an_event(engine: Engine, tenant: Tenant) -> None:
    source, target = [await engine.write(partial(accounts.create, tenant=tenant, new=TILL)) for _ in range(2)]
    new = NewTransaction(source.id, 100, "debit", destination=target.id)
    posted = await engine.write(partial(transactions.post, tenant=tenant, new=new))
    objects = [json.loads(event["body"])["data"]["object"] for event in (await recorded(engine))[2:]]
    assert [(each["account"], each["type"], each["transfer"]) for each in objects] == [
        (source.id, "debit", posted.transfer),
        (target.id, "credit", posted.transfer),
    ]


async def test_the_events_about_an_object_are_its_own_and_lie_between_the_cursors(
    engine: Engine, tenant: Tenant, clock: ManualClock
) -> None:
    till = await engine.write(partial(accounts.create, tenant=tenant, new=TILL))
    await engine.write(partial(accounts.create, tenant=tenant, new=TILL))
    clock.advance(1)
    posting = NewTransaction(till.id, 100, "credit")
    posted = await engine.write(partial(transactions.post, tenant=tenant, new=posting))

    async def about(object: str, wanted: PageRequest, at: int | None = None) -> list[tuple[str, str]]:
        work = partial(outbox.about, tenant=tenant, request=wanted, object=object, at=at)
        page = await engine.read(work)
        return [(event.type, event.data["object"]["id"]) for event in page.items]

    created, made, happened = [row["id"] for row in await recorded(engine)]
    assert await about(till.id, PageRequest(5)) == [("account.created", till.id)]
    assert await about(posted.id, PageRequest(5)) == [("transaction.created", posted.id)]
    for object, event in ((till.id, created), (posted.id, happened)):
        assert await about(object, PageRequest(5, after=event)) == []
        assert await about(object, PageRequest(5, before=event)) == []
        assert await about(object, PageRequest(5), at=START - 1) == []
        assert len(await about(object, PageRequest(5), at=START + 1)) == 1
    assert await about(posted.id, PageRequest(5), at=START) == []
    assert await about(posted.id, PageRequest(5, before=made)) == [("transaction.created", posted.id)]


async def test_about_an_object_nothing_is_shown_of_others_or_of_users_to_who_may_not_see_them(
    engine: Engine, tenant: Tenant
) -> None:
    till, _ = [await engine.write(partial(accounts.create, tenant=tenant, new=TILL)) for _ in range(2)]
    ada = await engine.write(
        partial(users.create, tenant=tenant, new=users.NewUser("Ada", "ada@example.com"))
    )
    may = Tenant(tenant.project, tenant.livemode, scopes=frozenset({"read:projects"}))
    for object, expected in ((till.id, [till.id]), (ada.id, [])):
        work = partial(outbox.about, tenant=may, request=PageRequest(5), object=object)
        page = await engine.read(work)
        assert [event.data["object"]["id"] for event in page.items] == expected


async def test_about_a_transaction_there_is_one_event_and_a_cursor_must_be_one(
    engine: Engine, tenant: Tenant, posted: list[transactions.Transaction]
) -> None:
    for each in posted:
        work = partial(outbox.about, tenant=tenant, object=each.id)
        page = await engine.read(partial(work, request=PageRequest(1)))
        assert ([event.data["object"]["id"] for event in page.items], page.has_more) == ([each.id], False)
        with pytest.raises(InvalidRequest):
            await engine.read(partial(work, request=PageRequest(1, after="evt_none")))


async def test_events_are_in_the_order_of_the_changes(engine: Engine, tenant: Tenant) -> None:
    made = [await engine.write(partial(accounts.create, tenant=tenant, new=TILL)) for _ in range(10)]
    assert [event["object"] for event in await recorded(engine)] == [account.id for account in made]


async def test_a_read_that_may_not_see_users_looks_at_so_many_events_and_says_where_it_ended(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LOOKED_AT_MAX", 4)
    for number, kind in enumerate("uuuuuuuuuauaaaau"):
        new: Any = partial(accounts.create, new=TILL)
        if kind == "u":
            new = partial(users.create, new=users.NewUser("Ada", f"ada{number}@example.com"))
        await engine.write(partial(new, tenant=tenant))
    ids = [event["id"] for event in await recorded(engine)]

    async def positions(scopes: list[str]) -> list[tuple[list[int], int]]:
        """Return of each read which events it returned, and the last one that it looked at."""
        may = Tenant(tenant.project, tenant.livemode, scopes=frozenset(scopes))
        found: list[tuple[list[int], int]] = []
        cursor, before = "", None
        while cursor != before:
            before = cursor
            messages, cursor = await engine.read(partial(outbox.after, tenant=may, cursor=cursor, limit=2))
            found.append(([ids.index(message.id) for message in messages], ids.index(cursor)))
        return found

    assert await positions(["read:projects"]) == [
        ([], 3),
        ([], 7),
        ([9, 11], 11),
        ([12, 13], 13),
        ([14], 15),
        ([], 15),
    ]
    everything = [([first, first + 1], first + 1) for first in range(0, 16, 2)]
    assert await positions(["read:projects", "read:users"]) == [*everything, ([], 15)]


async def test_events_read_together_end_once_their_bodies_are_long(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = await engine.write(partial(users.create, tenant=tenant, new=users.NewUser("Ada", "ada@a.example")))
    for length in (1, 3000, 3000, 1):
        order = orders.NewOrder(user.id, [{"note": "x" * length}])
        await engine.write(partial(orders.create, tenant=tenant, new=order))
    stored = await recorded(engine)
    monkeypatch.setattr(pages, "TOGETHER_MAX", 3000)
    lengths, read = list[int](), list[tuple[str, str]]()
    cursor = ""
    while len(lengths) < 3:
        messages, cursor = await engine.read(partial(outbox.after, tenant=tenant, cursor=cursor, limit=10))
        lengths.append(len(messages))
        read += [(message.id, message.body) for message in messages]
        assert cursor == messages[-1].id
    assert lengths == [3, 1, 1]
    assert read == [(event["id"], event["body"]) for event in stored]


async def test_an_event_leads_to_its_project_and_mode_and_to_its_request(
    engine: Engine, tenant: Tenant
) -> None:
    live = Tenant(tenant.project, livemode=True)
    for each, request in ((tenant, "req_1"), (live, "req_2"), (tenant, "req_2"), (tenant, "req_1")):
        each.request = request
        await engine.write(partial(accounts.create, tenant=each, new=TILL))
    ids = [event["id"] for event in await recorded(engine)]
    for id, livemode in zip(ids, (False, True, False, False), strict=True):
        found = await engine.read(partial(outbox.tenant_of, id=id))
        assert (found.project, found.livemode) == (tenant.project, livemode)
    with pytest.raises(NotFound):
        await engine.read(partial(outbox.tenant_of, id="evt_none"))

    async def between(first: str, end: str) -> list[str]:
        return await engine.read(
            partial(outbox.between, tenant=tenant, first=first, end=end, request="req_1")
        )

    assert await between(ids[0], "evu") == [ids[0], ids[3]]
    assert await between(ids[0], ids[3]) == [ids[0]]
    assert await between(ids[1], "evu") == [ids[3]]
    for each, last in ((tenant, ids[3]), (live, ids[1])):
        assert await engine.write(partial(outbox.newest_event, tenant=each)) == last


async def test_a_user_is_erased_from_so_many_events_and_it_says_where_that_ended(
    engine: Engine, tenant: Tenant
) -> None:
    ada, eve = [
        await engine.write(partial(users.create, tenant=tenant, new=users.NewUser(name, f"{name}@a.example")))
        for name in ("Ada", "Eve")
    ]
    for work in (users.deactivate, users.restore):
        await engine.write(partial(work, tenant=tenant, id=ada.id))

    async def names() -> list[tuple[str, str | None]]:
        objects = [json.loads(event["body"])["data"]["object"] for event in await recorded(engine)]
        return [(each["id"], each["name"]) for each in objects]

    ids = [event["id"] for event in await recorded(engine) if event["object"] == ada.id]
    for after, limit, last, left in (("", 1, ids[0], 2), (ids[0], 1, ids[1], 1), (ids[1], 2, None, 0)):
        erased = partial(outbox.erase_user, user=ada.id, after=after, limit=limit)
        assert await engine.write(erased) == last
        assert (await names()).count((ada.id, "Ada")) == left
    assert await names() == [(ada.id, None), (eve.id, "Eve"), (ada.id, None), (ada.id, None)]


async def test_a_commit_with_events_is_announced(engine: Engine, tenant: Tenant) -> None:
    announced: list[frozenset[str]] = []
    engine.listen(announced.append)
    await engine.write(partial(projects.create, new=projects.NewProject("Quiet")))
    assert not any(outbox.TOPIC in topics for topics in announced)
    await engine.write(partial(accounts.create, tenant=tenant, new=TILL))
    assert outbox.TOPIC in announced[-1]


def test_the_kinds_are_those_the_decisions_name() -> None:
    assert set(outbox.KINDS) == {
        *("account.created", "transaction.created"),
        *(f"invoice.{verb}" for verb in ("created", "updated", "opened", "paid", "voided")),
        *(f"user.{verb}" for verb in ("created", "deactivated", "restored")),
        *(f"order.{verb}" for verb in ("created", "paid", "shipped")),
    }


# Bodies: of a posting rendered from its transaction, of all others as they were stored


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
    everything = await engine.read(partial(transactions.page, tenant=tenant, request=outbox.PageRequest(100)))
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
    listed = await engine.read(partial(outbox.page, tenant=tenant, request=outbox.PageRequest(100)))
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
    shown = await engine.read(partial(outbox.page, tenant=tenant, request=outbox.PageRequest(100)))
    assert [event.data for event in shown.items].count({"object": {"id": "as it was"}}) == 1
