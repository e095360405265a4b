"""What a record looks like outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from ledger_engine.core.records import Moment, as_json, dumps


@dataclass(slots=True)
class Parcel:
    OBJECT: ClassVar[str] = "parcel"

    id: str
    weight: int
    created: Moment
    opened_at: Moment | None
    contents: list[dict[str, str]]


def test_a_record_shows_its_id_its_kind_and_its_fields_in_their_order() -> None:
    shown = as_json(Parcel("par_1", 12, Moment(1_795_149_060_123), None, [{"a": "b"}]))
    assert list(shown) == ["id", "object", "weight", "created", "opened_at", "contents"]
    assert (shown["id"], shown["object"], shown["weight"]) == ("par_1", "parcel", 12)
    assert shown["contents"] == [{"a": "b"}]


def test_times_are_shown_as_text_and_absent_ones_as_null() -> None:
    opened = as_json(Parcel("par_1", 12, Moment(0), Moment(1), []))
    assert (opened["created"], opened["opened_at"]) == (
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.001Z",
    )
    assert as_json(Parcel("par_1", 12, Moment(0), None, []))["opened_at"] is None


def test_text_stays_itself_and_takes_no_space() -> None:
    assert dumps({"name": "Café ☕", "n": [1, None, True]}) == '{"name":"Café ☕","n":[1,null,true]}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_json_cannot_express_is_left_out(number: float) -> None:
    with pytest.raises(ValueError):
        dumps(number)
