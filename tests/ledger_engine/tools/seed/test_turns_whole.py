"""A data set is loaded in one commit where nobody waits for it, and otherwise as `test_turns` says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.access.projects import Project
from ledger_engine.core.errors import Conflict
from ledger_engine.core.settings import Location
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.store.sqlite.lock import lock_file
from ledger_engine.tools.seed import turns
from ledger_engine.tools.seed.entries import BadDataSet, DataSet
from ledger_engine.tools.seed.loading import Progress, steps_of
from ledger_engine.tools.seed.turns import TURN_STEPS, load_data_set, load_in_turns
from ledger_engine.verify import audit
from tests import auditing
from tests.ledger_engine.tools.seed.conftest import Written
from tests.ledger_engine.waiting import looked_until

Load = Callable[[DataSet], Awaitable[dict[str, int]]]

CREDIT: dict[str, Any] = {
    "account": ["bank", "till"],
    "type": "credit",
    "amount": {"from": 100, "to": 900},
    "repeat": {"per_day": TURN_STEPS},
    "reverse": {"share": 20, "after": 1},
}


@pytest.fixture
def history(written: Written) -> DataSet:
    return written(transactions=[CREDIT])


@pytest.fixture
def load(location: Location, engine: Engine, project: Project) -> Load:
    """Load the data set into the project beside the engine, as the command does."""

    async def run(data_set: DataSet) -> dict[str, int]:
        find = partial(projects.get, id=project.id)
        steps, progress = steps_of(data_set), Progress()
        id, made = await load_data_set(location, find, data_set, steps, progress, is_new=False)
        assert (id, progress.done) == (project.id, 2 * len(steps))
        return made

    return run


@pytest.fixture
def in_turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the loads that were made in turns."""
    made: list[int] = []

    async def counted(*given: Any, **named: Any) -> Any:
        made.append(1)
        return await load_in_turns(*given, **named)

    monkeypatch.setattr(turns, "load_in_turns", counted)
    return made


@pytest.mark.slow
@pytest.mark.sqlite
async def test_it_is_one_commit_with_the_history_that_turns_make(
    engine: Engine, load: Load, history: DataSet, in_turns: list[int], tmp_path: Path
) -> None:
    made = await load(history)
    assert in_turns == []
    report = await engine.read(auditing.verify)
    assert (report.fault, report.transactions) == (None, made["transactions"])
    with pytest.raises(Conflict, match="was loaded into"):
        await load(history)

    other = await load_in_turns(
        tmp_path / "turns.db",
        lambda unit: projects.first_or_new(unit)[0],
        history,
        steps_of(history),
        Progress(),
        is_new=True,
    )
    assert other[1] == made


@pytest.mark.sqlite
async def test_a_mistake_at_the_end_loads_nothing(engine: Engine, load: Load, written: Written) -> None:
    late = {"day": 10, "account": "bank", "type": "credit", "amount": 2**53 - 1}
    with pytest.raises(BadDataSet, match=r"transactions\[1\]\.amount: "):
        await load(written(transactions=[CREDIT, late]))
    report = await engine.read(auditing.verify)
    assert (report.fault, report.accounts, report.transactions) == (None, 0, 0)
    assert await engine.read(lambda unit: unit.execute("SELECT * FROM seeds")) == []


async def test_a_new_ledger_has_its_name_only_when_it_is_complete(tmp_path: Path, history: DataSet) -> None:
    path = tmp_path / "new" / "ledger.db"
    path.parent.mkdir()
    seen: list[bool] = []

    def find(unit: Unit) -> Project:
        seen.append(path.exists())
        return projects.first_or_new(unit)[0]

    given = (path, find, history, steps_of(history), Progress())
    _, made = await load_data_set(*given, is_new=True)
    assert set(seen) == {False}
    assert [each.name for each in path.parent.iterdir()] == ["ledger.db"]
    assert read_copy(path, audit.count_transactions) == made["transactions"]
    with pytest.raises(Conflict, match="created in the meantime"):
        await load_data_set(*given, is_new=True)


@pytest.mark.sqlite
async def test_a_served_ledger_is_loaded_in_turns(
    load: Load, history: DataSet, in_turns: list[int], tmp_path: Path
) -> None:
    lock_file(tmp_path / "ledger.db").write_text(
        '{"pid": 1, "url": "http://127.0.0.1:1"}'
    )  # as a server does
    await load(history)
    assert in_turns == [1]


async def test_a_large_data_set_is_loaded_in_turns(
    load: Load, history: DataSet, in_turns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "STEPS_MAX", len(steps_of(history)) - 1)
    await load(history)
    assert in_turns == [1]


@pytest.mark.slow
async def test_what_was_begun_in_turns_goes_on_in_turns(
    engine: Engine,
    project: Project,
    load: Load,
    history: DataSet,
    in_turns: list[int],
    monkeypatch: pytest.MonkeyPatch,
    location: Location,
) -> None:
    steps, find = steps_of(history), partial(projects.get, id=project.id)

    async def begun() -> bool:
        rows = await engine.read(lambda unit: unit.execute("SELECT 1 FROM seeds WHERE done > 0"))
        return bool(rows)

    loading = asyncio.create_task(load_in_turns(location, find, history, steps, Progress(), is_new=False))
    with monkeypatch.context() as patch:
        patch.setattr(turns, "COMMIT_S", 0.0)
        patch.setattr(turns, "REST", 1000.0)
        await looked_until(begun, bool)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
    made = await load(history)
    assert in_turns == [1]
    report = await engine.read(auditing.verify)
    assert (report.fault, report.transactions) == (None, made["transactions"])
