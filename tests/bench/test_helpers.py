"""The package without the helpers' code, which the benchmark compares with."""

from __future__ import annotations

from pathlib import Path

from bench.helpers import copy_package


def test_the_copy_lacks_the_helpers_code_and_nothing_else(tmp_path: Path) -> None:
    whole, bare = (
        copy_package(tmp_path / "with", helpers=True),
        copy_package(tmp_path / "bare", helpers=False),
    )
    lacking = {file.relative_to(whole) for file in whole.rglob("*.py")} - {
        file.relative_to(bare) for file in bare.rglob("*.py")
    }
    folders = {"/".join(file.parts[1:-1]) for file in lacking}
    assert folders == {"sandbox", "testing"}
