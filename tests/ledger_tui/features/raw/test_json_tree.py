"""JSON as lines that fold."""

import json

from ledger_tui.features.raw.text import JsonTree

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
