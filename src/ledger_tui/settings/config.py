"""Reads the config file: theme, keys, lists, and profiles of servers. Each mistake in the file is an error.

    theme = "ledger-contrast"

    [keys]
    refresh = "ctrl+r"

    [profiles.shop]
    url = "https://ledger.example.com"
    key = "stored"            # in the keyring or the secrets file; or "env:SHOP_KEY"
    read_only = true
    mode_color = "#c03028"
    client_id = "app_…"       # to sign in with OAuth instead of a key
    scope = "read:projects read:users"

The file never contains secrets. `Options` holds the settings of one run: the settings of the file, and the
options of the command line.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ledger_client.addresses import is_address, is_confidential, is_key
from ledger_tui.formats.text import literal
from ledger_tui.formats.times import TimeStyle
from ledger_tui.settings.own_commands import OwnCommand


@dataclass(frozen=True, slots=True)
class LastPlace:
    """A screen with its filters, the object under the cursor, and whether the object was open."""

    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)
    record_id: str | None = None
    opened: bool = False


def entries_of(settings: ListSettings) -> Mapping[str, Any]:
    """Return a list's settings as entries of the config file, without the settings that are not set."""
    values = {"columns": [*settings.columns], "sort": settings.sort, "filters": [*settings.filters]}
    return {name: value for name, value in values.items() if value}


DETAIL_COLUMNS = 47  # the width of the detail if the user has chosen no width
LEAST_COLUMNS = 24  # the minimum width of the list and of the detail


@dataclass
class PaneChoice:
    """How the user divides all screens into a list and a detail.

    `split` is True to show both side by side, and False to show only one of them. If `split` is None, the
    width of the screen decides.
    """

    split: bool | None = None
    detail_width: int = DETAIL_COLUMNS


