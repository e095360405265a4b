"""Loading of a whole data set in one commit, when nobody is kept waiting by it.

A mistake ends the commit, so that nothing is loaded and no trial is needed. A ledger that does not exist yet
is made in a hidden folder beside its place and put there when it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ledger_engine.core.errors import Conflict
from ledger_engine.core.settings import Location
from ledger_engine.store import Unit, backup
from ledger_engine.store.lock import served_at
from ledger_engine.store.log import require_own_log
from ledger_engine.store.work_folder import work_folder
from ledger_engine.tools.seed import loading, turns
from ledger_engine.tools.seed.entries import DataSet
from ledger_engine.tools.seed.loading import Progress
from ledger_engine.tools.seed.steps import Step
from ledger_engine.tools.seed.turns import FindProject, TriedOut

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
    `turns.load_in_turns` does.
    """
    load = partial(_load, find_project=find_project, data_set=data_set, steps=steps, progress=progress)
    loaded: Loaded | None = None
    if is_new and isinstance(database, Path):
        require_own_log(database)
        with work_folder(database.parent) as folder:
            async with turns.opened(folder / database.name) as engine:
                loaded = await engine.write(load)
            _put_in_place(folder / database.name, database)
    elif len(steps) <= STEPS_MAX and not _is_served(database):
        async with turns.opened(database) as engine:
            loaded = await engine.write(load)
    if loaded is None:
        return await turns.load_in_turns(database, find_project, data_set, steps, progress, is_new=is_new)
    return loaded


def _is_served(database: Location) -> bool:
    """Return whether a server may be running, which would wait for the writer's lock."""
    return isinstance(database, str) or served_at(database) is not None


def _load(
    unit: Unit, find_project: FindProject, data_set: DataSet, steps: Sequence[Step], progress: Progress
) -> Loaded | None:
    """Load the data set in this work; return None, changing nothing, when a part of it is there."""
    found = turns.look(unit, find_project, data_set, len(steps))
    if found.done:
        return None
    load = turns.begin(unit, find_project, data_set, found)
    tenant = loading.tenant_of(load.project)
    before = loading.count(unit, tenant)
    made = TriedOut({}, {}, {}, {})
    done = 0
    while done < len(steps):
        done = turns.take_turn(unit, load, data_set, steps, done, made)
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
