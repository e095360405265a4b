"""The config file: a theme, keys, lists, profiles of servers. A mistake in it is an error, never ignored.

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

It never contains secrets. `Options` are what it and the command line set for one run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ledger_tui.client.transport import is_address, is_confidential, is_key
from ledger_tui.formats.text import literal
from ledger_tui.formats.times import TimeStyle
from ledger_tui.settings.own_commands import OwnCommand


@dataclass(frozen=True, slots=True)
class Left:
    """A screen with its filters, and the object under the cursor, which was open or not."""

    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)
    record_id: str | None = None
    opened: bool = False


DELIVERY_KINDS = ("delivery.failed", "delivery.retrying")
WAYS = ("bell", "osc9")
_KIND = re.compile(r"\*|[a-z_]+\.(?:[a-z_]+|\*)")


@dataclass(frozen=True, slots=True)
class Notify:
    """`on` has types of events, such as `invoice.paid` or `invoice.*`, and DELIVERY_KINDS; `by` has WAYS."""

    on: tuple[str, ...] = ()
    by: tuple[str, ...] = WAYS


def parse_notify(table: Any, bad: Callable[[str, str], Exception]) -> Notify:
    """Return what the table says. Raises what `bad` makes of an entry and a reason."""
    if not isinstance(table, dict):
        raise bad("notify", "must be a table")
    for entry, value in table.items():
        if entry not in ("on", "by"):
            raise bad(f"notify.{entry}", "is unknown; use on or by")
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise bad(f"notify.{entry}", "must be a list of texts in quotes")
        for each in value:
            if entry == "by" and each not in WAYS:
                raise bad("notify.by", f"may contain only {' and '.join(WAYS)}")
            if entry == "on" and not _KIND.fullmatch(each):
                reason = (
                    'must contain types of events, like "invoice.paid" or "invoice.*", and '
                    + " and ".join(f'"{kind}"' for kind in DELIVERY_KINDS)
                )
                raise bad("notify.on", reason)
    return Notify(tuple(table.get("on", ())), tuple(table.get("by", WAYS)))


Bad = Callable[[str, str], Exception]  # makes the error for an entry and the reason


def parse_times(value: Any, bad: Bad) -> TimeStyle | None:
    """Return how times are written; None when the file does not say."""
    if value is None:
        return None
    styles = {style.value: style for style in TimeStyle}
    if not isinstance(value, str) or value not in styles:
        raise bad("times", f"must be one of {', '.join(styles)}")
    return styles[value]


def parse_panes(table: Any, bad: Bad) -> PaneChoice:
    """Return how the list and the detail share the screen."""
    if not isinstance(table, dict):
        raise bad("panes", "must be a table")
    known = [each.name for each in fields(PaneChoice)]
    for entry, value in table.items():
        if entry not in known:
            raise bad(f"panes.{entry}", f"is unknown; use {', '.join(known)}")
        if entry == "split" and not isinstance(value, bool):
            raise bad("panes.split", "must be true or false")
        if entry == "detail_width" and (type(value) is not int or value < LEAST_COLUMNS):
            raise bad("panes.detail_width", f"must be a number of columns from {LEAST_COLUMNS} on")
    return PaneChoice(**table)


def parse_lists(tables: Any, bad: Bad) -> dict[str, ListSettings]:
    """Return the settings of each list by its name."""
    if not isinstance(tables, dict):
        raise bad("lists", "must be a table")
    return {kind: _settings(kind, table, bad) for kind, table in tables.items()}


def _settings(kind: str, table: Any, bad: Bad) -> ListSettings:
    if not isinstance(table, dict):
        raise bad(f"lists.{kind}", "must be a table")
    known = [each.name for each in fields(ListSettings)]
    for entry, value in table.items():
        where = f"lists.{kind}.{entry}"
        if entry not in known:
            raise bad(where, f"is unknown; use {', '.join(known)}")
        if entry == "sort":
            if not isinstance(value, str):
                raise bad(where, 'must be a column in quotes, like "-amount"')
        elif not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise bad(where, "must be a list of texts in quotes")
    return ListSettings(
        tuple(table.get("columns", ())), table.get("sort", ""), tuple(table.get("filters", ()))
    )


def entries_of(settings: ListSettings) -> Mapping[str, Any]:
    """Return the entries for the file: those that are set."""
    values = {"columns": [*settings.columns], "sort": settings.sort, "filters": [*settings.filters]}
    return {name: value for name, value in values.items() if value}


DETAIL_COLUMNS = 47


LEAST_COLUMNS = 24  # of either pane


@dataclass
class PaneChoice:
    """The user's choice, which holds for all screens: `split` is None while the width decides."""

    split: bool | None = None
    detail_width: int = DETAIL_COLUMNS


