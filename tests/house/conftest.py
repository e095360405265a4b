"""The files of the repository, for the tests that read them."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Files that tools and programs leave, see .gitignore.
NOT_OURS = {".git", ".venv", ".venv-bench", "build", "dist", "site", "__pycache__", ".hypothesis"}


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Path]:
    """Return every Python file of the two packages."""
    return sorted((ROOT / "src").rglob("*.py"))


@pytest.fixture(scope="session")
def text_files() -> dict[Path, str]:
    """Return every text file of the repository, by its path from the root."""
    found: dict[Path, str] = {}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.endswith("_cache")]
        for name in files:
            path = Path(folder, name)
            if path.parent == ROOT / "data" and name != "README.md":
                continue
            try:
                found[path.relative_to(ROOT)] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return found
