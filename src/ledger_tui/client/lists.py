"""Reads lists page by page. `fetch_page` knows the interface's three kinds of paging. It also reads an
account's statement, which is a single page.

Some rows contain only the id of an account or user. To find the names to show instead, other functions of
this module read accounts and users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote

from ledger_client.errors import LedgerError, NotFound, Unreadable
from ledger_client.pages import page_of
from ledger_tui.client import past
from ledger_tui.client.api import Api, ApiResponse
from ledger_tui.client.errors import NO_LEDGER
from ledger_tui.client.names import AccountName, AccountNames
from ledger_tui.client.records import ListPage, Record, Want

# The maximum numbers of pages to read:
_PAGES_SEARCHED = 10  # to find a name
_PAGES_AFTER = 20  # of transactions after a moment
_PAGES_BETWEEN = 50  # of transactions between two moments
Paging = Literal["starting_after", "cursor", "page", "statement"]
_DIFFERENCE = "/v1/diff"
# A list without an entry here has the paging `cursor` (docs/decisions.md#lists). A statement is one page.
_PAGING: Mapping[str, Paging] = MappingProxyType(
    {
        "/v1/accounts": "starting_after",
        "/v1/transactions": "starting_after",
        "/v1/invoices": "starting_after",
        "/api/users": "page",
    }
)


class TooMany(LedgerError):
    """There are more transactions than the given number of requests can read."""


class NotAList(LedgerError):
    """A 2xx answer that is not a list: another program listens at this address."""


def paging_of(path: str) -> Paging:
    """Return the paging of the list at this path.

    This is the name of the query parameter that selects a page, or `statement` for a list of a single page.
    """
    return "statement" if path.endswith("/statement") else _PAGING.get(path, "cursor")


async def learn_account(api: Api, names: AccountNames, account_id: str) -> bool:
    """Read an account's name and currency, and return whether the account exists. Raises LedgerError."""
    try:
        # Read the account as it is now, whichever moment is shown: its name and currency never change.
        with past.the_present():
            answer = await api.read(f"/v1/accounts/{quote(account_id, safe='')}")
    except NotFound:
        names.mark_absent(account_id)
        return False
    names.learn([answer.record])
    return True


async def learn_accounts_until(
    api: Api, names: AccountNames, name: str, fits: Callable[[AccountName], bool] = lambda _account: True
) -> bool:
    """Read accounts, newest first, until one has `name` in its name and passes `fits`.

    The server cannot search by name. Return False if no such account exists. Return True if such an account
    was found, or may exist beyond the maximum number of pages. Raises LedgerError.
    """
    want = Want(0, "page", 0, None)
    for _page in range(_PAGES_SEARCHED):
        page = await fetch_page(api, "/v1/accounts", {}, want)
        names.learn(page.rows)
        names.all_known |= page.older is None
        if any(map(fits, names.containing(name))):
            return True
        if page.older is None:
            return False
        want = Want(0, "page", 0, page.older)
    return True


async def learn_users_until(api: Api, names: AccountNames, name: str) -> None:
    """Read users, until the name, id or email of one of them contains `name`. Raises LedgerError.

    Read at most _PAGES_SEARCHED pages.
    """
    want = Want(0, "page", 0, None)
    for _page in range(_PAGES_SEARCHED):
        page = await fetch_page(api, "/api/users", {}, want)
        names.learn_users(page.rows)
        if names.users.search(name, 1) or page.older is None:
            return
        want = Want(0, "page", 0, page.older)


async def fetch_page(
    api: Api, path: str, filters: Mapping[str, str], want: Want, part: str | None = None
) -> ListPage:
    """Return the page that `want` describes.

    Wait and try again like `Api.read`. Raises LedgerError if the server refuses.
    """
    if path == _DIFFERENCE:
        return await _difference_page(api, filters, want)
    return await _read_generic_page(api, path, filters, want, part)


async def _read_generic_page(
    api: Api, path: str, filters: Mapping[str, str], want: Want, part: str | None = None
) -> ListPage:
    params, paging = dict(filters), paging_of(path)
    if paging == "page":
        # All pages of a numbered list must have the same size. Otherwise the pages would overlap or leave
        # gaps.
        params |= {"page": want.cursor or "1", "per_page": "100"}
    elif paging != "statement":
        params["limit"] = str(min(100, max(1, want.limit)))
        if want.cursor is not None:
            params["ending_before" if want.kind == "newer" else paging] = want.cursor
    answer = await api.read(path, params, part=part)
    try:
        page = _page_of(answer, paging, want)
        _require_progress(page, want)
    except NotAList:
        api.session.saw_no_ledger()
        raise
    api.session.saw_ledger()
    return page


