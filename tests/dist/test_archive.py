"""The one file, built as `make dist` builds it and run as a stranger would: from an empty folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import httpx
import pytest
from filelock import FileLock

from ledger_engine.tools.seed import reading

ROOT = Path(__file__).resolve().parents[2]
LISTENING = "Listening on "

pytestmark = pytest.mark.process


def build(tree: Path, target: Path, environment: dict[str, str]) -> Path:
    command = [sys.executable, tree / "tools" / "build_archive.py", target]
    subprocess.run(command, check=True, env=environment)
    return target


def copy_of(tree: Path, folder: Path) -> Path:
    """What an archive is made of, elsewhere: the two builds compared below see the same, at two paths."""
    for name in ("src", "seeds", "tools"):
        shutil.copytree(tree / name, folder / name)
    for name in ("pyproject.toml", "README.md", "requirements.lock"):
        shutil.copy(tree / name, folder)
    (folder / "docs").mkdir()
    shutil.copy(tree / "docs" / "interface.md", folder / "docs")  # the rules of `conform`
    return folder


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return what the archive is built of, in a folder that all processes of a run have together."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "archive"
    with FileLock(f"{folder}.lock"):
        return folder if folder.exists() else copy_of(ROOT, folder)


@pytest.fixture(scope="session")
def archive(tree: Path, offline: dict[str, str]) -> Path:
    """Build it as `make dist` does, but compressed at the fastest level: that takes half of the CPU time.

    Each process of the build reads the level from here. What unpacks the archive does not depend on it.
    """
    built = tree / "dist" / "ledger.pyz"
    settings = tree / "settings"
    with FileLock(f"{tree}.lock"):
        if not built.exists():
            settings.mkdir()
            (settings / "sitecustomize.py").write_text(
                "import zlib\nzlib.Z_DEFAULT_COMPRESSION = zlib.Z_BEST_SPEED\n"
            )
            build(tree, built, offline | {"PYTHONPATH": str(settings)})
    return built


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home of its own, where the archive unpacks itself, and nothing that leads to this checkout."""
    home = tmp_path_factory.mktemp("home")
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "LEDGER_", "XDG_"))
    }
    return ours | {"HOME": str(home), "SHIV_ROOT": str(home / "unpacked"), "VIRTUAL_ENV": ""}


@pytest.fixture
def python() -> str:
    """The interpreter behind the virtual environment: what the archive lacks must not come from there."""
    return sys._base_executable


def run(python: str, archive: Path, environment: dict[str, str], folder: Path, *words: str) -> str:
    command = [python, str(archive), *words]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def server(python: str, archive: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The URL of a server run by the archive."""
    command = [python, str(archive), "serve", "--database", str(tmp_path / "ledger.db"), "--port", "0"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        listening = next((line for line in process.stdout if LISTENING in line), None)
        assert listening is not None, f"the server ended with {process.wait()} before it listened"
        yield listening.partition(LISTENING)[2].strip()
    finally:
        process.terminate()
        process.communicate()
    assert process.returncode == 0


def test_the_archive_serves_a_ledger_from_an_empty_folder(server: str) -> None:
    answer = httpx.get(f"{server}/api/health", trust_env=False)
    assert answer.status_code == 200
    assert answer.json()["ok"] is True


def test_the_archive_opens_the_dashboards_help(
    python: str, archive: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    help = run(python, archive, environment, tmp_path, "--help")
    assert "--demo" in help
    assert "\n  keys " not in help, "which is ledger-engine's here"
    assert "completion" not in help


@pytest.mark.parametrize("below_a_file", ["HOME", "SHIV_ROOT"])
def test_a_folder_that_it_cannot_unpack_into_is_named(
    python: str, archive: Path, environment: dict[str, str], tmp_path: Path, below_a_file: str
) -> None:
    (tmp_path / "file").touch()
    changed = environment | {"SHIV_ROOT": ""} | {below_a_file: str(tmp_path / "file" / "home")}
    done = subprocess.run([python, str(archive)], env=changed, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Set SHIV_ROOT to another folder." in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("pretence", "here"),
    [
        ("sys.version_info = (3, 99, 1, 'final', 0)", "Python 3.99 on "),
        ("sysconfig.get_platform = lambda: 'linux-armv7l'", "on linux-armv7l."),
    ],
)
def test_another_python_or_platform_is_one_sentence(
    python: str, archive: Path, environment: dict[str, str], pretence: str, here: str
) -> None:
    program = (
        f"import runpy, sys, sysconfig; {pretence}; runpy.run_path({str(archive)!r}, run_name='__main__')"
    )
    done = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("ledger.pyz was built for Python ")
    assert here in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_first_word_is_a_command_of_the_server(
    python: str, archive: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    assert "--port" in run(python, archive, environment, tmp_path, "serve", "--help")


def test_the_archive_carries_the_demo_data(
    python: str, archive: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    with ZipFile(archive) as packed:
        carried = {PurePosixPath(name) for name in packed.namelist()}
    folder = PurePosixPath("site-packages/ledger_engine/tools/seed/seeds")
    assert {folder / f"{name}.json" for name in reading.names()} <= carried
    run(python, archive, environment, tmp_path, "seed", "minimal", "--database", str(tmp_path / "ledger.db"))


def test_the_same_sources_make_the_same_bytes(
    tree: Path, archive: Path, offline: dict[str, str], tmp_path: Path
) -> None:
    again = tmp_path / "dist" / "ledger.pyz"
    tools = copy_of(tree, tmp_path) / "tools"
    # Compressing takes half of the CPU time of a build, and makes the same bytes of the same bytes.
    program = "import build_archive; build_archive.PACKING += ['--uncompressed']; build_archive.main()"
    subprocess.run([sys.executable, "-c", program, again], cwd=tools, check=True, env=offline)
    assert packed_in(again) == packed_in(archive)


def packed_in(archive: Path) -> tuple[bytes, list[tuple[object, ...]]]:
    """Return what comes before the files of an archive, and each file with all that is packed of it."""
    with ZipFile(archive) as packed:
        files = packed.infolist()
    with archive.open("rb") as whole:
        before = whole.read(files[0].header_offset)
    return before, [
        (each.filename, each.CRC, each.file_size, each.date_time, each.external_attr, each.extra)
        for each in files
    ]
