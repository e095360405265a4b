"""The demo's traffic: believable, through the engine's rules, and never in anybody's way."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.database.engine import Engine, open_engine
from ledger_engine.seeding import demo
from ledger_engine.upkeep import audit
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.manual_clock import ManualClock

pytestmark = pytest.mark.slow


@pytest.fixture
async def shown(engine: Engine) -> Engine:
    await demo.make_past(engine)
    return engine


async def statuses(engine: Engine, table: str) -> dict[str, int]:
    rows = await engine.read(
        lambda unit: unit.execute(f"SELECT status, count(*) AS count FROM {table} GROUP BY status")
    )
    return {row["status"]: row["count"] for row in rows}


async def test_the_books_stay_right_however_long_it_runs(shown: Engine) -> None:
    before = await shown.read(audit.verify)
    await demo.play(shown, acts=600)
    after = await shown.read(audit.verify)
    assert after.fault is None
    assert after.transactions > before.transactions + 200
    assert after.invoices > before.invoices


async def test_every_kind_of_thing_happens(shown: Engine, recorded: Run) -> None:
    before = len(await recorded())
    await demo.play(shown, acts=600)
    happened = {event["type"] for event in (await recorded())[before:]}
    assert happened == {
        "transaction.created", "invoice.created", "invoice.opened", "invoice.paid",
        "order.created", "order.paid", "order.shipped",
    }  # fmt: skip


async def test_drafts_and_open_orders_do_not_pile_up(shown: Engine) -> None:
    await demo.play(shown, acts=1500)
    assert (await statuses(shown, "invoices"))["draft"] < 30
    assert (await statuses(shown, "orders")).get("open", 0) < 30


async def test_the_same_seed_gives_the_same_traffic(tmp_path: Path) -> None:
    histories = []
    for seed in (7, 7, 8):
        engine = open_engine(tmp_path / f"{len(histories)}.db", clock=ManualClock(START))
        await demo.make_past(engine)
        await demo.play(engine, seed=seed, acts=50)
        rows = await engine.read(
            lambda unit: unit.execute("SELECT amount, type, description FROM transactions ORDER BY id")
        )
        histories.append([tuple(row) for row in rows])
        await engine.close()
    assert histories[0] == histories[1]
    assert histories[0] != histories[2]


async def test_a_till_is_not_emptied_below_nothing(shown: Engine) -> None:
    await demo.play(shown, acts=600)
    rows = await shown.read(
        lambda unit: unit.execute("SELECT name, balance FROM accounts WHERE name LIKE '%till'")
    )
    assert len(rows) == 2
    assert all(row["balance"] >= 0 for row in rows)


async def test_an_empty_project_has_no_traffic_and_no_trouble(engine: Engine) -> None:
    await demo.play(engine, acts=100)
    report = await engine.read(audit.verify)
    assert (report.transactions, report.invoices, report.fault) == (0, 0, None)


async def test_a_project_that_refuses_everything_ends_nothing(
    shown: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    project = await shown.read(projects.first)
    assert project is not None
    change = projects.Changes(overdraft="refuse", plan="free")
    await shown.write(lambda unit: projects.update(unit, project.id, change))
    await demo.play(shown, acts=100)
    assert (await shown.read(audit.verify)).fault is None
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


async def test_a_closed_database_ends_it_with_a_word(shown: Engine, caplog: pytest.LogCaptureFixture) -> None:
    await shown.close()
    await demo.play(shown, acts=10)
    assert "no traffic" in caplog.text


async def test_it_goes_by_what_happens_often(shown: Engine) -> None:
    project = await shown.read(projects.first)
    assert project is not None
    past = await shown.read(lambda unit: demo.recall(unit, Tenant(project.id, livemode=False)))
    described = {each.description for each in past.postings}
    assert "Card terminal, counter" in described
    assert not any(text and text.startswith("Wages") for text in described)
    assert past.invoices
    assert past.orders
