"""Saves the profiles, and settings that the user chooses while the dashboard runs, for the next start.

Settings and profiles go to the config file; tomlkit edits it, so comments and order stay. Each edited text is
parsed and checked before it is written. If it differs from the intended config, the file stays unchanged and
BadConfig reports the difference. The filter lines used before, and the last place of the dashboard (for
`--resume`), are in files next to it, by connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger_tui.formats import times
from ledger_tui.formats.text import literal
from ledger_tui.formats.times import TimeStyle
from ledger_tui.settings.config import (
    STORED,
    BadConfig,
    Config,
    LastPlace,
    ListSettings,
    PaneChoice,
    Profile,
    config_file,
    entries_of,
    is_profile_name,
    parse_config,
    read_config,
    write_private,
)
from ledger_tui.settings.secret_store import Secrets, secret_store

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def check_profile(file: Path, profile: Profile) -> None:
    """Raise BadConfig when the profile could not be added. Writes nothing."""
    import tomlkit

    before = read_config(file)
    if profile.name in before.profiles:
        raise BadConfig(f"{file}: profiles.{profile.name}: already exists; remove it first.")
    if not is_profile_name(profile.name):
        raise BadConfig(f"{file}: profiles: a name is letters, digits, - and _.")
    parse_config(tomlkit.dumps({"profiles": {profile.name: _entries(profile)}}), str(file))


def add_profile(file: Path, profile: Profile) -> None:
    """Add a profile after the others. Raises BadConfig, also for a name in use."""
    check_profile(file, profile)
    profiles = {**read_config(file).profiles, profile.name: profile}
    _set(file, ("profiles", profile.name), _entries(profile), profiles=profiles)


def remove_profile(file: Path, name: str) -> None:
    """Remove a profile. Raises BadConfig, also for an unknown name."""
    before = read_config(file)
    if name not in before.profiles:
        raise BadConfig(f"{file}: profiles.{name}: does not exist.")
    document = _document(file)
    profiles: Any = document["profiles"]
    del profiles[name]
    remaining = {other: profile for other, profile in before.profiles.items() if other != name}
    _write(file, document, replace(before, profiles=remaining))


def set_theme(file: Path, theme: str) -> None:
    """Set the theme for the next starts. Raises BadConfig."""
    _set(file, ("theme",), theme, theme=theme)


def set_times(file: Path, style: TimeStyle) -> None:
    """Set how times are written from the next start on. Raises BadConfig."""
    _set(file, ("times",), style.value, times=style)


def set_list(file: Path, kind: str, settings: ListSettings) -> None:
    """Set how a list is shown from the next start on. Raises BadConfig."""
    lists = {**read_config(file).lists, kind: settings}
    _set(file, ("lists", kind), dict(entries_of(settings)), lists=lists)


def set_panes(file: Path, choice: PaneChoice) -> None:
    """Set how the list and the detail share the screen from the next start on. Raises BadConfig."""
    entries = {name: value for name, value in asdict(choice).items() if value is not None}
    _set(file, ("panes",), entries, panes=replace(choice))


def save_or_explain(choice: str, save: Callable[..., None], *values: object) -> str:
    """Save values in the config file; return "", or a sentence that says why `choice` could not be saved."""
    try:
        save(config_file(), *values)
    except (BadConfig, OSError) as error:
        return f"{choice} could not be saved. Your choice applies until you quit. ({literal(error)})"
    return ""


def _set(file: Path, entry: tuple[str, ...], value: Any, **expected: Any) -> None:
    """Set an entry of the file or of a table in it; check that the config then equals `expected`.

    Raises BadConfig.
    """
    import tomlkit

    before = read_config(file)
    *tables, name = entry
    # A new entry goes to the top, because further down it could stand under a comment on another entry.
    is_new = isinstance(value, str) and getattr(before, name) is None
    document = _document(file, f"{name} = ''\n\n" if is_new else "")
    table: Any = document
    for each in tables:
        table = table.setdefault(each, tomlkit.table(is_super_table=True))
    table[name] = value
    _write(file, document, replace(before, **expected))


def _entries(profile: Profile) -> dict[str, Any]:
    """Return the profile's entries for the file: all but its name and default values."""
    values = {each.name: (getattr(profile, each.name), each.default) for each in fields(Profile)}
    return {name: value for name, (value, default) in values.items() if name != "name" and value != default}


