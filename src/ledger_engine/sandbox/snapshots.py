"""Snapshots of the whole ledger, and emptying a project."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ledger_engine.access import api_keys
from ledger_engine.core.errors import InvalidRequest, NotFound, StorageUnavailable
from ledger_engine.core.ids import IdMark, IdSource, SnapshotId
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import endpoints
from ledger_engine.sandbox.clock import ClockState, MovableClock
from ledger_engine.store import Unit
from ledger_engine.store.books import OF_BOOK, OF_TENANT
from ledger_engine.store.engine import Engine
from ledger_engine.store.files import write_private
from ledger_engine.store.pages import Page, PageRequest, page_of

# Emptying one project and mode: delete everything except the project, its books and its API keys


_OF_APPS = f"(SELECT id FROM apps WHERE {OF_TENANT})"
_OF_GRANTS = f"(SELECT id FROM grants WHERE app IN {_OF_APPS})"
# The tables to empty, each with the condition that selects the rows to delete. A table comes before the
# tables to which its rows refer.
EMPTIED_TABLES: dict[str, str] = {
    "requests": OF_TENANT,
    "delivery_attempts": f"delivery IN (SELECT id FROM deliveries WHERE {OF_TENANT})",
    "deliveries": OF_TENANT,
    "webhook_endpoints": OF_TENANT,
    "deleted_webhook_endpoints": OF_TENANT,
    "log_cosignatures": OF_BOOK,
    "log_commitments": OF_BOOK,
    "log_tiles": OF_BOOK,
    "logs": OF_BOOK,
    "events": OF_BOOK,
    "idempotency_keys": OF_TENANT,
    "oauth_tokens": f"grant_id IN {_OF_GRANTS}",
    "grants": f"app IN {_OF_APPS}",
    "apps": OF_TENANT,
    "sign_ins": f"user_id IN (SELECT id FROM users WHERE {OF_TENANT})",
    "orders": OF_TENANT,
    "users": OF_TENANT,
    "invoices": OF_TENANT,
    "transactions": OF_BOOK,
    "accounts": OF_TENANT,
    "settlements": OF_TENANT,
    "counters": OF_TENANT,
}
# Tables whose rows stay: the project, its books, its API keys and their tokens, the list of the servers that
# share the ledger, and the keys that sign the log.
KEPT_TABLES = ("projects", "books", "api_keys", "tokens", "servers", "log_keys")
_COUNTED_TABLES = ("accounts", "transactions", "invoices", "users", "orders", "events", "webhook_endpoints")


@dataclass(slots=True)
class EmptiedProject:
    """The numbers of deleted objects."""

    accounts: int
    transactions: int
    invoices: int
    users: int
    orders: int
    events: int
    webhook_endpoints: int


def empty(unit: Unit, tenant: Tenant) -> EmptiedProject:
    """Delete everything in the project and mode except its keys and their tokens, which continue to work."""
    counts = {table: _count(unit, tenant, table) for table in _COUNTED_TABLES}
    for table, condition in EMPTIED_TABLES.items():
        unit.execute(f"DELETE FROM {table} WHERE {condition}", tenant.bind())
    # Forget which data sets were loaded into the test mode, so that they can be loaded again.
    unit.execute("DELETE FROM seeds WHERE project = :project", {"project": tenant.project})
    unit.announce(endpoints.TOPIC)
    unit.announce(api_keys.TOPIC)  # the tokens of apps were deleted
    return EmptiedProject(**counts)


def _count(unit: Unit, tenant: Tenant, table: str) -> int:
    row = unit.first(f"SELECT count(*) AS rows FROM {table} WHERE {EMPTIED_TABLES[table]}", tenant.bind())
    assert row is not None
    return int(row["rows"])


# Snapshots: copies of the whole ledger. A snapshot also contains the state of the clock, and the *mark*: the
# time and the random part of the last id. After `restore`, new ids continue from the mark. The snapshots of
# the database NAME are files in the folder `NAME.snapshots` next to the database. These files stay when the
# server ends.


log = logging.getLogger("ledger_engine.sandbox.snapshots")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}", re.ASCII)


@dataclass(slots=True)
class Snapshot:
    """A copy of the whole ledger; `bytes` is its size, and `created` is the ledger's time in the copy."""

    OBJECT: ClassVar[str] = "snapshot"

    id: SnapshotId
    name: str
    bytes: int
    created: Moment
    livemode: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    snapshot: Snapshot
    clock: ClockState
    mark: IdMark


