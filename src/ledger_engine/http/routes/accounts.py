"""Routes of accounts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ledger_engine.core.clock import parse_moment
from ledger_engine.http.bodies import Body, Query
from ledger_engine.http.lists import LedgerList, LookingBack
from ledger_engine.http.operations import Call, Routes
from ledger_engine.ledger import accounts, past
from ledger_engine.store.pages import Page

routes = Routes("accounts", "/v1")


class CreateAccount(Body):
    name: Annotated[str, Field(min_length=1, max_length=accounts.NAME_MAX)]
    currency: str
    metadata: dict[str, str] | None = {}


class BalanceAt(Query):
    at: str | None = None


class ListAccounts(LedgerList, LookingBack):
    pass


@routes.add("GET", "/accounts", needs="read:projects", in_contract=True, tagged=True)
async def list_accounts(call: Call, query: ListAccounts) -> Page[accounts.Account]:
    """List the accounts, newest first."""
    at = query.moment(call.engine.clock)
    if at is not None:
        return await call.read(past.account_page, query.page(), at)
    return await call.read_page(accounts.page, query.page())


@routes.add("POST", "/accounts", needs="write:projects", status=201, in_contract=True)
async def create_account(call: Call, body: CreateAccount) -> accounts.Account:
    """Create an account with a balance of 0."""
    new = accounts.NewAccount(body.name, body.currency, body.metadata or {})
    return await call.write(accounts.create, new, call.idempotency_key)


@routes.add("GET", "/accounts/<id>", needs="read:projects", in_contract=True, tagged=True)
async def get_account(call: Call, id: str, query: LookingBack) -> accounts.Account:
    """Get one account."""
    at = query.moment(call.engine.clock)
    if at is not None:
        return await call.read(past.account, id, at)
    return await call.read_short(accounts.get, id)


@routes.add("GET", "/accounts/<id>/balance", needs="read:projects")
async def get_balance(call: Call, id: str, query: BalanceAt) -> accounts.Balance:
    """Get an account's balance at a time, by default now."""
    if query.at is None:
        return await call.read_short(accounts.balance_at, id, call.engine.clock.now())
    return await call.read(accounts.balance_at, id, parse_moment(query.at, "at"))
