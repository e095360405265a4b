"""Backs up a SQLite file to one audited file, restores a backup, and recovers a lost file from its WAL.

The WAL is SQLite's write-ahead log; below, `log` means this file.

See docs/backups.md.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ledger_engine.core.clock import iso
from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.store.engine import open_engine
from ledger_engine.store.files import work_folder
from ledger_engine.store.sqlite import backup
from ledger_engine.store.sqlite.connection import companions
from ledger_engine.store.sqlite.lock import ServingLock, lock_file
from ledger_engine.store.sqlite.log import log_file, read_log, require_reachable, why_not_its_own
from ledger_engine.verify import audit
from ledger_engine.verify.audit import AuditReport


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore.

    `report` describes the content of the restored ledger. `aside` is the new path of the file that was
    replaced; None if there was no file.
    """

    report: AuditReport
    aside: Path | None


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The result of a recovery.

    `report` describes the content of the recovered ledger. `doubt` is a reason to think that the log belongs
    to another file, or None. `damaged` is the number of unreadable frames (copies of pages) at the end of the
    log; the recovery has left these frames out.
    """

    report: AuditReport
    doubt: str | None
    damaged: int


def back_up(database: Path, target: Path, *, overwrite: bool = False) -> AuditReport:
    """Copy the ledger, as it is at one moment, to the file `target`. Servers may continue to write.

    The copy is audited before it gets the name `target`, so a file with this name is always a good backup.
    Raises StorageUnavailable. Raises Conflict if `target` cannot be written, or exists and `overwrite` is
    false.
    """
    _require_target(database, target, overwrite=overwrite)
    with closing(backup.open_to_copy(database)) as source, work_folder(target.parent) as folder:
        copy = folder / target.name
        backup.copy_of_open(source, database, copy)
        source.close()  # the audit reads only the copy, so do not keep the ledger open for so long
        report = _require_sound(database, backup.read_copy(copy, audit.verify))
        _put_in_place(copy, target, overwrite=overwrite)
    return report


def restore(source: Path, database: Path, now: int) -> RestoreResult:
    """Replace the file `database` by a copy of the ledger in the file `source`.

    The former file stays in the same folder under another name. Raises Conflict if `source` is the file
    `database` itself. Raises StorageUnavailable if a server or another command uses the database, or if the
    source does not pass the audit.
    """
    require_reachable(database)
    if database.exists() and source.exists() and source.samefile(database):
        raise Conflict("not_recoverable", f"{source} is the database itself.")
    database = database.resolve()
    lock = ServingLock(database)
    try:
        with work_folder(database.parent) as folder:
            copy = folder / database.name
            backup.copy(source, copy)
            # Open the copy as a server does, because this migrates a backup that an older version has made.
            asyncio.run(_migrate(copy))
            report = _require_sound(source, backup.read_copy(copy, audit.verify))
            aside = _name_aside(database, now)
            was_there = database.exists()
            backup.replace(database, copy, aside, folder)
        return RestoreResult(report, aside if was_there else None)
    finally:
        lock.release()


def recover(database: Path, target: Path) -> RecoveryResult:
    """Write the ledger from the write-ahead log of `database` to the new file `target`.

    No other file changes. Pages that the log lacks are copied from the file `database`.

    Raises Conflict if the log contains nothing, or if it lacks pages and the file `database` is missing or
    empty. Raises StorageUnavailable if a server uses the database, or if the ledger in `target` would not
    pass the audit.
    """
    _require_target(database, target, overwrite=False)
    lock = ServingLock(database)
    try:
        log = read_log(database)
        if log is None:
            raise Conflict("not_recoverable", f"{log_file(database)} contains nothing to recover.")
        is_complete = log.missing(0) == 0
        if not is_complete and not (database.is_file() and database.stat().st_size):
            raise Conflict(
                "not_recoverable",
                f"{log_file(database)} contains {len(log.pages):,} of {log.page_count:,} pages; the rest was"
                f" only in {database}. Put the newest copy of {database.name} there and try again, or restore"
                " a backup.",
            )
        with work_folder(target.parent) as folder:
            copy = folder / target.name
            doubt = None if is_complete else why_not_its_own(database, log)
            frames = backup.fold(database, copy, alone=is_complete)
            report = _require_sound(log_file(database), backup.read_copy(copy, audit.verify))
            _put_in_place(copy, target, overwrite=False)
        return RecoveryResult(report, doubt, max(0, log.frames - frames))
    finally:
        lock.release()


def _require_target(database: Path, target: Path, *, overwrite: bool) -> None:
    """Raise Conflict if a backup or recovery must not write the file `target`.

    The reasons: `target` belongs to the ledger, it cannot be written, or it exists and `overwrite` is false.
    """
    require_reachable(database)
    _require_file(target)
    if target.exists() and database.exists() and target.samefile(database):
        raise Conflict("not_recoverable", f"{target} is the ledger itself; name another file to write.")
    own = database.resolve()
    if target.resolve() in (own, *companions(own), lock_file(own)):
        raise Conflict("not_recoverable", f"{target} belongs to the ledger; name another file to write.")
    _require_free(target, overwrite=overwrite)


def _require_file(target: Path) -> None:
    """Raise Conflict if a regular file cannot be written at `target`.

    Raises the errors of `require_reachable` too.
    """
    if not target.parent.is_dir():
        raise Conflict("not_recoverable", f"There is no folder {target.parent}.")
    if target.is_dir():
        raise Conflict("not_recoverable", f"{target} is a folder; name the file to write.")
    if target.exists() and not target.is_file():
        raise Conflict("not_recoverable", f"{target} is not a regular file; name the file to write.")
    require_reachable(target)


def _require_free(target: Path, *, overwrite: bool) -> None:
    """Raise Conflict if `target` exists and `overwrite` is false, or if `target` is a database in use."""
    if os.path.lexists(target) and not overwrite:  # `lexists` also finds a symbolic link to no file
        raise Conflict("not_recoverable", f"{target} already exists; use --overwrite to replace it.")
    if any(file.exists() for file in companions(target)):
        raise Conflict("not_recoverable", f"{target} is a database in use.")


def _put_in_place(copy: Path, target: Path, *, overwrite: bool) -> None:
    """Rename the finished copy to `target`.

    Without `overwrite`, raises Conflict if somebody has created `target` during the command.
    """
    try:
        backup.put_in_place(copy, target, overwrite=overwrite)
    except FileExistsError:
        raise Conflict(
            "not_recoverable", f"{target} was created during the command; nothing was written."
        ) from None


async def _migrate(database: Path) -> None:
    await open_engine(database).close()


def _require_sound(file: Path, report: AuditReport) -> AuditReport:
    """Return the report. Raises StorageUnavailable, which names `file`, if the audit found a fault."""
    if report.fault is not None:
        raise StorageUnavailable(f"{file} does not verify: {report.fault.message.rstrip('.')}")
    return report


def _name_aside(database: Path, now: int) -> Path:
    """Return the path to which a restore moves the former file."""
    stamp = iso(now).translate(str.maketrans("", "", "-:."))
    return database.with_name(f"{database.stem}.before-restore-{stamp}{database.suffix}")
