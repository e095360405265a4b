"""A small ledger with every kind of record, sealed, and a checkpoint of it that was kept elsewhere."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from ledger_engine.access import api_keys, projects
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.invoices import NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser
from ledger_engine.log.sealer import Sealer
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine, open_snapshot
from ledger_engine.verify import audit, kept
from ledger_engine.verify.audit import AuditReport
from tests.ledger_engine.manual_clock import ManualClock

_DELIVERED = (
    "INSERT INTO deliveries (id, project, livemode, endpoint, event, status, attempts, retries,"
    " attempted_at, created)"
    " SELECT 'dlv_1', :project, :livemode, 'whe_1', min(id), 'succeeded', 1, 0, 1, created FROM events"
    " GROUP BY created ORDER BY min(id) LIMIT 1"
)
_ATTEMPTED = (
    "INSERT INTO delivery_attempts (delivery, number, attempted_at, latency_ms, status, request_headers)"
    " VALUES ('dlv_1', 1, 1, 1, 200, '{}')"
)
_APP = (
    "INSERT INTO apps (id, project, livemode, name, redirect_uris, created)"
    " VALUES ('app_1', :project, :livemode, 'Shop', '[\"https://example.com/\"]', 1)"
)
_ENDPOINT = (
    "INSERT INTO webhook_endpoints (id, project, livemode, url, events, secret, cursor, created)"
    " SELECT 'whe_1', :project, :livemode, 'https://example.com/hook', '[\"*\"]', 'whsec_x',"
    " max(id), 1 FROM events"
)
_REQUEST = (
    "INSERT INTO requests (project, livemode, id, method, path, query, status, duration_us, credential_id,"
    " credential, address, idempotency_key, created) VALUES (:project, :livemode, 'req_1', 'POST',"
    " '/v1/accounts', '', 201, 1, 'key_1', 'sk_test_…', '127.0.0.1', 'till', 1)"
)
POSTINGS = 300


def fill(unit: Unit) -> Tenant:
    """Record something of every kind, in one work."""
    tenant = Tenant(projects.first_or_new(unit)[0].id, False)
    till = accounts.create(unit, tenant, NewAccount("Till", "EUR", {"shop": "1"}), "till").id
    bank = accounts.create(unit, tenant, NewAccount("Bank", "EUR", {}), "bank").id
    accounts.create(unit, tenant, NewAccount("Yen", "JPY", {}))
    batch = [NewTransaction(till, number + 1, "credit", f"No. {number}") for number in range(POSTINGS)]
    posted = transactions.post_batch(unit, tenant, batch, "batch")
    transactions.post(unit, tenant, NewTransaction(till, 7, "debit", "x" * 200), "long")
    transactions.post(unit, tenant, NewTransaction(till, 9, "debit", "To the bank", bank), "moved")
    transactions.reverse(unit, tenant, posted[5].id, "undone")
    lines = [{"description": "Beans", "quantity": 2, "unit_amount": 50}]
    for number, until in enumerate(("draft", "open", "open", "paid", "void")):
        new = NewInvoice(till, "Ada", lines=lines, due_date="2026-12-01", metadata={"n": str(number)})  # type: ignore[arg-type]
        invoice = invoices.create(unit, tenant, new, f"invoice {number}").id
        if until != "draft":
            invoices.update(unit, tenant, invoice, {"customer": "Grace"})
            invoices.finalize(unit, tenant, invoice, f"open {number}")
        if until == "paid":
            invoices.pay(unit, tenant, invoice, "pay")
        if until == "void":
            invoices.void(unit, tenant, invoice)
    people = [
        users.create(unit, tenant, NewUser(name, f"{name}@Example.com"), name).id
        for name in ("ada", "bob", "eve", "dan")
    ]
    users.deactivate(unit, tenant, people[1])
    users.deactivate(unit, tenant, people[2])
    users.restore(unit, tenant, people[2], "restored")
    items = [{"sku": "beans", "quantity": 3, "unit_amount": 5}]
    for number in range(3):
        order = orders.create(unit, tenant, NewOrder(people[0], items), f"order {number}").id
        if number:
            orders.pay(unit, tenant, order, f"order paid {number}")
        if number > 1:
            orders.ship(unit, tenant, order)
    api_keys.create(unit, tenant, api_keys.NewApiKey(role="member"), "sk_test_" + "a" * 32, "key")
    return tenant


def late(unit: Unit, tenant: Tenant) -> None:
    """Post once more, and open an account."""
    (till,) = unit.execute("SELECT id FROM accounts WHERE name = 'Till'")
    transactions.post(unit, tenant, NewTransaction(till["id"], 11, "credit", "Late"))
    accounts.create(unit, tenant, NewAccount("Late", "EUR", {}))


def erase(unit: Unit, tenant: Tenant) -> None:
    """Erase a user, as the retention does after 30 days."""
    (user,) = unit.execute("SELECT id FROM users WHERE name = 'dan'")
    users.deactivate(unit, tenant, user["id"])
    users.erase(unit, user["id"])
    outbox.erase_user(unit, user["id"], "", 10)


def webhooks(unit: Unit, tenant: Tenant) -> None:
    """Store an endpoint that has received one event, and a logged request."""
    for statement in (_APP, _ENDPOINT, _DELIVERED, _REQUEST):
        unit.execute(statement, tenant.bind())
    unit.execute(_ATTEMPTED)


async def seal(engine: Engine) -> None:
    """Seal what there is, as a server does."""
    await Sealer(engine, Seal(None), "ledger.example").seal()


async def _make(ledger: Location) -> None:
    clock = ManualClock(1_780_000_000_000)
    engine = open_engine(ledger, clock=clock)
    tenant = await engine.write(fill)
    clock.advance(1000)
    await engine.write(partial(late, tenant=tenant))
    await engine.write(partial(webhooks, tenant=tenant))
    await seal(engine)
    await engine.write(partial(erase, tenant=tenant))
    await seal(engine)
    await engine.close()


def make(ledger: Location, outside: Path) -> None:
    """Make the ledger, and keep its checkpoint in the file `outside`."""
    asyncio.run(_make(ledger))
    with open_snapshot(ledger, 1) as snapshot:
        snapshot.start(partial(kept.save, file=outside)).result()


def verified(ledger: Location, *outside: Path, since: Path | None = None) -> AuditReport:
    """Return the report on a ledger, compared with checkpoints in files."""
    with open_snapshot(ledger, 1) as snapshot:
        checkpoints = [each for file in outside for each in kept.read(file)]
        older = [] if since is None else kept.read(since)
        return audit.verify_all(snapshot.start, checkpoints, older)
