"""The demo's last minutes: believable, through the engine's rules, in the order of time."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from ledger_engine.access import projects
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.tools.seed import deeds, demo, recent
from ledger_engine.tools.seed.deeds import Past
from tests import auditing
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.made_once import put_empty_ledger

pytestmark = pytest.mark.slow


class Loaded(NamedTuple):
    engine: Engine
    tenant: Tenant
    past: Past

    async def go_on(self, changes: int, seed: int = 1) -> None:
        """Make changes at the end of what is loaded."""
        now = self.engine.clock.now()
        times = iter(range(now, now + changes))
        await recent.make_recent(self.engine, self.tenant, self.past, times, Random(seed))

    async def statuses(self, table: str) -> dict[str, int]:
        rows = await self.engine.read(
            lambda unit: unit.execute(f"SELECT status, count(*) AS count FROM {table} GROUP BY status")
        )
        return {row["status"]: row["count"] for row in rows}


@pytest.fixture(scope="module")
async def demo_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tenant, Past]:
    """Load the demo into a file that is copied for each test."""
    path = put_empty_ledger(tmp_path_factory.mktemp("demo") / "ledger.db")
    engine = open_engine(path, clock=ManualClock(START))
    tenant, past = await demo.load(engine, lambda _share: None)
    await engine.close()
    return path, tenant, past


@pytest.fixture
def location(request: pytest.FixtureRequest, location: Location) -> Location:
    """Return where the ledger of a test is: a file has the demo if the test asks for it."""
    if "loaded" in request.fixturenames and isinstance(location, Path):
        location.write_bytes(request.getfixturevalue("demo_file")[0].read_bytes())
    return location


@pytest.fixture
async def loaded(location: Location, engine: Engine, demo_file: tuple[Path, Tenant, Past]) -> Loaded:
    if not isinstance(location, Path):
        return Loaded(engine, *await demo.load(engine, lambda _share: None))
    _file, tenant, past = demo_file
    return Loaded(engine, tenant, deepcopy(past))


async def test_the_books_stay_right_however_long_it_runs(loaded: Loaded) -> None:
    before = await loaded.engine.read(auditing.verify)
    await loaded.go_on(600)
    after = await loaded.engine.read(auditing.verify)
    assert after.fault is None
    assert after.transactions > before.transactions + 200
    assert after.invoices > before.invoices


async def test_every_kind_of_thing_happens(loaded: Loaded, recorded: Run) -> None:
    before = len(await recorded())
    await loaded.go_on(600)
    happened = {event["type"] for event in (await recorded())[before:]}
    assert happened == {
        "transaction.created", "invoice.created", "invoice.opened", "invoice.paid",
        "order.created", "order.paid", "order.shipped",
    }  # fmt: skip


async def test_drafts_and_open_orders_do_not_pile_up(loaded: Loaded) -> None:
    await loaded.go_on(1500)
    assert (await loaded.statuses("invoices"))["draft"] < 30
    assert (await loaded.statuses("orders")).get("open", 0) < 30


async def test_there_are_always_drafts_and_open_invoices_for_the_user(loaded: Loaded) -> None:
    for seed in range(15):
        await loaded.go_on(200, seed)
        statuses = await loaded.statuses("invoices")
        assert min(statuses.get(status, 0) for status in ("draft", "open")) >= deeds.LEFT, seed
        orders = await loaded.statuses("orders")
        assert min(orders.get(status, 0) for status in ("open", "paid")) >= deeds.LEFT, seed


async def test_the_same_seed_gives_the_same_minutes(loaded: Loaded, tmp_path: Path) -> None:
    engine = open_engine(put_empty_ledger(tmp_path / "again.db"), clock=ManualClock(START))
    await demo.load(engine, lambda _share: None)
    assert await history_in(engine) == await history_in(loaded.engine)
    await engine.close()


async def history_in(engine: Engine) -> list[tuple[object, ...]]:
    rows = await engine.read(
        lambda unit: unit.execute("SELECT amount, type, description FROM transactions ORDER BY id")
    )
    return [tuple(row) for row in rows]


async def test_a_till_is_not_emptied_below_nothing(loaded: Loaded) -> None:
    await loaded.go_on(600)
    rows = await loaded.engine.read(
        lambda unit: unit.execute("SELECT name, balance FROM accounts WHERE name LIKE '%till'")
    )
    assert len(rows) == 2
    assert all(row["balance"] >= 0 for row in rows)


async def test_an_empty_project_has_no_changes_and_no_trouble(engine: Engine) -> None:
    project, _ = await engine.write(projects.first_or_new)
    empty = Loaded(engine, Tenant(project.id, livemode=False), Past([], [], []))
    await empty.go_on(100)
    report = await engine.read(auditing.verify)
    assert (report.transactions, report.invoices, report.fault) == (0, 0, None)


async def test_a_deed_that_the_rules_forbid_is_left_out_whole_and_ends_nothing(loaded: Loaded) -> None:
    before = await loaded.engine.read(auditing.verify)
    tenant = Tenant(loaded.tenant.project, livemode=False, quota=1)
    await loaded._replace(tenant=tenant).go_on(100)
    after = await loaded.engine.read(auditing.verify)
    assert after.fault is None
    assert after.transactions == before.transactions


async def test_it_goes_by_what_happens_often(loaded: Loaded) -> None:
    described = {each.description for each in loaded.past.postings}
    assert "Card terminal, counter" in described
    assert not any(text and text.startswith("Wages") for text in described)
    assert loaded.past.invoices
    assert loaded.past.orders


async def test_the_last_minutes_before_now_are_busy_also_after_midnight_and_others_with_another_seed(
    loaded: Loaded, tmp_path: Path
) -> None:
    midnight = START - START % 86_400_000
    for now in (START, midnight + 60_000):
        engine = open_engine(tmp_path / f"{now}.db", clock=ManualClock(now))
        shares: list[float] = []
        await demo.load(engine, shares.append, seed=7)
        rows = await engine.read(
            lambda unit, now=now: unit.execute(
                "SELECT count(*) AS count, min(created) AS first FROM transactions WHERE created > :from",
                {"from": now - 2 * demo.RECENT_S * 1000},
            )
        )
        assert await history_in(engine) != await history_in(loaded.engine)
        await engine.close()
        assert rows[0]["count"] > demo.RECENT_S
        assert now - rows[0]["first"] <= demo.RECENT_S * 1000
        assert shares == sorted(shares)
        assert shares[-1] == 1
        parts = [after - before for before, after in pairwise([0.0, *shares])]
        assert max(parts) <= 0.05, "no commit may take as long as a work may, on a slow machine either"


async def test_an_order_for_nothing_is_not_repeated(loaded: Loaded) -> None:
    free = await loaded.engine.read(lambda unit: unit.execute("SELECT id FROM orders WHERE total = 0"))
    assert free
    assert loaded.past.orders
    assert all(order.total for order in loaded.past.orders)
