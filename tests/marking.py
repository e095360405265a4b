"""Mark every test of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest


def mark_folder(folder: Path, items: Iterable[pytest.Item], mark: str) -> None:
    """Add the mark to the tests whose file is in the folder."""
    beginning = f"{folder}{os.sep}"  # comparing paths would take a twentieth of the collecting
    for item in items:
        if str(item.path).startswith(beginning):
            item.add_marker(mark)
