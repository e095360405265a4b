"""Trying one generator: install it, make its client, run the program that uses it, and check what it made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.servers import ledger
from tools.clients.generators import Command, Generator, Linter

CALLS = Path(__file__).parent / "calls"
KEY = "sk_test_clients0clients0clients0clients0"
AMOUNT = 12_50  # what each program posts
STEP_TIMEOUT_S = 600  # seconds; the first installation loads some 30 MB

_COMPLAINT = re.compile(r"\s*\d+:\d+\s+(warning|error)\s")

WORKED, FAILED, NOT_INSTALLED = "worked", "failed", "not installed"


@dataclass(frozen=True)
class Outcome:
    """What came of one program; `why` is empty for one that worked."""

    name: str
    state: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.state}{': ' if self.why else ''}{self.why}"


class Broken(Exception):
    """A command or a check failed; the text is the last that it said."""


def try_generator(generator: Generator, document: Path, folder: Path) -> Outcome:
    """Return what came of the generator, which keeps all it needs in `folder`."""
    try:
        _install(folder, generator.needs, generator.python, generator.node, generator.install)
    except Broken as broken:
        return Outcome(generator.name, NOT_INSTALLED, str(broken))
    try:
        for made in ("client", "ledger_client", "built"):
            shutil.rmtree(folder / made, ignore_errors=True)
        (folder / "client").mkdir()
        shutil.copy(CALLS / generator.program, folder / f"calls{Path(generator.program).suffix}")
        for command in (*generator.generate, *generator.check):
            _run(command, folder, document)
        with TemporaryDirectory() as data, ledger(Path(data) / "ledger.db", "--api-key", KEY) as url:
            said = _run(generator.call, folder, document, {"LEDGER_URL": url, "LEDGER_API_KEY": KEY})
            check(_parsed(said), url)
    except Broken as broken:
        return Outcome(generator.name, FAILED, str(broken))
    return Outcome(generator.name, WORKED)


def try_linter(linter: Linter, document: Path, folder: Path) -> Outcome:
    """Return what the linter says of the document; a warning is a failure."""
    try:
        _install(folder, ("npm",), (), linter.node, ())
    except Broken as broken:
        return Outcome(linter.name, NOT_INSTALLED, str(broken))
    (folder / "ruleset.json").write_text('{"extends": ["spectral:oas"]}', encoding="utf-8")
    try:
        said = _run(linter.command, folder, document)
    except Broken as broken:
        return Outcome(linter.name, FAILED, str(broken))
    found = complaints(said)
    return Outcome(linter.name, FAILED, "; ".join(found)) if found else Outcome(linter.name, WORKED)


def complaints(said: str) -> list[str]:
    """Return the warnings and errors in a linter's report: `3:2  warning  info-license …`."""
    return [" ".join(line.split()) for line in said.splitlines() if _COMPLAINT.match(line)]


def check(made: dict[str, Any], url: str) -> None:
    """Ask the server whether the program made what it says. Raises Broken if it did not."""
    account = _get(f"{url}/v1/accounts/{made['account']}")
    posted = _get(f"{url}/v1/transactions/{made['transaction']}")
    if (account["name"], account["balance"]) != ("Till", AMOUNT) or posted["account"] != account["id"]:
        raise Broken(f"the server has {account} and {posted}")
    if made["listed"] != [posted["id"]]:
        raise Broken(f"the list has {made['listed']}, and not {posted['id']} alone")
    if made["refused"] != "duplicate_idempotency_key":
        raise Broken(f"the second use of a key was read as {made['refused']}")


def _install(
    folder: Path,
    needs: tuple[str, ...],
    python: tuple[str, ...],
    node: tuple[str, ...],
    commands: tuple[Command, ...],
) -> None:
    """Install the packages into the folder, unless these very releases are there. Raises Broken."""
    missing = [program for program in needs if shutil.which(program) is None]
    if missing:
        raise Broken(f"there is no {' and no '.join(missing)} on this machine")
    wanted = json.dumps([sys.version_info[:2], python, node, commands])
    marker = folder / ".installed"
    if marker.is_file() and marker.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        _install_packages(folder, python, node)
        for command in commands:
            _run(command, folder)
    except Broken:
        shutil.rmtree(folder, ignore_errors=True)  # half an installation helps nobody and may be large
        raise
    marker.write_text(wanted, encoding="utf-8")


def _install_packages(folder: Path, python: tuple[str, ...], node: tuple[str, ...]) -> None:
    if python:
        _run((sys.executable, "-m", "venv", "environment"), folder)
        _run(("{bin}/python", "-m", "pip", "--disable-pip-version-check", "install", "-qq", *python), folder)
    if node:
        (folder / "package.json").write_text("{}", encoding="utf-8")
        _run(
            ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *node),
            folder,
        )


def _run(
    command: Command, folder: Path, document: Path | None = None, more: dict[str, str] | None = None
) -> str:
    """Return what the command wrote to stdout. Raises Broken with the last lines it wrote if it failed."""
    places = {
        "folder": str(folder),
        "bin": str(folder / "environment" / "bin"),
        "node": str(folder / "node_modules" / ".bin"),
        "document": str(document),
    }
    words = [word.format(**places) for word in command]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PATH": f"{places['bin']}{os.pathsep}{os.environ['PATH']}",
        "GOPATH": str(folder / "go"),
        "GOCACHE": str(folder / "go-cache"),
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
        "REDOCLY_TELEMETRY": "off",
        "NO_COLOR": "1",
        **(more or {}),
    }
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=STEP_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Broken(str(error)) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Broken(f"{Path(words[0]).name}: {' / '.join(line.strip() for line in said[-3:])}"[:500])
    return done.stdout


def _parsed(said: str) -> dict[str, Any]:
    try:
        made: dict[str, Any] = json.loads(said)
        return made
    except ValueError:
        raise Broken(f"the program wrote {said[:200]!r}") from None


def _get(url: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {KEY}"})
    try:
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError as error:
        raise Broken(f"the server says {error} to GET {url}") from None
