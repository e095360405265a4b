"""Chooses the theme of the dashboard, and saves the choice."""

from __future__ import annotations

from textual.content import Content

from ledger_tui.app.navigation import Navigation
from ledger_tui.ui.dialogs import ChooseScreen


def choose_theme(navigation: Navigation) -> None:
    """Let the user choose a theme. The dashboard previews the highlighted theme; enter keeps this theme, and
    esc restores the former one.
    """
    themes, before = navigation.context.themes, navigation.app.theme
    names = [*themes]
    lines = [Content.assemble(f"{name:<17} ", (text, "$muted")) for name, text in themes.items()]

    def preview(number: int) -> None:
        navigation.app.theme = names[number]

    def chosen(number: int | None) -> None:
        if number is None:
            navigation.app.theme = before
        else:
            use_theme(navigation, names[number])

    at = names.index(before) if before in names else 0
    navigation.app.push_screen(ChooseScreen("Themes", lines, at, preview), chosen)


def use_theme(navigation: Navigation, name: str) -> None:
    """Change to a theme, and save it, so that the next start uses it too."""
    from ledger_tui.settings.saved import save_or_explain, set_theme

    navigation.app.theme = name
    if problem := save_or_explain("The theme", set_theme, name):
        navigation.notify(problem, severity="warning", markup=False)
