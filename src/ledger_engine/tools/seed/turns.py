"""Loading of a data set beside a running server: first as a trial, then in short turns.

One commit for all would hold the writer's lock for the whole load, and the running server would refuse its
requests. So the data set is first loaded into a temporary database, where every mistake shows, and then into
the ledger, some steps in each commit. After each commit the books are consistent, and the table `seeds` has
the number of steps done. An interrupted load continues from there: the ids are derived from a salt that is
stored, so that another trial gives the ids of what was loaded before.

Where nobody waits, the whole data set is loaded in one commit. A mistake ends that commit, so that nothing is
loaded and no trial is needed. A ledger that does not exist yet is made in a hidden folder beside its target
and put there when it is complete.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ledger_engine.access import projects
from ledger_engine.access import quotas as limits
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.core.errors import Conflict
from ledger_engine.core.ids import IdSource
from ledger_engine.core.settings import Location
from ledger_engine.store import Unit, Value
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.files import work_folder
from ledger_engine.store.rows import insert
from ledger_engine.store.sqlite import backup
from ledger_engine.store.sqlite.lock import served_at
from ledger_engine.store.sqlite.log import require_own_log
from ledger_engine.tools.seed import loading
from ledger_engine.tools.seed.loading import History, Progress, Step, UnitInThePast
from ledger_engine.tools.seed.reading import DataSet

TURN_STEPS = 40
# Others wait for a commit, so it has one turn while others write, otherwise all that begin in this time.
COMMIT_S = 0.05
# Rests, as shares of a commit's time, that let others write. A writer that waits for the lock tries every 100
# ms or more often, so a fifth of all time lets the first one in; then half is for the others until they are
# quiet.
REST = 0.25
REST_BESIDE_OTHERS = 1.0
OTHERS_ARE_QUIET_AFTER_S = 2.0

FindProject = Callable[[Unit], Project]


@dataclass(frozen=True, slots=True)
class Load:
    """A load: its project, how many steps are `done`, and how many objects the project had before."""

    project: Project
    start: int
    salt: str
    stored_before: int
    done: int


async def load_in_turns(
    database: Location,
    find_project: FindProject,
    data_set: DataSet,
    steps: Sequence[Step],
    progress: Progress,
    *,
    is_new: bool,
) -> tuple[str, dict[str, int]]:
    """Load the data set into the project, creating it first when `is_new`.

    Return the project's id and how many objects of each kind the data set has.

    `progress` counts each step twice. Raises what `load_at_once` does; then nothing was loaded, unless the
    project was used meanwhile.
    """
    seek = partial(look, find_project=find_project, data_set=data_set, steps=len(steps))
    with tempfile.TemporaryDirectory(prefix="ledger-seed-") as folder:  # 0700
        async with opened(Path(folder, "rehearsal.db")) as rehearsal:
            if is_new:
                load = await rehearsal.write(seek)
            else:
                async with opened(database) as engine:
                    load = await engine.write(seek)
            tried = partial(_try_out, load=load, steps=steps, progress=progress)
            history, counts = await rehearsal.write(tried)
    async with opened(database) as engine:
        load = await engine.write(partial(begin, find_project=find_project, data_set=data_set, load=load))
        progress.done = len(steps) + load.done
        done = load.done
        rests = Rests()
        while done < len(steps):
            began = time.monotonic()
            turns = partial(
                _take_turns,
                load=load,
                data_set=data_set,
                steps=steps,
                done=done,
                history=history,
                for_s=0.0 if rests.are_long else COMMIT_S,
            )
            done, version = await engine.write(partial(_with_version, turns=turns))
            progress.done = len(steps) + done
            await asyncio.sleep(rests.after(time.monotonic() - began, version))
    return load.project.id, counts


class Rests:
    """The lengths of the rests after each commit; `are_long` while others write, or may."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._others_wrote_at: float | None = None
        self.are_long = True

    def after(self, took_s: float, version: int) -> float:
        """Return how many seconds to rest after a commit of `took_s` seconds that left this data version."""
        now = time.monotonic()
        if self._version is not None and version != self._version:
            self._others_wrote_at = now
        self._version = version
        others = self._others_wrote_at
        self.are_long = others is not None and now - others < OTHERS_ARE_QUIET_AFTER_S
        return took_s * (REST_BESIDE_OTHERS if self.are_long else REST)


def _with_version(unit: Unit, turns: Callable[[Unit], int]) -> tuple[int, int]:
    """Take the turns; return their result, and a number that changes when another process commits."""
    version = unit.version()
    return turns(unit), version


