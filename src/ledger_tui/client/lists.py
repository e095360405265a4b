"""Lists as pages: the three ways this interface pages, and the statement, behind one call.

And the accounts that their rows name by id alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from ledger_tui.client.api import Answer, Api
from ledger_tui.client.errors import NO_LEDGER, ClientError, NotFound
from ledger_tui.state.names import AccountNames
from ledger_tui.state.window import Page, Record, Want

Paging = Literal["starting_after", "cursor", "page", "statement"]


class NotAList(ClientError):
    """A 2xx answer that is no list: another program listens at this address."""


async def learn_account(api: Api, names: AccountNames, account_id: str) -> bool:
    """Look up what an account is called and counts in; whether there is one. Raises ClientError."""
    try:
        answer = await api.read(f"/v1/accounts/{quote(account_id, safe='')}")
    except NotFound:
        names.mark_absent(account_id)
        return False
    names.learn([answer.record])
    return True


async def fetch_page(
    api: Api, path: str, paging: Paging, filters: Mapping[str, str], want: Want, part: str | None = None
) -> Page:
    """The page a window wants. Patient as `Api.read`; raises ClientError for a definite no."""
    params = dict(filters)
    if paging == "page":
        # The size must not vary between the pages of a numbered list, or their edges would not meet.
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


def _page_of(answer: Answer, paging: Paging, want: Want) -> Page:
    body = answer.body
    if paging == "statement":
        return Page(_statement_rows(answer.record), None)
    if isinstance(body, list):  # a directory list's shape is not fixed by the interface
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
    """A cursor that was met before leads to the same pages again, without end."""
    if page.older is not None and (page.older == want.cursor or page.older in want.met):
        raise NotAList("The list goes round in a circle. Is it a ledger's?")


def _statement_rows(body: Record) -> list[Record]:
    """A statement's lines, oldest first, between its opening and its closing balance."""
    lines = body.get("lines")
    if not isinstance(lines, list):
        raise NotAList("The answer is no statement.")
    currency = body.get("currency")
    ends = {
        name: {"id": name, "currency": currency, "date": body.get(date), "running_balance": body.get(name)}
        for name, date in (("opening_balance", "period_start"), ("closing_balance", "period_end"))
    }
    rows = _records([{**line, "id": line.get("transaction"), "currency": currency} for line in lines])
    return [ends["opening_balance"], *rows, ends["closing_balance"]]


def _records(items: list[Any]) -> list[Record]:
    """The objects of a list, each with its id as text: by it rows are told apart."""
    records: list[Record] = []
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str | int):
            raise NotAList("The list holds something that is no object with an id.")
        records.append(item if isinstance(item["id"], str) else {**item, "id": str(item["id"])})
    return records
