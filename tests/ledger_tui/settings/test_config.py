"""The config file is read strictly: each mistake is one line that names the file, the entry and the
reason.
"""

from pathlib import Path

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.settings.config import (
    BadConfig,
    Config,
    Options,
    Profile,
    config_file,
    parse_config,
    read_config,
)

WHOLE = """
theme = "ledger-light"

[keys]
refresh = "ctrl+r"

[profiles.shop]
url = "https://ledger.example.com"
key = "env:SHOP_KEY"
read_only = true
mode_color = "#c03028"
client_id = "app_1"
scope = "read:projects read:users"
auth_url = "https://login.example.com"

[profiles.home]
url = "http://127.0.0.1:8700"
"""


def test_every_entry_is_read() -> None:
    shop = Profile(
        "shop", "https://ledger.example.com", "env:SHOP_KEY", True, "#c03028",
        "app_1", "read:projects read:users", "https://login.example.com",
    )  # fmt: skip
    home = Profile("home", "http://127.0.0.1:8700")
    assert parse_config(WHOLE, "f") == Config(
        "ledger-light", {"refresh": "ctrl+r"}, {"shop": shop, "home": home}
    )
    assert home.key == "stored"


def test_entries_of_an_older_version_are_passed_over_with_one_sentence() -> None:
    older = '[notify]\non = ["delivery.failed"]\nby = ["bell"]\n[keys]\nrefresh = "f5"\nbatch = "f6"\n'
    config = parse_config(older, "f")
    assert config.keys == {"refresh": "f5"}
    assert config.notice == (
        "No effect in the config file: notify, keys.batch."
        " Use `ledger-engine tail` and `ledger-engine post --file` instead."
    )
    assert parse_config('[keys]\nunusual = "u"', "f").notice == (
        "No effect in the config file: keys.unusual."
    )
    assert parse_config("notify = 1", "f").notice.startswith("No effect in the config file: notify.")


def test_without_a_file_nothing_is_configured(tmp_path: Path) -> None:
    assert read_config(tmp_path / "none.toml") == Config()


@pytest.mark.parametrize(
    ("text", "entry", "reason"),
    [
        ("theme = ", "is not TOML", "Invalid value"),
        ("colour = 'x'", "colour", "there is no such entry; choose one of "),
        ("theme = 3", "theme", "in quotes"),
        ("times = 'sundial'", "times", "one of utc, local, relative"),
        ("lists = 3", "lists", "table"),
        ("[lists]\nusers = 3", "lists.users", "table"),
        ("[lists.users]\nsort = 3", "lists.users.sort", 'in quotes, like "-amount"'),
        ("[lists.users]\ncolumns = 'name'", "lists.users.columns", "a list of texts"),
        ("[lists.users]\nrows = 3", "lists.users.rows", "choose one of columns, sort, filters"),
        ("panes = 3", "panes", "table"),
        ("[panes]\nsplit = 1", "panes.split", "true or false"),
        ("[panes]\ndetail_width = 3", "panes.detail_width", "columns, at least 24"),
        ("[panes]\nleft = 30", "panes.left", "choose one of split, detail_width"),
        ("keys = 3", "keys", "table"),
        ("[keys]\nrefresh = 3", "keys.refresh", 'in quotes, like "ctrl+r"'),
        ("[keys]\nact.pay = 'P'", "keys.act", "a dot in quotes"),
        ("profiles = 3", "profiles", "table"),
        ("[profiles]\nx = 3", "profiles.x", "table"),
        ("[profiles.'a b']\nurl = 'http://h'", "profiles.a b", "letters"),
        ("[profiles.x]", "profiles.x.url", "missing"),
        ("[profiles.x]\nurl = 'ftp://h'", "profiles.x.url", "not an address"),
        ("[profiles.x]\nurl = 'http://me:secret@h'", "profiles.x.url", "not an address"),
        ("[profiles.x]\nurl = 3", "profiles.x.url", "text in quotes"),
        ("[profiles.x]\nurl = 'http://h'\nread_only = 'yes'", "profiles.x.read_only", "true or false"),
        ("[profiles.x]\nurl = 'http://h'\nmode_color = 'red'", "profiles.x.mode_color", "#c03028"),
        ("[profiles.x]\nurl = 'http://h'\nkey = 'sk_live_0123'", "profiles.x.key", "does not belong"),
        ("[profiles.x]\nurl = 'http://h'\napi_key = 'sk_live_0123'", "profiles.x.api_key", "profiles add"),
        ("[profiles.x]\nurl = 'http://h'\nkey = 'x'", "profiles.x.key", 'must be "stored" or "env:VARIABLE"'),
        ("[profiles.x]\nurl = 'http://h'\nclient_id = 'app_1'", "profiles.x.url", "must begin with https"),
        ("[profiles.x]\nurl = 'http://h'\nscope = 'a  b'", "profiles.x.scope", "single spaces"),
        ("commands = 3", "commands", "table"),
        ("[commands]\nx = 3", "commands.x", "table"),
        ("[commands.'a b']\nkey = 'z'", "commands.a b", "letters"),
        ("[commands.x]\ncolour = 'z'", "commands.x.colour", "choose one of key, run, screens"),
        ("themes = 3", "themes", "table"),
        ("[themes]\nx = 3", "themes.x", "table"),
        ("[themes.'a b']\nbase = 'ledger'", "themes.a b", "letters"),
        ("[themes.x]\naccent = 3", "themes.x.accent", "text in quotes"),
        ("[themes.x]\naccent = 'red'", "themes.x.accent", "a colour like #c03028"),
        ('theme = "a"\n["\\u001b]52"]\n', "␛]52", "there is no such entry; choose one of "),
    ],
)
def test_a_mistake_is_one_line_with_file_entry_and_reason(text: str, entry: str, reason: str) -> None:
    with pytest.raises(BadConfig) as bad:
        parse_config(text, "/home/ada/config.toml")
    message = str(bad.value)
    assert message.startswith(f"/home/ada/config.toml: {entry}")
    assert reason in message
    assert message.isprintable()
    assert "0123" not in message
    assert "secret@" not in message


def test_a_file_that_is_not_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfig, match="UTF-8"):
        read_config(tmp_path / "f")
    with pytest.raises(BadConfig, match="cannot be read"):
        read_config(tmp_path)


def test_the_file_is_where_the_variable_says_else_in_the_config_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(tmp_path / "mine.toml"))
    assert config_file() == tmp_path / "mine.toml"
    monkeypatch.delenv("LEDGER_TUI_CONFIG")
    assert config_file().parts[-2:] == ("ledger-tui", "config.toml")


def test_an_unknown_theme_is_told_with_each_that_there_is_once() -> None:
    config = parse_config('theme = "nope"', "f")
    with pytest.raises(BadConfig) as bad:
        LedgerApp(Options(config=config, config_file="f"))
    assert str(bad.value) == (
        'f: theme: "nope" is not a theme; choose ledger or ledger-light or ledger-contrast or ledger-16.'
    )
