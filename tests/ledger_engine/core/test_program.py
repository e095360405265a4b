"""What tells the program of one process from that of another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ledger_engine
from ledger_engine.core.program import fingerprint


def test_the_fingerprint_changes_with_a_file_and_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ledger_engine"
    for name in ("__init__.py", "core/__init__.py", "core/ids.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(ledger_engine.__file__).parent / name, package / name)
    monkeypatch.setattr(ledger_engine, "__file__", str(package / "__init__.py"))
    first = fingerprint()
    (package / "core/ids.py").touch()
    (package / "core/ids.pyc").write_bytes(b"compiled")
    assert fingerprint() == first
    (package / "core/ids.py").rename(package / "core/names.py")
    second = fingerprint()
    with (package / "core/names.py").open("a") as file:
        file.write("#")
    assert len({first, second, fingerprint()}) == 3
