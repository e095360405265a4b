from __future__ import annotations

import json

import pytest

from ledger_tui.client.records import ids_in
from ledger_tui.features.raw import DEEPEST, JsonTree, json_text


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
        assert JsonTree(deep).lines[0].text == "nested too deep to be shown"
    assert [*ids_in(deep, is_id)] == []


VALUE = {"id": "a", "none": None, "list": [1, {"x": True}], "empty": {}, "key": "sk_live_0123456789"}


def text(tree: JsonTree) -> str:
    return "\n".join("".join(piece.text for piece in tree.pieces(number)) for number in tree.visible)


def test_the_lines_are_the_json_with_secrets_masked() -> None:
    shown = text(JsonTree(VALUE))
    assert json.loads(shown) == VALUE | {"key": "sk_live_••••"}
    assert shown == json.dumps(VALUE | {"key": "sk_live_••••"}, indent=2, ensure_ascii=False)


def test_what_is_folded_shows_its_size_and_finding_unfolds_it() -> None:
    tree = JsonTree(VALUE)
    at = next(number for number, line in enumerate(tree.lines) if '"list"' in line.text)
    tree.fold(at + 1)  # on a member: what it is within is folded
    assert '"list": [ … 2 ],' in text(tree)
    assert tree.find("true", 0) == at + 3
    assert '"x": true' in text(tree)
    tree.fold_all(True)
    assert len(tree.visible) == len(VALUE) + 2
    tree.fold_all(False)
    assert len(tree.visible) == len(tree.lines)
    assert tree.find("nowhere", 0) is None
    assert tree.count('"') == len(VALUE) + 1


def test_what_is_nested_too_deep_or_cannot_be_drawn_is_told() -> None:
    deep: list[object] = []
    for _level in range(5000):
        deep = [deep]
    assert text(JsonTree(deep)) == "nested too deep to be shown"
    drawn = text(JsonTree({"a": "\x1b]52;c;aGk=\x07\ud800\u202e\x9b"}))
    assert all(line.isprintable() for line in drawn.split("\n"))


def test_what_has_nothing_below_it_does_not_fold() -> None:
    tree = JsonTree("sale")
    assert tree.fold(0) == 0
    assert text(tree) == '"sale"'
