"""A data set is loaded in short turns: others write between them, and a load that was cut off goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import Conflict
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.pages import PageRequest
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.store.sqlite.lock import lock_file
from ledger_engine.tools.seed import turns
from ledger_engine.tools.seed.loading import Progress, steps_of
from ledger_engine.tools.seed.reading import BadDataSet, DataSet
from ledger_engine.tools.seed.turns import TURN_STEPS, Rests, load_data_set, load_in_turns
from ledger_engine.verify import audit
from tests import auditing
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.tools.seed.conftest import Written
from tests.ledger_engine.waiting import looked_until

Load = Callable[[DataSet], Awaitable[dict[str, int]]]
STEPS = 10 * TURN_STEPS + 3  # with two accounts and a user
CREDIT: dict[str, Any] = {
    "account": ["bank", "till"],
    "type": "credit",
    "amount": {"from": 100, "to": 900},
    "repeat": {"per_day": TURN_STEPS},
    "reverse": {"share": 20, "after": 1},
}


class CutOff(Exception):
    pass


@pytest.fixture
def history(written: Written) -> DataSet:
    return written(transactions=[CREDIT])


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have the load end after so many turns."""

    def after(count: int) -> None:
        real, left = turns.take_turn, count

        def take(unit: Unit, **given: Any) -> int:
            nonlocal left
            if left == 0:
                monkeypatch.setattr(turns, "take_turn", real)
                raise CutOff
            left -= 1
            return real(unit, **given)

        monkeypatch.setattr(turns, "take_turn", take)
        monkeypatch.setattr(turns, "COMMIT_S", 0.0)  # each turn is a commit

    return after


def loading(load_by: Callable[..., Any], location: Location, project: Project) -> Load:
    """Return a function that loads a data set into the project beside the engine, as the command does."""

    async def run(data_set: DataSet) -> dict[str, int]:
        find = partial(projects.get, id=project.id)
        steps, progress = steps_of(data_set), Progress()
        id, made = await load_by(location, find, data_set, steps, progress, is_new=False)
        assert (id, progress.done) == (project.id, 2 * len(steps))
        return made

    return run


@pytest.fixture
def load(location: Location, engine: Engine, project: Project) -> Load:
    return loading(load_in_turns, location, project)


async def done(engine: Engine) -> int:
    rows = await engine.read(lambda unit: unit.execute("SELECT done FROM seeds"))
    return int(rows[0]["done"]) if rows else 0


async def history_of(engine: Engine) -> list[tuple[Any, ...]]:
    """Return the history of all projects, without ids."""
    rows = await engine.read(
        lambda unit: unit.execute(
            "SELECT a.name, t.amount, t.type, t.balance_after, t.created % 86400000"
            " FROM transactions AS t JOIN accounts AS a ON a.id = t.account ORDER BY t.id"
        )
    )
    return [tuple(row) for row in rows]


@pytest.mark.slow
async def test_others_write_between_its_turns(
    engine: Engine, load: Load, history: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "REST", 3.0)  # so few turns are over before somebody looks by chance
    other = await engine.write(partial(projects.create, new=NewProject("Other", "enterprise")))
    work = partial(
        accounts.create, tenant=Tenant(other.id, livemode=False), new=accounts.NewAccount("Till", "EUR", {})
    )
    loading = asyncio.create_task(load(history))
    seen = set()
    while not loading.done():
        await engine.write(work)
        seen.add(await done(engine))
    made = await loading
    assert len(seen - {0, len(steps_of(history))}) >= 1
    assert made["transactions"] == len(await history_of(engine)) >= 10 * TURN_STEPS
    assert (await engine.read(auditing.verify)).fault is None


@pytest.mark.slow
async def test_a_load_that_was_cut_off_goes_on_the_next_day(
    engine: Engine,
    clock: ManualClock,
    load: Load,
    history: DataSet,
    cut_off: Callable[[int], None],
    tmp_path: Path,
) -> None:
    for count in (0, 1, 4):
        cut_off(count)
        with pytest.raises(CutOff):
            await load(history)
        assert (await engine.read(auditing.verify)).fault is None
    assert 5 * TURN_STEPS <= await done(engine) < STEPS
    made = await load(history)
    assert (await engine.read(auditing.verify)).fault is None
    with pytest.raises(Conflict, match="was loaded into"):
        await load(history)

    whole = open_engine(tmp_path / "whole.db")
    find = partial(projects.first_or_new)
    await whole.write(find)
    again = await load_in_turns(
        tmp_path / "whole.db",
        lambda unit: projects.first_or_new(unit)[0],
        history,
        steps_of(history),
        Progress(),
        is_new=False,
    )
    assert again[1] == made
    assert await history_of(whole) == await history_of(engine)
    await whole.close()