def _document(file: Path, before: str = "") -> TOMLDocument:
    """Return the content of the file, whose line ends stay, with `before` in front of it."""
    import tomlkit

    text = before + (file.read_bytes().decode("utf-8") if file.exists() else "")
    return tomlkit.parse(text if text.endswith("\n") or not text else f"{text}\n\n")


def _write(file: Path, document: TOMLDocument, expected: Config) -> None:
    import tomlkit

    text = tomlkit.dumps(document)
    if parse_config(text, str(file)) != expected:
        raise BadConfig(f"{file}: edit it by hand: this command cannot change a file of this layout.")
    write_private(file, text)


def save_connection(name: str, url: str, profile: Profile | None, key: str | None) -> tuple[Profile, str]:
    """Save a server and its key under a name, with the settings of its profile, if there is one.

    Return the new profile, and a sentence that names the place of its key. Raises BadConfig and OSError.
    """
    file = config_file()
    profile_saved = replace(profile, name=name) if profile is not None else Profile(name, url)
    if profile_saved.client_id is None:
        profile_saved = replace(profile_saved, key=STORED)
    check_profile(file, profile_saved)
    where = secret_store().put(name, Secrets(api_key=key)) if profile_saved.client_id is None and key else ""
    add_profile(file, profile_saved)
    return profile_saved, f"Saved as {name} in {file}." + (f" Its key is in {where}." if where else "")


_CONNECTIONS = 20  # connections


def read_entry(file: Path, connection: str) -> Any:
    """Return the entry of a connection, None if there is none."""
    return _read(file).get(connection)


def save_entry(file: Path, connection: str, entry: Any) -> None:
    """Save the entry of a connection; only the entries of the newest connections stay."""
    entries = _read(file)
    entries.pop(connection, None)
    entries[connection] = entry
    while len(entries) > _CONNECTIONS:
        del entries[next(iter(entries))]
    with suppress(OSError):
        write_private(file, json.dumps(entries))


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


_FILTERS_FILE = "filters.json"
_LINES = 20  # saved filter lines of each list


class SavedChoices:
    """The settings of each list, how times are written, the panes, and the filter lines used before.

    Filter lines are saved for each `connection`, because they may name objects of its server. If `connection`
    is "", filter lines last until the dashboard ends. Without `saves` the settings of lists and panes last
    until then too.
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
        return save_or_explain("The settings of this list", set_list, kind, self.of(kind))

    def in_config(self, config: Config) -> Config:
        """Return a config with all present settings, for the next dashboard of this run."""
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
        """Note that the user has used a filter line."""
        lines = [line, *(each for each in self.used_filters(kind) if each != line)][:_LINES]
        if self._used is not None and lines != self.used_filters(kind):
            self._used[kind] = lines
            if self._connection:
                save_entry(config_file().with_name(_FILTERS_FILE), self._connection, self._used)

    def save_panes(self) -> None:
        """Save changed panes for the next start, if the config file can be written."""
        if self._saves and self.panes != self._panes_before:
            with suppress(BadConfig, OSError):
                set_panes(config_file(), self.panes)
                self._panes_before = replace(self.panes)

    def next_times(self) -> str:
        """Write times in the next style and save that; return why that failed, or ""."""
        times.chosen.style = times.chosen.style.next
        return save_or_explain("The time format", set_times, times.chosen.style)


def read_last_place(file: Path, connection: str) -> LastPlace | None:
    """Return the last place in the dashboard of this connection; None if it is not known."""
    entry = read_entry(file, connection)
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        return None
    filters, record_id = entry.get("filters"), entry.get("record_id")
    pairs = filters.items() if isinstance(filters, dict) else ()
    return LastPlace(
        entry["kind"],
        {name: value for name, value in pairs if isinstance(value, str)},
        record_id if isinstance(record_id, str) else None,
        entry.get("opened") is True,
    )


def save_last_place(file: Path, connection: str, place: LastPlace) -> None:
    """Save the last place in the dashboard of this connection, as `save_entry` does."""
    save_entry(file, connection, asdict(place))
