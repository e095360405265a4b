"""Pages of what is not stored in the ledger, as its own lists are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ledger_engine.core.errors import InvalidRequest

R = TypeVar("R")


def listed(
    records: Sequence[R], id_of: Callable[[R], str], limit: int, cursor: str | None
) -> tuple[list[R], bool]:
    """Return up to `limit` records after the cursor, newest first, and whether more follow.

    Raises InvalidRequest `invalid_cursor` for a cursor that is none of theirs.
    """
    newest_first = sorted(records, key=id_of, reverse=True)
    if cursor is not None:
        ids = [id_of(record) for record in newest_first]
        if cursor not in ids:
            raise InvalidRequest("invalid_cursor", "cursor must be the next_cursor of a page.", "cursor")
        newest_first = newest_first[ids.index(cursor) + 1 :]
    return newest_first[:limit], len(newest_first) > limit
