"""Changes to the config file that leave the rest of it, comments and order, as its owner wrote it.

Each edit is of text, and is checked by reading the outcome: where the file is written in a way these
edits do not understand, it is left alone and BadConfig says so.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import fields, replace
from pathlib import Path

from ledger_tui.config import BadConfig, Config, Profile, is_profile_name, parse_config, read_config

_THEME_LINE = re.compile(r"(?m)^theme\s*=.*$")
_TABLE_LINE = re.compile(r"(?m)^\s*\[")


def check_profile(file: Path, profile: Profile) -> None:
    """Whether it could be added: BadConfig says why not. Nothing is written."""
    before = read_config(file)
    if profile.name in before.profiles:
        raise BadConfig(f"{file}: profiles.{profile.name}: is there already; remove it first.")
    if not is_profile_name(profile.name):
        raise BadConfig(f"{file}: profiles: a name is letters, digits, - and _.")
    parse_config(_table(profile), str(file))


def add_profile(file: Path, profile: Profile) -> None:
    """Append a profile. Raises BadConfig, also for a name that is taken."""
    check_profile(file, profile)
    before = read_config(file)
    text = _text(file)
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    wanted = replace(before, profiles={**before.profiles, profile.name: profile})
    _write(file, text + gap + _table(profile), wanted)


def remove_profile(file: Path, name: str) -> None:
    """Take a profile out. Raises BadConfig, also when there is none of this name."""
    before = read_config(file)
    if name not in before.profiles:
        raise BadConfig(f"{file}: profiles.{name}: is not there.")
    text = _text(file)
    header = re.compile(rf"(?m)^\s*\[\s*profiles\s*\.\s*\"?{re.escape(name)}\"?\s*\][^\n]*\n?")
    if found := header.search(text):
        following = _TABLE_LINE.search(text, found.end())
        end = following.start() if following else len(text)
        text = text[: found.start()].rstrip("\n") + "\n" * bool(text[: found.start()].strip()) + text[end:]
    remaining = {other: profile for other, profile in before.profiles.items() if other != name}
    _write(file, text, replace(before, profiles=remaining))


def set_theme(file: Path, theme: str) -> None:
    """Choose a theme for the next starts. Raises BadConfig."""
    before = read_config(file)
    text = _text(file)
    line = f"theme = {_literal(theme)}"
    if before.theme is not None:
        text = _THEME_LINE.sub(lambda _found: line, text, count=1)
    else:
        text = line + "\n" + ("\n" + text if text.startswith("[") else text)
    _write(file, text, replace(before, theme=theme))


def _table(profile: Profile) -> str:
    lines = [f"[profiles.{profile.name}]"]
    for each in fields(Profile):
        value = getattr(profile, each.name)
        if each.name != "name" and value != each.default:
            lines.append(f"{each.name} = {_literal(value)}")
    return "\n".join(lines) + "\n"


def _literal(value: object) -> str:
    # A JSON string is a TOML string: both escape alike, and nothing here is beyond the basic plane's text.
    return json.dumps(value, ensure_ascii=False)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _write(file: Path, text: str, wanted: Config) -> None:
    if parse_config(text, str(file)) != wanted:
        raise BadConfig(f"{file}: is written in a way that must be edited by hand.")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Whole or not at all: a new file beside it, then in its place.
    target = file.resolve()
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".config-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
