"""The database that a benchmark starts with: one project without limits, and some accounts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ledger_engine.access import api_keys, projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts
from ledger_engine.store.engine import Engine, open_engine

NO_LIMIT = 1_000_000_000  # requests


@dataclass(frozen=True, slots=True)
class Books:
    """A database file, a key for it, and the ids of its accounts."""

    path: Path
    tenant: Tenant
    key: str
    accounts: list[str]


async def make_books(path: Path, account_count: int = 100) -> Books:
    """Create the database at `path`."""
    engine = open_engine(path, serving=True)
    try:
        return await fill_books(engine, path, account_count)
    finally:
        await engine.close()


async def fill_books(engine: Engine, path: Path, account_count: int) -> Books:
    """Create the project, its key and the accounts in an open engine."""
    new = projects.NewProject("Bench", "enterprise", rate_limit=NO_LIMIT, burst=NO_LIMIT)
    project = await engine.write(partial(projects.create, new=new))
    tenant = Tenant(project.id, livemode=False)
    key = api_keys.new_value(livemode=False)
    await engine.write(partial(api_keys.create, tenant=tenant, new=api_keys.NewApiKey(), value=key))
    ids = []
    for number in range(account_count):
        account = accounts.NewAccount(f"Account {number}", "EUR", {})
        ids.append((await engine.write(partial(accounts.create, tenant=tenant, new=account))).id)
    return Books(path, tenant, key, ids)


def bodies_of(books: Books) -> list[dict[str, object]]:
    """Return the body of a transaction for each account: credits and debits."""
    return [
        {"account": account, "amount": 1 + number, "type": "debit" if number % 3 == 0 else "credit"}
        for number, account in enumerate(books.accounts)
    ]
