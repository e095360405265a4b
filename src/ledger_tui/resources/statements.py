"""The screen of a statement: the transactions of one account over a period, between two balances."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.money import format_amount
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Filter,
    Filters,
    Link,
    RelatedView,
    Resource,
    Section,
    Tone,
    text_of,
    time_of,
)
from ledger_tui.resources.filtering import check_date
from ledger_tui.resources.transactions import TRANSACTIONS

_DAYS = 30
_ENDS = {"opening_balance": "Opening balance", "closing_balance": "Closing balance"}


def _money(record: Record, name: str, *, sign: bool = False, tone: Tone | None = None) -> Cell:
    value, currency = record.get(name), record.get("currency")
    if not isinstance(value, int):
        return Cell("", "dim") if value is None else text_of(record, name)
    text = format_amount(value, currency if isinstance(currency, str) else None, sign=sign)
    return Cell(text, tone or ("minus" if value < 0 else "plus" if sign else "plain"))


def _description(record: Record) -> Cell:
    end = _ENDS.get(str(record.get("id")))
    return Cell(end, "strong") if end else text_of(record, "description")


def _detail(record: Record, _names: AccountNames) -> Detail:
    currency = text_of(record, "currency", "dim").text
    is_line = str(record.get("id")) not in _ENDS
    amount = _money(record, "amount", sign=True)
    balance = _money(record, "running_balance")
    facts = [
        Fact("date", time_of(record, "date")),
        Fact("balance", Cell(f"{balance.text} {currency}", balance.tone)),
    ]
    if not is_line:
        return Detail(_description(record), (Section("", tuple(facts)),))
    facts.insert(1, Fact("description", _description(record)))
    facts.append(Fact("transaction", text_of(record, "transaction", "dim")))
    link = Link("The transaction", "transactions", record_id=str(record.get("transaction")))
    return Detail(Cell(f"{amount.text} {currency}", amount.tone), (Section("", tuple(facts)),), (link,))


def _to_statement(record: Record | None, _filters: Filters) -> Link | None:
    if record is None:
        return None
    first_day = (datetime.now(UTC) - timedelta(days=_DAYS)).date().isoformat()
    return Link("Its statement", "statement", filters={"account": str(record.get("id")), "from": first_day})


TO_STATEMENT = RelatedView("statement", "s", "statement", _to_statement)

STATEMENT = Resource(
    kind="statement",
    key="",
    title="Statement",
    short="",
    singular="statement",
    path="/v1/accounts/{account}/statement",
    id_prefix="",
    paging="statement",
    columns=(
        Column("date (UTC)", 19, lambda r, _n: time_of(r, "date"), by="date"),
        Column("description", 12, lambda r, _n: _description(r), grow=1),
        Column("amount", 12, lambda r, _n: _money(r, "amount", sign=True), align="right"),
        Column("balance", 12, lambda r, _n: _money(r, "running_balance"), align="right"),
        Column("cur", 3, lambda r, _n: text_of(r, "currency", "dim"), rank=1),
        Column("transaction", 30, lambda r, _n: text_of(r, "transaction", "dim"), rank=2),
    ),
    detail=_detail,
    filters=(
        Filter("account", "account", "acc_…", account=True),
        Filter("from", "from", "2026-11-01", check_date),
        Filter("to", "to", "2026-11-20", check_date),
    ),
    form=TRANSACTIONS.form,
    has_object_path=False,
    part="statements",
    missing_text="This server has no statements; see the account's transactions instead.",
    empty="Choose an account first: s on an account.",
    under="accounts",
)