@pytest.mark.slow
async def test_a_project_that_was_used_meanwhile_takes_no_more_of_it(
    engine: Engine,
    clock: ManualClock,
    tenant: Tenant,
    load: Load,
    history: DataSet,
    cut_off: Callable[[int], None],
) -> None:
    cut_off(3)
    with pytest.raises(CutOff):
        await load(history)
    clock.advance(100 * DAY)  # past the commands' own, which is the machine's
    page = await engine.read(lambda unit: accounts.page(unit, tenant, PageRequest()))
    new = transactions.NewTransaction(page.items[0].id, 5, "credit")
    await engine.write(lambda unit: transactions.post(unit, tenant, new))
    before = await done(engine)
    with pytest.raises(Conflict, match="has records up to"):
        await load(history)
    assert await done(engine) == before
    assert (await engine.read(auditing.verify)).fault is None


async def test_a_file_that_was_changed_meanwhile_is_refused(
    engine: Engine,
    load: Load,
    history: DataSet,
    written: Written,
    cut_off: Callable[[int], None],
) -> None:
    cut_off(3)
    with pytest.raises(CutOff):
        await load(history)
    with pytest.raises(Conflict, match="with other contents"):
        await load(written(transactions=[{**CREDIT, "amount": 7}]))


def test_a_turn_does_not_end_within_a_millisecond(written: Written) -> None:
    at_noon = {**CREDIT, "time": "12:00", "repeat": {"per_day": TURN_STEPS + 5, "until": 1}}
    del at_noon["reverse"]
    steps = steps_of(written(transactions=[at_noon, {**at_noon, "time": "13:00"}]))
    assert len({step.at for step in steps[-2 * TURN_STEPS - 10 :]}) == 2
    first = turns._end_of_turn(steps, 0)
    assert first > TURN_STEPS
    assert steps[first - 1].at < steps[first].at
    assert turns._end_of_turn(steps, first) == len(steps)


def test_half_of_the_time_is_for_others_while_they_write(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(turns.time, "monotonic", lambda: now)
    rests = Rests()
    assert rests.are_long  # nothing is known yet
    pauses = [(rests.after(0.04, version), rests.are_long) for version in (7, 7, 8, 8)]
    assert pauses == [(0.01, False), (0.01, False), (0.04, True), (0.04, True)]
    now = turns.OTHERS_ARE_QUIET_AFTER_S
    assert (rests.after(0.04, 8), rests.are_long) == (0.01, False)


@pytest.mark.slow
@pytest.mark.parametrize(("commit_s", "commits"), [(0.0, 12), (1000.0, 2)])
async def test_alone_it_takes_the_turns_of_some_time_in_one_commit(
    engine: Engine,
    load: Load,
    history: DataSet,
    monkeypatch: pytest.MonkeyPatch,
    commit_s: float,
    commits: int,
) -> None:
    """The first commit holds one turn, as somebody else may be writing."""
    monkeypatch.setattr(turns, "COMMIT_S", commit_s)
    real, ends = turns._take_turns, []

    def count(unit: Unit, **given: Any) -> int:
        ends.append(real(unit, **given))
        return ends[-1]

    monkeypatch.setattr(turns, "_take_turns", count)
    made = await load(history)
    assert (len(ends), ends[-1]) == (commits, len(steps_of(history)))
    assert ends[0] >= TURN_STEPS
    assert made["transactions"] == len(await history_of(engine))


# In one commit, where nobody waits for it


@pytest.fixture
def load_whole(location: Location, engine: Engine, project: Project) -> Load:
    return loading(load_data_set, location, project)


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
    engine: Engine, load_whole: Load, history: DataSet, in_turns: list[int], tmp_path: Path
) -> None:
    made = await load_whole(history)
    assert in_turns == []
    report = await engine.read(auditing.verify)
    assert (report.fault, report.transactions) == (None, made["transactions"])
    with pytest.raises(Conflict, match="was loaded into"):
        await load_whole(history)

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
async def test_a_mistake_at_the_end_loads_nothing(engine: Engine, load_whole: Load, written: Written) -> None:
    late = {"day": 10, "account": "bank", "type": "credit", "amount": 2**53 - 1}
    with pytest.raises(BadDataSet, match=r"transactions\[1\]\.amount: "):
        await load_whole(written(transactions=[CREDIT, late]))
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
    load_whole: Load, history: DataSet, in_turns: list[int], tmp_path: Path
) -> None:
    lock_file(tmp_path / "ledger.db").write_text(
        '{"pid": 1, "url": "http://127.0.0.1:1"}'
    )  # as a server does
    await load_whole(history)
    assert in_turns == [1]


async def test_a_large_data_set_is_loaded_in_turns(
    load_whole: Load, history: DataSet, in_turns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "STEPS_MAX", len(steps_of(history)) - 1)
    await load_whole(history)
    assert in_turns == [1]


@pytest.mark.slow
async def test_what_was_begun_in_turns_goes_on_in_turns(
    engine: Engine,
    project: Project,
    load_whole: Load,
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
    made = await load_whole(history)
    assert in_turns == [1]
    report = await engine.read(auditing.verify)
    assert (report.fault, report.transactions) == (None, made["transactions"])
