"""What the user chooses while the dashboard runs and finds again at the next start.

Settings are in the config file. The filter lines used before, and where the dashboard was left (for
`--resume`), are kept by connection in files beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ledger_tui.formats import times
from ledger_tui.formats.text import literal
from ledger_tui.settings.config import BadConfig, Config, Left, ListSettings, PaneChoice, config_file
from ledger_tui.settings.private_files import write_private

_KEPT = 20  # connections


def read_entry(file: Path, connection: str) -> Any:
    """Return the entry of a connection, None if there is none."""
    return _read(file).get(connection)


def keep_entry(file: Path, connection: str, entry: Any) -> None:
    """Keep an entry beside those of the connections used last."""
    known = _read(file)
    known.pop(connection, None)
    known[connection] = entry
    while len(known) > _KEPT:
        del known[next(iter(known))]
    with suppress(OSError):
        write_private(file, json.dumps(known))


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_FILTERS_FILE = "filters.json"
_LINES_KEPT = 20  # of each list


class Kept:
    """The settings of each list, how times are written, the panes, and the filter lines used before.

    Those lines are kept for each connection, as they may name its objects; with "" they last until the end.
    Unless it `saves`, the settings of lists and the panes last until the end too.
    """

    def __init__(
        self,
        lists: Mapping[str, ListSettings] | None = None,
        panes: PaneChoice | None = None,
        connection: str = "",
        *,
        saves: bool = True,
    ) -> None:
        self._saves = saves
        self._lists = dict(lists or {})
        self._panes_before = panes or PaneChoice()
        self.panes = replace(self._panes_before)
        self._connection = connection
        self._used: dict[str, list[str]] | None = None  # None while the file was not read

    def of(self, kind: str) -> ListSettings:
        """Return the settings of a list."""
        return self._lists.get(kind, ListSettings())

    def use(self, kind: str, settings: ListSettings) -> None:
        """Use these settings of a list from now on."""
        self._lists[kind] = settings

    def save(self, kind: str) -> str:
        """Save the settings of a list for the next start; return why that failed, or ""."""
        if not self._saves:
            return ""
        from ledger_tui.settings.config_edit import set_list

        try:
            set_list(config_file(), kind, self.of(kind))
        except (BadConfig, OSError) as error:
            return (
                f"The settings of this list could not be saved. They apply until you quit. ({literal(error)})"
            )
        return ""

    def in_config(self, config: Config) -> Config:
        """Return a config with all of this as it is now, for the next dashboard of this run."""
        if self._saves:
            config = replace(config, lists=dict(self._lists), panes=replace(self.panes))
        return replace(config, times=times.chosen.style)

    def used_filters(self, kind: str) -> list[str]:
        """Return the lines that filtered a list before, the latest first."""
        if self._used is None:
            file, found = config_file().with_name(_FILTERS_FILE), None
            if self._connection:
                found = read_entry(file, self._connection)
            lists = found.items() if isinstance(found, dict) else ()
            self._used = {
                name: [line for line in lines if isinstance(line, str)]
                for name, lines in lists
                if isinstance(lines, list)
            }
        return self._used.get(kind, [])

    def use_filter(self, kind: str, line: str) -> None:
        """Note that a line was used."""
        lines = [line, *(each for each in self.used_filters(kind) if each != line)][:_LINES_KEPT]
        if self._used is not None and lines != self.used_filters(kind):
            self._used[kind] = lines
            if self._connection:
                keep_entry(config_file().with_name(_FILTERS_FILE), self._connection, self._used)

    def save_panes(self) -> None:
        """Save changed panes for the next start, if the config file can be written."""
        if self._saves and self.panes != self._panes_before:
            from ledger_tui.settings.config_edit import set_panes

            with suppress(BadConfig, OSError):
                set_panes(config_file(), self.panes)
                self._panes_before = replace(self.panes)

    def next_times(self) -> str:
        """Write times in the next style and save that; return why that failed, or ""."""
        times.chosen.style = times.chosen.style.next
        from ledger_tui.settings.config_edit import set_times

        try:
            set_times(config_file(), times.chosen.style)
        except (BadConfig, OSError) as error:
            return f"The time format could not be saved. It applies until you quit. ({literal(error)})"
        return ""


def read_left(file: Path, connection: str) -> Left | None:
    """Return where the dashboard of this connection was left, None if that is not known."""
    entry = read_entry(file, connection)
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        return None
    filters, record_id = entry.get("filters"), entry.get("record_id")
    pairs = filters.items() if isinstance(filters, dict) else ()
    return Left(
        entry["kind"],
        {name: value for name, value in pairs if isinstance(value, str)},
        record_id if isinstance(record_id, str) else None,
        entry.get("opened") is True,
    )


def keep_left(file: Path, connection: str, left: Left) -> None:
    """Keep where the dashboard was left, beside the entries of the connections used last."""
    keep_entry(file, connection, asdict(left))
