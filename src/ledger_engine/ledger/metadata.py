"""Metadata: up to 20 pairs of text that callers store with an object (docs/interface.md#account)."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_engine.core.errors import InvalidRequest

PAIRS_MAX = 20
KEY_MAX = 64
VALUE_MAX = 1024


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
