from __future__ import annotations

import json

from ledger_tui.features.raw import DEEPEST, json_text


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
