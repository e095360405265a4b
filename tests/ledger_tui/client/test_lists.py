"""What is a list, and how far one is read to find a name in it."""

from typing import Any

import pytest

from ledger_tui.client import lists
from ledger_tui.client.lists import NotAList, fetch_page, learn_accounts_until, learn_users_until
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Page, Want
from ledger_tui.client.session import ConnectionState
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
        found = names.having(name) or names.users.having(name)
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
            await fetch_page(api, "/v1/accounts", "starting_after", {}, FIRST)
        assert session.state is ConnectionState.FOREIGN


@pytest.mark.parametrize("shown", [{"data": [5]}, {"data": [None]}, {"data": {}}, {}, 5, None])
async def test_another_answer_is_no_list(server: ContractServer, shown: Any) -> None:
    async with client(server.url) as (api, session, _traffic):
        server.refuse(200, shown)
        with pytest.raises(NotAList, match="not a ledger's answer"):
            await fetch_page(api, "/v1/accounts", "starting_after", {}, FIRST)
        assert session.state is ConnectionState.FOREIGN


async def test_a_number_is_an_id_too_and_becomes_a_text(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        server.refuse(200, {"data": [{"id": 7}]})
        assert (await fetch_page(api, "/v1/accounts", "starting_after", {}, FIRST)).rows == [{"id": "7"}]


async def test_an_answer_without_lines_is_no_statement(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        server.refuse(200, {"opening_balance": 0, "lines": None})
        with pytest.raises(NotAList, match="not a statement"):
            await fetch_page(api, "/v1/accounts/acc_1/statement", "statement", {}, FIRST)


async def test_without_two_moments_there_is_no_difference_and_nothing_is_asked(
    server: ContractServer,
) -> None:
    async with client(server.url) as (api, _session, _traffic):
        before = len(server.requests)
        for filters in ({}, {"from": "2026-11-20"}):
            assert await fetch_page(api, "/v1/diff", "difference", filters, FIRST) == Page((), None)
        assert len(server.requests) == before
