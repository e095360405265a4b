"""The pages of the dashboard name every key, theme and entry of the config file."""

from dataclasses import fields
from pathlib import Path

import pytest

from ledger_tui.settings.config import Profile
from ledger_tui.ui.keys import BY_ID
from ledger_tui.ui.styles import ABOUT, THEMES

DOCS = Path(__file__).resolve().parents[2] / "docs"
KEYS = (DOCS / "dashboard-keys.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "dashboard-configuration.md").read_text(encoding="utf-8")
SCREENS = {"show.accounts", "show.overview"}


@pytest.mark.parametrize(
    "name", sorted(name for name in BY_ID if not name.startswith("show.") or name in SCREENS)
)
def test_a_key_is_documented(name: str) -> None:
    assert f"`{name}`" in KEYS


@pytest.mark.parametrize("name", [each.name for each in fields(Profile) if each.name != "name"])
def test_an_entry_of_a_profile_is_documented(name: str) -> None:
    assert f"\n{name} = " in CONFIGURATION


def test_themes_are_documented() -> None:
    assert {theme.name for theme in THEMES} == set(ABOUT)
    for name in ABOUT:
        assert name in CONFIGURATION
