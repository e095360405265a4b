"""The pages of the dashboard name every theme and entry of the config file, and the site every key."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from ledger_tui.settings.config import Profile
from ledger_tui.ui.keys import BY_ID
from ledger_tui.ui.styles import ABOUT, THEMES
from tools.command_page import page

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONFIGURATION = (DOCS / "dashboard-configuration.md").read_text(encoding="utf-8")


def test_the_sites_page_of_commands_lists_each_key() -> None:
    keys = page().partition("## The dashboard's keys")[2]
    assert [name for name in BY_ID if not re.search(rf"(?m)^{re.escape(name)} ", keys)] == []


@pytest.mark.parametrize("name", [each.name for each in fields(Profile) if each.name != "name"])
def test_an_entry_of_a_profile_is_documented(name: str) -> None:
    assert f"\n{name} = " in CONFIGURATION


def test_themes_are_documented() -> None:
    assert {theme.name for theme in THEMES} == set(ABOUT)
    for name in ABOUT:
        assert name in CONFIGURATION
