"""What the user chooses while the dashboard runs and finds again at the next start, in the config file."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_tui.config import BadConfig, config_file
from ledger_tui.state import times
from ledger_tui.state.list_settings import ListSettings
from ledger_tui.state.text import literal


class Kept:
    """The settings of each list, and how times are written."""

    def __init__(self, lists: Mapping[str, ListSettings] | None = None) -> None:
        self._lists = dict(lists or {})

    def of(self, kind: str) -> ListSettings:
        """Return the settings of a list."""
        return self._lists.get(kind, ListSettings())

    def use(self, kind: str, settings: ListSettings) -> None:
        """Use these settings of a list from now on."""
        self._lists[kind] = settings

    def save(self, kind: str) -> str:
        """Save the settings of a list for the next start; return why that failed, or ""."""
        from ledger_tui.config_edit import set_list

        try:
            set_list(config_file(), kind, self.of(kind))
        except (BadConfig, OSError) as error:
            return _until_you_quit("The settings of this list", error)
        return ""

    def next_times(self) -> str:
        """Write times in the next style and save that; return why that failed, or ""."""
        times.chosen.style = times.chosen.style.next
        from ledger_tui.config_edit import set_times

        try:
            set_times(config_file(), times.chosen.style)
        except (BadConfig, OSError) as error:
            return _until_you_quit("How times are written", error)
        return ""


def _until_you_quit(what: str, error: Exception) -> str:
    return f"{what} could not be saved and last until you quit: {literal(error)}"
