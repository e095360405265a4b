from __future__ import annotations

import json

import pytest

from ledger_tui.client.records import ids_in
from ledger_tui.features.raw import DEEPEST, json_text


def is_id(text: str) -> bool:
    return text.startswith(("acc_", "txn_"))


def test_ids_are_found_wherever_they_are_each_once_the_own_last() -> None:
    record = {
        "id": "txn_1",
        "account": "acc_1",
        "lines": [{"of": "acc_2"}, "acc_1", ["txn_1"]],
        "metadata": {"a.b": "txn_9", "c": "note acc_3"},
    }
    assert [tuple(found) for found in ids_in(record, is_id)] == [
        ("account", "acc_1"),
        ("lines.0.of", "acc_2"),
        ("metadata.a.b", "txn_9"),
        ("id", "txn_1"),
    ]


@pytest.mark.parametrize("value", [None, 3, "x", [], {}])
def test_nothing_is_found_where_there_is_nothing(value: object) -> None:
    assert [*ids_in(value, is_id)] == []


def test_json_is_json_again_and_lone_surrogates_do_no_harm() -> None:
    value = {"a": ["ü", "\ud800"], "b": "\x1b]52\u202e"}
    assert json.loads(json_text(value)) == value


def test_nesting_without_end_is_a_sentence() -> None:
    deep: list[object] = []
    for _ in range(DEEPEST):
        deep = [deep]
    assert json.loads(json_text(deep)) == deep
    for depth in (1, 10_000):
        for _ in range(depth):
            deep = [{"more": deep}]
        assert json_text(deep) == "nested too deep to be shown"
    assert [*ids_in(deep, is_id)] == []
