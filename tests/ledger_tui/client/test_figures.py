"""The figures of the overview are read in few requests, and say what they leave out."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger_tui.client import figures
from ledger_tui.client.api import Api
from ledger_tui.state.figures import Sum
from ledger_tui.state.session import Session
from ledger_tui.state.traffic import Traffic
from tests.ledger_tui.contract_server import KEY, ContractServer


@pytest.fixture
async def api(server: ContractServer) -> AsyncIterator[Api]:
    api = Api(Session(), Traffic())
    await api.open(server.url, KEY)
    yield api
    await api.close()


def fill(server: ContractServer, accounts: int, postings: int = 0) -> list[str]:
    """Add accounts with 1.00 EUR each and postings on the last; returns the ids of these, oldest first."""
    for _ in range(accounts):
        account = server.add_account(balance=100)
    return [server.post(account, 1)["id"] for _ in range(postings)]


async def test_balances_that_are_not_of_all_accounts_say_so(api: Api, server: ContractServer) -> None:
    fill(server, 101)
    some, _ = await figures.read_balances(api, 1)
    every, accounts = await figures.read_balances(api, 2)
    assert (some.sums, some.accounts, some.partial) == ([Sum("EUR", 10_000, 100)], 100, True)
    assert (every.sums, every.accounts, every.partial) == ([Sum("EUR", 10_100, 101)], 101, False)
    assert len(accounts) == 101


async def test_postings_are_read_back_to_the_known_one_and_no_further(
    api: Api, server: ContractServer
) -> None:
    ids = fill(server, 1, 250)
    to_known = await figures.read_postings(api, ids[120], 5)
    assert (len(to_known.rows), to_known.reached, to_known.requests) == (200, False, 2)
    to_the_end = await figures.read_postings(api, None, 5)
    assert (len(to_the_end.rows), to_the_end.reached, to_the_end.requests) == (250, True, 3)
    too_many = await figures.read_postings(api, None, 1)
    assert (len(too_many.rows), too_many.reached, too_many.requests) == (100, False, 1)


def delivery(status: str, at: str = "", error: str | None = None) -> dict[str, Any]:
    attempts = [{"attempted_at": at, "error": error}] if at else []
    return {"id": f"dlv_{at}", "status": status, "attempts": attempts}


async def test_the_newest_failure_of_all_endpoints_is_the_one_that_is_named(
    api: Api, server: ContractServer
) -> None:
    endpoints = [{"id": f"whe_{n}", "status": "disabled" if n == 2 else "enabled"} for n in (1, 2)]
    of_one = [delivery("pending", "2026-11-20T02", "refused"), delivery("failed", "2026-11-20T01", "older")]
    of_two = [
        delivery("succeeded", "2026-11-20T09"),
        delivery("failed", "2026-11-20T03", "newest"),
        delivery("pending"),
    ]
    for page in (endpoints, of_one, of_two):
        server.refuse(200, {"data": page, "has_more": False})
    health = await figures.read_health(api)
    assert (health.endpoints, health.disabled, health.last_error) == (2, 1, "newest")
    assert health.by_status == {"pending": 2, "failed": 2, "succeeded": 1}
