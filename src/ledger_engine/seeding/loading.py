"""Loading a data set: all of its history in one commit, dated into the past, or nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ledger_engine.access import idempotency
from ledger_engine.access.projects import Project
from ledger_engine.core.clock import DAY, iso
from ledger_engine.core.errors import Conflict, DuplicateIdempotencyKey, LedgerError, StorageUnavailable
from ledger_engine.core.ids import IdSource, moment_of
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Parameters, Row, Unit, Value
from ledger_engine.seeding.entries import DataSet
from ledger_engine.seeding.fields import BadDataSet
from ledger_engine.seeding.steps import History, Step

_NOTHING: Parameters = {}
TABLES = ("accounts", "transactions", "invoices", "users", "orders")


@dataclass(slots=True)
class Progress:
    """How many steps are done; to be looked at from outside while the work runs."""

    done: int = 0


class _UnitInThePast:
    """A unit whose time is the history's and whose ids hold that time."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._ids = IdSource()
        self.now = 0

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        return self._unit.execute(sql, parameters)

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        return self._unit.first(sql, parameters)

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._unit.execute_many(sql, rows)

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self.now)

    def inspect(self) -> list[str]:
        return self._unit.inspect()

    def announce(self, topic: str) -> None:
        self._unit.announce(topic)


def load(
    unit: Unit, project: Project, data_set: DataSet, steps: Sequence[Step], progress: Progress
) -> dict[str, int]:
    """Let the history happen in the project's test mode; gives how many objects of each kind that made.

    It ends at the last midnight (UTC). Raises BadDataSet where the engine's rules forbid a step, and
    Conflict when the data set was loaded before or the project has records from the history's time:
    lists and running balances follow the order of time, so nothing is put in front of what is there.
    """
    scope = Scope(
        project.id,
        livemode=False,
        quota=project.limits.stored_objects,
        may_overdraw=project.overdraft == "allow",
    )
    start = unit.now - unit.now % DAY - data_set.days * DAY
    before = _count(unit, scope)
    past = _UnitInThePast(unit)
    past.now = start
    _take_once(past, scope, data_set)
    _require_room(unit, scope, start)
    history = History(past, scope)
    for done, step in enumerate(steps):
        progress.done = done
        past.now = start + step.at
        try:
            step.happen(history)
        except StorageUnavailable:
            raise
        except LedgerError as error:
            place = f"{step.place}.{error.param}" if error.param else step.place
            raise BadDataSet(place, error.message) from error
    progress.done = len(steps)
    after = _count(unit, scope)
    return {table: after[table] - before[table] for table in TABLES}


def _take_once(unit: Unit, scope: Scope, data_set: DataSet) -> None:
    try:
        idempotency.take(unit, scope, f"seed/{quote(data_set.name)[:200]}", scope.project)
    except DuplicateIdempotencyKey:
        raise Conflict(
            "duplicate_idempotency_key",
            f"The data set {data_set.name} was loaded into {scope.project} before.",
        ) from None


def _require_room(unit: Unit, scope: Scope, start: int) -> None:
    newest = 0
    for table in TABLES:
        row = unit.first(
            f"SELECT max(id) AS id FROM {table} WHERE project = :project AND livemode = :livemode",
            scope.bind(),
        )
        if row is not None and row["id"] is not None:
            newest = max(newest, moment_of(row["id"]))
    if newest >= start:
        raise Conflict(
            "not_recoverable",
            f"{scope.project} has records up to {iso(newest)}, the data set begins before, at {iso(start)}."
            " Make a project for it (`ledger-engine projects create NAME`) and name that with --project.",
        )


def _count(unit: Unit, scope: Scope) -> dict[str, int]:
    counted = {}
    for table in TABLES:
        row = unit.first(
            f"SELECT count(*) AS rows FROM {table} WHERE project = :project AND livemode = :livemode",
            scope.bind(),
        )
        assert row is not None
        counted[table] = row["rows"]
    return counted
