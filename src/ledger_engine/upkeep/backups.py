"""Backups: a whole ledger in one file that is proven good, and the way back (docs/operations.md)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ledger_engine.core.clock import iso
from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.database import backup
from ledger_engine.database.connection import companions
from ledger_engine.database.engine import open_engine
from ledger_engine.database.lock import ServingLock, lock_file
from ledger_engine.upkeep import audit
from ledger_engine.upkeep.audit import Report


@dataclass(frozen=True, slots=True)
class Restored:
    """What the restored ledger holds, and where the one before is kept, if there was one."""

    report: Report
    aside: Path | None


def back_up(database: Path, target: Path, *, overwrite: bool = False) -> Report:
    """Write the ledger as it is at one moment to the file `target`; a server may go on writing meanwhile.

    The copy is audited before it gets its name, so a file of that name is a good backup. Raises Conflict
    when `target` is there and may not be overwritten, and StorageUnavailable.
    """
    if not target.parent.is_dir():
        raise Conflict("not_recoverable", f"There is no folder {target.parent}.")
    if target.is_dir():
        raise Conflict("not_recoverable", f"{target} is a folder; name the file to write.")
    if target.exists() and not target.is_file():
        raise Conflict("not_recoverable", f"{target} is no file; name the file to write.")
    if target.exists() and database.exists() and target.samefile(database):
        raise Conflict("not_recoverable", f"{target} is the ledger itself; name another file to write.")
    if target.resolve() in (*companions(database.resolve()), lock_file(database.resolve())):
        raise Conflict("not_recoverable", f"{target} belongs to the ledger; name another file to write.")
    if target.exists() and not overwrite:
        raise Conflict("not_recoverable", f"{target} is there already; --overwrite replaces it.")
    if any(file.exists() for file in companions(target)):
        raise Conflict("not_recoverable", f"{target} is a database in use.")
    with backup.copied_beside(database, target) as copy:
        report = _proven(database, backup.look(copy, audit.verify))
        try:
            backup.put_in_place(copy, target, overwrite=overwrite)
        except FileExistsError:
            raise Conflict(
                "not_recoverable", f"{target} has come to be meanwhile; nothing was written."
            ) from None
    return report


def restore(source: Path, database: Path, now: int) -> Restored:
    """Put the ledger in the file `source` in the place of `database`, whose former file is kept beside it.

    Raises Conflict for a file restored over itself, and StorageUnavailable while a server or another
    command uses the database, and when the source is not sound.
    """
    if database.exists() and source.exists() and source.samefile(database):
        raise Conflict("not_recoverable", f"{source} is the database itself.")
    lock = ServingLock(database)
    try:
        with backup.copied_beside(source, database) as copy:
            # Opened as a server would: a backup of an older version is brought up to date here.
            report = _proven(source, asyncio.run(_audited(copy)))
            aside = _name_aside(database, now)
            was_there = database.exists()
            backup.set_aside(database, aside)
            backup.put_in_place(copy, database, overwrite=True)
        return Restored(report, aside if was_there else None)
    finally:
        lock.release()


async def _audited(database: Path) -> Report:
    engine = open_engine(database)
    try:
        return await engine.read(audit.verify)
    finally:
        await engine.close()


def _proven(file: Path, report: Report) -> Report:
    if report.fault is not None:
        raise StorageUnavailable(f"{file} does not verify: {report.fault.message.rstrip('.')}")
    return report


def _name_aside(database: Path, now: int) -> Path:
    stamp = iso(now).translate(str.maketrans("", "", "-:."))
    return database.with_name(f"{database.stem}.before-restore-{stamp}{database.suffix}")
