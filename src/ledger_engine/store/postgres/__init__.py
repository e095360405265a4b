"""The ledger on PostgreSQL: the second implementation of the database interface, behind the same rooms.

From the network up: `connection.py` sends statements and takes their results, with `rendering.py`,
`values.py` and `errors.py`; `hosts.py` opens connections, and `seen.py` has no older database used;
`migrations.py` makes the tables; `locks.py` has one server at a time write a book; `unit.py` is what a work
sees; `committer.py` commits a group of works, `readers.py` runs those that read, `notifications.py` tells
servers of each other's commits, and `database.py` puts it together. On that stands `leases.py`: which server
does what only one may do. Beside it stand `snapshot.py` for the audit, `transfer.py`, by which a ledger comes
here and leaves, and `dumping.py` for backups. psycopg is an extra of the package.
"""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from ledger_engine.core.clock import Clock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import named
from ledger_engine.limits import Leases

if TYPE_CHECKING:
    from ledger_engine.store.postgres.database import PostgresDatabase
    from ledger_engine.store.snapshot import ReportRows, Snapshot
    from ledger_engine.store.transfer import Source, Target

MISSING = (
    "PostgreSQL needs psycopg, which is not installed: "
    "`pip install '.[postgres]'` in the folder of the ledger's sources installs it"
)


def open_database(
    url: str, clock: Clock, *, serving: bool, accept_loss: bool = False, state: Path | None = None
) -> PostgresDatabase:
    """Open the database at this address as `database.open_database` does.

    Raises StorageUnavailable when psycopg is missing, and when the database cannot be used.
    """
    _require_driver(url)
    from ledger_engine.store.postgres import database

    return database.open_database(url, clock, serving=serving, accept_loss=accept_loss, state=state)


def leases_of(database: PostgresDatabase) -> Leases:
    """Return the leases of a server on this database."""
    from ledger_engine.store.postgres.leases import PostgresLeases

    return PostgresLeases(database)


def open_snapshot(url: str, readers: int, report: ReportRows) -> AbstractContextManager[Snapshot]:
    """Open the database for threads that see one state of it. Raises StorageUnavailable."""
    _require_driver(url)
    from ledger_engine.store.postgres import snapshot

    return snapshot.open_snapshot(url, readers, report)


def open_source(url: str) -> AbstractContextManager[Source]:
    """Open the database to copy it to another engine, as `transfer.open_source` does."""
    _require_driver(url)
    from ledger_engine.store.postgres import transfer

    return transfer.open_source(url)


def open_target(url: str, first_project: str | None) -> AbstractContextManager[Target]:
    """Open the database to be filled from another engine, as `transfer.open_target` does."""
    _require_driver(url)
    from ledger_engine.store.postgres import transfer

    return transfer.open_target(url, first_project)


def dump(url: str, snapshot: str, target: Path) -> AbstractContextManager[None]:
    """Dump a snapshot to a file while a block runs, as `dumping.dump` does."""
    _require_driver(url)
    from ledger_engine.store.postgres import dumping

    return dumping.dump(url, snapshot, target)


def load(source: Path, url: str) -> None:
    """Restore a dump into an empty database, as `dumping.load` does."""
    _require_driver(url)
    from ledger_engine.store.postgres import dumping

    dumping.load(source, url)


def _require_driver(url: str) -> None:
    if importlib.util.find_spec("psycopg") is None:
        missing = StorageUnavailable(MISSING)
        missing.args = (f"Cannot open {named(url)}: {MISSING}.",)  # nothing was to be changed yet
        raise missing
