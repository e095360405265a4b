"""The figures of the overview are read in few requests, and show when they are incomplete."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger_tui.client import figures
from ledger_tui.client.api import Api
from ledger_tui.client.past import at_moment, moment_ms
from ledger_tui.client.session import Session
from ledger_tui.client.totals import Sum
from ledger_tui.client.traffic import Traffic
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


def delivery(status: str, endpoint: int, at: str = "", error: str | None = None) -> dict[str, Any]:
    attempts = [{"attempted_at": at, "error": error}] if at else []
    return {"id": f"dlv_{at}", "status": status, "endpoint": f"whe_{endpoint}", "attempts": attempts}


async def test_orders_are_counted_by_state(api: Api, server: ContractServer) -> None:
    for status in ("open", "paid", "paid", "shipped"):
        server.orders.append({"id": server.new_id("ord"), "status": status})
    found = await figures.read_orders(api, 2)
    assert [(stage.status, stage.count) for stage in found.stages] == [
        ("open", 1),
        ("paid", 2),
        ("shipped", 1),
    ]


async def test_more_in_a_state_than_was_read_is_told(api: Api, server: ContractServer) -> None:
    full = {"data": [{"id": f"inv_{n}"} for n in range(100)], "has_more": True, "next_cursor": "inv_99"}
    rest = {"data": [{"id": "inv_x", "due_date": "2020-01-01"}], "has_more": False, "next_cursor": None}
    for page in (full, rest, rest, full):  # two pages of drafts, one of open ones, one of paid ones
        server.refuse(200, page)
    found = await figures.read_invoices(api, 2)
    assert [(stage.count, stage.partial) for stage in found.stages] == [(101, False), (1, False), (100, True)]
    assert found.late == [0, 0, 1]


async def test_requests_are_read_back_to_the_known_one_and_so_many_pages_at_most(
    api: Api, server: ContractServer
) -> None:
    def page(number: int) -> dict[str, Any]:
        return {"data": [{"id": f"req_{number}"}], "has_more": True, "next_cursor": f"req_{number}"}

    for known, read in (("req_8", [9, 8]), (None, [9, 8, 7])):
        for number in (9, 8, 7)[: len(read)]:
            server.refuse(200, page(number))
        rows = await figures.read_requests(api, known, 3)
        assert [row["id"] for row in rows] == [f"req_{number}" for number in read]


async def test_each_endpoint_has_the_state_of_its_own_deliveries(api: Api, server: ContractServer) -> None:
    endpoints = [{"id": f"whe_{n}"} for n in (1, 2)]
    of_one = [delivery("pending", 1, "2026-11-20T02", "refused"), delivery("pending", 1)]
    of_two = [delivery("succeeded", 2), delivery("failed", 2, "2026-11-20T03", "newest")]
    for page in (endpoints, of_one, of_two):
        server.refuse(200, {"data": page, "has_more": False})
    one, two = await figures.read_health(api)
    assert (one.marks, one.success, one.last_error) == (["waiting", "retrying"], 0, "refused")
    assert (two.marks, two.success, two.last_error) == (["failed", "sent"], 0.5, "newest")


def page_of_deliveries(newest: int, count: int) -> dict[str, Any]:
    """Return a page of `count` deliveries, one for each second, from the second `newest` back."""
    seconds = range(newest, newest - count, -1)
    rows = [
        {
            **delivery("succeeded", 1),
            "id": f"dlv_{n}",
            "created": f"2026-11-20T10:{n // 60:02}:{n % 60:02}.000Z",
        }
        for n in seconds
    ]
    older = rows[-1]["id"] if seconds[-1] > 0 else None
    return {"data": rows, "has_more": older is not None, "next_cursor": older}


async def test_the_past_shows_the_same_deliveries_however_many_came_since(
    api: Api, server: ContractServer
) -> None:
    endpoints = {"data": [{"id": "whe_1"}], "has_more": False}
    for newest, pages in ((310, 2), (340, 3)):  # 30 more deliveries come between the two reads
        for page in (endpoints, *(page_of_deliveries(newest - 100 * n, 100) for n in range(pages))):
            server.refuse(200, page)
        with at_moment(moment_ms("2026-11-20T10:02:40.000Z")):
            (health,) = await figures.read_health(api)
        assert [each["id"] for each in health.deliveries] == [f"dlv_{n}" for n in range(160, 110, -1)]


async def test_a_later_read_of_the_past_begins_at_the_pages_that_are_passed(
    api: Api, server: ContractServer
) -> None:
    endpoints = {"data": [{"id": "whe_1"}], "has_more": False}
    passed: figures.PassedPages = {}
    newest = 900
    for page in (endpoints, *(page_of_deliveries(newest - 100 * n, 100) for n in range(5))):
        server.refuse(200, page)
    with at_moment(moment_ms("2026-11-20T10:05:00.000Z")), pytest.raises(figures.NotReached, match="Reading"):
        await figures.read_health(api, passed)
    for page in (endpoints, page_of_deliveries(400, 100), page_of_deliveries(300, 100)):
        server.refuse(200, page)
    with at_moment(moment_ms("2026-11-20T10:05:00.000Z")):
        (health,) = await figures.read_health(api, passed)
    assert health.deliveries[0]["id"] == "dlv_300"
    assert server.requests[-2][2]["cursor"] == "dlv_401"


@pytest.mark.parametrize(
    ("marks", "attempts", "fails"),
    [
        ([], 0, False),
        (["failed", "sent"], 1, False),
        (["sent", "retrying", "waiting"], 1, False),
        (["sent", "retrying", "waiting"], 2, True),
        (["failed", "retrying"], 1, True),
        (["retrying"], 1, True),
        (["late", "failed"], 5, True),
        (["waiting"], 0, False),
    ],
)
def test_an_endpoint_fails_if_its_newest_attempted_delivery_did_and_no_single_attempt_alone(
    marks: list[figures.Mark], attempts: int, fails: bool
) -> None:
    newest = {"id": "dlv_2", "attempts": [{"error": "refused"}] * attempts}
    deliveries = [{"id": "dlv_3", "attempts": []}, newest]
    assert figures.EndpointHealth({"id": "whe_1"}, marks, None, deliveries).fails == fails
