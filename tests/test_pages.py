"""The pages of the documentation work as they are written.

These tests run every block of shell, Python and JavaScript in README.md and docs/, in order, in an empty
folder, and then once more in the same folder and on the same ledger, like a reader who comes back. A block
that is left out names the test that runs it. A block that needs a package index is skipped if there is none,
and runs only once, because most of its CPU time is the installation.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.commands import answer_of_command
from tests.contract.conftest import start_server, stop_server
from tests.house.pages import ROOT, Block, blocks, pages
from tests.reader import RUN_BY, NotReached, Reader, programs_of, serves

pytestmark = [
    pytest.mark.process,
    pytest.mark.sqlite,
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl", "openssl"))), reason="needs bash, curl and openssl"
    ),
]


def to_run(page: Path) -> list[Block]:
    return [
        each
        for each in blocks(page)
        if (each.language in ("sh", "cron", *RUN_BY) or each.file) and not each.is_elsewhere
    ]


# The packages of Debian and Ubuntu with the programs that a page may need.
PACKAGES = {"hledger": "hledger", "node": "nodejs", "npm": "npm", "npx": "npm", "tmux": "tmux"}


def packages_missing_for(block: Block) -> set[str]:
    """Return the packages without which the block cannot be run here."""
    return {PACKAGES[each] for each in programs_of(block) & PACKAGES.keys() if not shutil.which(each)}


PAGES = [page for page in pages() if to_run(page)]


@dataclass
class Served:
    """A server for pages that start none, with a key of its first project and the objects in it."""

    port: int
    database: Path
    key: str
    account: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    database = tmp_path_factory.mktemp("pages") / "ledger.db"
    made = answer_of_command(database, "keys", "create", "--mode", "test", "--role", "owner")
    server = start_server(database)
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {made['key']}"}) as api:
        account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).raise_for_status().json()
    yield Served(server.port, database, made["key"], account["id"])
    stop_server(server)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_with_pip(folder: Path) -> Path:
    """Make a Python environment to install into, which also contains this environment's packages; return
    the folder of its programs.
    """
    programs = folder / "bin"
    if not programs.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        paths = {"base": str(folder), "platbase": str(folder)}
        here, there = sysconfig.get_path("purelib"), Path(sysconfig.get_path("purelib", "venv", paths))
        (there / "tests.pth").write_text(f"import site; site.addsitedir({here!r})\n")
        (programs / "pip").write_text(f'#!/bin/sh\nexec {programs}/python -m pip "$@"\n')
        (programs / "pip").chmod(0o755)
    return programs


def on_postgres(has_ledger: bool) -> dict[str, str]:
    """Return the addresses for the databases of the pages: one that exists, and one to be made."""
    from tests.postgres_server import new_database, no_database

    database, again = new_database("pages"), no_database("pages_again")
    if has_ledger:
        answer_of_command(database, "keys", "create", "--mode", "test")
    return {
        "postgresql://ledger@db.example/ledger_again": again,
        "postgresql://ledger@db.example/ledger": database,
        "--host db.example ledger_again": f"--maintenance-db {database} {urlsplit(again).path.strip('/')}",
    }


def balances(port: int, key: str) -> set[int]:
    """Return the balances of the key's project after its transactions."""
    headers = {"Authorization": f"Bearer {key}"}
    posted = httpx.get(f"http://127.0.0.1:{port}/v1/transactions", headers=headers).json()["data"]
    return {each["balance_after"] for each in posted}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_works_as_written_twice_in_a_row(
    page: Path, served: Served, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    mine = [each for each in to_run(page) if not packages_missing_for(each)]
    starts_its_own = any(map(serves, mine))
    port = free_port() if starts_its_own else served.port
    folder = tmp_path / "reader"
    for each in ("backups", "data"):
        (folder / each).mkdir(parents=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    downloads = request.config.cache.mkdir("pages")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LEDGER_", "XDG_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_PROXY": "*",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "LEDGER_PORT": str(port),
        "npm_config_cache": str(downloads / "npm"),
        "npm_config_prefer_offline": "true",
    }
    if any("pip" in programs_of(each) for each in mine):
        kept = downloads if any(each.needs for each in mine) else tmp_path
        programs = environment_with_pip(kept / f"{page.stem}-{sys.version_info.minor}")
        environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    seen: dict[str, str] = {}
    if not starts_its_own:
        seen = {"sk_test": served.key, "acc": served.account}
        environment |= {"LEDGER_API_KEY": served.key, "LEDGER_DATABASE": str(served.database)}
    stands_for = {
        "8700": str(port),
        "8701": str(free_port()),
        "9000": str(free_port()),
        "9464": str(free_port()),
        "https://ledger.example.com": f"http://127.0.0.1:{port}",
        "/var/lib/ledger/ledger.db": str(served.database),
        "/var/backups/ledger": str(folder / "backups"),
        "/var/lib/ledger/backups": str(folder / "backups"),
        "/opt/ledger/bin/": "",
        "/etc/ledger/ledger.toml": str(ROOT / "deploy" / "ledger.toml"),
        "$PWD/.venv/bin:": "",
        "pass show": "echo",
        # A reader types these in a clone or next to one, and the programs that build them are there already.
        "pip install ../ledger/src/": f"pip install --no-build-isolation {ROOT}/src/",
        "'../ledger/src/": f"'{ROOT}/src/",
        "pip install src/": f"pip install --no-build-isolation {ROOT}/src/",
        "'src/": f"'{ROOT}/src/",
        "pip wheel --no-deps src/": f"pip wheel --no-build-isolation --no-deps {ROOT}/src/",
    }
    uses_postgres = any("postgresql://" in block.text for block in mine)
    if uses_postgres:
        from tests.postgres_cluster import programs as of_postgres

        environment["PATH"] = f"{of_postgres()}{os.pathsep}{environment['PATH']}"
        answer_of_command(folder / "ledger.db", "keys", "create", "--mode", "test")
    backs_up = any("createdb" in programs_of(block) for block in mine)
    skipped = {package for each in to_run(page) for package in packages_missing_for(each)}
    for comes_back in (False, True):
        here = stands_for | (on_postgres(has_ledger=backs_up) if uses_postgres else {})
        reader = Reader(folder, environment, here, seen)
        try:
            for block in mine:
                if block.needs not in skipped and not (block.needs and comes_back):
                    try:
                        reader.follow(block)
                    except NotReached as error:
                        skipped.add(str(error))
            if page.name == "quickstart.md":
                assert balances(port, seen["sk_test"]) == {1250}, "a sale was posted twice"
        finally:
            reader.leave()
    if skipped:
        pytest.skip(f"needs {', '.join(sorted(skipped))}; the rest of the page was run")
