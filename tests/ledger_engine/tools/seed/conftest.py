"""Data sets in files of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.tools.seed.reading import DataSet, read

Written = Callable[..., DataSet]

BANK = {"ref": "bank", "name": "Bank", "currency": "EUR"}
TILL = {"ref": "till", "name": "Till", "currency": "EUR"}
ADA = {"ref": "ada", "name": "Ada", "email": "ada@example.com"}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Return a function that writes a data set of ten days with two accounts and a user, and reads it."""

    def write(name: str = "made", **fields: Any) -> DataSet:
        value = {"title": "Made up", "days": 10, "accounts": [BANK, TILL], "users": [ADA], **fields}
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(value), encoding="utf-8")
        return read(file)

    return write
