"""Reads the figures of the overview in few requests; each function names its maximum number of requests.

`health_of` sums up the newest deliveries of each webhook endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import quote

from ledger_client.errors import LedgerError
from ledger_tui.client import past
from ledger_tui.client.api import Api
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.records import PAGE_SIZE, ListPage, Record, Want, attempts_of, records_of
from ledger_tui.client.totals import BalanceSums, Stage, Stages, overdue_by_age, sums_of, waiting_by_age

Mark = Literal["sent", "late", "waiting", "retrying", "failed"]


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """A webhook endpoint and its newest deliveries.

    `deliveries` are newest first. `marks` has one mark for each delivery, but the marks are oldest first.
    `last_error` is the error of the newest delivery whose last attempt failed; None if no last attempt
    failed.
    """

    endpoint: Record
    marks: Sequence[Mark]
    last_error: str | None
    deliveries: Sequence[Record] = ()

    def count(self, *marks: Mark) -> int:
        """Return the number of deliveries with one of these marks."""
        return sum(mark in marks for mark in self.marks)

    @property
    def success(self) -> float | None:
        """Return the share of the attempted deliveries that arrived; None if none was attempted."""
        attempts = len(self.marks) - self.count("waiting")
        return self.count("sent", "late") / attempts if attempts else None

    @property
    def fails(self) -> bool:
        """Whether the newest attempted delivery has not arrived, and this is no single accident.

        It is none if the delivery before did not arrive either, or if the newest was given up or attempted
        twice.
        """
        match [mark for mark in reversed(self.marks) if mark != "waiting"][:2]:
            case ["failed", *_] | ["retrying"] | ["retrying", "failed" | "retrying"]:
                return True
            case ["retrying", _]:
                return next((len(attempts_of(each)) for each in self.deliveries if attempts_of(each)), 0) > 1
            case _:
                return False


def health_of(endpoints: Iterable[Record], deliveries: Sequence[Record]) -> list[EndpointHealth]:
    """Return the health of each endpoint; `deliveries` are the deliveries of all endpoints, newest first."""
    results = []
    for endpoint in endpoints:
        its = [each for each in deliveries if each.get("endpoint") == endpoint.get("id")]
        error = next((error for each in its if (error := _last_error(each)) is not None), None)
        results.append(EndpointHealth(endpoint, [mark_of(each) for each in reversed(its)], error, its))
    return results


def last_errors(healths: Iterable[EndpointHealth]) -> dict[str, str]:
    """Return the last error of each endpoint that fails, by the endpoint's id."""
    return {str(each.endpoint.get("id")): each.last_error or "" for each in healths if each.fails}


def mark_of(delivery: Record) -> Mark:
    """Return the mark of a delivery; `late` means that it succeeded after several attempts."""
    attempts = len(attempts_of(delivery))
    match delivery.get("status"):
        case "succeeded":
            return "late" if attempts > 1 else "sent"
        case "failed":
            return "failed"
        case _:
            return "retrying" if attempts else "waiting"


def _last_error(delivery: Record) -> str | None:
    attempts = attempts_of(delivery)
    error = attempts[-1].get("error") if attempts else None
    return None if error is None else str(error)


ENDPOINTS_READ = 5
_PAGES_BACK = 5  # the maximum number of pages that one read passes on its way back to the shown moment
_PASSED_MAX = 50  # the pages after which the search for the shown moment ends
# The number of deliveries to read for each endpoint. This number is small, because an answer also contains
# the bodies of all attempts of the deliveries.
DELIVERIES_DRAWN = 50


class NewPostings(NamedTuple):
    """The newest transactions of a ledger, newest first.

    `reached` is True if the ledger has no older transactions than these. `now` is the server's time after the
    first request. `requests` is the number of requests that were sent to read them.
    """

    rows: list[Record]
    reached: bool
    now: float
    requests: int


async def read_balances(api: Api, pages: int) -> tuple[BalanceSums, list[Record]]:
    """Return the sums of the newest accounts' balances, and these accounts, in at most `pages` requests."""
    accounts, whole = await _read_pages(api, "/v1/accounts", {}, pages, None)
    return BalanceSums(sums_of(accounts, "balance"), len(accounts), not whole), accounts


async def read_postings(api: Api, known_id: str | None, pages: int) -> NewPostings:
    """Return the newest transactions, in at most `pages` requests.

    Read no page after the page with the transaction `known_id`.
    """
    rows: list[Record] = []
    cursor: str | None = None
    now = api.session.server_time
    for number in range(1, pages + 1):
        page = await _read_page(api, "/v1/transactions", {}, cursor)
        rows += page.rows
        cursor = page.older
        now = api.session.server_time if number == 1 else now
        if cursor is None or any(row.get("id") == known_id for row in page.rows):
            return NewPostings(rows, cursor is None, now, number)
    return NewPostings(rows, False, now, pages)


async def read_invoices(api: Api, pages: int) -> Stages:
    """Return the number of invoices in each state, in at most 2 × `pages` + 1 requests.

    The number of paid invoices only grows, so this function reads and counts only one page of them. Raises
    NotOffered if the server does not list invoices.
    """
    stages, overdue = [], [0]
    for status, most in (("draft", pages), ("open", pages), ("paid", 1)):
        rows, whole = await _read_pages(api, "/v1/invoices", {"status": status}, most, "invoices.list")
        stages.append(Stage(status, len(rows), not whole, sums_of(rows, "amount")))
        if status == "open":
            overdue = overdue_by_age(rows, api.session.today)
    return Stages(stages, overdue)


