"""Mark every test of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest


def mark_folder(folder: Path, items: Iterable[pytest.Item], mark: str) -> None:
    """Add the mark to the tests whose file is in the folder."""
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(mark)
