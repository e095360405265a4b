"""Themes of the user's own, from the config file: one of the built-in themes with other colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from textual.theme import Theme

from ledger_tui.settings.config import BadConfig
from ledger_tui.ui.styles import ABOUT, DEFAULT_THEME, THEMES

BASE = "base"
COLORS = (
    "primary",
    "secondary",
    "accent",
    "warning",
    "error",
    "success",
    "foreground",
    "background",
    "surface",
    "panel",
)
# The name in the config file, and the variables of a theme that it sets.
ROLES = {
    "muted": ("muted",),
    "faint": ("faint",),
    "plus": ("plus",),
    "minus": ("minus",),
    "mode_test": ("mode-test",),
    "mode_live": ("mode-live",),
    "tab": ("tab", "footer-key-foreground"),
    "text_on": ("mode-test-text", "mode-live-text", "tab-text"),
}


def custom_themes(tables: Mapping[str, Mapping[str, str]], file: str) -> list[Theme]:
    """Return the themes of the config file. Raises BadConfig for a name or an entry that cannot be."""
    return [_theme(name, table, f"{file}: themes.{name}") for name, table in tables.items()]


def _theme(name: str, table: Mapping[str, str], where: str) -> Theme:
    if name in ABOUT:
        raise BadConfig(f"{where}: there is a built-in theme of this name.")
    wanted = table.get(BASE, DEFAULT_THEME)
    base = next((theme for theme in THEMES if theme.name == wanted), None)
    if base is None:
        raise BadConfig(f'{where}.{BASE}: "{wanted}" is not a theme; choose {" or ".join(ABOUT)}.')
    variables = dict(base.variables)
    colors: dict[str, Any] = {}
    for entry, color in table.items():
        if entry in COLORS:
            colors[entry] = color
        elif entry in ROLES:
            variables |= dict.fromkeys(ROLES[entry], color)
        elif entry != BASE:
            names = ", ".join([BASE, *COLORS, *ROLES])
            raise BadConfig(f"{where}.{entry}: is not an entry of a theme; the entries are {names}.")
    return replace(base, name=name, variables=variables, **colors)
