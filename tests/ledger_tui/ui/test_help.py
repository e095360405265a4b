"""A key that does nothing on a screen is answered with its meanings on other screens."""

from __future__ import annotations

import pytest

from ledger_tui.ui.help import use_elsewhere


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