@asynccontextmanager
async def opened(database: Location) -> AsyncIterator[Engine]:
    """Open the database for a load."""
    engine = open_engine(database)
    try:
        yield engine
    finally:
        await engine.close()


def look(unit: Unit, find_project: FindProject, data_set: DataSet, steps: int) -> Load:
    """Return what is to be loaded: the whole data set or the rest. Raises Conflict when it cannot be.

    Raises PermissionDenied when the project is a copy of another server.
    """
    project = find_project(unit)
    tenant = loading.tenant_of(project)
    row = unit.first(
        "SELECT * FROM seeds WHERE project = :project AND name = :name",
        {"project": project.id, "name": data_set.name},
    )
    if row is not None and row["done"] == steps:
        raise loading.loaded_before(tenant, data_set)
    if row is None:
        start = loading.start_of(data_set, unit.now)
        loading.require_capacity(unit, tenant, start)
        return Load(project, start, secrets.token_hex(8), limits.stored_objects(unit, tenant), 0)
    if row["fingerprint"] != _fingerprint(data_set):
        raise Conflict(
            "not_recoverable",
            f"{project.id} already has a data set called {data_set.name} with other contents. Rename the"
            " file, or load it into another project.",
        )
    return Load(project, row["start"], row["salt"], row["stored_before"], row["done"])


def _try_out(
    unit: Unit, load: Load, steps: Sequence[Step], progress: Progress
) -> tuple[History, dict[str, int]]:
    """Make all steps in a copy of the project; return the history and the number of objects of each kind."""
    like = load.project
    project = projects.create(unit, NewProject(like.name, like.plan, overdraft=like.overdraft))
    tenant = loading.tenant_of(project)
    unit.execute(
        "INSERT INTO counters (project, livemode, stored_objects) VALUES (:project, :livemode, :stored)"
        " ON CONFLICT (project, livemode) DO UPDATE SET stored_objects = excluded.stored_objects",
        tenant.bind(stored=load.stored_before),
    )
    history = History()
    progress.done = done = 0
    while done < len(steps):
        end = _end_of_turn(steps, done)
        past = UnitInThePast(unit, _ids(load, done))
        loading.happen(history, past, tenant, steps[done:end], load.start, progress)
        done = end
    return history, loading.count(unit, tenant)


def begin(unit: Unit, find_project: FindProject, data_set: DataSet, load: Load) -> Load:
    """Record that the load starts or continues. Raises Conflict when another one started meanwhile."""
    project = find_project(unit)
    tenant = loading.tenant_of(project)
    row = unit.first(
        "SELECT salt FROM seeds WHERE project = :project AND name = :name",
        {"project": project.id, "name": data_set.name},
    )
    if row is None:
        seed: dict[str, Value] = {"project": project.id, "name": data_set.name, "start": load.start}
        seed |= {"fingerprint": _fingerprint(data_set), "salt": load.salt}
        insert(unit, "seeds", seed | {"stored_before": load.stored_before, "done": 0})
    elif row["salt"] != load.salt:
        raise loading.loaded_before(tenant, data_set)
    return Load(project, load.start, load.salt, load.stored_before, load.done)


def _take_turns(unit: Unit, steps: Sequence[Step], done: int, for_s: float, **given: Any) -> int:
    """Take the next turn, and others as long as the time `for_s` is not over; gives how many steps are done.

    Looking at the time here decides only how much is in this commit.
    """
    began = time.monotonic()
    while True:
        done = take_turn(unit, steps=steps, done=done, **given)
        if done == len(steps) or time.monotonic() - began >= for_s:
            return done


def take_turn(
    unit: Unit, load: Load, data_set: DataSet, steps: Sequence[Step], done: int, history: History
) -> int:
    """Make the next steps; return how many are done then.

    Raises Conflict when the project was used meanwhile, as nothing may be inserted before its records.
    """
    tenant = loading.tenant_of(load.project)
    loading.require_capacity(unit, tenant, load.start + steps[done].at)
    end = _end_of_turn(steps, done)
    counted = unit.execute(
        "UPDATE seeds SET done = :end WHERE project = :project AND name = :name AND done = :done"
        " RETURNING done",
        {"project": load.project.id, "name": data_set.name, "done": done, "end": end},
    )
    if not counted:
        raise Conflict("not_recoverable", f"{data_set.name} is being loaded by another command.")
    past = UnitInThePast(unit, _ids(load, done))
    loading.happen(history, past, tenant, steps[done:end], load.start)
    return end