@dataclass(frozen=True, slots=True)
class ListSettings:
    """The settings of one list; empty values leave the choice to the program.

    `sort` is the name of a column, with a `-` before it for descending.
    """

    columns: tuple[str, ...] = ()
    sort: str = ""
    filters: tuple[str, ...] = ()  # the bookmarks: filter lines that the user has saved

    @property
    def sorted_by(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    def sorted_next(self, column: str, *, largest_first: bool) -> ListSettings:
        """Return the settings with the next sorting by this column: the first direction, the other, none."""
        first, second = (f"-{column}", column) if largest_first else (column, f"-{column}")
        following = {first: second, second: ""}.get(self.sort, first)
        return replace(self, sort=following)

    def with_filter(self, line: str) -> ListSettings:
        """Return the settings with this bookmark added or, if it is already there, removed."""
        there = line in self.filters
        filters = tuple(each for each in self.filters if each != line) if there else (*self.filters, line)
        return replace(self, filters=filters)


FILE_VARIABLE = "LEDGER_TUI_CONFIG"
STORED = "stored"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_SCOPES = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")  # RFC 6749, 3.3


Bad = Callable[[str, str], "BadConfig"]  # a function that returns the error for an entry and a reason


class BadConfig(Exception):
    """The config file cannot be used. The message is one line with the file, the entry and the reason."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One server, under the name that the user gave it.

    `key` says where the API key is: "stored" means in the secret store, "env:VARIABLE" means in that
    environment variable.
    """

    name: str
    url: str
    key: str = STORED
    read_only: bool = False
    mode_color: str | None = None  # the colour of the mode label, so that the user can tell servers apart
    client_id: str | None = None
    scope: str = ""
    auth_url: str | None = None  # the address to sign in at; None for the server's own address


@dataclass(frozen=True, slots=True)
class Config:
    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    times: TimeStyle | None = None
    lists: Mapping[str, ListSettings] = field(default_factory=dict)
    themes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commands: Mapping[str, OwnCommand] = field(default_factory=dict)
    panes: PaneChoice = field(default_factory=PaneChoice)
    notice: str = ""  # a sentence that names the ignored entries of an older version; "" if there are none

    @property
    def key_variables(self) -> frozenset[str]:
        """The environment variables that contain the keys of profiles."""
        keys = (profile.key.partition("env:")[2] for profile in self.profiles.values())
        return frozenset(filter(None, keys))


def config_file() -> Path:
    """Return the file's path: LEDGER_TUI_CONFIG, else a file in the user's config directory."""
    if path := os.environ.get(FILE_VARIABLE):
        return Path(path)
    import platformdirs

    return platformdirs.user_config_path("ledger-tui") / "config.toml"


def read_config(file: Path) -> Config:
    """Return the file's content, or an empty Config if there is no file. Raises BadConfig."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadConfig(f"{file}: cannot be read: {reason}.") from None
    return parse_config(text, str(file))


def write_private(file: Path, text: str) -> None:
    """Write the text to a file of mode 0600; replace an existing file, and make the folder if necessary.

    Raises OSError. The message names the folder; if the target exists but is not a regular file, such as
    `/dev/null`, the message names the target.
    """
    target = file.resolve()
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(f"{target} is not a regular file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    # The message of this error would name the temporary file, which the user does not know.
    except OSError as error:
        raise OSError(f"{target.parent} cannot be written: {error.strerror}") from error


def parse_config(text: str, file: str) -> Config:
    """Parse `text` as a config. An error names the file as `file`."""
    import tomllib  # imported here, because the first paint needs the module only if there is a config file

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{file}: is not TOML: {_one_line(error)}.") from None

    def bad(entry: str, reason: str) -> BadConfig:
        return BadConfig(f"{file}: {_one_line(entry)}: {reason}.")

    notice = _remove_former_entries(data)
    _check("", data, _ROOT, bad)
    for kind, entries in _NAMED.items():
        for name, table in data.get(kind, {}).items():
            if kind != "lists" and not _NAME.fullmatch(name):
                raise bad(f"{kind}.{name}", "a name is letters, digits, - and _")
            colors = dict.fromkeys(table, _color) if kind == "themes" and isinstance(table, dict) else {}
            _check(f"{kind}.{name}", table, {**colors, **entries}, bad)
    for name, value in data.get("keys", {}).items():
        if isinstance(value, dict):
            raise bad(f"keys.{name}", 'write a name with a dot in quotes, like "act.pay" = "Z"')
        if not isinstance(value, str) or not value.strip():
            raise bad(f"keys.{name}", 'must be a key in quotes, like "ctrl+r"')
    _check("panes", data.get("panes", {}), _PANES, bad)
    for name, table in data.get("commands", {}).items():
        if missing := [each for each in ("key", "run") if each not in table]:
            raise bad(f"commands.{name}.{missing[0]}", "must be text in quotes")
    return _config(data, notice, bad)


def _remove_former_entries(data: dict[str, Any]) -> str:
    """Remove the entries that only an older version of the dashboard understood.

    Return a sentence that names the removed entries; "" if there were none.
    """
    former = [name for name in _FORMER if data.pop(name, None) is not None]
    keys = data.get("keys", {})
    if isinstance(keys, dict):
        former += [f"keys.{name}" for name in _FORMER_KEYS if keys.pop(name, None) is not None]
    if not former:
        return ""
    sentence = f"No effect in the config file: {', '.join(former)}."
    commands = dict.fromkeys((_FORMER | _FORMER_KEYS)[name.removeprefix("keys.")] for name in former)
    instead = " and ".join(filter(None, commands))
    return f"{sentence} Use {instead} instead." if instead else sentence


def _config(data: Mapping[str, Any], notice: str, bad: Bad) -> Config:
    """Return the config that the checked data describes."""
    lists = {
        kind: ListSettings(
            *(tuple(table.get("columns", ())), table.get("sort", ""), tuple(table.get("filters", ())))
        )
        for kind, table in data.get("lists", {}).items()
    }
    commands = {
        name: OwnCommand(name, table["key"], table["run"], tuple(table.get("screens", ())))
        for name, table in data.get("commands", {}).items()
    }
    return Config(
        data.get("theme"),
        data.get("keys", {}),
        {name: _profile(name, table, bad) for name, table in data.get("profiles", {}).items()},
        TimeStyle(data["times"]) if "times" in data else None,
        lists,
        data.get("themes", {}),
        commands,
        PaneChoice(**data.get("panes", {})),
        notice,
    )


def _profile(name: str, table: Mapping[str, Any], bad: Bad) -> Profile:
    if "url" not in table:
        raise bad(f"profiles.{name}.url", "is missing")
    profile = Profile(name, **table)
    if profile.client_id is not None and not is_confidential(profile.auth_url or profile.url):
        entry = "url" if profile.auth_url is None else "auth_url"
        raise bad(
            f"profiles.{name}.{entry}",
            "the address of a sign-in server on another machine must begin with https",
        )
    return profile


# ---------------------------------------------------------------------- the check of each entry

# A check returns what is wrong with a value, or None for a valid value. The text does not quote the value,
# because the value may be a secret.

Check = Callable[[Any], str | None]

# Entries and actions of an older version, each with the command that replaces it; "" if no command does.
_FORMER = {"notify": "`ledger-engine tail`"}
_FORMER_KEYS = {"batch": "`ledger-engine post --file`", "unusual": ""}


def _check(where: str, table: Any, entries: Mapping[str, Check], bad: Bad) -> None:
    """Raise BadConfig if `table` is not a table, or contains an unknown entry or a wrong value."""
    if not isinstance(table, dict):
        raise bad(where, "must be a table")
    for entry, value in table.items():
        entry_name = f"{where}.{entry}" if where else entry
        if entry not in entries:
            choices = ", ".join(entries)
            hint = "; secrets are kept by `ledger-tui profiles add`" if _looks_secret(entry) else ""
            raise bad(entry_name, f"there is no such entry; choose one of {choices}{hint}")
        if (problem := entries[entry](value)) is not None:
            raise bad(entry_name, problem)


def _is(test: Callable[[Any], bool], reason: str) -> Check:
    return lambda value: None if test(value) else reason


def _text_that(test: Callable[[str], object], reason: str) -> Check:
    return lambda value: _text(value) or (None if test(value) else reason)


def _texts(value: Any) -> str | None:
    fine = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return None if fine else "must be a list of texts in quotes"


_text = _is(lambda value: isinstance(value, str), "must be text in quotes")
_table = _is(lambda value: isinstance(value, dict), "must be a table")
_filled = _is(lambda value: isinstance(value, str) and bool(value.strip()), "must be text in quotes")
_bool = _is(lambda value: isinstance(value, bool), "must be true or false")
_color = _text_that(_COLOR.fullmatch, "must be a colour like #c03028")
_address = _text_that(is_address, "is not an address like https://ledger.example.com")
_STYLES = [style.value for style in TimeStyle]
_ROOT: Mapping[str, Check] = {
    "theme": _is(lambda value: isinstance(value, str), "must be a name in quotes"),
    "keys": _table,
    "profiles": _table,
    "times": _is(lambda value: value in _STYLES, f"must be one of {', '.join(_STYLES)}"),
    **dict.fromkeys(("lists", "themes", "commands", "panes"), _table),
}
_PANES: Mapping[str, Check] = {
    "split": _bool,
    "detail_width": _is(
        lambda value: type(value) is int and value >= LEAST_COLUMNS,
        f"must be a number of columns, at least {LEAST_COLUMNS}",
    ),
}
# The groups of named tables (`profiles` contains `profiles.shop`). For each group: the entries that its
# tables may contain, with their checks.
_NAMED: Mapping[str, Mapping[str, Check]] = {
    "profiles": {
        "url": _address,
        "key": _text_that(
            lambda value: value == STORED or _VARIABLE.fullmatch(value),
            'must be "stored" or "env:VARIABLE"; a key does not belong in this file',
        ),
        "read_only": _bool,
        "mode_color": _color,
        "client_id": _text_that(is_key, "is not a client id"),
        "scope": _text_that(
            lambda value: not value or _SCOPES.fullmatch(value), "must be scopes separated by single spaces"
        ),
        "auth_url": _address,
    },
    "themes": {"base": _text},  # a theme also contains colours; ui.styles checks their names
    "lists": {
        "columns": _texts,
        "sort": _is(lambda value: isinstance(value, str), 'must be a column in quotes, like "-amount"'),
        "filters": _texts,
    },
    "commands": {
        "key": _filled,
        "run": _filled,
        "screens": lambda value: _texts(value) and 'must be a list of names, like ["invoices"]',
    },
}


def is_profile_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def _looks_secret(entry: str) -> bool:
    return any(word in entry for word in ("secret", "token", "password", "api_key"))


def _one_line(text: object) -> str:
    return literal(" ".join(str(text).split()).rstrip("."))


# With `--web`, this environment variable names the file in which a page saves the user's place.
LAST_PLACE_VARIABLE = "LEDGER_TUI_LAST_PLACE"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one run. With neither a `url` nor a `profile`, the dashboard runs its own server."""

    url: str | None = None
    key: str | None = None
    database: str | None = None
    demo: bool = False
    read_only: bool = False
    profile: Profile | None = None
    config: Config = field(default_factory=Config)
    config_file: str = "config.toml"
    of_demo: bool = False  # `url` is the server of a demo, started by another process
    tour_pace: float | None = None  # the speed of the tour, which plays only on a demo; None for no tour
    resume: LastPlace | None = None  # the place in the dashboard to begin at
    last_place_file: str = ""  # with `--web`: the file in which a page saves the user's place

    @property
    def shows_demo(self) -> bool:
        """Whether the dashboard shows a demo."""
        return self.demo or self.of_demo

    @property
    def connection(self) -> str:
        """Return a text that distinguishes this connection from all others."""
        if self.profile is not None:
            return f"profile {self.profile.name}"
        return self.url or f"own {self.database or ''}".rstrip()
