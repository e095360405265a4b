"""Metadata: up to 20 pairs of text (docs/interface.md#account-metadata)."""

from __future__ import annotations

import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.ledger.fields import parse_metadata


@pytest.mark.parametrize(
    "pairs",
    [
        {},
        {f"key {number}": "value" for number in range(20)},
        {"k" * 64: "v" * 1024},
        {"k": ""},
        {"été": "☕"},
    ],
)
def test_twenty_pairs_of_text_are_kept(pairs: dict[str, str]) -> None:
    kept = parse_metadata(pairs)
    assert kept == pairs
    assert kept is not pairs


@pytest.mark.parametrize(
    ("pairs", "param"),
    [
        ({f"key {number}": "value" for number in range(21)}, "metadata"),
        ({"": "value"}, "metadata"),
        ({"k" * 65: "value"}, "metadata"),
        ({"colour": "v" * 1025}, "metadata.colour"),
    ],
)
def test_more_than_that_is_refused_and_named(pairs: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_metadata(pairs)
    assert (refused.value.code, refused.value.param) == ("invalid_value", param)
