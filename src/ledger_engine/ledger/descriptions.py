"""The descriptions of transactions as they are stored: long ones in a column of their own.

The index by account has `description`, so that an account's transactions are read from it alone. A long text
would take its space twice, and a page of that index would hold few entries. So it is stored in
`long_description`, which is in no index, and `description` is `ELSEWHERE`.
"""

from __future__ import annotations

SHORT_MAX = 100  # characters
ELSEWHERE = "…"  # also what a short description may be: then `long_description` is NULL

# The description of a row of `transactions`, or of another table or query with both columns.
WHOLE = "coalesce(long_description, description) AS description"


def stored(description: str | None) -> tuple[str | None, str | None]:
    """Return the values of the columns `description` and `long_description`."""
    if description is None or len(description) <= SHORT_MAX:
        return description, None
    return ELSEWHERE, description
