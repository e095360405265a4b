"""Loads a data set: the whole history in one transaction, through the engine's own rules.

A load that fails or is interrupted changes nothing. A new ledger is created in a hidden folder next to its
path, and moved to its path when it is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ledger_engine.access import projects, quotas
from ledger_engine.access.projects import Project
from ledger_engine.core.clock import DAY, iso
from ledger_engine.core.errors import Conflict, LedgerError, StorageUnavailable
from ledger_engine.core.ids import IdSource, moment_of
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import BookWork, LongWork, Unit, Work
from ledger_engine.store.books import condition_on
from ledger_engine.store.engine import open_engine
from ledger_engine.store.files import work_folder
from ledger_engine.store.sqlite import backup
from ledger_engine.store.sqlite.log import require_own_log
from ledger_engine.tools.seed.reading import BadDataSet, DataSet
from ledger_engine.tools.seed.steps import SeedHistory, SeedStep, UnitInThePast, steps_of

TABLES = ("accounts", "transactions", "invoices", "users", "orders")


class LoadingStopped(Exception):
    """Raised inside the transaction of an interrupted load, which then changes nothing."""


@dataclass(slots=True)
class LoadingProgress:
    """The progress of a load: `done` of `steps` steps are finished.

    While the load runs, another thread reads these numbers. It stops the load by setting `is_stopped`.
    """

    done: int = 0
    steps: int = 0
    is_stopped: bool = False

    def count(self) -> None:
        """Count a step. Raises LoadingStopped."""
        if self.is_stopped:
            raise LoadingStopped
        self.done += 1


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The id of the project into which a data set was loaded, and the number of new objects in each table."""

    project: str
    counts: dict[str, int]


async def load(
    database: Location, project: str | None, data_set: DataSet, progress: LoadingProgress | None = None
) -> LoadResult:
    """Load the data set into the project with this id, by default the first project.

    If the ledger contains no project, one is created. A load that fails changes nothing. Call this in a
    process that has not opened the ledger.

    Raises the errors of `load_into`, NotFound, and StorageUnavailable.
    """
    progress = progress or LoadingProgress()
    work = partial(load_into, project=project, data_set=data_set, steps=steps_of(data_set), progress=progress)
    if not _is_missing(database):
        return await _write(database, project, work, progress)
    assert isinstance(database, Path)
    require_own_log(database)
    with work_folder(database.parent) as folder:
        result = await _write(folder / database.name, project, work, progress)
        try:
            backup.put_in_place(folder / database.name, database, overwrite=False)
        except FileExistsError:
            raise Conflict(
                "not_recoverable", f"{database} was created during the load; nothing was loaded."
            ) from None
    return result


async def load_if_empty(database: Location, data_set: DataSet) -> None:
    """Load the data set into the first project if its test mode is empty; see `load`."""
    if not _is_missing(database):
        engine = open_engine(database)
        try:
            if not await engine.read(_awaits_data):
                return
        finally:
            await engine.close()
    await load(database, None, data_set)


def _is_missing(database: Location) -> bool:
    return isinstance(database, Path) and not database.exists()


async def _write(
    database: Location, project: str | None, work: Work[LoadResult], progress: LoadingProgress
) -> LoadResult:
    """Run the load as one transaction. If the project exists, other projects may write at the same time."""
    engine = open_engine(database)
    try:
        first = await engine.read(projects.first) if project is None else None
        id = project if first is None else first.id
        return await engine.write(LongWork(work if id is None else BookWork(work, (id, False))))
    except asyncio.CancelledError:
        progress.is_stopped = True  # without this, `engine.close` would wait until the load is complete
        raise
    finally:
        await engine.close()


def _awaits_data(unit: Unit) -> bool:
    first = projects.first(unit)
    return first is None or quotas.stored_objects(unit, tenant_of(first)) == 0


def load_into(
    unit: Unit, project: str | None, data_set: DataSet, steps: Sequence[SeedStep], progress: LoadingProgress
) -> LoadResult:
    """Load the data set within this transaction.

    Raises BadDataSet for a step that the engine's rules forbid, and Conflict if the data set was loaded
    before. Raises Conflict too if the project contains a record later than the start of the history: lists
    and running balances are in the order of time, so no record may be inserted before an existing record.
    """
    tenant = tenant_of(projects.to_add_to(unit, project))
    start = start_of(data_set, unit.now)
    row = unit.first(
        "INSERT INTO seeds (project, name) VALUES (:project, :name) ON CONFLICT DO NOTHING RETURNING name",
        {"project": tenant.project, "name": data_set.name},
    )
    if row is None:
        raise Conflict(
            "duplicate_idempotency_key",
            f"The data set {data_set.name} was loaded into {tenant.project} before.",
        )
    _require_older(unit, tenant, start)
    before = _count(unit, tenant)
    progress.done, progress.steps = 0, len(steps)  # the engine may run the load again: start at 0 each time
    carry_out(SeedHistory(), UnitInThePast(unit, IdSource()), tenant, steps, start, progress.count)
    after = _count(unit, tenant)
    return LoadResult(tenant.project, {table: after[table] - before[table] for table in TABLES})


def tenant_of(project: Project) -> Tenant:
    """Return the tenant that data sets are loaded into: the project's test mode."""
    return Tenant(
        project.id,
        livemode=False,
        quota=project.limits.stored_objects,
        may_overdraw=project.overdraft == "allow",
    )


def start_of(data_set: DataSet, now: int) -> int:
    """Return the start in milliseconds of a history that ends at the last midnight (UTC)."""
    return now - now % DAY - data_set.days * DAY


def carry_out(
    history: SeedHistory,
    unit: UnitInThePast,
    tenant: Tenant,
    steps: Sequence[SeedStep],
    start: int,
    count: Callable[[], None] = lambda: None,
) -> None:
    """Carry out each step at its time after `start`, and call `count` after each step.

    Raises BadDataSet for a step that the engine's rules forbid.
    """
    history.unit, history.tenant = unit, tenant
    for step in steps:
        unit.now = start + step.at
        try:
            step.happen(history)
        except StorageUnavailable:
            raise
        except LedgerError as error:
            path = f"{step.path}.{error.param}" if error.param else step.path
            raise BadDataSet(path, error.message) from error
        count()


def _require_older(unit: Unit, tenant: Tenant, start: int) -> None:
    """Raise Conflict if the tenant has a record that was created at the time `start` or later."""
    newest = 0
    for table in TABLES:
        row = unit.first(f"SELECT max(id) AS id FROM {table} WHERE {condition_on(table)}", tenant.bind())
        if row is not None and row["id"] is not None:
            newest = max(newest, moment_of(row["id"]))
    if newest >= start:
        raise Conflict(
            "not_recoverable",
            f"{tenant.project} contains records up to {iso(newest)}, but the data set begins at {iso(start)}."
            " Create a project (`ledger-engine projects create NAME`), and pass its id as --project.",
        )


def _count(unit: Unit, tenant: Tenant) -> dict[str, int]:
    """Return how many objects of each kind exist in the project and mode."""
    counts = {}
    for table in TABLES:
        row = unit.first(f"SELECT count(*) AS rows FROM {table} WHERE {condition_on(table)}", tenant.bind())
        assert row is not None
        counts[table] = row["rows"]
    return counts
