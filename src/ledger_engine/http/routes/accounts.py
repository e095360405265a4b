"""Routes of accounts, their currencies and their statements.

A statement is sent while its lines are read, in JSON or in CSV.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from ledger_engine.core.clock import iso, parse_end, parse_moment
from ledger_engine.core.csv_text import as_text as as_cell
from ledger_engine.core.csv_text import csv_rows
from ledger_engine.core.money import ANY_CASE_PATTERN
from ledger_engine.core.records import as_json, as_text, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.bodies import Body, Metadata, Query
from ledger_engine.http.lists import GenericList, LedgerList, LookingBack, Time
from ledger_engine.http.operations import Call, Routes, StreamedAnswer
from ledger_engine.ledger import accounts, currencies, past, statements
from ledger_engine.ledger.currencies import Currency
from ledger_engine.ledger.statements import Statement, StatementLine
from ledger_engine.store import Unit
from ledger_engine.store.pages import Page

routes = Routes("accounts", "/v1")


AnyCaseCurrency = Annotated[str, Field(json_schema_extra={"pattern": ANY_CASE_PATTERN})]


class CreateAccount(Body):
    name: Annotated[str, Field(min_length=1, max_length=accounts.NAME_MAX)]
    currency: AnyCaseCurrency
    metadata: Metadata | None = {}


class ListAccounts(LedgerList, LookingBack):
    pass


@routes.add("GET", "/accounts", in_contract=True, tagged=True)
async def list_accounts(call: Call, query: ListAccounts) -> Page[accounts.Account]:
    """List the accounts, newest first."""
    return await query.read_page(call, accounts.page, past.account_page, query.page())


@routes.add("POST", "/accounts", status=201, in_contract=True)
async def create_account(call: Call, body: CreateAccount) -> accounts.Account:
    """Create an account with a balance of 0."""
    new = accounts.NewAccount(body.name, body.currency, body.metadata or {})
    return await call.write(accounts.create, new, call.idempotency_key)


@routes.add("GET", "/accounts/<id>", in_contract=True)
async def get_account(call: Call, id: str, query: LookingBack) -> accounts.Account:
    """Get one account."""
    return await query.read_one(call, accounts.get, past.account, id)


@routes.add("GET", "/accounts/<id>/balance")
async def get_balance(call: Call, id: str, query: LookingBack) -> accounts.Balance:
    """Get an account's balance at a time, by default now."""
    if query.at is None:
        return await call.read_short(accounts.balance_at, id, call.engine.clock.now())
    return await call.read(accounts.balance_at, id, parse_moment(query.at, "at"))


# Currencies


currency_routes = Routes("currencies", "/v1")


@currency_routes.add("GET", "/currencies")
async def list_currencies(call: Call, query: GenericList) -> Page[Currency]:
    """List the currencies that an account may have, in the order of their codes."""
    return currencies.page(query.page())


# Statements


statement_routes = Routes("statements", "/v1")

KINDS = ("application/json", "text/csv", "text/csv; charset=utf-8")
COLUMNS = ("date", "description", "amount", "running_balance", "currency", "transaction")


@dataclass(slots=True)
class WholeStatement(Statement):
    """A statement with its lines, oldest first."""

    lines: list[StatementLine]


class Period(Query):
    from_: Time | None = Field(default=None, alias="from")
    to: Time | None = None


@statement_routes.add("GET", "/accounts/<id>/statement", answer=WholeStatement, also_as=("text/csv",))
async def get_statement(call: Call, id: str, query: Period) -> StreamedAnswer:
    """Get an account's statement over a period, in JSON or CSV."""
    start = None if query.from_ is None else parse_moment(query.from_, "from")
    # A `to` that is a date without a time of day includes the whole day.
    end = None if query.to is None else parse_end(query.to, "to")
    statement = await call.read(statements.draw_up, id, start, end)
    media_types = parse_accept_header(call.header(b"accept"), MIMEAccept)
    is_json = media_types.best_match(KINDS, default=KINDS[0]) not in KINDS[1:]
    pieces = _whole(call, _json(call, statement) if is_json else _csv(call, statement))
    # Begin the long read now, because the error Full can become a 429 only before the answer begins.
    await anext(pieces)
    if is_json:
        return StreamedAnswer(KINDS[0], pieces)
    name = f'attachment; filename="statement-{statement.account}.csv"'
    return StreamedAnswer(KINDS[-1], pieces, ((b"content-disposition", name.encode()),))


async def _whole(call: Call, pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """Yield an empty piece when the long read has begun, and then `pieces`. Raises Full before any piece."""
    async with call.long_read(), aclosing(pieces):
        yield ""
        async for piece in pieces:
            yield piece


# A function that returns some lines of a statement as text, in JSON or CSV.
Render = Callable[[Statement, list[StatementLine]], str]


async def _parts(call: Call, statement: Statement, render: Render) -> AsyncIterator[str]:
    """Yield the lines of the statement as text, part by part. Each step of the long read makes one part."""
    after = None
    while True:
        text, after = await call.read_step(_part, statement, after, render)
        if after is None:
            return
        yield text


def _part(
    unit: Unit, tenant: Tenant, statement: Statement, after: str | None, render: Render
) -> tuple[str, str | None]:
    lines = statements.lines(unit, tenant, statement, after)
    return (render(statement, lines), lines[-1].transaction) if lines else ("", None)


def _json_lines(statement: Statement, lines: list[StatementLine]) -> str:
    return ",".join([as_text(line) for line in lines])


def _csv_lines(statement: Statement, lines: list[StatementLine]) -> str:
    return csv_rows(
        (
            iso(line.date),
            as_cell(line.description or ""),
            line.amount,
            line.running_balance,
            statement.currency,
            line.transaction,
        )
        for line in lines
    )


async def _json(call: Call, statement: Statement) -> AsyncGenerator[str, None]:
    yield dumps(as_json(statement)).removesuffix("}") + ',"lines":['
    separator = ""
    async for text in _parts(call, statement, _json_lines):
        yield separator + text
        separator = ","
    yield "]}"


async def _csv(call: Call, statement: Statement) -> AsyncGenerator[str, None]:
    currency = statement.currency
    opening = (iso(statement.period_start), "Opening balance", "", statement.opening_balance, currency, "")
    closing = (iso(statement.period_end), "Closing balance", "", statement.closing_balance, currency, "")
    yield csv_rows([COLUMNS, opening])
    async for text in _parts(call, statement, _csv_lines):
        yield text
    yield csv_rows([closing])
