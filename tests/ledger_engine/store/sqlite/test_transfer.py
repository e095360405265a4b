"""The file into which a ledger moves, until it is complete; whole moves are in test_migrate.py."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.store import copy_ends
from ledger_engine.store.copy_ends import fingerprint
from ledger_engine.store.sqlite.transfer import ledger_tables, open_target
from tests.made_once import put_empty_ledger


def indexes(file: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(file)) as connection:
        return set(
            connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''")
        )


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageUnavailable, match=r"there is no folder .*none"),
        open_target(tmp_path / "none" / "new.db"),
    ):
        pass


@pytest.mark.parametrize("companion", ["new.db-wal", "new.db-journal"])
def test_a_leftover_of_an_earlier_file_of_that_name_is_not_taken_for_a_part_of_the_new_one(
    tmp_path: Path, companion: str
) -> None:
    (tmp_path / companion).write_text("part of a file")
    with (
        pytest.raises(Conflict, match="already exists; name a new file"),
        open_target(tmp_path / "new.db"),
    ):
        pass
    assert (tmp_path / companion).read_text() == "part of a file"
    assert [each.name for each in tmp_path.iterdir()] == [companion]


def test_a_complete_file_has_the_indexes_of_a_new_ledger(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    with open_target(file) as target:
        target.finish([], 0)
    assert indexes(file) == indexes(put_empty_ledger(tmp_path / "ledger.db"))


def test_a_file_that_somebody_creates_during_the_copy_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "new.db"

    def fill_late() -> None:
        with open_target(file) as target:
            target.finish([], 0)
            file.write_text("another")

    with pytest.raises(Conflict, match=r"new\.db was created in the meantime, so nothing was copied"):
        fill_late()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["another"]


def test_how_many_rows_were_read_is_reported_also_while_a_table_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_ends, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr("ledger_engine.store.sqlite.transfer.ROWS_AT_ONCE", 1)
    (table,) = [each for each in ledger_tables() if each.name == "servers"]
    with open_target(tmp_path / "new.db") as target:
        target.write(table, [(f"srv_{number}", 1, *[None] * 5) for number in range(5)])
        reported: list[int] = []
        fingerprint(target, table, reported.append)
    assert reported == [2, 2, 1]
