"""Changes to the config file that keep its comments and its order.

tomlkit makes the edits. Each result is parsed and checked before it is written; when it is not what was
wanted, the file is left alone and BadConfig says so.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger_tui.formats.times import TimeStyle
from ledger_tui.settings.config import (
    STORED,
    BadConfig,
    Config,
    ListSettings,
    PaneChoice,
    Profile,
    config_file,
    entries_of,
    is_profile_name,
    parse_config,
    read_config,
)
from ledger_tui.settings.private_files import write_private
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
    """Add a profile after the others. Raises BadConfig, also for a name that is taken."""
    import tomlkit

    check_profile(file, profile)
    before = read_config(file)
    document = _document(file)
    profiles: Any = document.setdefault("profiles", tomlkit.table(is_super_table=True))
    profiles[profile.name] = _entries(profile)
    _write(file, document, replace(before, profiles={**before.profiles, profile.name: profile}))


def remove_profile(file: Path, name: str) -> None:
    """Remove a profile. Raises BadConfig, also when none has this name."""
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
    before = read_config(file)
    # A new entry goes to the top: further down it would come under a comment on something else.
    document = _document(file, "" if before.theme is not None else "theme = ''\n\n")
    document["theme"] = theme
    _write(file, document, replace(before, theme=theme))


def set_times(file: Path, style: TimeStyle) -> None:
    """Set how times are written from the next start on. Raises BadConfig."""
    before = read_config(file)
    document = _document(file, "" if before.times is not None else "times = ''\n\n")
    document["times"] = style.value
    _write(file, document, replace(before, times=style))


def set_list(file: Path, kind: str, settings: ListSettings) -> None:
    """Set how a list is shown from the next start on. Raises BadConfig."""
    import tomlkit

    before = read_config(file)
    document = _document(file)
    lists: Any = document.setdefault("lists", tomlkit.table(is_super_table=True))
    lists[kind] = dict(entries_of(settings))
    _write(file, document, replace(before, lists={**before.lists, kind: settings}))


def set_panes(file: Path, choice: PaneChoice) -> None:
    """Set how the list and the detail share the screen from the next start on. Raises BadConfig."""
    before = read_config(file)
    document = _document(file)
    document["panes"] = {name: value for name, value in asdict(choice).items() if value is not None}
    _write(file, document, replace(before, panes=replace(choice)))


def _entries(profile: Profile) -> dict[str, Any]:
    """Return the profile's entries for the file: all but its name and default values."""
    values = {each.name: (getattr(profile, each.name), each.default) for each in fields(Profile)}
    return {name: value for name, (value, default) in values.items() if name != "name" and value != default}


def _document(file: Path, before: str = "") -> TOMLDocument:
    """Return the file's content, with its own line ends, after the text `before`."""
    import tomlkit

    text = before + (file.read_bytes().decode("utf-8") if file.exists() else "")
    return tomlkit.parse(text if text.endswith("\n") or not text else f"{text}\n\n")


def _write(file: Path, document: TOMLDocument, wanted: Config) -> None:
    import tomlkit

    text = tomlkit.dumps(document)
    if parse_config(text, str(file)) != wanted:
        raise BadConfig(f"{file}: must be edited by hand; its layout is not one this command can change.")
    write_private(file, text)


def save_connection(name: str, url: str, profile: Profile | None, key: str | None) -> str:
    """Save a server and its key under a name, with what its profile says, if it has one.

    Return a sentence that says where. Raises BadConfig and OSError.
    """
    file = config_file()
    saved = replace(profile, name=name) if profile is not None else Profile(name, url)
    if saved.client_id is None:
        saved = replace(saved, key=STORED)
    check_profile(file, saved)
    where = secret_store().put(name, Secrets(api_key=key)) if saved.client_id is None and key else ""
    add_profile(file, saved)
    return f"Saved as {name} in {file}." + (f" Its key is in {where}." if where else "")
