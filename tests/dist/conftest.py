"""What the tests of several builds share."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def offline(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return an environment in which pip takes what the locks name from a folder, filled once for them.

    Asking the index takes more than half of the CPU time of an installation. Nor is anything compiled, which
    takes half of the rest and is done at the first import of what a test uses.
    """
    locks = [ROOT / "requirements.lock", ROOT / "requirements-build.lock"]
    named = b"".join(lock.read_bytes() for lock in locks)
    digest = hashlib.sha256(named + sys.version.encode()).hexdigest()
    folder: Path = request.config.cache.mkdir("wheels") / digest[:16]
    if not folder.exists():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        words = ["-qq", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        words += [word for lock in locks for word in ("--requirement", str(lock))]
        download = [sys.executable, "-m", "pip", "download", *words, "--dest", unfinished]
        done = subprocess.run(download, stderr=subprocess.PIPE, text=True)
        if "No matching distribution found" in done.stderr:
            pytest.skip("needs a package index, which cannot be reached")
        assert done.returncode == 0, done.stderr
        try:
            unfinished.rename(folder)
        except OSError:  # another process of this run was first
            if not folder.exists():
                raise
            shutil.rmtree(unfinished)
    # To pip a false value turns an option that begins with "no" on, where a false one is its default.
    return os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_NO_COMPILE": "0"}


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, Path]:
    """Return the three wheels of a release by the names of their packages.

    They are built once for all processes of a run.
    """
    base = tmp_path_factory.getbasetemp()
    built = (base if worker_id == "master" else base.parent) / "wheels"
    with FileLock(f"{built}.lock"):
        if not built.exists():
            for package in ("ledger_client", "ledger_engine", "ledger_tui"):
                words = ("-m", "hatchling", "build", "--target", "wheel", "--directory", f"{built}.part")
                folder = ROOT / "src" / package
                subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
            Path(f"{built}.part").rename(built)
    return {wheel.name.split("-")[0]: wheel for wheel in built.iterdir()}
