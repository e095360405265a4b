"""Lists as pages: the interface's three kinds of paging, and the statement, behind one call.

Also reads the accounts that rows name only by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from ledger_tui.client.api import Api, ApiResponse
from ledger_tui.client.errors import NO_LEDGER, ClientError, NotFound
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Page, Record, Want

_PAGES_SEARCHED = 10
Paging = Literal["starting_after", "cursor", "page", "statement"]


class NotAList(ClientError):
    """A 2xx answer that is not a list: another program listens at this address."""


async def learn_account(api: Api, names: AccountNames, account_id: str) -> bool:
    """Read an account's name and currency; returns whether the account exists. Raises ClientError."""
    try:
        answer = await api.read(f"/v1/accounts/{quote(account_id, safe='')}")
    except NotFound:
        names.mark_absent(account_id)
        return False
    names.learn([answer.record])
    return True


async def learn_accounts_until(api: Api, names: AccountNames, name: str) -> None:
    """Read accounts, newest first, until one has `name` in its name, up to a maximum of pages.

    The server has no search by name. Raises ClientError.
    """
    want = Want(0, "page", 0, None)
    for _page in range(_PAGES_SEARCHED):
        page = await fetch_page(api, "/v1/accounts", "starting_after", {}, want)
        names.learn(page.rows)
        if names.having(name) or page.older is None:
            return
        want = Want(0, "page", 0, page.older)


async def learn_users_until(api: Api, names: AccountNames, name: str) -> None:
    """Read users as `learn_accounts_until` reads accounts. Raises ClientError."""
    want = Want(0, "page", 0, None)
    for _page in range(_PAGES_SEARCHED):
        page = await fetch_page(api, "/api/users", "page", {}, want)
        names.learn_users(page.rows)
        if names.users.search(name, 1) or page.older is None:
            return
        want = Want(0, "page", 0, page.older)


async def fetch_page(
    api: Api, path: str, paging: Paging, filters: Mapping[str, str], want: Want, part: str | None = None
) -> Page:
    """Return the page that a window wants. Waits as `Api.read` does; raises ClientError for a refusal."""
    params = dict(filters)
    if paging == "page":
        # The size must be the same for all pages of a numbered list, or they would overlap or leave gaps.
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


def _page_of(answer: ApiResponse, paging: Paging, want: Want) -> Page:
    body = answer.body
    if paging == "statement":
        return Page(_statement_rows(answer.record), None)
    if isinstance(body, list):  # the interface does not fix the shape of a directory list
        return Page(_records(body), None)
    if not isinstance(body, dict) or not isinstance(body.get("data"), list):
        raise NotAList(NO_LEDGER)
    rows = _records(body["data"])
    if paging == "page":
        number, pages = int(want.cursor or "1"), body.get("total_pages")
        more = isinstance(pages, int) and number < pages
        total = body.get("total")
        return Page(rows, str(number + 1) if more else None, total if isinstance(total, int) else None)
    cursor = body.get("next_cursor")
    if body.get("has_more") is True and not isinstance(cursor, str) and rows:
        cursor = rows[-1].get("id")
    return Page(rows, cursor if isinstance(cursor, str) and body.get("has_more") is not False else None)


def _require_progress(page: Page, want: Want) -> None:
    """Raise when the next cursor was met before, as it would lead to the same pages without end."""
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


def _records(items: list[Any]) -> list[Record]:
    """Return the objects of a list, each with its id as text, which identifies the row."""
    records: list[Record] = []
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str | int):
            raise NotAList("The list contains something without an id.")
        records.append(item if isinstance(item["id"], str) else {**item, "id": str(item["id"])})
    return records