@dataclass(frozen=True, slots=True)
class ListSettings:
    """The settings of one list; empty values stand for what the program chooses.

    `sort` is the name of a column, with a `-` before it for descending.
    """

    columns: tuple[str, ...] = ()
    sort: str = ""
    filters: tuple[str, ...] = ()  # the bookmarks: lines of the filter

    @property
    def sorted_by(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    def sorted_next(self, column: str) -> ListSettings:
        """Return the next sorting by this column: ascending, then descending, then none."""
        following = {column: f"-{column}", f"-{column}": ""}.get(self.sort, column)
        return replace(self, sort=following)

    def with_filter(self, line: str) -> ListSettings:
        """Return the settings with a bookmark added, or removed if it was there."""
        there = line in self.filters
        filters = tuple(each for each in self.filters if each != line) if there else (*self.filters, line)
        return replace(self, filters=filters)


FILE_VARIABLE = "LEDGER_TUI_CONFIG"
STORED = "stored"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_SCOPES = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")  # RFC 6749, 3.3


class BadConfig(Exception):
    """The file cannot be used; the message is one line that names the file, the entry and the reason."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One server under the user's name for it. `key` says where its secret is: "stored" or "env:VARIABLE"."""

    name: str
    url: str
    key: str = STORED
    read_only: bool = False
    mode_color: str | None = None  # the colour of the mode's mark, to distinguish servers
    client_id: str | None = None
    scope: str = ""
    auth_url: str | None = None  # where to sign in; the server itself when missing


@dataclass(frozen=True, slots=True)
class Config:
    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    times: TimeStyle | None = None
    lists: Mapping[str, ListSettings] = field(default_factory=dict)
    themes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commands: Mapping[str, OwnCommand] = field(default_factory=dict)
    notify: Notify = field(default_factory=Notify)
    panes: PaneChoice = field(default_factory=PaneChoice)

    @property
    def key_variables(self) -> frozenset[str]:
        """The environment variables that hold the keys of profiles."""
        keys = (profile.key.partition("env:")[2] for profile in self.profiles.values())
        return frozenset(filter(None, keys))


_ENTRIES = tuple(each.name for each in fields(Config))


def config_file() -> Path:
    """Return the file's path: LEDGER_TUI_CONFIG, else a file in the user's config directory."""
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named)
    import platformdirs

    return platformdirs.user_config_path("ledger-tui") / "config.toml"


def read_config(file: Path) -> Config:
    """Return the file's content; without a file nothing is configured. Raises BadConfig."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadConfig(f"{file}: cannot be read: {reason}.") from None
    return parse_config(text, str(file))


def parse_config(text: str, file: str) -> Config:
    """Return the content of `text`; BadConfig names it `file`."""
    import tomllib  # without a file the first paint does not need it

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{file}: is not TOML: {_one_line(error)}.") from None

    def bad(entry: str, reason: str) -> BadConfig:
        return BadConfig(f"{file}: {_one_line(entry)}: {reason}.")

    for name in data:
        if name not in _ENTRIES:
            raise bad(name, f"is unknown; use {', '.join(_ENTRIES[:-1])} or {_ENTRIES[-1]}")
    theme = data.get("theme")
    if theme is not None and not isinstance(theme, str):
        raise bad("theme", "must be a name in quotes")
    keys = data.get("keys", {})
    if not isinstance(keys, dict):
        raise bad("keys", "must be a table")
    for name, value in keys.items():
        if isinstance(value, dict):
            raise bad(f"keys.{name}", 'write a name with a dot in quotes, like "act.pay" = "Z"')
        if not isinstance(value, str) or not value.strip():
            raise bad(f"keys.{name}", 'must be a key in quotes, like "ctrl+r"')
    tables = data.get("profiles", {})
    if not isinstance(tables, dict):
        raise bad("profiles", "must be a table")
    profiles = {name: _profile(name, table, bad) for name, table in tables.items()}
    themes = _themes(data.get("themes", {}), bad)
    lists = parse_lists(data.get("lists", {}), bad)
    commands = _commands(data.get("commands", {}), bad)
    notify = parse_notify(data.get("notify", {}), bad)
    times = parse_times(data.get("times"), bad)
    panes = parse_panes(data.get("panes", {}), bad)
    return Config(theme, keys, profiles, times, lists, themes, commands, notify, panes)


def _commands(tables: Any, bad: Callable[[str, str], BadConfig]) -> Mapping[str, OwnCommand]:
    """Return the user's own commands; the keymap checks their keys."""
    if not isinstance(tables, dict):
        raise bad("commands", "must be a table")
    found = {}
    for name, table in tables.items():
        where = f"commands.{name}"
        if not _NAME.fullmatch(name):
            raise bad(where, "a name is letters, digits, - and _")
        if not isinstance(table, dict):
            raise bad(where, "must be a table")
        for entry in table:
            if entry not in ("key", "run", "screens"):
                raise bad(f"{where}.{entry}", "is unknown; use key, run or screens")
        for entry in ("key", "run"):
            if not isinstance(table.get(entry), str) or not table[entry].strip():
                raise bad(f"{where}.{entry}", "must be text in quotes")
        screens = table.get("screens", [])
        if not isinstance(screens, list) or not all(isinstance(each, str) for each in screens):
            raise bad(f"{where}.screens", 'must be a list of names, like ["invoices"]')
        found[name] = OwnCommand(name, table["key"], table["run"], tuple(screens))
    return found


