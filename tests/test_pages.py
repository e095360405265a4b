"""The pages of the documentation work as they are written.

Every block of shell, Python and JavaScript of README.md and docs/ is run, in order, in a folder that is empty
at first, and then once more in the same folder and on the same ledger, as a reader does who comes back.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.commands import answer_of_command
from tests.contract.conftest import start_server, stop_server
from tests.house.pages import ROOT, Block, blocks, pages
from tests.reader import RUN_BY, Reader, draws

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
        if (each.language in ("sh", "cron", *RUN_BY) or each.file) and each.not_run is None
    ]


def package_missing_for(block: Block) -> str | None:
    """Return the package of Debian and Ubuntu without which the block cannot be run here, if there is one."""
    if block.language == "javascript" or block.text.startswith("node "):
        return None if shutil.which("node") else "nodejs"
    if draws(block):
        return None if shutil.which("tmux") else "tmux"
    return None


PAGES = [page for page in pages() if to_run(page)]


@dataclass
class Served:
    """A server for the pages that start none, with a key of its first project and what is there already."""

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


def balances(port: int, key: str) -> set[int]:
    """Return the balances that the transactions of the key's project have left."""
    headers = {"Authorization": f"Bearer {key}"}
    posted = httpx.get(f"http://127.0.0.1:{port}/v1/transactions", headers=headers).json()["data"]
    return {each["balance_after"] for each in posted}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_works_as_written_twice_in_a_row(page: Path, served: Served, tmp_path: Path) -> None:
    mine = [each for each in to_run(page) if not package_missing_for(each)]
    starts_its_own = any("ledger-engine serve" in block.text for block in mine)
    port = free_port() if starts_its_own else served.port
    folder = tmp_path / "reader"
    for each in ("backups", "data"):
        (folder / each).mkdir(parents=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LEDGER_", "XDG_"))},
        "NO_PROXY": "*",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "LEDGER_PORT": str(port),
    }
    on_postgres = {}
    if any("postgresql://" in block.text for block in mine):
        from tests.postgres_server import new_database

        on_postgres = {"postgresql://ledger@db.example/ledger": new_database("pages")}
        answer_of_command(folder / "ledger.db", "keys", "create", "--mode", "test")
    seen: dict[str, str] = {}
    if not starts_its_own:
        seen = {"sk_test": served.key, "acc": served.account}
        environment |= {"LEDGER_API_KEY": served.key, "LEDGER_DATABASE": str(served.database)}
    stands_for = {
        "8700": str(port),
        "9000": str(free_port()),
        "9464": str(free_port()),
        "https://ledger.example.com": f"http://127.0.0.1:{port}",
        "/var/lib/ledger/ledger.db": str(served.database),
        "/var/backups/ledger": str(folder / "backups"),
        "/var/lib/ledger/backups": str(folder / "backups"),
        "/opt/ledger/bin/": "",
        ".venv/bin/ledger-engine": "ledger-engine",
        "pass show": "echo",
        **on_postgres,
    }
    for _ in range(2):
        reader = Reader(folder, environment, stands_for, seen)
        try:
            for block in mine:
                reader.follow(block)
            if page.name == "quickstart.md":
                assert balances(port, seen["sk_test"]) == {1250}, "a sale was posted twice"
        finally:
            reader.leave()
    if missing := {*map(package_missing_for, to_run(page))} - {None}:
        pytest.skip(f"needs {missing}; on Debian and Ubuntu: apt install. The rest of the page was run")