class Snapshots:
    """The snapshots of one database file."""

    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(f"{database.name}.snapshots")
        self._ids = IdSource()
        # The ids of deleted snapshots stay known, because a client may still use such an id as a cursor.
        self._removed_ids: set[str] = set()
        snapshots = map(_read_entry, sorted(self._folder.glob("*.json")))
        self._by_name = {entry.snapshot.name: entry for entry in snapshots if entry is not None}

    def page(self, request: PageRequest) -> Page[Snapshot]:
        """Return a page of the snapshots, newest first. Raises InvalidRequest."""
        return page_of([entry.snapshot for entry in self._by_name.values()], request, self._removed_ids)

    def check_new(self, name: str) -> None:
        """Raise InvalidRequest for a name that is not valid, or that another snapshot has."""
        if _NAME.fullmatch(name) is None:
            raise InvalidRequest(
                "invalid_value",
                "name must be 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter"
                " or digit.",
                "name",
            )
        if name in self._by_name:
            raise InvalidRequest(
                "invalid_value", f"The snapshot {name} exists; delete it, or choose another name.", "name"
            )

    def new_id(self, now: int) -> str:
        """Return the id for a new snapshot."""
        return self._ids.new("snp", now)

    async def take(self, engine: Engine, clock: MovableClock, id: str, name: str) -> Snapshot:
        """Copy the ledger between two commits, with the state of the clock. Raises StorageUnavailable."""
        file = self._folder / f"{id}.db"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            mark, state = await engine.copy_to(file, clock.state)
            snapshot = Snapshot(id, name, file.stat().st_size, Moment(state.now), livemode=False)
            entry = _Entry(snapshot, state, mark)
            write_private(file.with_suffix(".json"), json.dumps(asdict(entry)))
        except OSError as error:
            file.unlink(missing_ok=True)
            raise StorageUnavailable(f"the snapshot cannot be written: {error.strerror}") from error
        self._by_name[name] = entry
        return snapshot

    async def restore(self, engine: Engine, clock: MovableClock, name: str) -> Snapshot:
        """Set the ledger, its clock and its ids back to a snapshot.

        Raises NotFound and StorageUnavailable.
        """
        entry = self._find(name)
        file = self._folder / f"{entry.snapshot.id}.db"
        await engine.replace_by(file, entry.mark, lambda: clock.go_back(entry.clock))
        return entry.snapshot

    def get(self, name: str) -> Snapshot:
        """Return the snapshot. Raises NotFound."""
        return self._find(name).snapshot

    def delete(self, name: str) -> Snapshot:
        """Delete the snapshot with its file. Raises NotFound."""
        entry = self._find(name)
        file = self._folder / f"{entry.snapshot.id}.db"
        file.with_suffix(".json").unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        del self._by_name[name]
        self._removed_ids.add(entry.snapshot.id)
        return entry.snapshot

    def _find(self, name: str) -> _Entry:
        entry = self._by_name.get(name)
        if entry is None:
            raise NotFound("snapshot", name)
        return entry


def _read_entry(file: Path) -> _Entry | None:
    """Return the stored data of a snapshot. If its files cannot be read, log a warning and return None."""
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        moment, random = content["mark"]
        entry = _Entry(Snapshot(**content["snapshot"]), ClockState(**content["clock"]), (moment, random))
        file.with_suffix(".db").stat()
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("The snapshot %s cannot be read, so it is not listed: %r", file, error)
        return None
    return entry
