"""What takes long to build: archives for other versions of Python, and the executable that needs none.

They are built by `make soak` alone, and started from an empty folder.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.receivers import receiving

ROOT = Path(__file__).resolve().parents[2]
LISTENING = "Listening on "
KEY = "sk_test_" + "Binary00" * 4

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def only_in_soak(soak: int) -> None:
    if soak == 1:
        pytest.skip("builds for minutes: make soak")


def build(tool: str, target: Path, *more: str) -> Path:
    target.parent.mkdir()
    subprocess.run([sys.executable, ROOT / "tools" / tool, target, *more], check=True)
    return target


@contextmanager
def serving(command: list[str | Path], folder: Path) -> Iterator[str]:
    """Run `serve` in an empty folder with nothing that leads to this checkout; yield its URL."""
    home = folder / "home"
    home.mkdir()
    environment = {"PATH": os.defpath, "HOME": str(home), "LEDGER_API_KEY_TEST": KEY}
    words = ["serve", "--database", str(folder / "ledger.db"), "--port", "0"]
    with subprocess.Popen(
        [*command, *words], cwd=home, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith(LISTENING), line
        yield line.removeprefix(LISTENING).strip()
        server.terminate()
    assert server.returncode == 0


def interpreter(version: str) -> str | None:
    """Return the path of a whole Python of this version that is on the PATH.

    What is found there may be a script that looks for it by the environment, as that of pyenv does.
    """
    found = shutil.which(f"python{version}")
    if found is None:
        return None
    tried = subprocess.run(
        [found, "-c", "import ssl, sqlite3, sys; print(sys.executable)"], capture_output=True, text=True
    )
    return None if tried.returncode else tried.stdout.strip()


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_an_archive_for_another_python_serves_on_that_one_and_refuses_ours(
    version: str, tmp_path: Path
) -> None:
    archive = build("build_archive.py", tmp_path / "dist" / f"ledger-{version}.pyz", version)
    if version != "{}.{}".format(*sys.version_info):
        refused = subprocess.run([sys.executable, archive], capture_output=True, text=True)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
        assert f"ledger-{version}.pyz was built for Python {version} on " in refused.stderr
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} to run it")
    with serving([python, archive], tmp_path) as url:
        assert httpx.get(f"{url}/api/health", trust_env=False).json()["ok"] is True


def output_of(program: Path, *words: str | Path) -> str:
    """Run it outside the checkout, without an environment; it must succeed and write no error."""
    done = subprocess.run([program, *words], capture_output=True, text=True, cwd="/", env={})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def test_the_executable_serves_and_sends_webhooks_from_an_empty_folder(tmp_path: Path) -> None:
    program = build("build_binary.py", tmp_path / "dist" / "ledger")
    assert "--demo" in output_of(program, "--help")
    for page in (["serve", "--help"], ["seed", "minimal", "--database", tmp_path / "seeded.db"]):
        output_of(program, *page)
    with serving([program], tmp_path) as url:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            receiving() as receiver,
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as api,
        ):
            endpoint = {"url": receiver.url, "events": ["*"]}
            assert (await api.post("/v1/webhook_endpoints", json=endpoint)).status_code == 201
            made = await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
            await receiver.until_received(1)
            assert json.loads(receiver.received[0].body)["data"]["object"] == made.json()
            assert (await api.get("/docs")).status_code == 200
            assert (await api.get("/openapi.json")).json()["openapi"]
