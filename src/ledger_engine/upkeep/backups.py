"""Backups of a SQLite file: a whole ledger in one audited file, and how to restore it (docs/backups.md)."""

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
    """The content of the restored ledger, and the path of the former file, if there was one."""

    report: AuditReport
    aside: Path | None


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The result of a recovery.

    `doubt` is a sign that the log does not belong to the file to which it was applied, or None. `damaged` is
    the number of the log's last frames that are left out because they are unreadable.
    """

    report: AuditReport
    doubt: str | None
    damaged: int


def back_up(database: Path, target: Path, *, overwrite: bool = False) -> AuditReport:
    """Write the ledger, in its state at one moment, to the file `target`; servers may continue to write.

    The copy is audited before it gets its name, so a file with that name is always a good backup. Raises
    Conflict if `target` exists and may not be overwritten, and StorageUnavailable.
    """
    _require_target(database, target, overwrite=overwrite)
    with closing(backup.open_to_copy(database)) as source, work_folder(target.parent) as folder:
        copy = folder / target.name
        backup.copy_of_open(source, database, copy)
        source.close()  # closed before the audit, so that nobody waits for the audit
        report = _proven(database, backup.read_copy(copy, audit.verify))
        _put_in_place(copy, target, overwrite=overwrite)
    return report


def restore(source: Path, database: Path, now: int) -> RestoreResult:
    """Replace `database` by the ledger in the file `source`; the former file is kept next to it.

    Raises Conflict if both are the same file. Raises StorageUnavailable if a server or another command uses
    the database, or if the source is not sound.
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
            # Open the copy in the same way as a server, so that a backup of an older version is migrated.
            asyncio.run(_brought_up_to_date(copy))
            report = _proven(source, backup.read_copy(copy, audit.verify))
            aside = _name_aside(database, now)
            was_there = database.exists()
            backup.replace(database, copy, aside, folder)
        return RestoreResult(report, aside if was_there else None)
    finally:
        lock.release()


def recover(database: Path, target: Path) -> RecoveryResult:
    """Write the content of the log of `database` to the new file `target`; nothing else is changed.

    A log that contains every page needs no other file. Otherwise the log is applied to a copy of the existing
    file, and the result must pass the audit. Raises Conflict if there is nothing or too little to recover,
    and StorageUnavailable if a server uses the database or the result is not sound.
    """
    _require_target(database, target, overwrite=False)
    lock = ServingLock(database)
    try:
        log = read_log(database)
        if log is None:
            raise Conflict("not_recoverable", f"{log_file(database)} contains nothing to recover.")
        alone = log.missing(0) == 0
        if not alone and not (database.is_file() and database.stat().st_size):
            raise Conflict(
                "not_recoverable",
                f"{log_file(database)} contains {len(log.pages):,} of {log.page_count:,} pages; the others"
                f" were only in {database}. Put the newest copy of that file there and try again, or restore"
                " a backup.",
            )
        with work_folder(target.parent) as folder:
            copy = folder / target.name
            doubt = None if alone else why_not_its_own(database, log)
            frames = backup.fold(database, copy, alone=alone)
            report = _proven(log_file(database), backup.read_copy(copy, audit.verify))
            _put_in_place(copy, target, overwrite=False)
        return RecoveryResult(report, doubt, max(0, log.frames - frames))
    finally:
        lock.release()


def _require_target(database: Path, target: Path, *, overwrite: bool) -> None:
    """Raise Conflict for a file that cannot or may not be written, or that belongs to the ledger."""
    require_reachable(database)
    _require_file(target)
    if target.exists() and database.exists() and target.samefile(database):
        raise Conflict("not_recoverable", f"{target} is the ledger itself; name another file to write.")
    own = database.resolve()
    if target.resolve() in (own, *companions(own), lock_file(own)):
        raise Conflict("not_recoverable", f"{target} belongs to the ledger; name another file to write.")
    _require_free(target, overwrite=overwrite)


def _require_file(target: Path) -> None:
    """Raise Conflict for a name that cannot be a file's, and the errors of `require_reachable`."""
    if not target.parent.is_dir():
        raise Conflict("not_recoverable", f"There is no folder {target.parent}.")
    if target.is_dir():
        raise Conflict("not_recoverable", f"{target} is a folder; name the file to write.")
    if target.exists() and not target.is_file():
        raise Conflict("not_recoverable", f"{target} is not a regular file; name the file to write.")
    require_reachable(target)


def _require_free(target: Path, *, overwrite: bool) -> None:
    """Raise Conflict for an existing file, unless it may be overwritten."""
    if (
        os.path.lexists(target) and not overwrite
    ):  # `lexists`, because it also finds a link that leads nowhere
        raise Conflict("not_recoverable", f"{target} already exists; use --overwrite to replace it.")
    if any(file.exists() for file in companions(target)):
        raise Conflict("not_recoverable", f"{target} is a database in use.")


def _put_in_place(copy: Path, target: Path, *, overwrite: bool) -> None:
    """Rename a finished file to its name.

    Raises Conflict if somebody has created a file of that name in the meantime.
    """
    try:
        backup.put_in_place(copy, target, overwrite=overwrite)
    except FileExistsError:
        raise Conflict(
            "not_recoverable", f"{target} was created in the meantime; nothing was written."
        ) from None


async def _brought_up_to_date(database: Path) -> None:
    await open_engine(database).close()


def _proven(file: Path, report: AuditReport) -> AuditReport:
    if report.fault is not None:
        raise StorageUnavailable(f"{file} does not verify: {report.fault.message.rstrip('.')}")
    return report


def _name_aside(database: Path, now: int) -> Path:
    stamp = iso(now).translate(str.maketrans("", "", "-:."))
    return database.with_name(f"{database.stem}.before-restore-{stamp}{database.suffix}")
