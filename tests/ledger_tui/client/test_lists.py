"""Answers are recognised as lists, and a search for a name reads a limited number of pages."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ledger_tui.client import lists
from ledger_tui.client.api import Api
from ledger_tui.client.figures import read_deliveries
from ledger_tui.client.lists import NotAList, fetch_page, learn_accounts_until, learn_users_until
from ledger_tui.client.names import AccountNames
from ledger_tui.client.past import at_moment, moment_ms
from ledger_tui.client.records import ListPage, Record, Want
from ledger_tui.client.session import ConnectionState, Session
from ledger_tui.client.traffic import Traffic
from ledger_tui.server.embedded import Address
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import ContractServer

FIRST = Want(0, "page", 0, None)


def page(kind: str, number: int, *, last: int = 9) -> dict[str, Any]:
    """Return the answer with a page of one object, in a list of either kind."""
    record = {"id": f"{kind}_{number}", "name": f"Name {number}", "currency": "EUR", "email": "a@example.com"}
    return {"data": [record], "has_more": number < last, "next_cursor": record["id"], "total_pages": last}


@pytest.mark.parametrize(("kind", "learn"), [("acc", learn_accounts_until), ("usr", learn_users_until)])
@pytest.mark.parametrize(("name", "read"), [("name 2", 2), ("Nobody", 3), ("Name 4", 3)])
async def test_a_name_is_looked_for_until_it_is_found_and_on_so_many_pages_at_most(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch, kind: str, learn: Any, name: str, read: int
) -> None:
    monkeypatch.setattr(lists, "_PAGES_SEARCHED", 3)
    for number in range(1, 6):
        server.refuse(200, page(kind, number))
    async with client(server.url) as (api, _session, _traffic):
        names = AccountNames()
        before = len(server.requests)
        await learn(api, names, name)
        assert len(server.requests) - before == read
        found = names.containing(name) or names.users.containing(name)
        assert [each.name for each in found] == (["Name 2"] if read == 2 else [])


@pytest.mark.parametrize(("kind", "learn"), [("acc", learn_accounts_until), ("usr", learn_users_until)])
async def test_a_name_is_looked_for_no_further_than_the_last_page(
    server: ContractServer, kind: str, learn: Any
) -> None:
    for number in (1, 2):
        server.refuse(200, page(kind, number, last=2))
    async with client(server.url) as (api, _session, _traffic):
        before = len(server.requests)
        await learn(api, AccountNames(), "Nobody")
        assert len(server.requests) - before == 2


@pytest.mark.parametrize("data", [[{"name": "Till"}], [{"id": None}], [{"id": ["a"]}]])
async def test_a_list_of_what_has_no_id_is_none_of_a_ledger(server: ContractServer, data: list[Any]) -> None:
    async with client(server.url) as (api, session, _traffic):
        server.refuse(200, {"data": data, "has_more": False})
        with pytest.raises(NotAList, match="something without an id"):
            await fetch_page(api, "/v1/accounts", {}, FIRST)
        assert session.state is ConnectionState.FOREIGN


@pytest.mark.parametrize("shown", [{"data": [5]}, {"data": [None]}, {"data": {}}, {}, 5, None])
async def test_another_answer_is_no_list(server: ContractServer, shown: Any) -> None:
    async with client(server.url) as (api, session, _traffic):
        server.refuse(200, shown)
        with pytest.raises(NotAList, match="not a ledger's answer"):
            await fetch_page(api, "/v1/accounts", {}, FIRST)
        assert session.state is ConnectionState.FOREIGN


async def test_a_number_is_an_id_too_and_becomes_a_text(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        server.refuse(200, {"data": [{"id": 7}]})
        assert (await fetch_page(api, "/v1/accounts", {}, FIRST)).rows == [{"id": "7"}]


async def test_an_answer_without_lines_is_no_statement(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        server.refuse(200, {"opening_balance": 0, "lines": None})
        with pytest.raises(NotAList, match="not a statement"):
            await fetch_page(api, "/v1/accounts/acc_1/statement", {}, FIRST)


async def test_without_two_moments_there_is_no_difference_and_nothing_is_asked(
    server: ContractServer,
) -> None:
    async with client(server.url) as (api, _session, _traffic):
        before = len(server.requests)
        for filters in ({}, {"from": "2026-11-20"}):
            assert await fetch_page(api, "/v1/diff", filters, FIRST) == ListPage((), None)
        assert len(server.requests) == before


_WHOLE_LISTS = {
    "/v1/accounts": {"name": "Till", "currency": "EUR"},
    "/v1/webhook_endpoints": {"url": "http://127.0.0.1:9/hook", "events": ["user.created"]},
    "/v1/transactions": {"account": "", "amount": 5, "type": "credit"},
    "/v1/invoices": {"account": "", "customer": "Ada", "amount": 5},
    "/api/users": {"name": "Ada", "email": "", "role": "member"},
    "/api/orders": {"user_id": "", "items": [{"name": "Beans"}]},
    "/v1/api_keys": {"role": "member"},
    "/v1/events": {},
    "/v1/requests": {},
}


async def _fill(api: Api) -> None:
    """Make two of each kind."""
    newest: dict[str, str] = {}
    for number in range(2):
        for path, body in _WHOLE_LISTS.items():
            given = {"account": newest.get("/v1/accounts"), "user_id": newest.get("/api/users")}
            given["email"] = f"ada{number}@example.com"
            sent = {name: given.get(name) if value == "" else value for name, value in body.items()}
            if sent:
                newest[path] = (await api.write("POST", path, sent, None)).record["id"]


@pytest.fixture
async def whole(own_project: Address) -> AsyncIterator[Api]:
    """Return calls to a server with every part and an empty project."""
    api = Api(Session(), Traffic())
    await api.open(own_project.url, own_project.key)
    yield api
    await api.close()


async def _has_deliveries(api: Api, endpoint: str, number: int) -> str:
    """Wait until so many deliveries to an endpoint are listed; return the path of their list."""
    path = f"/v1/webhook_endpoints/{endpoint}/deliveries"
    rows: Sequence[Record] = ()
    while len(rows) < number:
        await asyncio.sleep(0.02)
        rows = (await fetch_page(api, path, {}, FIRST)).rows
    return path


@pytest.mark.process
async def test_each_list_is_read_on_after_its_first_page(whole: Api) -> None:
    body = _WHOLE_LISTS["/v1/webhook_endpoints"]
    oldest = (await whole.write("POST", "/v1/webhook_endpoints", body, None)).record["id"]
    await _fill(whole)
    for path in [*_WHOLE_LISTS, await _has_deliveries(whole, oldest, 2)]:
        first = await fetch_page(whole, path, {}, replace(FIRST, limit=1))
        second = await fetch_page(whole, path, {}, Want(0, "page", 1, first.older, 1))
        if path != "/api/users":  # its pages have one size, so the second may be empty
            assert first.older, path
            assert {row["id"] for row in first.rows}.isdisjoint(row["id"] for row in second.rows), path


@pytest.mark.process
async def test_deliveries_before_a_moment_are_looked_for_behind_the_newer_ones(whole: Api) -> None:
    body = _WHOLE_LISTS["/v1/webhook_endpoints"]
    made = (await whole.write("POST", "/v1/webhook_endpoints", body, None)).record
    await asyncio.sleep(0.003)  # the users are made in a later millisecond
    for number in range(2):
        user = {"name": "Ada", "email": f"{number}@example.com", "role": "member"}
        await whole.write("POST", "/api/users", user, None)
    await _has_deliveries(whole, made["id"], 2)
    with at_moment(moment_ms(made["created"])):
        endpoints, deliveries = await read_deliveries(whole, 1)
    assert ([each["id"] for each in endpoints], deliveries) == ([made["id"]], [])
