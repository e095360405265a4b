"""Backups of a ledger on PostgreSQL: a dump of the very snapshot that was audited, and how to restore it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import named
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.store.files import work_folder
from ledger_engine.store.postgres import require_driver
from ledger_engine.store.sqlite.connection import make_private
from ledger_engine.upkeep import backups
from ledger_engine.verify import audit
from ledger_engine.verify.audit import Report

_THREADS = 3


def back_up(url: str, target: Path, *, overwrite: bool = False) -> Report:
    """Write the ledger as it is at one moment to the file `target` with `pg_dump`; servers may keep writing.

    What is dumped is audited meanwhile, and the dump gets its name only if it is sound. Raises Conflict when
    `target` exists and may not be overwritten, or `pg_dump` is missing or too old, and StorageUnavailable.
    """
    backups.require_file(target)
    backups.require_free(target, overwrite=overwrite)
    require_driver(url)
    from ledger_engine.store.postgres import dumping

    with work_folder(target.parent) as folder, open_snapshot(url, _THREADS) as snapshot:
        dump = folder / target.name
        make_private(dump)
        with dumping.dump(url, snapshot.name, dump):
            report = _proven(url, audit.verify_all(snapshot.start))
        backups.put_in_place(dump, target, overwrite=overwrite)
    return report


def restore(source: Path, url: str) -> Report:
    """Restore a dump into an empty database, and audit it there.

    Raises Conflict for a database that is not empty, and without a `pg_restore`; StorageUnavailable.
    """
    if not source.is_file():
        raise StorageUnavailable(f"there is no file {source}")
    require_driver(url)
    from ledger_engine.store.postgres import dumping

    dumping.load(source, url)
    asyncio.run(_brought_up_to_date(url))
    with open_snapshot(url, _THREADS) as snapshot:
        return _proven(url, audit.verify_all(snapshot.start))


async def _brought_up_to_date(url: str) -> None:
    await open_engine(url).close()


def _proven(url: str, report: Report) -> Report:
    if report.fault is not None:
        raise StorageUnavailable(f"{named(url)} does not verify: {report.fault.message.rstrip('.')}")
    return report
