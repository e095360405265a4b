"""The client's own wheel, installed into an empty environment and used from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_client import __version__
from tests.dist.served import KEY, serving

ROOT = Path(__file__).resolve().parents[2]
USE = """
import importlib.util, os
from ledger_client import Ledger, LedgerError, __version__

for absent in ("ledger_engine", "ledger_tui", "textual", "quart"):
    assert importlib.util.find_spec(absent) is None
with Ledger(os.environ["LEDGER_URL"], os.environ["LEDGER_API_KEY"]) as ledger:
    till = ledger.accounts.create("Till", "EUR")
    ledger.transactions.post(till.id, 1250, "credit")
    print(__version__, ledger.accounts.get(till.id).balance)
    try:
        ledger.accounts.get("acc_none")
    except LedgerError as error:
        print(error.status, error.code)
"""

pytestmark = pytest.mark.process


def test_the_wheel_of_the_client_needs_httpx_alone_and_works(tmp_path: Path, offline: dict[str, str]) -> None:
    built = tmp_path / "dist"
    words = ("-m", "hatchling", "build", "--directory", built, "--target", "wheel")
    folder = ROOT / "src" / "ledger_client"
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
    (wheel,) = built.iterdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    words = ("-m", "pip", "--disable-pip-version-check", "-qq", "--python", python, "install", wheel)
    subprocess.run([sys.executable, *words], env=offline, check=True)
    with serving([sys.executable, "-m", "ledger_engine"], tmp_path) as url:
        environment = {"PATH": os.defpath, "LEDGER_URL": url, "LEDGER_API_KEY": KEY}
        done = subprocess.run(
            [python, "-c", USE], cwd=tmp_path / "home", env=environment, capture_output=True, text=True
        )
    assert (done.stdout, done.stderr) == (f"{__version__} 1250\n404 not_found\n", "")
    assert "py.typed" in {each.name for each in (tmp_path / "empty").rglob("ledger_client/*")}
