"""A data set is loaded through the engine's rules, into the past, all of it or nothing."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import Conflict, NotFound
from ledger_engine.core.ids import moment_of
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import invoices, orders, transactions, users
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.pages import PageRequest
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.tools.seed import reading
from ledger_engine.tools.seed.loading import TABLES, LoadingProgress, load, load_if_empty, load_into
from ledger_engine.tools.seed.reading import BadDataSet, DataSet
from ledger_engine.tools.seed.reading import read as read_data_set
from ledger_engine.tools.seed.steps import steps_of
from ledger_engine.verify import audit
from tests import auditing
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.tools.seed.conftest import ADA, BANK, TILL, Written
from tests.ledger_engine.waiting import until

MIDNIGHT = START - START % DAY
CREDIT: dict[str, Any] = {"account": "bank", "type": "credit", "amount": 1000}
INVOICE: dict[str, Any] = {"account": "bank", "customer": "C", "amount": 700}


async def seed(
    engine: Engine, project: Project, data_set: DataSet, progress: LoadingProgress | None = None
) -> dict[str, int]:
    work = partial(load_into, project=project.id, data_set=data_set, steps=steps_of(data_set))
    loaded = await engine.write(partial(work, progress=progress or LoadingProgress()))
    assert loaded.project == project.id
    return loaded.counts


async def counted(engine: Engine) -> dict[str, int]:
    every = (*TABLES, "events", "idempotency_keys", "settlements", "counters", "seeds")
    return {
        table: (await engine.read(lambda unit, table=table: unit.execute(f"SELECT * FROM {table}"))).__len__()
        for table in every
    }


async def test_the_history_ends_with_the_last_day_and_is_in_order(
    engine: Engine, project: Project, written: Written
) -> None:
    await seed(engine, project, written(transactions=[{**CREDIT, "repeat": {"per_day": 4}}]))
    rows = await engine.read(lambda unit: unit.execute("SELECT id, created FROM transactions ORDER BY id"))
    moments = [row["created"] for row in rows]
    assert len(moments) == 40
    assert moments == sorted(moments)
    assert moments[0] >= MIDNIGHT - 10 * DAY
    assert moments[-1] < MIDNIGHT
    assert [moment_of(row["id"]) for row in rows] == moments


@pytest.mark.slow
async def test_two_loads_are_the_same_but_for_the_ids(tmp_path: Path) -> None:
    data_set = read_data_set(reading.path("marketplace"))
    histories = []
    for name in ("one", "two"):
        engine = open_engine(tmp_path / name, clock=ManualClock(START))
        project = await engine.write(partial(projects.create, new=NewProject("P", "enterprise")))
        await seed(engine, project, data_set)
        rows = await engine.read(
            lambda unit: unit.execute(
                "SELECT a.name, t.amount, t.type, t.description, t.balance_after, t.created"
                " FROM transactions AS t JOIN accounts AS a ON a.id = t.account ORDER BY t.id"
            )
        )
        histories.append([tuple(row) for row in rows])
        await engine.close()
    assert histories[0] == histories[1]


async def test_a_loaded_history_has_its_events_and_verifies(
    engine: Engine, project: Project, written: Written, recorded: Run
) -> None:
    loaded = await seed(engine, project, written(transactions=[CREDIT], invoices=[INVOICE]))
    assert loaded == {"accounts": 2, "transactions": 1, "invoices": 1, "users": 1, "orders": 0}
    assert len(await recorded()) == 5
    assert (await engine.read(auditing.verify)).fault is None


async def test_it_is_loaded_into_the_test_mode(engine: Engine, project: Project, written: Written) -> None:
    await seed(engine, project, written(transactions=[CREDIT]))
    live = Tenant(project.id, livemode=True)
    assert (await engine.read(lambda unit: transactions.page(unit, live, PageRequest()))).items == []


async def test_a_data_set_is_loaded_once(engine: Engine, project: Project, written: Written) -> None:
    await seed(engine, project, written(transactions=[CREDIT]))
    before = await counted(engine)
    with pytest.raises(Conflict, match="was loaded into"):
        await seed(engine, project, written(transactions=[CREDIT]))
    assert await counted(engine) == before


async def test_nothing_is_put_in_front_of_records_that_are_there(
    engine: Engine, project: Project, written: Written
) -> None:
    await seed(engine, project, written("one", transactions=[CREDIT]))
    before = await counted(engine)
    with pytest.raises(Conflict, match="contains records up to"):
        await seed(engine, project, written("two", transactions=[CREDIT]))
    assert await counted(engine) == before


async def test_another_project_may_have_later_records(engine: Engine, written: Written) -> None:
    for name in ("Roastery", "Bakery"):
        new = NewProject(name, "enterprise")
        project = await engine.write(partial(projects.create, new=new))
        await seed(engine, project, written(transactions=[CREDIT]))
    assert (await engine.read(auditing.verify)).fault is None


async def test_a_history_follows_an_older_one(
    engine: Engine, clock: ManualClock, project: Project, written: Written
) -> None:
    await seed(engine, project, written("one", transactions=[CREDIT]))
    clock.advance(30 * DAY)
    await seed(engine, project, written("two", users=[], transactions=[CREDIT]))
    assert (await engine.read(auditing.verify)).transactions == 2


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"accounts": [BANK, {**TILL, "currency": "XYZ"}]}, "accounts[1].currency: "),
        ({"accounts": [{**BANK, "name": ""}, TILL]}, "accounts[0].name: "),
        ({"accounts": [{**BANK, "day": 5}, TILL]}, "transactions[0].account: 'bank' is not open yet"),
        ({"transactions": [CREDIT, {**CREDIT, "type": "gift"}]}, "transactions[1].type: "),
        ({"transactions": [CREDIT, {**CREDIT, "description": "x" * 501}]}, "transactions[1].description: "),
        ({"transactions": [CREDIT, {**CREDIT, "destination": "bank"}]}, "transactions[1].destination: "),
        ({"users": [{"ref": "x", "name": "X", "email": "no"}]}, "users[0].email: "),
        ({"users": [{"ref": "x", "name": "X", "email": "x@example.com", "role": "king"}]}, "users[0].role: "),
        ({"invoices": [{**INVOICE, "customer": ""}]}, "invoices[0].customer: "),
        (
            {"users": [{**ADA, "day": 5}], "orders": [{"user": "ada", "items": [{"sku": "x"}]}]},
            "orders[0].user: 'ada' has not joined yet",
        ),
    ],
)
async def test_a_rule_of_the_engine_is_told_with_its_place_and_nothing_is_loaded(
    engine: Engine, project: Project, written: Written, fields: dict[str, Any], place: str
) -> None:
    before = await counted(engine)
    with pytest.raises(BadDataSet) as raised:
        await seed(engine, project, written(**{"transactions": [CREDIT], **fields}))
    assert str(raised.value).startswith(place)
    assert await counted(engine) == before


@pytest.mark.slow
async def test_the_projects_quota_holds(engine: Engine, written: Written) -> None:
    project = await engine.write(partial(projects.create, new=NewProject("Small", "free")))
    many = [{**CREDIT, "repeat": {"per_day": 1000}}]
    with pytest.raises(BadDataSet, match="quota"):
        await seed(engine, project, written(transactions=many))
    assert (await counted(engine))["transactions"] == 0


async def test_a_project_that_refuses_overdraft_refuses_it_here_too(engine: Engine, written: Written) -> None:
    new = NewProject("Careful", "enterprise", overdraft="refuse")
    project = await engine.write(partial(projects.create, new=new))
    with pytest.raises(BadDataSet, match=r"transactions\[0\]\.amount: .*does not allow overdrafts"):
        await seed(engine, project, written(transactions=[{**CREDIT, "type": "debit"}]))


async def test_a_debit_of_all_takes_what_is_there_and_nothing_from_nothing(
    engine: Engine, project: Project, written: Written
) -> None:
    takings = {"account": "till", "type": "debit", "amount": "all", "time": "22:00", "repeat": {"until": 3}}
    sale = {"day": 2, "account": "till", "type": "credit", "amount": 450, "time": "12:00"}
    nothing = {**takings, "account": "safe", "reverse": {"after": 1}}  # there is none of it to reverse
    safe = {"ref": "safe", "name": "Vault", "currency": "EUR"}
    to_bank = [{**each, "destination": "bank"} for each in (takings, nothing)]
    await seed(engine, project, written(accounts=[BANK, TILL, safe], transactions=[sale, *to_bank]))
    rows = await engine.read(lambda unit: unit.execute("SELECT name, balance FROM accounts ORDER BY name"))
    assert [tuple(row) for row in rows] == [("Bank", 450), ("Till", 0), ("Vault", 0)]


async def test_a_fee_is_its_percentage_rounded_half_up(
    engine: Engine, project: Project, written: Written
) -> None:
    sale = {"account": "till", "type": "credit", "amount": 1050, "fee": {"percent": 5, "to": "bank"}}
    await seed(engine, project, written(transactions=[sale]))
    rows = await engine.read(lambda unit: unit.execute("SELECT name, balance FROM accounts ORDER BY name"))
    assert [tuple(row) for row in rows] == [("Bank", 53), ("Till", 997)]


async def test_a_reversal_in_a_history_follows_the_rules(
    engine: Engine, project: Project, tenant: Tenant, written: Written
) -> None:
    await seed(engine, project, written(transactions=[{**CREDIT, "reverse": {"after": 3}}]))
    page = await engine.read(lambda unit: transactions.page(unit, tenant, PageRequest()))
    reversal, original = page.items
    assert reversal.reverses == original.id
    assert reversal.created - original.created >= 3 * DAY


async def test_invoices_orders_and_users_go_through_their_stages(
    engine: Engine, project: Project, tenant: Tenant, written: Written
) -> None:
    stages = (
        {"finalize_after": 0, "pay_after": 1},
        {"finalize_after": 0, "void_after": 1},
        {"finalize_after": 0},
        {},
    )
    order: dict[str, Any] = {"user": "ada", "items": [{"sku": "x", "quantity": {"from": 3, "to": 3}}]}
    await seed(
        engine,
        project,
        written(
            invoices=[
                {**INVOICE, "time": f"0{9 - n}:00", "due_in": 14, **more} for n, more in enumerate(stages)
            ],
            orders=[order, {**order, "pay_after": 1}, {**order, "pay_after": 1, "ship_after": 1}],
            users=[{"ref": "ada", "name": "Ada", "email": "ada@example.com", "deactivate_after": 2}],
        ),
    )
    drafted = await engine.read(lambda unit: invoices.page(unit, tenant, PageRequest()))
    assert sorted(invoice.status for invoice in drafted.items) == ["draft", "open", "paid", "void"]
    assert {invoice.due_date for invoice in drafted.items} == {"2026-09-25"}
    placed = await engine.read(lambda unit: orders.page(unit, tenant, PageRequest()))
    assert sorted(order.status for order in placed.items) == ["open", "paid", "shipped"]
    assert placed.items[0].items[0]["quantity"] == 3
    joined = await engine.read(lambda unit: users.page(unit, tenant))
    assert [user.status for user in joined.items] == ["deactivated"]


async def test_a_description_counts_and_names_the_month(
    engine: Engine, project: Project, tenant: Tenant, written: Written
) -> None:
    wages = {**CREDIT, "description": "No. {n}, {month}", "repeat": {"until": 2}}
    await seed(engine, project, written(transactions=[wages]))
    page = await engine.read(lambda unit: transactions.page(unit, tenant, PageRequest()))
    assert [each.description for each in page.items] == ["No. 2, September", "No. 1, September"]


async def test_some_of_the_lines_are_picked(
    engine: Engine, project: Project, tenant: Tenant, written: Written
) -> None:
    lines = [{"description": f"Line {number}", "unit_amount": 100} for number in range(5)]
    picked = {"account": "bank", "customer": "C", "lines": lines, "pick": 2, "repeat": {"per_day": 3}}
    await seed(engine, project, written(invoices=[picked]))
    page = await engine.read(lambda unit: invoices.page(unit, tenant, PageRequest(limit=100)))
    chosen = [tuple(line["description"] for line in invoice.lines or ()) for invoice in page.items]
    assert {len(each) for each in chosen} == {2}
    assert len(set(chosen)) > 3
    assert all(each == tuple(sorted(each)) for each in chosen)


async def test_progress_is_seen_from_outside(engine: Engine, project: Project, written: Written) -> None:
    data_set = written(transactions=[{**CREDIT, "repeat": {"per_day": 4}}])
    progress = LoadingProgress()
    await seed(engine, project, data_set, progress)
    assert progress.done == progress.steps == len(steps_of(data_set)) == 43


# The whole load, as the command and a server with --seed make it


async def test_a_ledger_that_others_have_open_is_loaded_beside_them(
    location: Location, engine: Engine, project: Project, written: Written
) -> None:
    loaded = await load(location, project.id, written(transactions=[CREDIT]))
    assert loaded.project == project.id
    report = await engine.read(auditing.verify)
    assert (report.fault, report.transactions) == (None, loaded.counts["transactions"])
    with pytest.raises(NotFound):
        await load(location, "prj_x", written("two"))


async def test_an_interrupted_load_has_changed_nothing(
    location: Location, engine: Engine, project: Project, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await counted(engine)
    data_set, progress = written(transactions=[{**CREDIT, "repeat": {"per_day": 4}}]), LoadingProgress()
    begun, interrupted = asyncio.Event(), threading.Event()
    loop, count = asyncio.get_running_loop(), LoadingProgress.count

    def wait_at_the_last(self: LoadingProgress) -> None:
        if self.done == self.steps - 1:
            loop.call_soon_threadsafe(begun.set)
            interrupted.wait()
        count(self)

    monkeypatch.setattr(LoadingProgress, "count", wait_at_the_last)
    loading = asyncio.create_task(load(location, project.id, data_set, progress))
    await begun.wait()
    loading.cancel()
    await until(lambda: progress.is_stopped)
    interrupted.set()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert await counted(engine) == before
    monkeypatch.undo()
    await load(location, project.id, data_set)


async def test_a_new_ledger_has_its_name_only_when_it_is_complete(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "ledger.db"
    path.parent.mkdir()
    seen, count = set(), LoadingProgress.count

    def look(self: LoadingProgress) -> None:
        seen.add(path.exists())
        count(self)

    monkeypatch.setattr(LoadingProgress, "count", look)
    late = {"day": 10, "account": "bank", "type": "credit", "amount": 2**53 - 1}
    with pytest.raises(BadDataSet, match=r"transactions\[1\]\.amount: "):
        await load(path, None, written(transactions=[CREDIT, late]))
    assert [*path.parent.iterdir()] == []
    loaded = await load(path, None, written(transactions=[CREDIT]))
    assert seen == {False}
    assert [each.name for each in path.parent.iterdir()] == ["ledger.db"]
    assert read_copy(path, audit.count_transactions) == loaded.counts["transactions"]


async def test_a_new_ledger_replaces_none_that_was_created_meanwhile(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    monkeypatch.setattr(LoadingProgress, "count", lambda self: path.write_bytes(b"another"))
    with pytest.raises(Conflict, match="created during the load"):
        await load(path, None, written())
    assert path.read_bytes() == b"another"


async def test_a_ledger_that_is_to_be_loaded_while_empty_is_loaded_once(
    location: Location, engine: Engine, written: Written
) -> None:
    for name in ("one", "two"):
        await load_if_empty(location, written(name, transactions=[CREDIT]))
        assert (await engine.read(auditing.verify)).transactions == 1
