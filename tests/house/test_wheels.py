"""The projects of the three wheels and of the whole agree: dependencies, versions, programs, and locks."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from ledger_engine import __version__
from tests.house.pages import ROOT

PACKAGES = ("ledger_client", "ledger_engine", "ledger_tui")


def project(folder: str) -> dict[str, Any]:
    """Return the table `project` of the pyproject.toml in a folder."""
    content = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(content["project"])


def pins(lock: str) -> set[tuple[str, str]]:
    """Return the names and versions in a lock file."""
    return set(re.findall(r"(?m)^([\w.-]+)\S*==(\S+)", (ROOT / lock).read_text(encoding="utf-8")))


def test_the_whole_needs_what_the_three_wheels_need() -> None:
    needed = {each for package in PACKAGES for each in project(f"src/{package}")["dependencies"]}
    assert {each for each in needed if not each.startswith("ledger-")} == set(project("")["dependencies"])


def test_the_wheels_need_each_other_in_their_one_version() -> None:
    needed = {
        package: {each for each in project(f"src/{package}")["dependencies"] if each.startswith("ledger-")}
        for package in PACKAGES
    }
    client, engine = f"ledger-client=={__version__}", f"ledger-engine=={__version__}"
    assert needed == {"ledger_client": set(), "ledger_engine": {client}, "ledger_tui": {client, engine}}


def test_the_whole_has_the_programs_and_plugins_of_the_wheels() -> None:
    for table in ("scripts", "entry-points"):
        tables = (project(f"src/{package}").get(table, {}) for package in PACKAGES)
        assert {name: value for each in tables for name, value in each.items()} == project("")[table]


def test_the_lock_of_the_server_pins_what_the_lock_of_everything_pins_without_the_dashboard() -> None:
    server = pins("requirements-engine.lock")
    assert server < pins("requirements.lock")
    dashboard = {"textual", "keyring", "tomlkit", "aiohttp", "filelock"}
    assert {name for name, _ in server} & dashboard == set()
    assert {name for name, _ in pins("requirements.lock")} >= dashboard
