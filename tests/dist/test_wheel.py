"""The wheels in an empty environment: they run the tutorial (docs/tutorial.md) from beginning to end.

And the ways of README.md and docs/deploy.md install the sources.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.pages import ROOT, blocks
from tests.reader import Reader
from tests.test_pages import free_port

PAGE = ROOT / "docs" / "tutorial.md"
PIPX, UV, ENVIRONMENT = (
    block.text
    for page in (ROOT / "README.md", ROOT / "docs" / "deploy.md")
    for block in blocks(page)
    if block.run_by == "tests/dist/test_wheel.py"
)
WAYS = {line.split()[0]: line for line in (PIPX, UV)}

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl", "tmux"))),
        reason="needs bash, curl and tmux; on Debian and Ubuntu: apt install curl tmux",
    ),
]


def test_the_wheels_run_the_tutorial_from_beginning_to_end(
    wheels: dict[str, Path], offline: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    for wheel in wheels.values():
        shutil.copy(wheel, folder)
    ours = ("LEDGER_", "XDG_", "PYTHON", "VIRTUAL_ENV")
    environment = {name: value for name, value in offline.items() if not name.startswith(ours)}
    port = str(free_port())
    environment |= {
        "PATH": os.defpath,
        "LEDGER_PORT": port,
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    here = {"python3 -m venv": f"{sys._base_executable} -m venv", "8700": port, "9000": str(free_port())}
    reader = Reader(folder, environment, here, seen={}, installed=True)
    try:
        for block in blocks(PAGE):
            if block.language or block.file:
                reader.follow(block)
    finally:
        reader.leave()


def test_the_page_about_deployment_installs_both_programs_into_a_virtual_environment(
    offline: dict[str, str], tmp_path: Path
) -> None:
    here = {"/path/to/ledger": str(ROOT), "python3 -m venv": f"{sys._base_executable} -m venv"}
    script = ENVIRONMENT
    for text, stands_for in here.items():
        script = script.replace(text, stands_for)
    for program in ("ledger-engine", "ledger-tui"):
        script += f"command -v {program}\n{program} --version\n"
    done = subprocess.run(["bash", "-euc", script], env=offline, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for program in ("ledger-engine", "ledger-tui"):
        assert f"{tmp_path}/ledger-env/bin/{program}\n{program} " in done.stdout


@pytest.mark.parametrize("way", ["pipx", "uv"])
def test_each_tool_of_the_pages_installs_both_programs(
    way: str, offline: dict[str, str], tmp_path: Path
) -> None:
    assert WAYS.keys() == {"pipx", "uv"}
    programs = tmp_path / "bin"
    environment = offline | {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(programs),
        "PIPX_DEFAULT_PYTHON": sys._base_executable,
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_FIND_LINKS": offline["PIP_FIND_LINKS"],
        "UV_OFFLINE": "1",
        "UV_PYTHON": sys._base_executable,
        "UV_TOOL_BIN_DIR": str(programs),
        "UV_TOOL_DIR": str(tmp_path / "uv"),
    }
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    if not shutil.which(way, path=path):
        pytest.skip(f"needs {way}; on Debian and Ubuntu: apt install {way}")
    command = WAYS[way].replace("/path/to/ledger", str(ROOT))
    done = subprocess.run(
        command, shell=True, env=environment | {"PATH": path}, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for program in ("ledger-engine", "ledger-tui"):
        said = subprocess.run([programs / program, "--version"], capture_output=True, text=True, check=True)
        assert said.stdout.startswith(f"{program} ")
