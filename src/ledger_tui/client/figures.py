"""Reads the figures of the overview in few requests; each function names its maximum."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple
from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.client.lists import fetch_page
from ledger_tui.state.figures import Balances, Health, OpenInvoices, overdue, sums_of
from ledger_tui.state.window import Page, Record, Want

ENDPOINTS_READ = 5


class Postings(NamedTuple):
    """The newest transactions; `reached` when there are no others; `now` is the server's time."""

    rows: list[Record]
    reached: bool
    now: float
    requests: int


async def read_balances(api: Api, pages: int) -> tuple[Balances, list[Record]]:
    """Return the sums over the newest accounts and the accounts; at most `pages` requests."""
    accounts, whole = await _read_pages(api, "/v1/accounts", {}, pages, None)
    return Balances(sums_of(accounts, "balance"), len(accounts), not whole), accounts


async def read_postings(api: Api, known: str | None, pages: int) -> Postings:
    """Return the newest transactions, back to the known one; at most `pages` requests."""
    rows: list[Record] = []
    cursor: str | None = None
    now = api.session.server_time
    for number in range(1, pages + 1):
        page = await _read_page(api, "/v1/transactions", {}, cursor)
        rows += page.rows
        cursor = page.older
        now = api.session.server_time if number == 1 else now
        if cursor is None or any(row.get("id") == known for row in page.rows):
            return Postings(rows, cursor is None, now, number)
    return Postings(rows, False, now, pages)


async def read_open_invoices(api: Api, pages: int) -> OpenInvoices:
    """Return the open invoices. Raises NotOffered when the server has no list of invoices."""
    rows, whole = await _read_pages(api, "/v1/invoices", {"status": "open"}, pages, "invoices.list")
    today = time.strftime("%Y-%m-%d", time.gmtime(api.session.server_time))
    return OpenInvoices(sums_of(rows, "amount"), len(rows), overdue(rows, today), not whole)


async def read_health(api: Api) -> Health:
    """Return the health of the endpoints; at most 1 + ENDPOINTS_READ requests.

    Raises NotOffered where the server shows no endpoints.
    """
    endpoints, deliveries = await read_deliveries(api)
    states = Counter[str]()
    newest_failure: tuple[str, str] | None = None
    for delivery in deliveries:
        states[str(delivery.get("status"))] += 1
        failure = _failure(delivery)
        if failure is not None and (newest_failure is None or failure > newest_failure):
            newest_failure = failure
    disabled = sum(1 for endpoint in endpoints if endpoint.get("status") == "disabled")
    return Health(len(endpoints), disabled, dict(states), newest_failure[1] if newest_failure else None)


async def read_deliveries(api: Api) -> tuple[list[Record], list[Record]]:
    """Return the endpoints, and the newest deliveries of the first ENDPOINTS_READ.

    Raises as `read_health` does.
    """
    endpoints = (await _read_page(api, "/v1/webhook_endpoints", {}, part="webhook_endpoints")).rows
    deliveries: list[Record] = []
    for endpoint in endpoints[:ENDPOINTS_READ]:
        path = f"/v1/webhook_endpoints/{quote(str(endpoint.get('id')), safe='')}/deliveries"
        deliveries += (await _read_page(api, path, {})).rows
    return [*endpoints], deliveries


def _failure(delivery: Record) -> tuple[str, str] | None:
    """Return when the delivery's last attempt failed and why; None if it did not."""
    attempts = delivery.get("attempts")
    last = attempts[-1] if isinstance(attempts, list) and attempts else None
    if not isinstance(last, dict) or last.get("error") is None:
        return None
    return str(last.get("attempted_at")), str(last["error"])


async def _read_pages(
    api: Api, path: str, filters: dict[str, str], pages: int, part: str | None
) -> tuple[list[Record], bool]:
    """Return the newest objects of a ledger list, and whether those are all."""
    rows: list[Record] = []
    cursor: str | None = None
    for _ in range(pages):
        page = await _read_page(api, path, filters, cursor, part)
        rows += page.rows
        cursor = page.older
        if cursor is None:
            return rows, True
    return rows, False


async def _read_page(
    api: Api, path: str, filters: dict[str, str], cursor: str | None = None, part: str | None = None
) -> Page:
    """Return a page, as the lists read it; raises when the answer is not a ledger's."""
    return await fetch_page(api, path, "starting_after", filters, Want(0, "page", 0, cursor), part)
