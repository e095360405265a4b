"""What the tests of several builds share."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
        subprocess.run([sys.executable, "-m", "pip", "download", *words, "--dest", unfinished], check=True)
        try:
            unfinished.rename(folder)
        except OSError:  # another process of this run was first
            if not folder.exists():
                raise
            shutil.rmtree(unfinished)
    # To pip a false value turns an option that begins with "no" on, where a false one is its default.
    return os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_NO_COMPILE": "0"}