async def read_orders(api: Api, pages: int) -> Stages:
    """Return the number of orders in each state, in at most 2 × `pages` + 1 requests.

    The number of shipped orders only grows, so this function reads and counts only one page of them.
    """
    stages, waiting = [], list[Record]()
    for status, most in (("open", pages), ("paid", pages), ("shipped", 1)):
        rows, whole = await _read_pages(api, "/api/orders", {"status": status}, most, None)
        priced = [{**row, "currency": _currency_of_items(row.get("items"))} for row in rows]
        stages.append(Stage(status, len(rows), not whole, sums_of(priced, "total")))
        waiting += rows if status != "shipped" else ()
    return Stages(stages, waiting_by_age(waiting, api.session.server_time))


def _currency_of_items(items: object) -> str | None:
    """Return the currency of an order's prices; None if they have several currencies or no currency."""
    codes = {str(each.get("currency") or "").upper() for each in records_of(items) if "unit_amount" in each}
    return codes.pop() or None if len(codes) == 1 else None


async def read_requests(api: Api, known_id: str | None, pages: int) -> list[Record]:
    """Return the newest entries of the request log, in at most `pages` requests.

    Read no page after the page with the entry `known_id`. Raises NotOffered if the server keeps no request
    log.
    """
    rows: list[Record] = []
    cursor: str | None = None
    for _ in range(pages):
        page = await _read_page(api, "/v1/requests", {}, cursor, "requests")
        rows += page.rows
        cursor = page.older
        if cursor is None or any(row.get("id") == known_id for row in page.rows):
            break
    return rows


async def read_events(api: Api, limit: int) -> list[Record]:
    """Return the newest events. Raises NotOffered if the server shows no events."""
    return [*(await _read_page(api, "/v1/events", {}, None, "events", limit)).rows]


# The pages of deliveries that reads of the past have passed: for each path, the time and the id of the last
# delivery of each page.
PassedPages = dict[str, list[tuple[str, str]]]


class NotReached(LedgerError):
    """The read did not reach the deliveries of the shown moment: too many newer deliveries exist."""


async def read_health(api: Api, passed: PassedPages | None = None) -> list[EndpointHealth]:
    """Return the health of the endpoints, in at most 1 + ENDPOINTS_READ requests.

    This function reads deliveries only for the first ENDPOINTS_READ endpoints. It may need more requests
    while the screen shows an earlier moment (see `read_deliveries`). Raises the errors of `read_deliveries`.
    """
    endpoints, deliveries = await read_deliveries(api, DELIVERIES_DRAWN, passed)
    return health_of(endpoints, deliveries)


async def read_deliveries(
    api: Api, each: int = PAGE_SIZE, passed: PassedPages | None = None
) -> tuple[list[Record], list[Record]]:
    """Return the endpoints, and the newest deliveries of each of the first ENDPOINTS_READ endpoints.

    `each` is the maximum number of deliveries of one endpoint. `passed` makes reads of the past shorter. It
    contains pages that are entirely newer than the shown moment: a read skips these pages, and adds each
    further such page that it reads. Raises NotOffered if the server shows no endpoints, and NotReached if the
    shown moment lies too far back for one read.
    """
    endpoints = (await _read_page(api, "/v1/webhook_endpoints", {}, part="webhook_endpoints")).rows
    moment, passed = past.shown_moment(api.session), {} if passed is None else passed
    deliveries: list[Record] = []
    problem: NotReached | None = None
    for endpoint in endpoints[:ENDPOINTS_READ]:
        path = f"/v1/webhook_endpoints/{quote(str(endpoint.get('id')), safe='')}/deliveries"
        if moment is None:
            deliveries += (await _read_page(api, path, {}, limit=each)).rows[:each]
            continue
        try:
            deliveries += await _deliveries_at(api, path, moment, each, passed.setdefault(path, []))
        # Still read the other endpoints: these reads also add pages to `passed`, for the next attempt.
        except NotReached as error:
            problem = error
    if problem is not None:
        raise problem
    return [*endpoints], deliveries


async def _deliveries_at(
    api: Api, path: str, ms: int, each: int, passed: list[tuple[str, str]]
) -> list[Record]:
    """Return up to `each` deliveries of an endpoint as they were at the moment `ms`. Raises NotReached.

    The server lists deliveries only back from the present (docs/decisions.md#past-at).
    """
    at = past.moment_text(ms)
    later = sorted(page for page in passed if page[0] > at)
    cursor = later[0][1] if later else None
    rows: list[Record] = []
    pages = 0
    while rows or pages < _PAGES_BACK:
        if not rows and len(later) + pages >= _PASSED_MAX:
            raise NotReached("Too many deliveries came after this time to read back to it.")
        with past.the_present():
            page = await _read_page(api, path, {}, cursor)
        rows += past.rows_at(page.rows, ms)
        if page.older is None or len(rows) >= each:
            return rows[:each]
        cursor, pages = page.older, pages + 1
        last = str(page.rows[-1].get("created", "")) if page.rows else ""
        if last > at:
            passed.append((last, page.older))
    raise NotReached("Reading back to the deliveries of this time…")


async def _read_pages(
    api: Api,
    path: str,
    filters: dict[str, str],
    pages: int,
    part: str | None,
) -> tuple[list[Record], bool]:
    """Return the newest objects of a list, and True if the list contains no other objects."""
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
    api: Api,
    path: str,
    filters: dict[str, str],
    cursor: str | None = None,
    part: str | None = None,
    limit: int = PAGE_SIZE,
) -> ListPage:
    """Read one page of a list. Raises LedgerError, also for an answer that is not a ledger's."""
    return await fetch_page(api, path, filters, Want(0, "page", 0, cursor, limit), part)
