"""Loading of a data set: its history is made by the engine's own rules, with dates in the past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ledger_engine.access import idempotency
from ledger_engine.access.projects import Project
from ledger_engine.core.clock import DAY, iso
from ledger_engine.core.errors import Conflict, DuplicateIdempotencyKey, LedgerError, StorageUnavailable
from ledger_engine.core.ids import IdSource, moment_of
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit
from ledger_engine.store.books import condition_on
from ledger_engine.store.wrapped_unit import WrappedUnit
from ledger_engine.tools.seed.entries import DataSet
from ledger_engine.tools.seed.fields import BadDataSet
from ledger_engine.tools.seed.steps import History, Step

TABLES = ("accounts", "transactions", "invoices", "users", "orders")


@dataclass(slots=True)
class Progress:
    """How many steps are done; another thread may read it while the work runs."""

    done: int = 0


class UnitInThePast(WrappedUnit):
    """A unit with the history's time, which is set step by step, and with ids made from that time."""

    def __init__(self, unit: Unit, ids: IdSource) -> None:
        super().__init__(unit)
        self._ids = ids
        self._now = 0

    @property
    def now(self) -> int:
        return self._now

    @now.setter
    def now(self, moment: int) -> None:
        self._now = moment

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self._now)


def load(
    unit: Unit, project: Project, data_set: DataSet, steps: Sequence[Step], progress: Progress
) -> dict[str, int]:
    """Load the history into the project's test mode, in this work; return the new objects of each kind.

    It ends at the last midnight (UTC). Raises BadDataSet for a step that the engine's rules forbid, and
    Conflict when the data set was loaded before or the project has records from the history's time: lists and
    running balances are in the order of time, so nothing may be inserted before existing records.
    """
    tenant = tenant_of(project)
    start = start_of(data_set, unit.now)
    before = count(unit, tenant)
    past = UnitInThePast(unit, IdSource())
    past.now = start
    take_once(past, tenant, data_set)
    require_capacity(unit, tenant, start)
    happen(History(past, tenant), past, steps, start, progress)
    after = count(unit, tenant)
    return {table: after[table] - before[table] for table in TABLES}


def tenant_of(project: Project) -> Tenant:
    """Return the tenant of the project's test mode, which data sets are loaded into."""
    return Tenant(
        project.id,
        livemode=False,
        quota=project.limits.stored_objects,
        may_overdraw=project.overdraft == "allow",
    )


def start_of(data_set: DataSet, now: int) -> int:
    """Return when a history starts that ends at the last midnight (UTC), in milliseconds."""
    return now - now % DAY - data_set.days * DAY


def happen(
    history: History, past: UnitInThePast, steps: Sequence[Step], start: int, progress: Progress
) -> None:
    """Make each step at its time. Raises BadDataSet for one that the engine's rules forbid."""
    for step in steps:
        past.now = start + step.at
        try:
            step.happen(history)
        except StorageUnavailable:
            raise
        except LedgerError as error:
            place = f"{step.place}.{error.param}" if error.param else step.place
            raise BadDataSet(place, error.message) from error
        progress.done += 1


def take_once(unit: Unit, tenant: Tenant, data_set: DataSet) -> None:
    """Record that the data set was loaded into the project. Raises Conflict when it was before."""
    try:
        idempotency.take(unit, tenant, f"seed/{quote(data_set.name)[:200]}", tenant.project)
    except DuplicateIdempotencyKey:
        raise loaded_before(tenant, data_set) from None


def loaded_before(tenant: Tenant, data_set: DataSet) -> Conflict:
    """Return the error for loading a data set into a project a second time."""
    return Conflict(
        "duplicate_idempotency_key", f"The data set {data_set.name} was loaded into {tenant.project} before."
    )


def require_capacity(unit: Unit, tenant: Tenant, start: int) -> None:
    """Raise Conflict when the project has records of this time or later."""
    newest = 0
    for table in TABLES:
        row = unit.first(f"SELECT max(id) AS id FROM {table} WHERE {condition_on(table)}", tenant.bind())
        if row is not None and row["id"] is not None:
            newest = max(newest, moment_of(row["id"]))
    if newest >= start:
        raise Conflict(
            "not_recoverable",
            f"{tenant.project} has records up to {iso(newest)}, but the data set begins at {iso(start)}."
            " Create a project for it (`ledger-engine projects create NAME`) and name that with --project.",
        )


def count(unit: Unit, tenant: Tenant) -> dict[str, int]:
    """Return how many objects of each kind the project and mode has."""
    counted = {}
    for table in TABLES:
        row = unit.first(f"SELECT count(*) AS rows FROM {table} WHERE {condition_on(table)}", tenant.bind())
        assert row is not None
        counted[table] = row["rows"]
    return counted
