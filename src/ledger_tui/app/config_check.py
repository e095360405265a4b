"""The whole check of a config file, as a start of the dashboard makes it."""

from __future__ import annotations

from pathlib import Path

from ledger_tui.settings.config import Config, read_config


def read_checked(file: Path) -> Config:
    """Return the file's content. Raises BadConfig, also for a key or a theme that the dashboard has not.

    What knows the keys and the themes loads Textual, so it is imported only where the file names one.
    """
    config = read_config(file)
    if config.keys or config.commands:
        from ledger_tui.app.keymap import command_bindings, keymap

        keymap(config.keys, str(file))
        command_bindings(config.commands, config.keys, str(file))
    if config.theme is not None or config.themes:
        from ledger_tui.ui.styles import ABOUT, theme_named
        from ledger_tui.ui.styles.custom import custom_themes

        own = custom_themes(config.themes, str(file))
        if config.theme is not None:
            theme_named(config.theme, str(file), [*ABOUT, *(theme.name for theme in own)])
    return config
