"""Copying the SQLite file that is served, and putting a copy in its place, without a stop."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from ledger_engine.core.ids import IdMark
from ledger_engine.store import T, backup, migrations
from ledger_engine.store.sqlite import SqliteDatabase


class SqliteRewinder:
    """The `Rewinder` of a SQLite file. Both steps run in the writer's thread, so no commit is half of one."""

    def __init__(self, path: Path, database: SqliteDatabase) -> None:
        self._path = path
        self._database = database

    async def copy_to(self, file: Path, note: Callable[[], T]) -> tuple[IdMark, T]:
        def copy(writer: sqlite3.Connection) -> tuple[IdMark, T]:
            backup.copy_of_open(writer, self._path, file, durable=False)
            return self._database.ids.mark(), note()

        return await self._database.between_groups(copy)

    async def replace_by(self, file: Path, mark: IdMark, then: Callable[[], None]) -> None:
        def replace(writer: sqlite3.Connection) -> None:
            # The new pages go through the log: whoever reads goes on reading, and a crash leaves all or none.
            backup.overwrite(writer, file)
            self._database.ids.go_back(mark)
            then()
            migrations.apply(writer)

        await self._database.between_groups(replace)
