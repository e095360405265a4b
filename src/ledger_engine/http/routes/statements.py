"""The route of statements, as JSON and as CSV; both are written while the lines are read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from pydantic import Field
from quart import Response
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from ledger_engine.core.clock import DAY, iso, parse_moment
from ledger_engine.core.records import as_json, dumps
from ledger_engine.http.bodies import Query
from ledger_engine.http.operations import Call, Routes
from ledger_engine.ledger import statements
from ledger_engine.ledger.statements import Line, Statement

routes = Routes("statements", "/v1")

KINDS = ("application/json", "text/csv", "text/csv; charset=utf-8")
COLUMNS = ("date", "description", "amount", "running_balance", "currency", "transaction")
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(slots=True)
class WholeStatement(Statement):
    """The answer: the frame, then its lines, oldest first."""

    lines: list[Line]


class Period(Query):
    from_: str | None = Field(default=None, alias="from")
    to: str | None = None

    def start(self) -> int | None:
        """The first millisecond of the period."""
        return None if self.from_ is None else parse_moment(self.from_, "from")

    def end(self) -> int | None:
        """The last millisecond of the period: a date means all of its day."""
        if self.to is None:
            return None
        moment = parse_moment(self.to, "to")
        return moment + DAY - 1 if len(self.to) == len("2026-11-20") else moment


@routes.add(
    "GET",
    "/accounts/<id>/statement",
    needs="read:projects",
    query=Period,
    answer=WholeStatement,
    also_as=("text/csv",),
    beyond_contract=True,
)
async def get_statement(call: Call, id: str, query: Period) -> Response:
    """Get an account's statement over a time, as JSON or CSV."""
    statement = await call.read(statements.draw_up, id, query.start(), query.end())
    accepted = parse_accept_header(call.header(b"accept"), MIMEAccept)
    if accepted.best_match(KINDS, default=KINDS[0]) in KINDS[1:]:
        response = Response(_csv(call, statement), content_type=KINDS[-1])
        response.headers["Content-Disposition"] = f'attachment; filename="statement-{statement.account}.csv"'
    else:
        response = Response(_json(call, statement), content_type="application/json")
    response.timeout = None  # a long one may take a slow reader more than a minute
    return response


async def _parts(call: Call, statement: Statement) -> AsyncIterator[list[Line]]:
    after = None
    while lines := await call.read(statements.lines, statement, after):
        yield lines
        after = lines[-1].transaction


async def _json(call: Call, statement: Statement) -> AsyncIterator[str]:
    yield dumps(as_json(statement)).removesuffix("}") + ',"lines":['
    separator = ""
    async for lines in _parts(call, statement):
        yield separator + ",".join(dumps(as_json(line)) for line in lines)
        separator = ","
    yield "]}"


async def _csv(call: Call, statement: Statement) -> AsyncIterator[str]:
    currency = statement.currency
    opening = (iso(statement.period_start), "Opening balance", "", statement.opening_balance, currency, "")
    closing = (iso(statement.period_end), "Closing balance", "", statement.closing_balance, currency, "")
    yield _rows([COLUMNS, opening])
    async for lines in _parts(call, statement):
        yield _rows(
            (
                iso(line.date),
                as_text(line.description or ""),
                line.amount,
                line.running_balance,
                currency,
                line.transaction,
            )
            for line in lines
        )
    yield _rows([closing])


def as_text(cell: str) -> str:
    """The cell so that a spreadsheet takes it for text: what would start a formula is led by a '.

    Only what callers wrote needs it; our own negative figures stay numbers.
    """
    return "'" + cell if cell.startswith(_STARTS_A_FORMULA) else cell


def _rows(rows: Iterable[tuple[str | int, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