def _end_of_turn(steps: Sequence[Step], done: int) -> int:
    """Return where a turn ends: never within a millisecond, as the ids of one are counted upwards."""
    end = done + TURN_STEPS
    while end < len(steps) and steps[end].at == steps[end - 1].at:
        end += 1
    return min(end, len(steps))


def _ids(load: Load, done: int) -> IdSource:
    """Return the source of ids for the turn after `done` steps, which is the same each time."""
    return IdSource(Random(f"{load.salt}/{done}").getrandbits)


def _fingerprint(data_set: DataSet) -> str:
    return hashlib.sha256(f"{TURN_STEPS} {data_set!r}".encode()).hexdigest()


# For a ledger that exists. It is about a second's work, and others wait for the writer's lock as long.
STEPS_MAX = 20_000


Loaded = tuple[str, dict[str, int]]  # the project's id, and how many objects of each kind were loaded


async def load_data_set(
    database: Location,
    find_project: FindProject,
    data_set: DataSet,
    steps: Sequence[Step],
    progress: Progress,
    *,
    is_new: bool,
) -> Loaded:
    """Load the data set at once; in turns into a ledger that is served, if it is large or was begun so.

    The ledger is created first when `is_new`. `progress` counts each step twice. Raises what
    `load_in_turns` does.
    """
    load = partial(load_at_once, find_project=find_project, data_set=data_set, steps=steps, progress=progress)
    loaded: Loaded | None = None
    if is_new and isinstance(database, Path):
        require_own_log(database)
        with work_folder(database.parent) as folder:
            async with opened(folder / database.name) as engine:
                loaded = await engine.write(load)
            _put_in_place(folder / database.name, database)
    elif len(steps) <= STEPS_MAX and not _is_served(database):
        async with opened(database) as engine:
            loaded = await engine.write(load)
    if loaded is None:
        return await load_in_turns(database, find_project, data_set, steps, progress, is_new=is_new)
    return loaded


async def load_once(database: Location, data_set: DataSet) -> None:
    """Load the data set into the first project of a ledger that is empty, or go on with a load of it.

    The project is created if there is none. Another ledger is left as it is. Call it in a process that does
    not have the ledger open. Raises what `load_data_set` does.
    """
    steps = loading.steps_of(data_set)
    is_new = isinstance(database, Path) and not database.exists()
    if not is_new:
        async with opened(database) as engine:
            if not await engine.read(partial(_awaits, data_set=data_set, steps=len(steps))):
                return
    await load_data_set(database, _first_project, data_set, steps, Progress(), is_new=is_new)


def _first_project(unit: Unit) -> Project:
    return projects.first_or_new(unit)[0]


def _awaits(unit: Unit, data_set: DataSet, steps: int) -> bool:
    """Return whether the first project's test mode is empty, or a load of the data set into it was begun."""
    project = projects.first(unit)
    if project is None:
        return True
    row = unit.first(
        "SELECT done FROM seeds WHERE project = :project AND name = :name",
        {"project": project.id, "name": data_set.name},
    )
    if row is not None:
        return int(row["done"]) < steps
    return limits.stored_objects(unit, loading.tenant_of(project)) == 0


def _is_served(database: Location) -> bool:
    """Return whether a server may be running, which would wait for the writer's lock."""
    return isinstance(database, str) or served_at(database) is not None


def load_at_once(
    unit: Unit, find_project: FindProject, data_set: DataSet, steps: Sequence[Step], progress: Progress
) -> Loaded | None:
    """Load the data set in this work; return None, changing nothing, when a part of it is there.

    Raises BadDataSet for a step that the engine's rules forbid, and Conflict when the data set was loaded
    before or the project has records from the history's time: lists and running balances are in the order of
    time, so nothing may be inserted before existing records.
    """
    found = look(unit, find_project, data_set, len(steps))
    if found.done:
        return None
    load = begin(unit, find_project, data_set, found)
    tenant = loading.tenant_of(load.project)
    before = loading.count(unit, tenant)
    history = History()
    done = 0
    while done < len(steps):
        done = take_turn(unit, load, data_set, steps, done, history)
        progress.done = 2 * done
    after = loading.count(unit, tenant)
    return load.project.id, {table: after[table] - before[table] for table in loading.TABLES}


def _put_in_place(file: Path, database: Path) -> None:
    try:
        backup.put_in_place(file, database, overwrite=False)
    except FileExistsError:
        raise Conflict(
            "not_recoverable", f"{database} was created in the meantime; nothing was loaded."
        ) from None