async def _difference_page(api: Api, filters: Mapping[str, str], want: Want) -> ListPage:
    """Return a page of the changes between two moments.

    The server's list of changes leaves out API keys. So this function computes the changes of the keys from
    the list of keys, and adds them to the last page.
    """
    if not {"from", "to"} <= filters.keys():
        return ListPage((), None)
    start, end = filters["from"], filters["to"]
    page = await _read_generic_page(api, _DIFFERENCE, filters, want, past.PART)
    rows = [past.difference_row(row, start, end) for row in page.rows]
    summary = {**(page.summary or {})}
    if page.older is None:
        with past.the_present(), suppress(LedgerError):
            all_keys = Want(0, "page", 0, None)
            keys = await _read_generic_page(api, "/v1/api_keys", {}, all_keys, "api_keys")
            changes = past.changed_keys(keys.rows, start, end)
            rows += [past.difference_row(row, start, end) for row in changes]
            summary["keys"] = len(changes)
    return replace(page, rows=past.with_shares(rows), summary=summary)


async def postings_between(api: Api, account: str, start: str, end: str) -> list[Record]:
    """Return the transactions of an account after `start` and until `end`, newest first. Raises TooMany."""
    with past.the_present():
        filters = {"account": account, "at": end}
        return await postings_after(api, past.moment_ms(start) or 0, filters, _PAGES_BETWEEN)


async def postings_after(
    api: Api, moment: int, filters: Mapping[str, str] = MappingProxyType({}), pages: int = _PAGES_AFTER
) -> list[Record]:
    """Return the transactions after a moment, newest first, in at most `pages` requests.

    Raises TooMany if these requests cannot return all of them.
    """
    query = {**filters, "created_after": past.moment_text(moment)}
    rows: list[Record] = []
    want = Want(0, "page", 0, None)
    for _page in range(pages):
        page = await _read_generic_page(api, "/v1/transactions", query, want)
        rows += page.rows
        if page.older is None:
            return rows
        want = Want(0, "page", 0, page.older)
    raise TooMany(f"There are more than {len(rows):,} transactions since then: too many to read.")


def _page_of(answer: ApiResponse, paging: Paging, want: Want) -> ListPage:
    if paging == "statement":
        return ListPage(_statement_rows(answer.record), None)
    try:
        page = page_of(answer.body, paging, want.cursor)
    except Unreadable:
        raise NotAList(NO_LEDGER) from None
    return replace(page, rows=_records(page.rows))


def _require_progress(page: ListPage, want: Want) -> None:
    """Raise NotAList if the next cursor was used before, because the list would repeat without end."""
    if page.older is not None and (page.older == want.cursor or page.older in want.met):
        raise NotAList("The pages of this list repeat. Is this a ledger server?")


def _statement_rows(body: Record) -> list[Record]:
    """Return a statement's lines, oldest first, between its opening and its closing balance."""
    lines = body.get("lines")
    if not isinstance(lines, list):
        raise NotAList("The answer is not a statement.")
    currency = body.get("currency")
    ends = {
        name: {"id": name, "currency": currency, "date": body.get(date), "running_balance": body.get(name)}
        for name, date in (("opening_balance", "period_start"), ("closing_balance", "period_end"))
    }
    if not all(isinstance(line, dict) for line in lines):
        raise NotAList("The answer is not a statement.")
    rows = _records([{**line, "id": line.get("transaction"), "currency": currency} for line in lines])
    return [ends["opening_balance"], *rows, ends["closing_balance"]]


def _records(items: Sequence[Record]) -> list[Record]:
    """Return the objects of a list. Ids that are numbers become text, so that all ids have one type."""
    records: list[Record] = []
    for item in items:
        if not isinstance(item.get("id"), str | int):
            raise NotAList("The list contains something without an id.")
        records.append(item if isinstance(item["id"], str) else {**item, "id": str(item["id"])})
    return records
