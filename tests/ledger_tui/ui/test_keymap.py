"""The config file may give an action any key that a terminal sends and no other action has."""

from __future__ import annotations

import pytest

from ledger_tui.settings.config import BadConfig, parse_config
from ledger_tui.ui.keymap import command_bindings, keymap, spelled
from ledger_tui.ui.keys import BY_ID


def test_nothing_configured_changes_nothing() -> None:
    assert keymap({}, "f") == {}


def test_every_binding_is_named_so_that_none_is_lost() -> None:
    whole = keymap({"refresh": "ctrl+r"}, "f")
    assert set(whole) == set(BY_ID)
    assert whole["refresh"] == "ctrl+r"
    assert whole["filter"] == "slash"


@pytest.mark.parametrize("key", ["A", "ctrl+r", "f5", "shift+f5", "Y,ctrl+r", "W", "%", "ü", "/,ctrl+f5"])
def test_a_key_may_be_any_that_a_terminal_sends(key: str) -> None:
    assert "refresh" in keymap({"refresh": key, "filter": "ctrl+g"}, "f")


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"refesh": "x"}, "keys.refesh: there is no such action"),
        ({"refresh": "control-r"}, 'keys.refresh: "control-r" is not a key'),
        ({"refresh": "ctrl+"}, "is not a key"),
        ({"refresh": "n"}, 'keys.refresh: "n" is already the key of exchange'),
        ({"refresh": "f5", "follow": "f5"}, '"f5" is'),
        ({"refresh": "/"}, "is already the key of filter"),
        ({"refresh": "alt+r"}, 'keys.refresh: "alt+r" is what a terminal sends for esc and the key after it'),
        ({"refresh": "ctrl+p"}, 'keys.refresh: "ctrl+p" is reserved: it opens the palette'),
        ({"refresh": "f5,ctrl+q"}, 'keys.refresh: "ctrl+q" is reserved: it quits'),
        ({"show.accounts": "k"}, 'keys.show.accounts: "k" is already the key of move.-1'),
        (
            {"filter": "backspace", "quit": "ctrl+h"},
            '"backspace" is already the key of quit: a terminal sends the same for "ctrl+h".',
        ),
        (
            {"refresh": "ctrl+m"},
            '"ctrl+m" is already the key of open: a terminal sends the same for "enter".',
        ),
        ({"refresh": "ctrl+["}, 'is already the key of back: a terminal sends the same for "escape".'),
        ({"refresh": "ctrl+i"}, 'is already the key of switch: a terminal sends the same for "tab"'),
        ({"refresh": "shift+j"}, 'keys.refresh: "J" is already the key of raw'),
        ({"refresh": "shift+1"}, 'keys.refresh: write the character that "shift+1" types'),
        ({"refresh": "shift+/"}, "write the character that"),
    ],
)
def test_an_impossible_key_is_reported(keys: dict[str, str], reason: str) -> None:
    with pytest.raises(BadConfig) as bad:
        keymap(keys, "f.toml")
    assert str(bad.value).startswith("f.toml: ")
    assert reason in str(bad.value)


def test_two_may_swap_their_keys() -> None:
    whole = keymap({"refresh": "f", "follow": "r"}, "f")
    assert (whole["refresh"], whole["follow"]) == ("f", "r")


def test_a_key_has_one_spelling() -> None:
    keys = ["k", "G", "up", "pageup", "ctrl+b", "question_mark", "left_square_bracket", "escape", "space"]
    assert [spelled(key) for key in keys] == ["k", "G", "↑", "PgUp", "^b", "?", "[", "esc", "space"]
    assert [spelled(key) for key in ("enter", "shift+tab", "ctrl+shift+f5")] == [
        "⏎",
        "shift+tab",
        "^shift+f5",
    ]


def test_a_letter_with_shift_is_the_capital_that_a_terminal_sends() -> None:
    assert keymap({"act.reverse": "shift+b"}, "f")["act.reverse"] == "B"
    assert keymap({"refresh": "shift+ü, ctrl+f5, ctrl+/"}, "f")["refresh"] == "Ü,ctrl+f5,ctrl+slash"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (
            'key = "f6"\nrun = "true"\nscreens = ["bills"]',
            'screens: there is no screen "b',
        ),
        ('key = "q"\nrun = "true"', 'commands.show.key: "q" is already the key of quit'),
        ('key = "ctrl+p"\nrun = "true"', 'commands.show.key: "ctrl+p" is not a key that can be used'),
        ('key = "eff"\nrun = "true"', 'commands.show.key: "eff" is not a key that can be used'),
    ],
)
def test_a_key_or_screen_that_a_command_cannot_have_is_reported(table: str, reason: str) -> None:
    config = parse_config(f"[commands.show]\n{table}", "f")
    with pytest.raises(BadConfig) as bad:
        command_bindings(config.commands, config.keys, "f")
    assert reason in str(bad.value)
