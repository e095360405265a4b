"""The file into which a ledger moves, until it is complete; whole moves are in test_migrate.py."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.store import transfer
from ledger_engine.store.sqlite.log import unfinished_of
from ledger_engine.store.sqlite.transfer import ledger_tables, open_target
from ledger_engine.store.transfer import fingerprint
from tests.made_once import put_empty_ledger


def indexes(file: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(file)) as connection:
        return set(
            connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''")
        )


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageUnavailable, match=r"there is no folder .*none"),
        open_target(tmp_path / "none" / "new.db", None),
    ):
        pass


@pytest.mark.parametrize("companion", ["new.db-wal", "new.db-journal"])
def test_what_an_earlier_file_of_that_name_left_is_not_taken_for_a_part_of_the_new_one(
    tmp_path: Path, companion: str
) -> None:
    (tmp_path / companion).write_text("part of a file")
    with (
        pytest.raises(Conflict, match="already exists; name a new file"),
        open_target(tmp_path / "new.db", None),
    ):
        pass
    assert (tmp_path / companion).read_text() == "part of a file"
    assert not unfinished_of(tmp_path / "new.db").exists()


def test_one_that_was_interrupted_while_it_made_its_indexes_makes_the_others(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    with open_target(file, None) as target:
        target.finish([], 0)
    with closing(sqlite3.connect(unfinished_of(file))) as connection:
        connection.execute("DROP INDEX transactions_by_type")
    with closing(sqlite3.connect(unfinished_of(file))) as connection:
        kept = connection.execute("SELECT name FROM sqlite_master WHERE name = 'events_about'").fetchall()
    assert len(kept) == 1
    with open_target(file, None) as target:
        target.finish([], 0)
        target.finish([], 0)
        target.complete()
    assert indexes(file) == indexes(put_empty_ledger(tmp_path / "ledger.db"))


def test_how_many_rows_were_read_is_reported_also_while_a_table_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr("ledger_engine.store.sqlite.transfer.ROWS_AT_ONCE", 1)
    (table,) = [each for each in ledger_tables() if each.name == "servers"]
    with open_target(tmp_path / "new.db", None) as target:
        target.write(table, [(f"srv_{number}", 1) for number in range(5)])
        reported: list[int] = []
        fingerprint(target, table, reported.append)
    assert reported == [2, 2, 1]
