"""What `make release` builds of the last commit: each file is installed, and started from an empty folder.

It takes minutes, so it is a part of `make soak` alone (CONTRIBUTING.md#a-release).
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import httpx
import pytest

from tests.dist.served import KEY, serving
from tests.receivers import receiving

ROOT = Path(__file__).resolve().parents[2]

# A build takes minutes, and the machine may have others to do meanwhile.
pytestmark = [pytest.mark.process, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def release(soak: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the release."""
    if soak == 1:
        pytest.skip("builds for minutes: make soak")
    return built_in(tmp_path_factory.mktemp("once"))


def built_in(folder: Path, repository: Path = ROOT) -> Path:
    """Build the release in a clone, as one builds it on another machine."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", repository, clone], check=True)
    done = subprocess.run([sys.executable, "tools/release.py"], cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (version,) = (clone / "dist").iterdir()
    return version


def only(release: Path, pattern: str) -> Path:
    (found,) = release.glob(pattern)
    return found


def is_served(url: str) -> bool:
    """Return whether the server there posts a transaction."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False) as api:
        account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()
        posting = {"account": account["id"], "amount": 1250, "type": "credit"}
        return api.post("/v1/transactions", json=posting).json()["balance_after"] == 1250


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


def installed(folder: Path, *requirements: str | Path, options: tuple[str, ...] = ()) -> Path:
    """Install into an environment that is empty; return its folder of programs."""
    subprocess.run([sys._base_executable, "-m", "venv", folder], check=True)
    command = [folder / "bin" / "pip", "install", "-qq", "--disable-pip-version-check", *options]
    subprocess.run([*command, *requirements], cwd=folder, check=True)
    return folder / "bin"


def output_of(program: Path, *words: str | Path) -> str:
    """Run it outside the checkout, without an environment; it must succeed and write no error."""
    done = subprocess.run([program, *words], capture_output=True, text=True, cwd="/", env={})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_built_again_elsewhere_it_has_the_same_checksums(release: Path, tmp_path: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=release, check=True)
    again = built_in(tmp_path, repository=release.parents[1])  # which has the same commit
    assert (again / "SHA256SUMS").read_text() == (release / "SHA256SUMS").read_text()


@pytest.mark.parametrize(("pattern", "count"), [("ledger_*.whl", 3), ("ledger-*.tar.gz", 1)])
def test_the_programs_serve_in_an_empty_environment(
    release: Path, pattern: str, count: int, tmp_path: Path
) -> None:
    files = sorted(release.glob(pattern))
    assert len(files) == count
    programs = installed(tmp_path / "environment", *files)
    assert output_of(programs / "ledger-tui", "--version").split()[1] == release.name
    output_of(programs / "ledger-engine", "seed", "minimal", "--database", tmp_path / "seeded.db")
    with serving([programs / "ledger-engine"], tmp_path) as url:
        assert is_served(url)


def test_the_client_works_in_an_empty_environment(release: Path, tmp_path: Path) -> None:
    programs = installed(tmp_path / "environment", only(release, "ledger_client-*.whl"))
    with serving([sys.executable, "-m", "ledger_engine"], tmp_path) as url:
        used = f"from ledger_client import Ledger; print(*Ledger({url!r}, {KEY!r}).accounts.list())"
        assert output_of(programs / "python", "-c", used) == "\n"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_an_archive_for_another_python_serves_on_that_one_and_refuses_ours(
    release: Path, version: str, tmp_path: Path
) -> None:
    archive = release / f"ledger-{version}.pyz"
    if version != "{}.{}".format(*sys.version_info):
        refused = subprocess.run([sys.executable, archive], capture_output=True, text=True)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
        assert f"ledger-{version}.pyz was built for Python {version} on " in refused.stderr
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} to run it")
    with serving([python, archive], tmp_path) as url:
        assert is_served(url)


async def test_the_executable_serves_and_sends_webhooks(release: Path, tmp_path: Path) -> None:
    program = release / "ledger"
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


def test_an_images_context_installs_and_serves_as_its_containerfile_does(
    release: Path, tmp_path: Path
) -> None:
    """The commands of the Containerfile, without a container."""
    with tarfile.open(only(release, "ledger-image-*.tar")) as packed:
        packed.extractall(tmp_path, filter="data")
    context = only(tmp_path, "ledger-*")
    recipe = (context / "deploy" / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", recipe, re.MULTILINE)
    assert [name for names in copied for name in names.split() if not (context / name).exists()] == []
    locks = ("-r", context / "requirements-build.lock", "-r", context / "requirements-engine.lock")
    programs = installed(tmp_path / "environment", *locks, options=("--require-hashes",))
    command = [programs / "pip", "install", "-qq", "--no-deps", "--no-build-isolation"]
    packages = [context / "src" / "ledger_client", context / "src" / "ledger_engine"]
    subprocess.run([*command, *packages], check=True)
    assert not (programs / "ledger-tui").exists()
    with serving([programs / "ledger-engine"], tmp_path) as url:
        assert is_served(url)


def test_the_bill_of_materials_lists_the_wheels_and_each_package_of_the_lock_with_its_hashes(
    release: Path,
) -> None:
    bill = json.loads(only(release, "*.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    hashes = {
        (part["name"], part.get("version")): {
            each["content"] for reference in part["externalReferences"] for each in reference["hashes"]
        }
        for part in bill["components"]
        if "externalReferences" in part
    }
    sums = (release / "SHA256SUMS").read_text()
    for name in ("ledger-client", "ledger-engine", "ledger-tui"):
        (wheel,) = (part for part in bill["components"] if part["name"] == name)
        file = f"{name.replace('-', '_')}-{release.name}-py3-none-any.whl"
        assert f"{wheel['hashes'][0]['content']}  {file}\n" in sums
        assert wheel["version"] == release.name
    lock = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    pins = re.findall(r"(?m)^([\w.-]+)(?:\[.+?\])?==(\S+) (.+)$", lock)
    assert len(pins) > 30
    assert {(name, version): set(re.findall(r"sha256:(\w+)", rest)) for name, version, rest in pins} == hashes
