"""A letter has one verb on all screens; the most useful keys come first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.dom import DOMNode
from textual.widgets import Input

from ledger_tui.app.navigation import load_the_rest
from ledger_tui.features.raw import JsonText
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.keys import BY_ID, HELPER_KEYS, LETTERS, TOGETHER, descriptions, usefulness

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dashboard-keys.md"


def test_the_keys_that_everybody_needs_come_first_and_marking_late() -> None:
    actions = ["mark", "app.quit", "help", "trace", "act('pay')", "create", "filter", "back", "open"]
    assert sorted(actions, key=usefulness) == [*reversed(actions[3:]), "mark", "help", "app.quit"]


def letters_of_screens() -> list[tuple[str, str]]:
    """Return each letter of a screen of the dashboard with its action; a dialog names its own letters."""
    load_the_rest()
    classes: list[type[DOMNode]] = [DOMNode]
    for each in classes:
        classes.extend(each.__subclasses__())
    ours = [each for each in classes if each.__module__.startswith("ledger_tui.")]
    screens = [each for each in ours if not issubclass(each, (Dialog, Input, JsonText))]
    keys = (
        (key, binding.action)
        for each in screens
        for binding in Binding.make_bindings(each.BINDINGS)
        for key in binding.key.split(",")
    )
    return [(key, action) for key, action in keys if len(key) == 1 and key.isalpha()]


def test_a_letter_has_one_verb_on_all_screens() -> None:
    letters = letters_of_screens()
    assert len(letters) > len(LETTERS)
    used = {letter: {action for key, action in letters if key == letter} for letter, _action in letters}
    assert used == {letter: {*each.actions} for letter, each in LETTERS.items()}
    actions = [action for each in LETTERS.values() for action in each.actions]
    assert len(actions) == len(set(actions))
    assert len({each.verb for each in LETTERS.values()}) == len(LETTERS)


def test_the_letters_of_decisions_15_and_21_stay() -> None:
    fixed = {
        "n": "create",
        "r": "refresh",
        "y": "screen.copy_id",
        "c": "screen.copy_curl",
        "f": "follow",
        "q": "app.quit",
        "a": "past('a')",
        "b": "past('b')",
        "d": "past('compare')",
    }
    assert all(action in LETTERS[letter].actions for letter, action in fixed.items())


def test_a_test_helper_that_destroys_data_has_no_key() -> None:
    assert [binding.id for binding in HELPER_KEYS if isinstance(binding, Binding)] == ["open", "snapshot"]


def test_the_page_of_the_keys_lists_the_verb_of_each_letter() -> None:
    rows = re.findall(
        r"(?m)^\| `(\w)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8").partition("## Letters")[2]
    )
    assert dict(rows) == {letter: each.verb for letter, each in LETTERS.items()}


@pytest.mark.parametrize("together", TOGETHER, ids=lambda group: str(len(group)))
def test_by_default_a_key_means_one_thing_at_a_time(together: list[Binding]) -> None:
    taken: dict[str, str] = {}
    for binding in together:
        for key in binding.key.split(","):
            assert taken.setdefault(key, binding.id or "") == binding.id, key


def test_a_key_is_described_by_all_that_it_does_on_different_screens() -> None:
    assert descriptions().keys() == BY_ID.keys()
    assert descriptions()["open"] == "open; restore it, end it"
    assert descriptions()["group"] == "sums"
