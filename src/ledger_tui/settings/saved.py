"""Saves the profiles, and the settings that the user chooses while the dashboard runs, for the next start.

Settings and profiles go to the config file; tomlkit edits this file, so its comments and order stay. Before
this module writes a changed text, it parses the text. If the result is not the intended config, the file
stays unchanged, and this module raises BadConfig. The filter lines that the user has used, and the last place
of the dashboard (for `--resume`), are in two other files next to the config file. Each of these two files has
one entry for each connection.
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
    """Raise BadConfig if `add_profile` could not add the profile. Write nothing."""
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
    """Save values with `save`, one of the `set_…` functions; return a sentence if this failed, else "".

    The sentence gives the reason, and begins with `choice`, the name of the values, such as "The time
    format".
    """
    try:
        save(config_file(), *values)
    except (BadConfig, OSError) as error:
        return f"{choice} could not be saved. Your choice applies until you quit. ({literal(error)})"
    return ""


def _set(file: Path, entry: tuple[str, ...], value: Any, **expected: Any) -> None:
    """Set one entry of the file.

    `entry` is the path of the entry: the names of the tables that contain it, then its own name. `expected`
    are the fields of `Config` that change, with their new values. Raises BadConfig if the changed file would
    have any other config.
    """
    import tomlkit

    before = read_config(file)
    *tables, name = entry
    # A new entry whose value is a text goes to the top of the file. Further down, it could stand below a
    # comment on another entry.
    is_new = isinstance(value, str) and getattr(before, name) is None
    document = _document(file, f"{name} = ''\n\n" if is_new else "")
    table: Any = document
    for each in tables:
        table = table.setdefault(each, tomlkit.table(is_super_table=True))
    table[name] = value
    _write(file, document, replace(before, **expected))


def _entries(profile: Profile) -> dict[str, Any]:
    """Return the profile's entries for the file: all fields except the name and default values."""
    values = {each.name: (getattr(profile, each.name), each.default) for each in fields(Profile)}
    return {name: value for name, (value, default) in values.items() if name != "name" and value != default}


def _document(file: Path, before: str = "") -> TOMLDocument:
    """Return the content of the file, with the text `before` in front of it. The file's line ends stay."""
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
    """Save a server and its key as a new profile. If `profile` is given, copy its settings.

    Return the new profile, and a sentence that names the place of its key. Raises BadConfig and OSError.
    """
    file = config_file()
    new_profile = replace(profile, name=name) if profile is not None else Profile(name, url)
    if new_profile.client_id is None:
        new_profile = replace(new_profile, key=STORED)
    check_profile(file, new_profile)
    where = secret_store().put(name, Secrets(api_key=key)) if new_profile.client_id is None and key else ""
    add_profile(file, new_profile)
    return new_profile, f"Saved as {name} in {file}." + (f" Its key is in {where}." if where else "")


_CONNECTIONS = 20  # the maximum number of connections whose entries a file keeps


def read_entry(file: Path, connection: str) -> Any:
    """Return the entry of a connection; None if the file has no such entry."""
    return _read(file).get(connection)


def save_entry(file: Path, connection: str, entry: Any) -> None:
    """Save the entry of a connection. If the file has more than _CONNECTIONS entries, drop the oldest."""
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
_LINES = 20  # the maximum number of filter lines to save for each list


class SavedChoices:
    """The user's choices: the settings of each list, the style of times, the panes, the used filter lines.

    This class saves filter lines for each `connection` separately, because they may name objects that only
    one server has. If `connection` is "", it saves no filter lines. If `saves` is False, it saves no settings
    of lists and panes.
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
        self._panes_before = panes or PaneChoice()  # the choice that was saved last
        self.panes = replace(self._panes_before)
        self._connection = connection
        self._used: dict[str, list[str]] | None = None  # filter lines by list; None until the file is read

    def of(self, kind: str) -> ListSettings:
        """Return the settings of a list."""
        return self._lists.get(kind, ListSettings())

    def use(self, kind: str, settings: ListSettings) -> None:
        """Use these settings of a list from now on."""
        self._lists[kind] = settings

    def save(self, kind: str) -> str:
        """Save the settings of a list for the next start; return why this failed, or ""."""
        if not self._saves:
            return ""
        return save_or_explain("The settings of this list", set_list, kind, self.of(kind))

    def in_config(self, config: Config) -> Config:
        """Return the config with all present choices, for the next dashboard in the same run."""
        if self._saves:
            config = replace(config, lists=dict(self._lists), panes=replace(self.panes))
        return replace(config, times=times.chosen.style)

    def used_filters(self, kind: str) -> list[str]:
        """Return the filter lines that the user has used for a list, the latest first."""
        if self._used is None:
            file, entry = config_file().with_name(_FILTERS_FILE), None
            if self._connection:
                entry = read_entry(file, self._connection)
            lists = entry.items() if isinstance(entry, dict) else ()
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
        """Switch to the next style of times and save this choice; return why saving failed, or ""."""
        times.chosen.style = times.chosen.style.next
        return save_or_explain("The time format", set_times, times.chosen.style)


def read_last_place(file: Path, connection: str) -> LastPlace | None:
    """Return the place that `save_last_place` saved for this connection; None if there is none."""
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
    """Save where in the dashboard the user is, for this connection."""
    save_entry(file, connection, asdict(place))
