"""Ledgers of other versions: one from before the baseline, and a program with one additional migration."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from ledger_engine.store import schema
from tests.made_once import put_empty_ledger

LATER = "900_later"
_TABLE = "CREATE TABLE later (id {} PRIMARY KEY){};\n"


def put_ledger_before_baseline(path: Path) -> Path:
    """Write a ledger whose record names only migrations from before version 1.0."""
    put_empty_ledger(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM _sqlite_migrations")
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('ledger', 'm021_all_of_an_account_together', '2026-01-01')"
        )
    return path


def put_later_schema(
    folder: Path,
    sqlite: str = _TABLE.format("TEXT", " STRICT, WITHOUT ROWID"),
    postgres: str = _TABLE.format('TEXT COLLATE "C"', ""),
) -> Path:
    """Copy the migrations to `folder` and add one; return what `schema.FOLDER` is in that version."""
    later = Path(shutil.copytree(schema.FOLDER, folder / "schema"))
    for engine, script in (("sqlite", sqlite), ("postgres", postgres)):
        (later / engine / f"{LATER}.sql").write_text(script)
    return later
