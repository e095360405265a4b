"""What a program does not use it does not load: start-up is counted in tenths of a second."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

HEAVY = {
    "quart",
    "hypercorn",
    "textual",
    "pydantic",
    "sqlite_utils",
    "httpx",
    "cryptography",
    "keyring",
    "authlib",
}


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules in memory after running the statement in a new interpreter."""
    program = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["ledger_client", "ledger_engine", "ledger_tui"])
def test_importing_a_package_loads_nothing_heavy(package: str) -> None:
    assert loaded_by(f"import {package}") & HEAVY == set()


def test_the_http_server_knows_no_ledger(root: Path) -> None:
    files = (root / "src" / "ledger_engine" / "http" / "wire").glob("*.py")
    imported = {
        name
        for file in files
        for name in re.findall(r"(?m)^ *(?:from|import) (ledger_\S+)", file.read_text())
    }
    assert {name for name in imported if not name.startswith("ledger_engine.http.wire.")} == set()


def test_the_archive_opens_the_dashboard_without_the_servers_command_line() -> None:
    assert loaded_by("import ledger_engine.archive") & (HEAVY | {"click"}) == set()


def test_the_servers_command_line_loads_no_dashboard() -> None:
    assert loaded_by("import ledger_engine.cli") & {"textual", "ledger_tui"} == set()


def test_help_of_the_servers_command_line_loads_no_web_framework() -> None:
    assert loaded_by("import ledger_engine.cli") & {"quart", "hypercorn"} == set()
