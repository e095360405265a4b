"""The three wheels of a release, each installed into an empty environment and used from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

from ledger_client import __version__
from tests.dist.served import KEY, serving

ROOT = Path(__file__).resolve().parents[2]
OF_THE_ENGINE = {"hypercorn", "quart", "cryptography", "ledger-engine"}
OF_THE_DASHBOARD = {
    "textual",
    "textual-serve",
    "rich",
    "keyring",
    "tomlkit",
    "aiohttp",
    "filelock",
    "ledger-tui",
}
USE = """
import os
from ledger_client import Ledger, LedgerError, __version__

with Ledger(os.environ["LEDGER_URL"], os.environ["LEDGER_API_KEY"]) as ledger:
    till = ledger.accounts.create("Till", "EUR")
    ledger.transactions.post(till.id, 1250, "credit")
    print(__version__, ledger.accounts.get(till.id).balance)
    try:
        ledger.accounts.get("acc_none")
    except LedgerError as error:
        print(error.status, error.code)
"""
INSTALLED = """
from importlib.metadata import distributions
print(*(each.metadata["Name"].lower().replace("_", "-") for each in distributions()))
"""
# Imports each module of a package and prints the other packages that are missing.
MISSING = """
import importlib, pkgutil, sys
for module in pkgutil.walk_packages([f"{sys.path[-1]}/{sys.argv[1]}"], f"{sys.argv[1]}."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        print(error.name.split(".")[0])
"""

pytestmark = pytest.mark.process


def installed(folder: Path, environment: dict[str, str], *requirements: str | Path) -> Path:
    """Install into an environment that is empty; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    words = ("-m", "pip", "--disable-pip-version-check", "-qq", "--python", python, "install")
    subprocess.run([sys.executable, *words, *requirements], env=environment, check=True)
    return python


def words_of(python: Path, program: str, *arguments: str) -> set[str]:
    """Return the words that a program prints, without anything of this checkout."""
    done = subprocess.run(
        [python, "-c", program, *arguments], cwd="/", env={}, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_wheel_of_the_client_needs_httpx_alone_and_works(
    wheels: dict[str, Path], tmp_path: Path, offline: dict[str, str]
) -> None:
    python = installed(tmp_path / "empty", offline, wheels["ledger_client"])
    assert words_of(python, INSTALLED) & (OF_THE_ENGINE | OF_THE_DASHBOARD) == set()
    assert words_of(python, MISSING, "ledger_client") == set()
    with serving([sys.executable, "-m", "ledger_engine"], tmp_path) as url:
        environment = {"PATH": os.defpath, "LEDGER_URL": url, "LEDGER_API_KEY": KEY}
        done = subprocess.run(
            [python, "-c", USE], cwd=tmp_path / "home", env=environment, capture_output=True, text=True
        )
    assert (done.stdout, done.stderr) == (f"{__version__} 1250\n404 not_found\n", "")
    assert "py.typed" in {each.name for each in (tmp_path / "empty").rglob("ledger_client/*")}


def test_the_wheel_of_the_engine_serves_without_any_package_of_the_dashboard(
    wheels: dict[str, Path], tmp_path: Path, offline: dict[str, str]
) -> None:
    python = installed(tmp_path / "empty", offline, wheels["ledger_client"], wheels["ledger_engine"])
    packages = words_of(python, INSTALLED)
    assert packages >= OF_THE_ENGINE | {"ledger-client"}
    assert packages & OF_THE_DASHBOARD == set()
    assert words_of(python, MISSING, "ledger_engine") <= {"psycopg", "pytest"}, "its two extras"
    program = python.with_name("ledger-engine")
    seeded = [program, "seed", "minimal", "--database", tmp_path / "seeded.db"]
    subprocess.run(seeded, cwd="/", env={}, check=True, capture_output=True)
    with serving([program], tmp_path) as url:
        account = {"name": "Till", "currency": "EUR"}
        answer = httpx.post(
            f"{url}/v1/accounts", json=account, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False
        )
    assert answer.status_code == 201


def test_the_wheel_of_the_engine_brings_the_plugin_of_pytest(
    wheels: dict[str, Path], tmp_path: Path, offline: dict[str, str]
) -> None:
    python = installed(tmp_path / "empty", offline, "--no-deps", wheels["ledger_engine"])
    listed = "from importlib.metadata import entry_points; print(*entry_points(group='pytest11').names)"
    assert words_of(python, listed) == {"ledger_engine.testing.plugin"}


def test_the_name_of_the_dashboards_wheel_is_enough_to_install_everything(
    wheels: dict[str, Path], tmp_path: Path, offline: dict[str, str]
) -> None:
    folders = f"{offline['PIP_FIND_LINKS']} {wheels['ledger_tui'].parent}"
    python = installed(tmp_path / "empty", offline | {"PIP_FIND_LINKS": folders}, "ledger_tui")
    assert words_of(python, INSTALLED) >= OF_THE_ENGINE | OF_THE_DASHBOARD | {"ledger-client"}
    assert words_of(python, MISSING, "ledger_tui") == set()
    for name in ("ledger-engine", "ledger-tui"):
        program = [python.with_name(name), "--version"]
        done = subprocess.run(program, cwd="/", env={}, capture_output=True, text=True, check=True)
        assert done.stdout == f"{name} {__version__}\n"


def test_the_distribution_of_a_clone_contains_the_files_of_the_three_wheels(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    words = ("-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path)
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    (whole,) = tmp_path.iterdir()
    assert files_of(whole) == {name for wheel in wheels.values() for name in files_of(wheel)}
    assert "ledger_engine/tools/seed/seeds/minimal.json" in files_of(wheels["ledger_engine"])


def files_of(wheel: Path) -> set[str]:
    """Return the files of a wheel, except its metadata."""
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}
