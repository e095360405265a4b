"""The memory of the audit and of the sealer is bounded in bytes: a row may be as large as a request."""

from __future__ import annotations

import asyncio
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, users
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.invoices import DESCRIPTION_MAX, LINES_MAX, InvoiceLine, NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.users import NewUser
from ledger_engine.log import stored
from ledger_engine.log.tiles import LogTile
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from tests.ledger_engine.verify import ledgers

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]

COUNT, LETTERS = 40, 300_000  # of the orders, and of each one's items: 12 MB, and again in their events
PEAK_MAX = 10_000_000  # bytes: 6.5 MB for the sealer, 2 MB for the audit; 29 and 25 MB when rows are counted


def fill(unit: Unit) -> Tenant:
    """Record large orders, and many large changes of one invoice."""
    tenant = Tenant(projects.first_or_new(unit)[0].id, False)
    user = users.create(unit, tenant, NewUser("ada", "ada@example.com")).id
    items = [{"sku": "x" * LETTERS, "quantity": 1, "unit_amount": 1}]
    for _ in range(COUNT):
        orders.create(unit, tenant, NewOrder(user, items))
    till = accounts.create(unit, tenant, NewAccount("Till", "EUR", {})).id
    lines: list[InvoiceLine] = [
        {"description": "x" * DESCRIPTION_MAX, "quantity": 1, "unit_amount": 1}
    ] * LINES_MAX
    invoice = invoices.create(unit, tenant, NewInvoice(till, "Ada", lines=lines)).id
    for _ in range(COUNT):
        invoices.update(unit, tenant, invoice, {"customer": "Grace"})
    return tenant


@pytest.fixture(scope="module")
def unsealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tenant]:
    ledger = tmp_path_factory.mktemp("large") / "ledger.db"

    async def make() -> Tenant:
        engine = open_engine(ledger)
        tenant = await engine.write(fill)
        await engine.close()
        return tenant

    return ledger, asyncio.run(make())


def test_the_sealer_and_the_audit_read_one_large_event_at_a_time(unsealed: tuple[Path, Tenant]) -> None:
    ledger, tenant = unsealed

    async def seal() -> Engine:
        engine = open_engine(ledger)
        await ledgers.seal(engine)
        bundle = LogTile("entries", 0, 2 * COUNT)
        await engine.read(partial(stored.tile_content, tenant=tenant, tile=bundle))
        await engine.close()
        return engine

    tracemalloc.start()
    try:
        asyncio.run(seal())
        of_sealer = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        report = ledgers.verified(ledger)
        of_audit = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.faults == ()
    assert report.checked["sealed"] == 2 * COUNT + 3
    assert max(of_sealer, of_audit) < PEAK_MAX, (of_sealer, of_audit)
