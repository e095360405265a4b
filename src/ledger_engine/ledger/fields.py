"""Fields of several kinds of objects: the description of a transaction as it is stored, and metadata.

The index by account has `description`, so that an account's transactions are read from it alone. A long text
would take its space twice, and a page of that index would hold few entries. So it is stored in
`long_description`, which is in no index, and `description` is `ELSEWHERE`.

Metadata are up to 20 pairs of text that callers store with an object (docs/interface.md#account).
"""

from __future__ import annotations

from collections.abc import Mapping

from ledger_engine.core.errors import InvalidRequest

SHORT_MAX = 100  # characters
ELSEWHERE = "…"  # also what a short description may be: then `long_description` is NULL
PAIRS_MAX = 20
KEY_MAX = 64
VALUE_MAX = 1024

# The description of a row of `transactions`, or of another table or query with both columns.
DESCRIPTION = "coalesce(long_description, description) AS description"


def stored_description(description: str | None) -> tuple[str | None, str | None]:
    """Return the values of the columns `description` and `long_description`."""
    if description is None or len(description) <= SHORT_MAX:
        return description, None
    return ELSEWHERE, description


def parse_metadata(metadata: Mapping[str, str], param: str = "metadata") -> dict[str, str]:
    """Return the pairs; raises InvalidRequest naming `param` when there are too many or one is too long."""
    if len(metadata) > PAIRS_MAX:
        raise InvalidRequest("invalid_value", f"{param} holds at most {PAIRS_MAX} pairs.", param)
    for key, value in metadata.items():
        if not 1 <= len(key) <= KEY_MAX:
            raise InvalidRequest("invalid_value", f"A key of {param} has 1 to {KEY_MAX} characters.", param)
        if len(value) > VALUE_MAX:
            raise InvalidRequest(
                "invalid_value", f"A value of {param} has at most {VALUE_MAX} characters.", f"{param}.{key}"
            )
    return dict(metadata)
