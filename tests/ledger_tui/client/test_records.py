"""Ids and records are found in any answer, however it is nested."""

from __future__ import annotations

import pytest

from ledger_tui.client.records import attempts_of, ids_in


def is_id(text: str) -> bool:
    return text.startswith(("acc_", "txn_"))


def test_ids_are_found_wherever_they_are_in_the_order_of_the_fields() -> None:
    record = {
        "id": "txn_1",
        "account": "acc_1",
        "lines": [{"of": "acc_2"}, ["txn_1"]],
        "metadata": {"a.b": "txn_9", "c": "note acc_3"},
    }
    assert [tuple(found) for found in ids_in(record, is_id)] == [
        ("id", "txn_1"),
        ("account", "acc_1"),
        ("lines.0.of", "acc_2"),
        ("lines.1.0", "txn_1"),
        ("metadata.a.b", "txn_9"),
    ]


@pytest.mark.parametrize("value", [None, 3, "x", [], {}])
def test_nothing_is_found_where_there_is_nothing(value: object) -> None:
    assert [*ids_in(value, is_id)] == []


def test_ids_are_searched_at_any_depth() -> None:
    deep: object = "acc_1"
    for _ in range(5_000):
        deep = [{"more": deep}]
    assert [found.record_id for found in ids_in(deep, is_id)] == ["acc_1"]


@pytest.mark.parametrize("attempts", [None, 3, {"error": None}, ["x", None]])
def test_attempts_in_a_form_that_is_not_known_are_none(attempts: object) -> None:
    assert attempts_of({"attempts": attempts}) == []
