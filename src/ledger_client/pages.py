"""Reads a page of a list from an answer. This module avoids httpx, whose import takes 0.1 seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledger_client.errors import Unreadable

NOT_A_LEDGER = "Is this a ledger server?"


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list; `older` is the cursor for the next page, None on the last page.

    `total` and `summary` count the objects of the whole list, if the server sends these counts.
    """

    rows: Sequence[dict[str, Any]]
    older: str | None
    total: int | None = None
    summary: dict[str, Any] | None = None


def page_of(body: Any, paging: str, cursor: str | None = None, size: int = 100) -> ListPage:
    """Return the page in an answer; `paging` is the query parameter that carries `cursor`.

    `size` is the number of rows that the request asked for. The answer may also be a bare array, because the
    contract does not define the form of every list. Raises Unreadable for any other answer.
    """
    envelope = body if isinstance(body, dict) else {"data": body}
    rows = envelope.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable(f"The answer is not a page of a list. {NOT_A_LEDGER}")
    if paging == "page":
        number, pages, total = int(cursor or "1"), envelope.get("total_pages"), envelope.get("total")
        more = number < pages if isinstance(pages, int) else len(rows) >= size and body is envelope
        older = str(number + 1) if more and rows else None
        return ListPage(rows, older, total if isinstance(total, int) else None)
    older = envelope.get("next_cursor")
    if older is None and envelope.get("has_more") is True and rows:
        older = rows[-1].get("id")
    if envelope.get("has_more") is False or (older is None and envelope.get("has_more") is not True):
        older = None
    elif not isinstance(older, str) or not older.isascii():
        raise Unreadable(f"The list goes on, but its answer lacks a cursor for the next page. {NOT_A_LEDGER}")
    summary = envelope.get("summary")
    return ListPage(rows, older, summary=summary if isinstance(summary, dict) else None)
