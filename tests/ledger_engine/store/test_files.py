"""Folders for files that are being made: private, and gone afterwards."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ledger_engine.store import files as module
from ledger_engine.store.files import work_folder


def test_it_is_private_and_gone_at_the_end_with_what_killed_commands_left(tmp_path: Path) -> None:
    left = tmp_path / ".ledger-part-0123abcd"
    left.mkdir()
    (left / "half.db").touch()
    with work_folder(tmp_path) as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "new.db").touch()
        assert [*tmp_path.iterdir()] == [folder]
        with work_folder(tmp_path) as second:
            assert {*tmp_path.iterdir()} == {folder, second}
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_was_removed_as_a_leftover_before_it_was_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, removed = module._lock_folder, list[Path]()

    def remove_the_first(folder: Path) -> int | None:
        if not removed:
            removed.append(folder)
            folder.rmdir()
        return hold(folder)

    monkeypatch.setattr(module, "_lock_folder", remove_the_first)
    with work_folder(tmp_path) as folder:
        assert folder.is_dir()
        assert folder not in removed


def test_a_folder_that_was_replaced_before_it_was_locked_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever held it would remove the other one, in which somebody works."""
    folder = tmp_path / ".ledger-part-0123abcd"
    folder.mkdir()
    lock = module.fcntl.flock

    def replace_then_lock(descriptor: int, how: int) -> None:
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        lock(descriptor, how)

    with monkeypatch.context() as patch:
        patch.setattr(module.fcntl, "flock", replace_then_lock)
        assert module._lock_folder(folder) is None
    held = module._lock_folder(folder)
    assert held is not None
    os.close(held)
