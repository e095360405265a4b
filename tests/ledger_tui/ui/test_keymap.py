import pytest
from textual.binding import Binding

from ledger_tui.settings.config import BadConfig
from ledger_tui.ui.help import use_elsewhere
from ledger_tui.ui.keys import BY_ID, TOGETHER, descriptions, keymap, spelled


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


@pytest.mark.parametrize("together", TOGETHER, ids=lambda group: str(len(group)))
def test_by_default_a_key_means_one_thing_at_a_time(together: list[Binding]) -> None:
    taken: dict[str, str] = {}
    for binding in together:
        for key in binding.key.split(","):
            assert taken.setdefault(key, binding.id or "") == binding.id, key


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


def test_a_key_is_described_by_all_that_it_does_on_different_screens() -> None:
    assert descriptions().keys() == BY_ID.keys()
    assert descriptions()["open"] == "open; restore it, end it"
    assert descriptions()["group"] == "sums"


@pytest.mark.parametrize(
    ("key", "own_keys", "sentence"),
    [
        ("F", {}, "F works on another screen: finalize (3 Invoices)."),
        (
            "d",
            {},
            "d works on other screens: compare accounts (1 Accounts), compare (the past).",
        ),
        ("l", {}, "l works on other screens: locate in the list (many screens)."),
        ("R", {}, "R repairs a demo's receiver that fails: choose its row (tab on the overview) first."),
        ("ctrl+d", {}, "^d does nothing here; in lists PgDn or ^f moves a page down."),
        ("ctrl+u", {"move_pages.-1": "f7"}, "^u does nothing here; in lists f7 moves a page up."),
        ("Z", {"act.finalize": "Z"}, "Z works on another screen: finalize (3 Invoices)."),
    ],
)
def test_a_key_that_does_nothing_here_names_what_it_does_and_on_which_screens(
    key: str, own_keys: dict[str, str], sentence: str
) -> None:
    assert use_elsewhere(key, own_keys).startswith(sentence)


def test_a_key_that_does_nothing_anywhere_has_nothing_said() -> None:
    assert use_elsewhere("Z", {}) == use_elsewhere("tab", {}) == ""