def _themes(tables: Any, bad: Callable[[str, str], BadConfig]) -> Mapping[str, Mapping[str, str]]:
    """Return the user's own themes, whose entries `ui.styles` knows."""
    if not isinstance(tables, dict):
        raise bad("themes", "must be a table")
    for name, table in tables.items():
        if not _NAME.fullmatch(name):
            raise bad(f"themes.{name}", "a name is letters, digits, - and _")
        if not isinstance(table, dict):
            raise bad(f"themes.{name}", "must be a table")
        for entry, value in table.items():
            if not isinstance(value, str):
                raise bad(f"themes.{name}.{entry}", "must be text in quotes")
            if entry != "base" and not _COLOR.fullmatch(value):
                raise bad(f"themes.{name}.{entry}", "must be a colour like #c03028")
    return tables


def _profile(name: str, table: Any, bad: Callable[[str, str], BadConfig]) -> Profile:
    if not _NAME.fullmatch(name):
        raise bad(f"profiles.{name}", "a name is letters, digits, - and _")
    if not isinstance(table, dict):
        raise bad(f"profiles.{name}", "must be a table")
    known = {each.name for each in fields(Profile)} - {"name"}
    for entry, value in table.items():
        where = f"profiles.{name}.{entry}"
        if entry not in known:
            hint = "; secrets are kept by `ledger-tui profiles add`" if _looks_secret(entry) else ""
            raise bad(where, f"is unknown{hint}")
        if (problem := _problem(entry, value)) is not None:
            raise bad(where, problem)
    if "url" not in table:
        raise bad(f"profiles.{name}.url", "is missing")
    profile = Profile(name, **table)
    if profile.client_id is not None and not is_confidential(profile.auth_url or profile.url):
        entry = "url" if profile.auth_url is None else "auth_url"
        raise bad(f"profiles.{name}.{entry}", "signing in on another machine needs https")
    return profile


def _problem(entry: str, value: Any) -> str | None:
    """Return what is wrong with the value of a profile's entry.

    The text does not contain the value, which may be a secret.
    """
    if entry == "read_only":
        return None if isinstance(value, bool) else "must be true or false"
    if not isinstance(value, str):
        return "must be text in quotes"
    sound, reason = {
        "url": (is_address(value), "is not an address like https://ledger.example.com"),
        "auth_url": (is_address(value), "is not an address like https://ledger.example.com"),
        "key": (
            value == STORED or bool(_VARIABLE.fullmatch(value)),
            'must be "stored" or "env:VARIABLE"; a key does not belong in this file',
        ),
        "mode_color": (bool(_COLOR.fullmatch(value)), "must be a colour like #c03028"),
        "client_id": (is_key(value), "is not a client id"),
        "scope": (not value or bool(_SCOPES.fullmatch(value)), "must be scopes separated by single spaces"),
    }[entry]
    return None if sound else reason


def is_profile_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def _looks_secret(entry: str) -> bool:
    return any(word in entry for word in ("secret", "token", "password", "api_key"))


def _one_line(text: object) -> str:
    return literal(" ".join(str(text).split()).rstrip("."))


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one run; without a `url` or a `profile` the dashboard runs its own server."""

    url: str | None = None
    key: str | None = None
    database: str | None = None
    demo: bool = False
    read_only: bool = False
    profile: Profile | None = None
    config: Config = field(default_factory=Config)
    config_file: str = "config.toml"
    of_demo: bool = False  # `url` is the server of a demo, started by another process
    tour_pace: float | None = None  # how fast to play the tour, on a demo alone; None not to play it
    resume: Left | None = None  # where to begin

    @property
    def shows_demo(self) -> bool:
        """Whether what is shown is a demo."""
        return self.demo or self.of_demo

    @property
    def connection(self) -> str:
        """Return what distinguishes this connection from others."""
        if self.profile is not None:
            return f"profile {self.profile.name}"
        return self.url or f"own {self.database or ''}".rstrip()
