"""The walkthrough of docs/production.md, from the installation to the upgrade, in folders of its own.

`apt`, Caddy and systemd are not there: `systemctl.py` starts what the unit says. Whether systemd knows each
line of the unit is tested in tests/ledger_engine/cli/test_deploy.py.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.house.pages import ROOT, blocks
from tests.ledger_engine.waiting import wait_until
from tests.reader import Reader
from tests.test_pages import free_port

SYSTEMCTL = Path(__file__).with_name("systemctl.py")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not Path("/proc/self/exe").exists() or not all(map(shutil.which, ("bash", "curl", "openssl"))),
        reason="needs Linux with bash, curl and openssl",
    ),
]


def unpacked_sources(folder: Path, here: dict[str, str]) -> None:
    """Copy what a release's sources have, with the files of `deploy` for this machine's folders and ports."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    left_out = ("tests/", "bench/", "docs/pictures/", "docs/design/")
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(left_out):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for each in ("ledger.toml", "ledger.service"):
        text = (folder / "deploy" / each).read_text(encoding="utf-8")
        for name, own in here.items():
            text = text.replace(name, own)
        (folder / "deploy" / each).write_text(text)


def test_the_walkthrough_works_from_the_installation_to_the_upgrade(
    offline: dict[str, str], tmp_path: Path
) -> None:
    port, root = free_port(), tmp_path / "root"
    here = {
        "/opt/ledger": str(root / "opt"),
        "/etc/": f"{root}/etc/",
        "/var/lib/ledger": str(root / "var" / "ledger"),
        "8700": str(port),
        "9464": str(free_port()),
    }
    for folder in ("systemd/system", "caddy"):
        (root / "etc" / folder).mkdir(parents=True)
    sources = tmp_path / "sources"
    unpacked_sources(sources, here)
    unit = root / "etc" / "systemd" / "system" / "ledger.service"
    typed = here | {
        "python3 -m venv": f"{sys._base_executable} -m venv",
        "apt update": "true",
        "apt install": "true",
        "systemctl": f"{sys.executable} {SYSTEMCTL} {unit} {root / 'var'}",
        "https://ledger.example": f"http://127.0.0.1:{port}",
    }
    ours = ("LEDGER_", "XDG_", "PYTHON", "VIRTUAL_ENV")
    environment = {name: value for name, value in offline.items() if not name.startswith(ours)}
    environment |= {"PATH": os.defpath}
    reader = Reader(sources, environment, typed, seen={}, installed=True)
    try:
        for block in blocks(ROOT / "docs" / "production.md"):
            if (
                "ls /var/lib/ledger/backups" in block.text
            ):  # the server makes the first one 10 s after its start
                wait_until(lambda: [*(root / "var" / "ledger" / "backups").glob("ledger-*.db")])
            if block.language == "sh":
                reader.follow(block)
        assert httpx.get(f"http://127.0.0.1:{port}/api/health", trust_env=False).json()["ok"] is True
        key_file = root / "var" / "ledger" / "ledger.db.key"
        assert key_file.stat().st_mode & 0o077 == 0
        assert key_file.read_text().strip() not in unit.with_suffix(".journal").read_text()
    finally:
        reader.leave()
        subprocess.run([sys.executable, SYSTEMCTL, unit, root / "var", "stop", "ledger"], check=True)
