"""Colours and themes.

Each theme gives colours to the same few roles, and colour alone never carries information.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from textual.theme import BUILTIN_THEMES, Theme

from ledger_tui.settings.config import BadConfig, Config

DEFAULT_THEME = "ledger"
ABOUT = {
    "ledger": "blue and orange on dark slate",
    "ledger-light": "ink on paper, for a projector",
    "ledger-contrast": "safe for every kind of colour vision",
    "ledger-16": "your terminal's own 16 colours",
}
# The theme for a terminal with only 16 colours. Such a terminal would show the colours of other themes as
# greys.
THEME_OF_16_COLORS = "ledger-16"


def _roles(
    muted: str, faint: str, plus: str, minus: str, test: str, live: str, tab: str, text_on: str
) -> dict[str, str]:
    return {
        "muted": muted,
        "faint": faint,
        "plus": plus,
        "minus": minus,
        "mode-test": test,
        "mode-test-text": text_on,
        "mode-live": live,
        "mode-live-text": text_on,
        "tab": tab,
        "tab-text": text_on,
        "footer-key-foreground": tab,
    }


# Blue for credit and orange for debit can be distinguished with any kind of colour vision.
THEMES = (
    Theme(
        name="ledger",
        primary="#7aa2d6",
        secondary="#8b9bb4",
        accent="#8ab4f8",
        warning="#e5a84b",
        error="#f0806c",
        success="#7cc4a4",
        foreground="#d5dbe5",
        background="#12161c",
        surface="#171c24",
        panel="#212833",
        variables=_roles(
            "#8a95a6", "#7a8596", "#7cc0e8", "#e8a86a", "#5fb3a1", "#f2a33c", "#8ab4f8", "#0e1217"
        ),
    ),
    Theme(
        name="ledger-light",
        primary="#2f5f9e",
        secondary="#5b6b80",
        accent="#1f5fae",
        warning="#8a5a00",
        error="#b3331f",
        success="#1f7a5a",
        foreground="#1d2733",
        background="#fbfbf9",
        surface="#f3f3ef",
        panel="#e6e7e3",
        dark=False,
        variables=_roles(
            "#5d6978", "#666f7c", "#14609a", "#97510c", "#1f7a6a", "#b45a00", "#1f5fae", "#ffffff"
        ),
    ),
    Theme(  # the colour-blind safe palette of Okabe and Ito
        name="ledger-contrast",
        primary="#56b4e9",
        secondary="#cccccc",
        accent="#f0e442",
        warning="#e69f00",
        error="#ff8c5a",
        success="#56b4e9",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#262626",
        variables=_roles(
            "#b8b8b8", "#8c8c8c", "#56b4e9", "#e69f00", "#56b4e9", "#e69f00", "#f0e442", "#000000"
        ),
    ),
    Theme(
        name=THEME_OF_16_COLORS,
        ansi=True,
        primary="ansi_cyan",
        secondary="ansi_default",
        accent="ansi_cyan",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        variables=BUILTIN_THEMES["ansi-dark"].variables
        | _roles(
            "ansi_bright_black",
            "ansi_bright_black",
            "ansi_cyan",
            "ansi_yellow",
            "ansi_green",
            "ansi_yellow",
            "ansi_cyan",
            "ansi_black",
        ),
    ),
)


def background_of(config: Config) -> str:
    """Return the background colour, as CSS, of the theme that the config file names."""
    own = config.themes.get(config.theme or "", {})
    base = own.get("base", DEFAULT_THEME) if own else config.theme or DEFAULT_THEME
    background = own.get("background") or next((t.background for t in THEMES if t.name == base), None)
    return "#000000" if background in (None, "ansi_default") else background


def theme_named(name: str, file: str, names: Collection[str]) -> str:
    """Return `name` if it is one of `names`, the existing themes. Raises BadConfig for any other name."""
    if name not in names:
        raise BadConfig(f'{file}: theme: "{name}" is not a theme; choose {" or ".join(names)}.')
    return name


# The entries that a theme of the config file can have. `base` names another theme: the theme of the config
# file takes from that theme all colours that it does not set itself.
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
# Further entries of a theme in the config file. For each entry: the theme's variables that get its colour.
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
    """Return the themes that the config file defines. Raises BadConfig for a wrong name or entry."""
    return [_theme(name, table, f"{file}: themes.{name}") for name, table in tables.items()]


def _theme(name: str, table: Mapping[str, str], where: str) -> Theme:
    if name in ABOUT:
        raise BadConfig(f"{where}: there is a built-in theme of this name.")
    base_name = table.get(BASE, DEFAULT_THEME)
    base = next((theme for theme in THEMES if theme.name == base_name), None)
    if base is None:
        raise BadConfig(f'{where}.{BASE}: "{base_name}" is not a theme; choose {" or ".join(ABOUT)}.')
    variables = dict(base.variables)
    colors: dict[str, Any] = {}
    for entry, color in table.items():
        if entry in COLORS:
            colors[entry] = color
        elif entry in ROLES:
            variables |= dict.fromkeys(ROLES[entry], color)
        elif entry != BASE:
            names = ", ".join([BASE, *COLORS, *ROLES])
            raise BadConfig(f"{where}.{entry}: there is no such entry; choose one of {names}.")
    return replace(base, name=name, variables=variables, **colors)
