"""What another server has sent is checked field by field, and the refusal names the record and the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger_engine.core.clock import DAY
from ledger_engine.core.ids import IdSource
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.tools.pull.applying import Fields, Unusable, id_of, total_of
from tests.ledger_engine.conftest import START


def fields(**record: Any) -> Fields:
    return Fields("order", "ord_1", record, START)


@pytest.mark.parametrize(
    ("record", "read", "words"),
    [
        ({}, lambda read: read.text("x"), "missing"),
        ({"x": None}, lambda read: read.text("x"), "missing"),
        ({"x": 5}, lambda read: read.text_or_none("x"), "no text"),
        ({"x": "lost"}, lambda read: read.one_of("x", ("open", "paid")), "not one of open, paid"),
        ({"x": "yesterday"}, lambda read: read.time("x", 0), "no time"),
        ({}, lambda read: read.amount("x"), "not an integer from 0 to 9,"),
        ({"x": 0}, lambda read: read.amount("x", 1), "not an integer from 1 to 9,"),
        ({"x": True}, lambda read: read.amount("x"), "not an integer from 0 to 9,"),
        ({"x": MAX_AMOUNT + 1}, lambda read: read.amount("x"), "not an integer from 0 to 9,"),
        ({"x": 1.5}, lambda read: read.integer_or_none("x"), "not an integer"),
        ({"x": ["a"]}, lambda read: read.texts("x"), "not an object with string values"),
        ({"x": {"a": 1}}, lambda read: read.texts("x"), "not an object with string values"),
        ({"x": {}}, lambda read: read.objects("x"), "not a list of objects"),
        ({"x": [1]}, lambda read: read.objects("x"), "not a list of objects"),
    ],
)
def test_a_value_of_another_kind_is_refused(
    record: dict[str, Any], read: Callable[[Fields], object], words: str
) -> None:
    with pytest.raises(Unusable, match=f"^order ord_1: its x is {words}"):
        read(fields(**record))


def test_what_is_not_shown_is_filled_in() -> None:
    empty = fields()
    assert empty.created == START
    assert (empty.text_or_none("x"), empty.integer_or_none("x"), empty.objects("x")) == (None, None, None)
    assert (empty.texts("x"), empty.text("x", "here"), empty.one_of("x", ("here",), "here")) == (
        {}, "here", "here",
    )  # fmt: skip


@pytest.mark.parametrize("id", [None, 7, "", "ord_1", "usr_" + "0" * 26, "ord_" + "ä" * 26])
def test_an_id_of_another_form_is_refused(id: object) -> None:
    with pytest.raises(Unusable, match="has not the form ord_ and 26 letters and digits"):
        id_of({"id": id}, "ord", START)


def test_an_id_may_be_a_day_ahead_of_this_machine_and_no_more() -> None:
    source = IdSource()
    ahead, too_far = source.new("ord", START + DAY), source.new("ord", START + DAY + 1)
    assert id_of({"id": ahead}, "ord", START) == ahead
    with pytest.raises(Unusable, match="or is from the future"):
        id_of({"id": too_far}, "ord", START)


@pytest.mark.parametrize(
    ("items", "total"),
    [
        ([], 0),
        ([{"quantity": 2, "unit_amount": 90}, {"unit_amount": 5}, {"note": "none"}], 185),
        ([{"quantity": "2", "unit_amount": 90}], None),
        ([{"quantity": 2, "unit_amount": 0.5}], None),
        ([{"quantity": True, "unit_amount": 1}], None),
    ],
)
def test_only_items_in_integers_have_a_total(items: list[dict[str, Any]], total: int | None) -> None:
    assert total_of(items) == total
