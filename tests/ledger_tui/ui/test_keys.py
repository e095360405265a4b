"""The key bar orders its keys, leaves some out if it is narrow, and presses a key at a click."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.dom import DOMNode
from textual.geometry import Offset
from textual.screen import Screen
from textual.widgets import Input

from ledger_tui.app.navigation import load_the_rest
from ledger_tui.features.raw import JsonText
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.keys import HELPER_KEYS, LETTERS, KeyBar, usefulness

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dashboard-keys.md"


class KeyScreen(Screen[None]):
    """A widget with an enabled and a disabled key."""

    BINDINGS = [
        Binding("h", "help", "keys"),
        Binding("n", "create", "new"),
        Binding("e", "edit", "edit"),  # not possible now
        Binding("o", "open", "open"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.bar = KeyBar()
        self.pressed: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.bar

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if action == "edit" else True

    def action_create(self) -> None:
        self.pressed.append("new")

    def action_edit(self) -> None:
        self.pressed.append("edit")


class KeyApp(App[None]):
    CSS = "KeyBar { height: 1; }"
    ENABLE_COMMAND_PALETTE = False

    def get_default_screen(self) -> KeyScreen:
        self.shown = KeyScreen()
        return self.shown

    def get_css_variables(self) -> dict[str, str]:
        return {**super().get_css_variables(), "muted": "#888888", "faint": "#444444"}


@pytest.mark.slow
async def test_a_click_beside_the_keys_does_nothing() -> None:
    app = KeyApp()
    async with app.run_test(size=(80, 3)) as pilot:
        line = app.shown.bar.render().plain
        for at in (len(line) + 5, line.index("new"), len(line) + 5):
            await pilot.click(app.shown.bar, offset=Offset(at, 0))
        await pilot.pause()
        assert app.shown.pressed == ["new"]


def test_the_keys_that_everybody_needs_come_first_and_marking_late() -> None:
    actions = ["mark", "app.quit", "help", "trace", "act('pay')", "create", "filter", "back", "open"]
    assert sorted(actions, key=usefulness) == [*reversed(actions[3:]), "mark", "help", "app.quit"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "shown"),
    [(60, "o open   n new   h keys"), (22, "o open   h keys"), (10, "h keys")],
)
async def test_a_narrow_bar_leaves_out_what_cannot_be_pressed_then_the_last_but_never_the_help(
    width: int, shown: str
) -> None:
    app = KeyApp()
    async with app.run_test(size=(width, 3)):
        assert app.shown.bar.render().plain == shown


# ---------------------------------------------------------------------- the table of letters


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
