"""Edits change only the requested entry, and leave the rest of the file as its owner wrote it."""

from pathlib import Path

import pytest

from ledger_tui.settings.config import BadConfig, Profile, read_config
from ledger_tui.settings.saved import add_profile, remove_profile, set_theme
from tests.permissions import bound_by_permissions

OWN = """# mine
[keys]  # few
refresh = "ctrl+r"

[profiles.shop]  # the shop
url = "https://h"

[profiles.home]
url = "http://127.0.0.1"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "config.toml"


def written(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    return file


def test_a_profile_is_added_to_a_file_that_is_not_there(file: Path) -> None:
    profile = Profile("shop", "https://h", "env:K", True, "#c03028", None, "", None)
    add_profile(file, profile)
    assert read_config(file).profiles == {"shop": profile}


def test_other_text_of_the_file_stays_to_the_letter(file: Path) -> None:
    written(file, OWN)
    add_profile(file, Profile("third", "https://third"))
    assert file.read_text(encoding="utf-8") == OWN + '\n[profiles.third]\nurl = "https://third"\n'
    remove_profile(file, "third")
    assert file.read_text(encoding="utf-8").strip() == OWN.strip()


def test_a_profile_is_removed_from_between(file: Path) -> None:
    written(file, OWN)
    remove_profile(file, "shop")
    text = file.read_text(encoding="utf-8")
    assert "shop" not in text
    assert "# mine" in text
    assert list(read_config(file).profiles) == ["home"]


@pytest.mark.parametrize("name", ["shop", "a b", ""])
def test_a_name_that_is_taken_or_none_is_refused_and_nothing_is_written(file: Path, name: str) -> None:
    written(file, OWN)
    with pytest.raises(BadConfig):
        add_profile(file, Profile(name, "https://h"))
    assert file.read_text(encoding="utf-8") == OWN


@pytest.mark.parametrize(
    "text",
    [
        'profiles = {x = {url = "http://h"}}\n',
        '[profiles]\nx.url = "http://h"\n',
        'profiles.x.url = "http://h"\n',
        '[profiles.other]\nurl = "http://o"\n\n[keys]\nrefresh = "f5"\n\n[profiles."x"]\nurl = "http://h"',
        '[profiles.x]\r\nurl = "http://h"\r\n\r\n[keys]  # mine\r\n',
    ],
)
def test_a_profile_is_added_and_removed_however_the_file_is_written(file: Path, text: str) -> None:
    before = read_config(written(file, text))
    added = Profile("y", "https://y", read_only=True)
    add_profile(file, added)
    assert read_config(file).profiles == {**before.profiles, "y": added}
    remove_profile(file, "y")
    remove_profile(file, "x")
    after = read_config(file)
    assert {**after.profiles, "x": Profile("x", "http://h")} == before.profiles
    assert after.keys == before.keys
    if "\r\n" in text:
        assert file.read_bytes().endswith(b"[keys]  # mine\r\n")


def test_removing_what_is_not_there_is_said(file: Path) -> None:
    with pytest.raises(BadConfig, match="does not exist"):
        remove_profile(file, "shop")


@pytest.mark.parametrize(
    "before", ["", OWN, OWN.replace("\n", "\r\n"), "# mine", 'theme = "ledger"  # dark\n' + OWN]
)
def test_a_theme_is_chosen(file: Path, before: str) -> None:
    written(file, before)
    set_theme(file, "ledger-light")
    assert read_config(file).theme == "ledger-light"
    after = file.read_bytes().decode()
    assert after == before.replace("ledger", "ledger-light") or after.rstrip().endswith(before.rstrip())


def test_a_folder_that_cannot_be_written_is_named(file: Path) -> None:
    file.parent.mkdir(mode=0o500)
    with pytest.raises(OSError) as raised:
        bound_by_permissions(lambda: set_theme(file, "ledger-light"))
    assert str(raised.value) == f"{file.parent} cannot be written: Permission denied"
